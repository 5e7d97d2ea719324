package simulation

import (
	"cmp"
	_ "embed"
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

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/cases"
)

var (
	plant  = flag.String("mutants", "", "plant the bugs whose names this matches, one after the other, and find each")
	within = flag.Duration("within", time.Minute, "how much of a processor's time each bug may stay hidden for")
)

// bug is one of testdata/planted.
type bug struct {
	name   string
	finder string // the package whose tests find it; empty: the simulation
	events string // of the simulation; empty: all
	edits  []edit
}

// edit replaces a text that stands in a file once.
type edit struct{ file, old, new string }

// TestMutants plants each bug into copies of the sources, since a change of the program may move
// what it replaces. On demand, as make simulate-mutants has it, it also checks that each is found.
func TestMutants(t *testing.T) {
	if *plant == "" {
		for _, b := range parseBugs(t) {
			b.overlay(t, t.TempDir())
		}
		return
	}
	for _, b := range append([]bug{{name: "none"}}, parseBugs(t)...) {
		if !regexp.MustCompile(*plant).MatchString(b.name) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			begin := time.Now()
			found, by := b.run(t)
			if found != (b.name != "none") {
				t.Errorf("found: %t\n%s", found, by)
			}
			fmt.Printf("| %s | %.0f s | %s |\n", b.name, time.Since(begin).Seconds(), by)
		})
	}
}

func parseBugs(t *testing.T) (all []bug) {
	for _, c := range cases.Read(t, "testdata/planted") {
		var b bug
		b.name, b.finder, _ = strings.Cut(c.Name, " @")
		for line := range strings.Lines(c.Text) {
			mark, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			switch {
			case mark == "events:":
				b.events = text
			case mark == "file:":
				b.edits = append(b.edits, edit{file: text})
			case mark == "#", line == "\n":
			default:
				e := &b.edits[len(b.edits)-1]
				if old, ok := strings.CutPrefix(line, "-"); ok {
					e.old += old
				} else if put, ok := strings.CutPrefix(line, "+"); ok {
					e.new += put
				} else {
					t.Fatalf("testdata/planted: what is %q?", line)
				}
			}
		}
		all = append(all, b)
	}
	return all
}

// root is the folder of the sources.
const root = "../.."

// overlay plants the bug into copies in a folder, and gives the file that tells the compiler of them.
func (b bug) overlay(t *testing.T, dir string) (file string) {
	replace := map[string]string{}
	save := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for i, e := range b.edits {
		path, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			t.Fatal(err)
		}
		text := testkit.Read(t, cmp.Or(replace[path], path))
		old, put := strings.TrimSuffix(e.old, "\n"), strings.TrimSuffix(e.new, "\n")
		if n := strings.Count(text, old); n != 1 {
			t.Fatalf("%s has the text %q %d times instead of once; bring testdata/planted up to date", e.file, old, n)
		}
		replace[path] = save(fmt.Sprintf("%d.go", i), []byte(strings.Replace(text, old, put, 1)))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	return save("overlay.json", overlay)
}

// run builds the finder's tests with the bug, and runs them; by is what has found it.
func (b bug) run(t *testing.T) (found bool, by string) {
	dir := t.TempDir()
	most := *within
	if b.name == "none" {
		most /= 4
	}
	args := []string{"-test.timeout", (4**within + time.Minute).String()}
	if b.finder == "" {
		args = append(args, "-test.run", "^TestSeeds$", "-for", most.String(), "-events", b.events)
	}
	finder, binary := "./"+cmp.Or(b.finder, "internal/simulation"), filepath.Join(dir, "finder.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", b.overlay(t, dir), "-o", binary, finder)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(binary, args...)
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
