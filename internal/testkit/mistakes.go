package testkit

import (
	"os"
	"strings"
	"testing"
)

// Mistakes holds what told says of each text of a file against what it should. A text begins with
// a line === and its name, and ends with what is to be told of it, in lines that begin with "> ".
func Mistakes(t *testing.T, file string, told func(t *testing.T, text string) []string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for one := range strings.SplitSeq(strings.TrimPrefix(string(data), "=== "), "\n=== ") {
		name, rest, _ := strings.Cut(one+"\n", "\n")
		text, messages, _ := strings.Cut("\n"+rest, "\n> ")
		t.Run(name, func(t *testing.T) {
			got := strings.Join(told(t, strings.TrimPrefix(text, "\n")+"\n"), "\n")
			if want := strings.ReplaceAll(strings.TrimSpace(messages), "\n> ", "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
