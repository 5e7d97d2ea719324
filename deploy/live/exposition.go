package live

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Family is one metric as it is exposed.
type Family struct {
	Name, Type, Help string
	Labels           []string // sorted, without a histogram's le
}

// Prefix starts every metric that is the gateway's own.
const Prefix = "inquiry_gateway_"

// Families reads the text format of metrics pages, by name. What one page has
// and another lacks is taken together; a page with a mistake counts up to it.
func Families(pages ...[]byte) map[string]Family {
	all := map[string]Family{}
	for _, page := range pages {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, _ := parser.TextToMetricFamilies(bytes.NewReader(page))
		for name, f := range families {
			labels := map[string]bool{}
			for _, l := range all[name].Labels {
				labels[l] = true
			}
			for _, m := range f.Metric {
				for _, l := range m.Label { // those of a histogram have no le
					labels[l.GetName()] = true
				}
			}
			all[name] = Family{name, strings.ToLower(f.GetType().String()), f.GetHelp(), slices.Sorted(maps.Keys(labels))}
		}
	}
	return all
}

// FamilyOf is the name of the family that a series is of: a histogram's without
// _bucket, _sum or _count. A name of no family is returned as it is.
func FamilyOf(all map[string]Family, series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(series, suffix); ok && all[base].Type == "histogram" {
			return base
		}
	}
	return series
}

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
