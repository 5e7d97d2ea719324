package deploy_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"inquiry-gateway/internal/testkit"
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
		text := testkit.Read(t, file)
		if filepath.Base(file) != "keys.yaml" && !limit.MatchString(text) {
			t.Errorf("%s has no rate_limit that is on", file)
		}
	}
}
