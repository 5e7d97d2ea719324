package live

import (
	"regexp"
	"testing"
)

// Prefix starts every metric that is the gateway's own.
const Prefix = "inquiry_gateway_"

// Scrape reads a gateway's metrics page.
func Scrape(t testing.TB, ops string) []byte {
	t.Helper()
	return Get(t, ops+"/metrics")
}

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
