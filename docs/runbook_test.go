package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/docs"
)

// Whoever is on call looks for the log records that the runbook names: the program writes
// each of them.
func TestRunbookNamesLogRecordsThatExist(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// "of three words", or an event of security such as "foreign_record".
	named := regexp.MustCompile(`"([a-z]+ [a-z]+ [^"]+|[a-z]+_[a-z]+)"( events?)?|`).FindAllStringSubmatch(strings.ReplaceAll(docs.Runbook, "\n", " "), -1)
	found := 0
	for _, n := range named {
		message := n[1]
		if strings.Contains(message, "_") && n[2] == "" {
			continue // a value of a label
		}
		if found++; !strings.Contains(source.String(), `"`+message) {
			t.Errorf("no program writes %q", message)
		}
	}
	if found < 5 {
		t.Errorf("%d records are named", found)
	}
}
