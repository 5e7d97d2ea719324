package simulation

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	prove = flag.String("mutants", "", "plant the bugs whose names this matches, one after the other, and find each")
	limit = flag.Duration("within", time.Minute, "how much of a processor's time each bug may stay hidden for")
)

// TestMutants plants known bugs into a copy of the sources. With -mutants, as make
// simulate-mutants has it, it checks that the simulation finds each, which takes
// minutes. All are in one binary, each behind a name.
func TestMutants(t *testing.T) {
	if *prove == "" {
		return // the bugs are pieces of source text: a change of the program may move them
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := mutated(t, root)
	wanted := regexp.MustCompile(*prove)
	binary := buildMutants(t, root, files)
	if out, _, err := runMutant(binary, "", *limit/4); err != nil {
		t.Fatalf("without a bug: %s", out)
	}
	for _, m := range mutants() {
		if !wanted.MatchString(m.name) {
			continue
		}
		out, used, err := runMutant(binary, m.name, *limit)
		found := "not found"
		if err != nil {
			found = reason(out)
		}
		fmt.Printf("| %s | %.0f s | %s |\n", m.name, used.Seconds(), found)
		if err == nil {
			t.Errorf("%q was not found", m.name)
		}
	}
}

// reason is what a run says of its failure, without the request.
func reason(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if _, text, ok := strings.Cut(line, ": at "); ok && strings.Contains(line, "seed ") {
			_, text, _ = strings.Cut(text, ": ")
			text, _, _ = strings.Cut(text, "; ")
			return strings.TrimSpace(text)
		}
		if strings.HasPrefix(line, "panic: ") {
			return strings.TrimSpace(line)
		}
	}
	return "failed"
}

func runMutant(binary, name string, limit time.Duration) (out []byte, used time.Duration, err error) {
	cmd := exec.Command(binary, "-test.run", "^TestSeeds$", "-test.failfast", "-for", limit.String(), "-stories", *tell, "-test.timeout", (4*limit + time.Minute).String())
	cmd.Env = append(os.Environ(), "SIMULATED_BUG="+name)
	out, err = cmd.CombinedOutput()
	return out, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// buildMutants builds this test with all bugs in it.
func buildMutants(t *testing.T, root string, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{filepath.Join(root, "internal/planted/planted.go"): write(t, dir, "planted.go", []byte(planted))}
	for file, text := range files {
		replace[filepath.Join(root, file)] = write(t, dir, strings.ReplaceAll(file, "/", "_"), text)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "simulation.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", write(t, dir, "overlay.json", overlay), "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// planted tells which bug is on.
const planted = `package planted

import "os"

var name = os.Getenv("SIMULATED_BUG")

func On(bug string) bool { return bug == name }
`

// mutated are the files with their bugs in.
func mutated(t *testing.T, root string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, m := range mutants() {
		for _, e := range m.edits {
			text, ok := files[e.file]
			if !ok {
				original, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					t.Fatal(err)
				}
				text = bytes.Replace(original, []byte("import ("), []byte("import (\n\t\"inquiry-gateway/internal/planted\""), 1)
				if !bytes.Contains(original, []byte("import (")) {
					text = regexp.MustCompile(`(?m)^package .*$`).ReplaceAll(original, []byte("$0\nimport \"inquiry-gateway/internal/planted\"\n"))
				}
			}
			if n := bytes.Count(text, []byte(e.old)); n != 1 {
				t.Fatalf("mutant %q: %s has the text %q %d times instead of once; bring mutants_test.go up to date", m.name, e.file, e.old, n)
			}
			bug := strings.ReplaceAll(e.new, "ON", fmt.Sprintf("planted.On(%q)", m.name))
			files[e.file] = bytes.Replace(text, []byte(e.old), []byte(bug), 1)
		}
	}
	for file, text := range files {
		if _, err := format.Source(text); err != nil {
			t.Fatalf("the mutants of %s make no Go: %v", file, err)
		}
	}
	return files
}

func write(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
