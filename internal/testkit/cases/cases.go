// Package cases reads the cases of text files. Such a file is a txtar archive: what comes before
// its first marker is about the whole file, and each "file" of it is a case, with the marker
// "-- NAME --". The table of marks in docs/developing.md says what the first characters of a line
// mean within one.
package cases

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// Case is one case of a file.
type Case struct {
	File string // its base name
	Name string
	Text string // all lines, each with its end
}

// Read returns the cases of the files that a pattern matches. It fails the test where there is none,
// and where two cases of a file have one name.
func Read(t testing.TB, pattern string) (all []Case) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, f := range archive.Files {
			if known[f.Name] {
				t.Fatalf("%s: two cases are called %q", file, f.Name)
			}
			known[f.Name] = true
			all = append(all, Case{filepath.Base(file), f.Name, string(f.Data)})
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s: no cases", pattern)
	}
	return all
}

// Run runs a test for each case.
func Run(t *testing.T, pattern string, test func(*testing.T, Case)) {
	t.Helper()
	for _, c := range Read(t, pattern) {
		t.Run(c.Name, func(t *testing.T) { test(t, c) })
	}
}

// Results runs a test for each case that ends with its results, in lines that begin with "= ", and
// compares them with what result says of the lines before.
func Results(t *testing.T, pattern string, result func(t *testing.T, given string) []string) {
	t.Helper()
	Run(t, pattern, func(t *testing.T, c Case) {
		given, results, _ := strings.Cut("\n"+c.Text, "\n= ")
		var want []string
		if results != "" {
			want = strings.Split(strings.TrimSpace(results), "\n= ")
		}
		Compare(t, result(t, strings.TrimPrefix(given+"\n", "\n")), want)
	})
}

// Compare fails a test whose lines are not those that it wants, and shows each that differs beside the
// other one.
func Compare(t testing.TB, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("line %d:\nwant %s\ngot  nothing more", i+1, want[i])
		case i >= len(want):
			t.Errorf("line %d:\nwant nothing more\ngot  %s", i+1, got[i])
		case got[i] != want[i]:
			t.Errorf("line %d:\nwant %s\ngot  %s", i+1, want[i], got[i])
		}
	}
}
