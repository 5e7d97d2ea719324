package prometheus_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"inquiry-gateway/deploy/live"
	"inquiry-gateway/internal/testkit/redistest"
)

const (
	readme    = "../docs/metrics.md"
	dashboard = "../grafana/inquiry-gateway.json"
)

var update = flag.Bool("update", false, "write the table of metrics into deploy/docs/metrics.md")

// TestSeries holds rules, dashboard, runbook and README against what the running
// program exposes.
func TestSeries(t *testing.T) {
	binary := live.Build(t)
	exposed := exposedFamilies(t, binary)
	t.Run("are named as they are", func(t *testing.T) { checkNames(t, exposed) })
	t.Run("and so are the runbook's commands", func(t *testing.T) { checkCommands(t, binary) })
	t.Run("are in the docs", func(t *testing.T) { checkTable(t, exposed) })
}

// exposedFamilies runs everything and makes it count: a metric with labels
// appears with its first event.
func exposedFamilies(t *testing.T, binary string) map[string]family {
	t.Helper()
	demo := live.StartDemo(t, binary, redistest.Start(t).Addr)
	demo.Exercise()
	return familiesOf(append(otherKeyStores(t, demo, binary), live.Get(t, demo.Ops+"/metrics"))...)
}

// otherKeyStores reads what nodes expose whose keys are not in a file. Nobody
// answers at the address of the authorization server.
func otherKeyStores(t *testing.T, demo *live.Demo, binary string) [][]byte {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	var pages [][]byte
	for _, auth := range []string{
		"auth: {redis: {}}",
		fmt.Sprintf("auth: {introspection: {url: 'http://127.0.0.1:9/', client_id: gateway, client_secret_file: %s}}", secret),
	} {
		pages = append(pages, live.Get(t, demo.StartNode(binary, auth).Ops+"/metrics"))
	}
	return pages
}

// checkNames looks for every metric that is named anywhere.
func checkNames(t *testing.T, exposed map[string]family) {
	known := map[string]bool{"up": true} // Prometheus' own
	for name := range exposed {
		known[name] = true
	}
	for _, r := range live.Rules(t, ruleFiles()...) {
		known[r.Record] = true
	}
	checked := 0
	for _, file := range append(ruleFiles(), dashboard, runbook) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range live.Selectors(string(text)) {
			if !known[familyOf(exposed, s.Name)] {
				t.Errorf("%s names %s, which nothing exposes", file, s.Name)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d names found", checked)
	}
}

var command = regexp.MustCompile("`inquiry-gateway ([a-z]+)([^`]*)`")

// checkCommands asks the program about each command and flag that the runbook
// names.
func checkCommands(t *testing.T, binary string) {
	text, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	found := command.FindAllStringSubmatch(string(text), -1)
	if len(found) < 3 {
		t.Errorf("only %d commands found", len(found))
	}
	for _, m := range found {
		help, err := exec.CommandContext(t.Context(), binary, m[1], "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(help), "inquiry-gateway "+m[1]) {
			t.Errorf("%s: there is no such command: %v", m[0], err)
		}
		for _, word := range strings.Fields(m[2]) {
			if strings.HasPrefix(word, "-") && !strings.Contains(string(help), word) {
				t.Errorf("%s: there is no flag %s", m[0], word)
			}
		}
	}
}

const begin, end = "<!-- metrics -->\n", "<!-- /metrics -->\n"

// checkTable compares the README's table with what is exposed; -update writes it.
func checkTable(t *testing.T, exposed map[string]family) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(text), begin)
	table, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("deploy/docs/metrics.md has no table between %q and %q", begin, end)
	}
	want := metricsTable(exposed)
	if table == want {
		return
	}
	if *update {
		if err := os.WriteFile(readme, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table in deploy/docs/metrics.md is not what is exposed; write it with: go test ./deploy/prometheus -run TestSeries -update\n%s", difference(table, want))
}

func metricsTable(exposed map[string]family) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(exposed)) {
		if f := exposed[name]; strings.HasPrefix(name, live.Prefix) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, f.Type, strings.Join(f.Labels, ", "), f.Help)
		}
	}
	return b.String()
}

// difference lists the lines that only one of two texts has.
func difference(have, want string) string {
	var b strings.Builder
	for line := range strings.Lines(have) {
		if !strings.Contains(want, line) {
			b.WriteString("- " + line)
		}
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(have, line) {
			b.WriteString("+ " + line)
		}
	}
	return b.String()
}

// family is one metric as it is exposed.
type family struct {
	Name, Type, Help string
	Labels           []string // sorted, without a histogram's le
}

// familiesOf reads the text format of metrics pages, by name. What one page has
// and another lacks is taken together; a page with a mistake counts up to it.
func familiesOf(pages ...[]byte) map[string]family {
	all := map[string]family{}
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
			all[name] = family{name, strings.ToLower(f.GetType().String()), f.GetHelp(), slices.Sorted(maps.Keys(labels))}
		}
	}
	return all
}

// familyOf is the name of the family that a series is of: a histogram's without
// _bucket, _sum or _count. A name of no family is returned as it is.
func familyOf(all map[string]family, series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(series, suffix); ok && all[base].Type == "histogram" {
			return base
		}
	}
	return series
}

const page = `# HELP a_seconds How long, "by" {kind}.
# TYPE a_seconds histogram
a_seconds_bucket{kind="x",le="0.1"} 1
a_seconds_bucket{kind="x",le="+Inf"} 2
a_seconds_sum{kind="x"} 0.3
a_seconds_count{kind="x"} 2
# HELP b_count Not of a histogram.
# TYPE b_count gauge
b_count 7
# HELP c_total Counted.
# TYPE c_total counter
c_total{path="/a\"b",code="200"} 1
`

func TestFamilies(t *testing.T) {
	all := familiesOf([]byte(page), []byte("# HELP c_total Counted.\n# TYPE c_total counter\nc_total{other=\"1\"} 1\n"))
	want := []family{
		{Name: "a_seconds", Type: "histogram", Help: `How long, "by" {kind}.`, Labels: []string{"kind"}},
		{Name: "b_count", Type: "gauge", Help: "Not of a histogram."},
		{Name: "c_total", Type: "counter", Help: "Counted.", Labels: []string{"code", "other", "path"}},
	}
	if len(all) != len(want) {
		t.Errorf("%d families: %v", len(all), all)
	}
	for _, w := range want {
		got := all[w.Name]
		if got.Name != w.Name || got.Type != w.Type || got.Help != w.Help || !slices.Equal(got.Labels, w.Labels) {
			t.Errorf("got %+v, want %+v", got, w)
		}
	}
	for series, family := range map[string]string{"a_seconds_bucket": "a_seconds", "a_seconds_count": "a_seconds", "b_count": "b_count", "c_total": "c_total"} {
		if got := familyOf(all, series); got != family {
			t.Errorf("%s is of %s, want %s", series, got, family)
		}
	}
}
