package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The README's picture of one request names functions as package.function. Each
// of them exists.
func TestPictureNamesFunctions(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(readme), "```mermaid\n")
	picture, _, closed := strings.Cut(picture, "```")
	names := regexp.MustCompile(`\b((?:auth|cache|gateway|upstream)(?:/\w+)*)\.(\w+)`).FindAllStringSubmatch(picture, -1)
	if !closed || len(names) < 15 {
		t.Fatalf("the picture names %d functions", len(names))
	}
	for _, name := range names {
		function := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name[2] + `[(\[]`)
		if !function.MatchString(sources(t, name[1])) {
			t.Errorf("there is no function %s", name[0])
		}
	}
}

// sources is the text of a package, tests aside.
func sources(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
