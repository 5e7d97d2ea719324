package live

import (
	"os"
	"testing"

	"github.com/goccy/go-yaml"
)

// Rule is a recording rule (Record is set) or an alert (Alert is set).
type Rule struct {
	Record, Alert, Expr string
	Annotations         map[string]string
}

// Rules reads rule files.
func Rules(t testing.TB, files ...string) []Rule {
	t.Helper()
	var rules []Rule
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content struct{ Groups []struct{ Rules []Rule } }
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range content.Groups {
			rules = append(rules, g.Rules...)
		}
	}
	return rules
}
