package testkit

import (
	"os"
	"strings"
	"testing"
)

// Table returns the table between the lines <!-- NAME --> and <!-- /NAME --> of a document, and whether
// it is the wanted one. With update it writes that where it is not.
func Table(t testing.TB, file, name, want string, update bool) (have string, same bool) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(text), begin)
	have, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no table between %q and %q", file, begin, end)
	}
	if have == want || !update {
		return have, have == want
	}
	if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
	return want, true
}
