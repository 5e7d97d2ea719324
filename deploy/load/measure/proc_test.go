package measure

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

const statLine = "4242 (a (b) c) S 17 14930 23921 0 -1 4194560 2468 0 0 0 34 31 5 6 20 0 7 0 532412 1819422720 3414 184467\n"

func TestParseStatCountsFieldsFromTheNamesEnd(t *testing.T) {
	parent, cpu, err := parseStat([]byte(statLine))
	if err != nil {
		t.Fatal(err)
	}
	if want := 65 * tick; parent != 17 || cpu != want {
		t.Errorf("parent %d, CPU %s; want 17 and %s", parent, cpu, want)
	}
}

func TestParseStatRefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "1 (x", "1 (x) S", "1 (x) S y 0 0 0 0 0 0 0 0 0 1 1", "1 (x) S 1 0 0 0 0 0 0 0 0 0 y 1"} {
		if _, _, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestStatusBytes(t *testing.T) {
	status := []byte("Name:\tx\nVmHWM:\t   16000 kB\nVmRSS:\t   14000 kB\n")
	if got := statusBytes(status, "VmRSS"); got != 14000<<10 {
		t.Errorf("VmRSS is %d", got)
	}
	if got := statusBytes(status, "VmSwap"); got != 0 {
		t.Errorf("a size that is not there is %d", got)
	}
}

// process writes the files of one process into a made-up /proc.
func process(t *testing.T, root, pid, stat, status string) {
	t.Helper()
	dir := filepath.Join(root, pid)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"stat": stat, "status": status} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUsageSumsUpTheTree(t *testing.T) {
	root := t.TempDir()
	process(t, root, "10", "10 (master) S 1 0 0 0 0 0 0 0 0 0 1 2 0 0\n", "VmRSS: 1 kB\nVmHWM: 2 kB\n")
	process(t, root, "11", "11 (worker) S 10 0 0 0 0 0 0 0 0 0 10 20 0 0\n", "VmRSS: 10 kB\nVmHWM: 20 kB\n")
	process(t, root, "12", "12 (grandchild) S 11 0 0 0 0 0 0 0 0 0 100 200 0 0\n", "VmRSS: 100 kB\nVmHWM: 200 kB\n")
	process(t, root, "13", "13 (stranger) S 1 0 0 0 0 0 0 0 0 0 1000 2000 0 0\n", "VmRSS: 1000 kB\n")
	got, err := Processes{Root: root}.Usage(10)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Usage{CPU: 333 * tick, RSS: 111 << 10, Peak: 222 << 10}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := (Processes{Root: root}).Usage(99); err == nil {
		t.Error("a process that is not there has a usage")
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	before, err := Processes{}.Usage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if before.RSS <= 0 || before.Peak < before.RSS || before.CPU < 0 || before.CPU > time.Hour {
		t.Errorf("this process is said to use %+v", before)
	}
}
