package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
)

// Each relative link of a document leads to a file that exists, and to a heading of it.
func TestLinks(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(page string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "node_modules" || d.Name() == "dist" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(page, ".md") {
			return nil
		}
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		for _, l := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			target, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			found++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: no such file", page, l[1])
			} else if anchor != "" && !anchors(t, file)[anchor] {
				t.Errorf("%s: %s: no such heading", page, l[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Errorf("%d links", found)
	}
}

// anchors are the ids that GitHub and GitLab give to the headings of a page.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
		id := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		ids[strings.ReplaceAll(id, " ", "-")] = true
	}
	return ids
}
