package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Whoever starts from a configuration that is shipped has a limit per account.
func TestShippedConfigurationsLimitAccounts(t *testing.T) {
	limit := regexp.MustCompile(`(?m)^ *rate_limit: \{per_second: [1-9][0-9]*, burst: [1-9][0-9]*\}`)
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	files = append(files, "compose/gateway.yaml", "helm/README.md", "helm/testdata/minimal.yaml", "helm/testdata/full.yaml", "../cmd/inquiry-gateway/demo.yaml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) != "keys.yaml" && !limit.Match(text) {
			t.Errorf("%s has no rate_limit that is on", file)
		}
	}
}
