package watch

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; it decides nothing
// when things work.
const patience = 20 * time.Second

// start watches paths until the test ends and gives what is told.
func start(t *testing.T, o Options, paths ...string) (*Watcher, <-chan []string) {
	t.Helper()
	told := make(chan []string, 100)
	w, err := New(paths, func(changed []string) { told <- changed }, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return w, told
}

// fast has the events decide, with the poll out of the way.
var fast = Options{Debounce: 5 * time.Millisecond, Poll: time.Hour}

func expect(t *testing.T, told <-chan []string, want ...string) {
	t.Helper()
	select {
	case got := <-told:
		if !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Errorf("told nothing, want %q", want)
	}
}

// expectAll waits until all are told of, in one go or in several: a look may
// fall between two of them.
func expectAll(t *testing.T, told <-chan []string, want ...string) {
	t.Helper()
	var got []string
	for len(got) < len(want) {
		select {
		case some := <-told:
			got = append(got, some...)
		case <-time.After(patience):
			t.Fatalf("told %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// overwrite changes one byte in place, so that no half-written file is seen.
func overwrite(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(content)
	must(t, err)
	must(t, f.Close())
}

// appear brings a whole file into being at once.
func appear(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.Rename(write(t, filepath.Join(t.TempDir(), "new"), content), path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTellsOfAWrite(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, filepath.Join(dir, "a"), "1"), write(t, filepath.Join(dir, "b"), "1")
	_, told := start(t, fast, a, b)
	overwrite(t, a, "2")
	expect(t, told, a)
	overwrite(t, b, "2")
	expect(t, told, b)
}

func TestTellsOfARenameOver(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a"), "1")
	_, told := start(t, fast, a)
	for _, content := range []string{"2", "3"} {
		must(t, os.Rename(write(t, filepath.Join(dir, ".a.swp"), content), a))
		expect(t, told, a)
	}
}

func TestTellsOfAFileThatGoesAndComes(t *testing.T) {
	dir := t.TempDir()
	a := write(t, filepath.Join(dir, "a"), "1")
	_, told := start(t, fast, a)
	must(t, os.Remove(a))
	expect(t, told, a)
	appear(t, a, "1")
	expect(t, told, a)
}

func TestTellsOfASwapAsKubernetesMakesIt(t *testing.T) {
	dir := t.TempDir()
	var files []string
	put := func(version, content string) {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "gateway.yaml"), content)
		write(t, filepath.Join(dir, version, "keys.yaml"), content)
		link := filepath.Join(dir, "..data_tmp")
		must(t, os.Symlink(version, link))
		must(t, os.Rename(link, filepath.Join(dir, "..data")))
	}
	put("..v1", "1")
	for _, name := range []string{"gateway.yaml", "keys.yaml"} {
		files = append(files, filepath.Join(dir, name))
		must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	_, told := start(t, fast, files...)
	put("..v2", "2")
	expectAll(t, told, files...)
	must(t, os.RemoveAll(filepath.Join(dir, "..v1")))
	put("..v3", "3")
	expectAll(t, told, files...)
}

func TestFollowsALinkToAnotherFolder(t *testing.T) {
	there, here := t.TempDir(), t.TempDir()
	target := write(t, filepath.Join(there, "secret"), "1")
	link := filepath.Join(here, "secret")
	must(t, os.Symlink(target, link))
	_, told := start(t, fast, link)
	overwrite(t, target, "2")
	expect(t, told, link)
}

// A touch and another file in the folder are told of only if they are wrongly
// taken for a change; the write after them shows that they were seen.
func TestSaysNothingOfATouch(t *testing.T) {
	dir := t.TempDir()
	a, marker := write(t, filepath.Join(dir, "a"), "1"), write(t, filepath.Join(dir, "marker"), "1")
	_, told := start(t, fast, a, marker)
	must(t, os.Chtimes(a, time.Unix(1, 0), time.Unix(1, 0)))
	write(t, filepath.Join(dir, "other"), "1")
	must(t, os.Rename(write(t, filepath.Join(dir, "same"), "1"), a))
	overwrite(t, marker, "2")
	expect(t, told, marker)
}

func TestPollsWhereThereAreNoEvents(t *testing.T) {
	a := write(t, filepath.Join(t.TempDir(), "a"), "1")
	told := make(chan []string, 10)
	w, err := New([]string{a}, func(changed []string) { told <- changed }, Options{Poll: time.Millisecond})
	must(t, err)
	must(t, w.events.Close())
	w.events = nil
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	overwrite(t, a, "2")
	expect(t, told, a)
	stop()
	<-done
}

func TestSetFilesKeepsWhatIsKnown(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, filepath.Join(dir, "a"), "1"), filepath.Join(t.TempDir(), "b")
	told := make(chan []string, 10)
	w, err := New([]string{a}, func(changed []string) { told <- changed }, fast)
	must(t, err)
	overwrite(t, a, "2") // before Run: must not be forgotten by the new set
	w.SetFiles([]string{"/nowhere"})
	w.SetFiles([]string{a, b})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	expect(t, told, a)
	appear(t, b, "1")
	expect(t, told, b)
	stop()
	<-done
}

func TestSaysWhatItCannotWatch(t *testing.T) {
	var log bytes.Buffer
	o := fast
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	start(t, o, filepath.Join(t.TempDir(), "missing", "file"))
	if !bytes.Contains(log.Bytes(), []byte("no file events for a folder")) {
		t.Errorf("the log is %q", log.String())
	}
	if _, err := New(nil, nil, o); err == nil {
		t.Error("New without onChange gave no error")
	}
}
