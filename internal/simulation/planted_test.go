package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	plant  = flag.String("mutants", "", "plant the bugs whose names this matches, one after the other, and find each")
	within = flag.Duration("within", time.Minute, "how much of a processor's time each bug may stay hidden for")
)

// bug is one of testdata/planted: edits of the sources, and the package whose tests find it.
type bug struct {
	name, finder string
	edits        []edit
}

// edit replaces a text that stands in a file once.
type edit struct{ file, old, new string }

// TestMutants plants each bug into copies of the sources and checks that it is found. It does
// so on demand, as make simulate-mutants has it, because a change of the program may move what
// a bug replaces.
func TestMutants(t *testing.T) {
	if *plant == "" {
		t.Skip("make simulate-mutants runs it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/planted")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append([]bug{{name: "none"}}, parseBugs(t, string(text))...) {
		if !regexp.MustCompile(*plant).MatchString(b.name) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			begin := time.Now()
			found, by := b.run(t, root)
			if found != (b.name != "none") {
				t.Errorf("found: %t\n%s", found, by)
			}
			fmt.Printf("| %s | %.0f s | %s |\n", b.name, time.Since(begin).Seconds(), by)
		})
	}
}

// parseBugs reads "== name", or "== name @package", then for each edit "file: path" and the
// lines that go ("-") and come ("+").
func parseBugs(t *testing.T, text string) (all []bug) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "== "); ok {
			name, finder, _ := strings.Cut(name, " @")
			all = append(all, bug{name: name, finder: finder})
			continue
		}
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		b := &all[len(all)-1]
		if file, ok := strings.CutPrefix(line, "file: "); ok {
			b.edits = append(b.edits, edit{file: file})
			continue
		}
		e := &b.edits[len(b.edits)-1]
		switch line[0] {
		case '-':
			e.old += line[1:] + "\n"
		case '+':
			e.new += line[1:] + "\n"
		default:
			t.Fatalf("testdata/planted: what is %q?", line)
		}
	}
	return all
}

// run builds the finder's tests with the bug, and runs them; by is what has found it.
func (b bug) run(t *testing.T, root string) (found bool, by string) {
	dir, replace := t.TempDir(), map[string]string{}
	for i, e := range b.edits {
		path := filepath.Join(root, e.file)
		if replace[path] == "" {
			replace[path] = path
		}
		text, err := os.ReadFile(replace[path])
		if err != nil {
			t.Fatal(err)
		}
		old, put := strings.TrimSuffix(e.old, "\n"), strings.TrimSuffix(e.new, "\n")
		if n := strings.Count(string(text), old); n != 1 {
			t.Fatalf("%s has the text %q %d times instead of once; bring testdata/planted up to date", e.file, old, n)
		}
		replace[path] = save(t, dir, fmt.Sprintf("%d.go", i), []byte(strings.Replace(string(text), old, put, 1)))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	finder, args := "./internal/simulation", []string{"-test.run", "^TestSeeds$", "-test.failfast", "-for", within.String(), "-events", *only}
	if b.name == "none" {
		args[4] = (*within / 4).String()
	}
	if b.finder != "" {
		finder, args = "./"+b.finder, nil
	}
	binary := filepath.Join(dir, "finder.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", save(t, dir, "overlay.json", overlay), "-o", binary, finder)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(binary, append(args, "-test.timeout", (4**within+time.Minute).String())...)
	run.Dir = filepath.Join(root, finder)
	out, err := run.CombinedOutput()
	return err != nil, reason(string(out))
}

// reason is what a run says of its failure: the simulation's sentence without the request, or
// the first line of another test.
func reason(out string) string {
	if _, text, ok := strings.Cut(out, "FAILED: "); ok {
		text, _, _ = strings.Cut(text, "\n")
		text, _, _ = strings.Cut(text, "; ")
		return text
	}
	return regexp.MustCompile(`panic: .*|_test\.go:\d+: .*`).FindString(out)
}

func save(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
