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

// mayImport says which packages of this module a package may import, tests
// aside. "x/..." is x and all that is below it. Every package has its line here.
//
// The direction is cmd -> gateway -> {auth, cache, upstream} -> internal. What
// stands on one level does not know its neighbours.
func mayImport() map[string][]string {
	return map[string][]string{
		"cmd/inquiry-gateway":             {"cmd/...", "gateway/...", "auth/...", "cache/...", "upstream/...", "internal/...", "deploy"},
		"cmd/inquiry-gateway/app":         {"cmd/inquiry-gateway/config", "cmd/inquiry-gateway/mappingtest", "cmd/inquiry-gateway/watch", "gateway/...", "auth/...", "cache/...", "upstream/...", "internal/..."},
		"cmd/inquiry-gateway/config":      {"gateway/...", "auth/...", "cache/...", "upstream/...", "internal/..."},
		"cmd/inquiry-gateway/conformance": {},
		"cmd/inquiry-gateway/mappingtest": {"cmd/inquiry-gateway/config", "gateway/v1", "upstream", "upstream/replay"},
		"cmd/inquiry-gateway/simulation":  {},
		"cmd/inquiry-gateway/watch":       {},

		"gateway":             {"gateway/v1", "gateway/httpwire", "auth/...", "cache/...", "upstream/...", "internal/..."},
		"gateway/browsertest": {"internal/testkit"},
		"gateway/httpwire":    {"internal/series"},
		"gateway/ops":         {"gateway/ops/...", "auth", "cache", "internal/..."},
		"gateway/ops/console": {"auth", "cache/...", "internal/...", "deploy"},
		// It checks the wire format by itself: with the gateway's own code it would
		// make the mistakes that it is there to find.
		"gateway/ops/canary":  {"gateway/v1/contract", "internal/..."},
		"gateway/v1":          {"upstream/...", "internal/..."},
		"gateway/v1/contract": {"gateway/v1"},

		"auth":            {"internal/..."},
		"auth/introspect": {"auth", "internal/..."},
		"auth/keysfile":   {"auth", "internal/..."},
		"auth/keysredis":  {"auth", "internal/..."},
		"auth/rate":       {"internal/..."},

		"cache":           {"cache/...", "internal/..."},
		"cache/redistier": {"internal/..."},
		"cache/ttllab":    {"cache", "internal/..."},

		"upstream":                 {"upstream/...", "internal/..."},
		"upstream/address":         {"internal/..."},
		"upstream/arena":           {},
		"upstream/decode":          {},
		"upstream/draft":           {"upstream/decode", "upstream/timeparse"},
		"upstream/fleet":           {"internal/..."},
		"upstream/internal/sample": {},
		"upstream/jsonwalk":        {"upstream/arena"},
		"upstream/leakguard":       {"upstream/arena"},
		"upstream/legacy":          {"upstream", "internal/..."},
		"upstream/mapping": {
			"upstream/address", "upstream/arena", "upstream/decode", "upstream/jsonwalk", "upstream/leakguard", "upstream/timeparse", "internal/...",
		},
		"upstream/replay":    {},
		"upstream/timeparse": {},

		"internal/breaker":           {},
		"internal/invalid":           {},
		"internal/localcache":        {},
		"internal/panics":            {},
		"internal/secretfile":        {"internal/invalid"},
		"internal/redissub":          {},
		"internal/series":            {},
		"internal/span":              {},
		"internal/testkit":           {},
		"internal/testkit/redistest": {"internal/testkit"},
		"internal/theme":             {},

		"deploy":           {},
		"deploy/load/peer": {},
	}
}

func TestImportBoundaries(t *testing.T) {
	may := mayImport()
	imports := packageImports(t)
	for from, reached := range imports {
		allowed, listed := may[from]
		if !listed {
			t.Errorf("%s has no line in the table of what it may import", from)
		}
		for _, to := range reached {
			if listed && !slices.ContainsFunc(allowed, func(pattern string) bool { return covers(pattern, to) }) {
				t.Errorf("%s imports %s", from, to)
			}
		}
	}
	for from, allowed := range may {
		if _, exists := imports[from]; !exists {
			t.Errorf("the table has a line for %s, which does not exist", from)
		}
		for _, pattern := range allowed {
			if base := strings.TrimSuffix(pattern, "/..."); base == pattern && imports[base] == nil {
				t.Errorf("%s may import %s, which does not exist", from, base)
			}
		}
	}
}

func covers(pattern, name string) bool {
	base, below := strings.CutSuffix(pattern, "/...")
	return name == base || below && strings.HasPrefix(name, base+"/")
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
