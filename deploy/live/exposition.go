package live

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Family is one metric as it is exposed.
type Family struct {
	Name, Type, Help string
	Labels           []string // sorted, without a histogram's le
}

// Prefix starts every metric that is the gateway's own.
const Prefix = "inquiry_gateway_"

var (
	sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? `)
	label  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"`)
)

// Families reads the text format of metrics pages, by name. What one page has
// and another lacks is taken together.
func Families(pages ...[]byte) map[string]Family {
	all := map[string]Family{}
	for _, page := range pages {
		for line := range strings.Lines(string(page)) {
			line = strings.TrimSuffix(line, "\n")
			if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
				name, help, _ := strings.Cut(rest, " ")
				f := all[name]
				f.Name, f.Help = name, help
				all[name] = f
			} else if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
				name, kind, _ := strings.Cut(rest, " ")
				f := all[name]
				f.Type = kind
				all[name] = f
			} else if m := sample.FindStringSubmatch(line); m != nil {
				addLabels(all, m[1], m[2])
			}
		}
	}
	return all
}

func addLabels(all map[string]Family, name, labels string) {
	name = FamilyOf(all, name)
	f := all[name]
	set := map[string]bool{}
	for _, l := range f.Labels {
		set[l] = true
	}
	for _, m := range label.FindAllStringSubmatch(labels, -1) {
		if m[1] != "le" {
			set[m[1]] = true
		}
	}
	f.Labels = slices.Sorted(maps.Keys(set))
	all[name] = f
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
