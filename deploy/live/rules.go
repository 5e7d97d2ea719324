package live

import (
	"os"
	"regexp"
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

// Prefix starts every metric that is the gateway's own.
const Prefix = "inquiry_gateway_"

// Selector is a metric as a query or a text names it.
type Selector struct {
	Name     string
	Matchers string // with their braces; empty where there are none
}

// selector finds the names that the gateway's installation has: its own, its
// recording rules', and those of every Go process under Prometheus.
var selector = regexp.MustCompile(`\b((?:[a-z_]+:)?inquiry_gateway_[a-z0-9_:]+|(?:go|process)_[a-z0-9_]+|up)(\{[^}]*\}|\b)`)

// Selectors finds the metrics that a query names.
func Selectors(query string) []Selector {
	var found []Selector
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		found = append(found, Selector{m[1], m[2]})
	}
	return found
}
