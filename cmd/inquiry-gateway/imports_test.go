package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "inquiry-gateway/"

// mayImport says which folders of this module the packages of a folder may import, tests
// aside; the longest folder that matches counts. The direction is
// cmd -> gateway -> {auth, cache, upstream} -> internal: neighbours do not know each other.
var mayImport = map[string]string{
	"cmd":                        "cmd gateway auth cache upstream internal docs",
	"cmd/inquiry-gateway/config": "cmd/inquiry-gateway/config gateway auth cache upstream internal",
	"gateway":                    "gateway auth cache upstream internal",
	"gateway/v1":                 "gateway/v1 upstream internal",
	"gateway/ops":                "gateway/ops cache internal docs",
	"auth":                       "auth internal",
	"cache":                      "cache internal",
	"upstream":                   "upstream internal",
	"internal":                   "internal",
	"deploy":                     "",
	"docs":                       "",
}

func TestImportBoundaries(t *testing.T) {
	within := func(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }
	for from, reached := range packageImports(t) {
		rule := ""
		for folder := range mayImport {
			if within(from, folder) && len(folder) > len(rule) {
				rule = folder
			}
		}
		if rule == "" {
			t.Errorf("no rule says what %s may import", from)
		}
		for _, to := range reached {
			if !slices.ContainsFunc(strings.Fields(mayImport[rule]), func(folder string) bool { return within(to, folder) }) {
				t.Errorf("%s imports %s", from, to)
			}
		}
	}
}

// packageImports reads the imports of every package of this module from the
// source files. It does not ask `go list`: what another process reads would not
// make go test run this test again.
func packageImports(t *testing.T) map[string][]string {
	t.Helper()
	const root = "../.."
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		_, noModule := os.Stat(filepath.Join(file, "go.mod"))
		if err == nil && d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || noModule == nil) {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		from := path.Dir(filepath.ToSlash(relative))
		if imports[from] == nil {
			imports[from] = []string{} // it exists, even where it imports nothing of ours
		}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if to, ours := strings.CutPrefix(name, module); ours && !slices.Contains(imports[from], to) {
				imports[from] = append(imports[from], to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}
