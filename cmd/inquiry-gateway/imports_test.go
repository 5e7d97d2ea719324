package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Imports run downward only: what stands on the left must not reach what stands
// on the right, tests' helpers included.
func TestImportBoundaries(t *testing.T) {
	const module = "inquiry-gateway/"
	never := map[string][]string{
		"auth":               {"cache", "upstream", "gateway", "cmd"},
		"cache":              {"auth", "upstream", "gateway", "cmd"},
		"upstream":           {"auth", "cache", "gateway", "cmd"},
		"upstream/fleet":     {"auth", "cache", "upstream", "gateway", "cmd"},
		"upstream/arena":     {"auth", "cache", "upstream", "gateway", "cmd"},
		"upstream/jsonwalk":  {"auth", "cache", "upstream/leakguard", "gateway", "cmd"},
		"upstream/leakguard": {"auth", "cache", "upstream/jsonwalk", "gateway", "cmd"},
		"upstream/timeparse": {"auth", "cache", "upstream", "gateway", "cmd"},
		"upstream/legacy":    {"auth", "cache", "gateway", "cmd"},
		"gateway":            {"cmd"},
		"gateway/v1":         {"auth", "cache", "cmd"},
		"gateway/ops":        {"upstream", "cmd"},
		"internal/testkit":   {"auth", "cache", "upstream", "gateway", "cmd"},
		// It would make the mistakes that it is there to find.
		"gateway/ops/canary": {"auth", "cache", "upstream", "gateway", "cmd"},
	}
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Deps \" \"}}", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(line)
		from := strings.TrimPrefix(deps[0], module)
		forbidden, known := never[from]
		if !known {
			continue
		}
		seen++
		for _, dep := range deps[1:] {
			for _, f := range forbidden {
				if dep == module+f || strings.HasPrefix(dep, module+f+"/") {
					t.Errorf("%s reaches %s", from, dep)
				}
			}
		}
	}
	if seen != len(never) {
		t.Errorf("only %d of %d packages exist", seen, len(never))
	}
}
