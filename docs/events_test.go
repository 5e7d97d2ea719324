package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of security events in log.md has each event that the program writes, and no other.
func TestSecurityEvents(t *testing.T) {
	// event := slog.LevelInfo, "auth_failed", or "event", "foreign_record"
	written := regexp.MustCompile(`event"?(?:,| :=| =)[\w., ]*"(\w+)"`)
	var want, have []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), `slog.Group("security"`) {
			for _, event := range written.FindAllStringSubmatch(string(text), -1) {
				want = append(want, event[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("log.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Security events\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		have = append(have, row[1])
	}
	slices.Sort(want)
	slices.Sort(have)
	if len(want) < 4 || !slices.Equal(have, want) {
		t.Errorf("log.md has the events %q, the program %q", have, want)
	}
}
