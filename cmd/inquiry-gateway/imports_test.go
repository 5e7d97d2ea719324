package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mayImport says which folders of this module the packages of a folder may import, tests
// aside; the longest folder that matches counts. The direction is
// cmd -> gateway -> {auth, cache, upstream} -> internal: neighbours do not know each other.
var mayImport = map[string]string{
	"cmd":                        "cmd gateway auth cache upstream internal docs",
	"cmd/inquiry-gateway/config": "cmd/inquiry-gateway/config gateway auth cache upstream internal",
	"gateway":                    "gateway auth cache upstream internal",
	"gateway/v1":                 "gateway/v1 upstream internal",
	"gateway/ops":                "gateway/ops cache upstream internal docs",
	"auth":                       "auth internal",
	"cache":                      "cache internal",
	"upstream":                   "upstream internal",
	"internal":                   "internal",
	"deploy":                     "internal",
	"docs":                       "",
}

// ruleOf is the longest folder of the table that a package is in.
func ruleOf(from string) string {
	for ; from != "."; from = path.Dir(from) {
		if _, found := mayImport[from]; found {
			return from
		}
	}
	return ""
}

// The imports are read from the source files, not from `go list`: what another process reads
// would not make go test run this test again.
func TestImportBoundaries(t *testing.T) {
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 2 && d.Name()[0] == '.') {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(file, "../../")))
		rule := ruleOf(from)
		if rule == "" {
			t.Errorf("no rule says what %s may import", from)
		}
		for _, spec := range parsed.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			to, ours := strings.CutPrefix(name, "inquiry-gateway/")
			if !ours {
				continue
			}
			allowed := false
			for _, folder := range strings.Fields(mayImport[rule]) {
				allowed = allowed || strings.HasPrefix(to+"/", folder+"/")
			}
			if !allowed {
				t.Errorf("%s imports %s", from, to)
			}
		}
		return nil
	})
	must(t, err)
}
