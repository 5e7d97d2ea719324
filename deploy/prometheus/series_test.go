package prometheus_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

const (
	metricsDoc = "../../docs/metrics.md"
	dashboard  = "../grafana/inquiry-gateway.json"
	prefix     = "inquiry_gateway_" // of every metric that is the gateway's own
)

var update = flag.Bool("update", false, "write the table of metrics into the documentation")

// TestSeries holds rules, dashboard, runbook and documentation against what the running
// program exposes.
func TestSeries(t *testing.T) {
	binary := testkit.BuildGateway(t)
	exposed := exposedFamilies(t, binary)
	t.Run("are named as they are", func(t *testing.T) { checkNames(t, exposed) })
	t.Run("are in the docs", func(t *testing.T) { checkTable(t, exposed) })
}

// exposedFamilies runs everything and makes it count: a metric with labels appears with
// its first event. Nobody answers at the address of the authorization server.
func exposedFamilies(t *testing.T, binary string) map[string]family {
	t.Helper()
	demo := gatewaytest.StartDemo(t, binary, redistest.Start(t).Addr)
	demo.Exercise()
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Write(t, secret, "secret")
	pages := [][]byte{demo.Metrics(demo.Ops)}
	for _, auth := range []string{
		"auth: {redis: {}}",
		fmt.Sprintf("auth: {introspection: {url: 'http://127.0.0.1:9/', client_id: gateway, client_secret_file: %s}}", secret),
	} {
		pages = append(pages, demo.Metrics(demo.StartNode(binary, auth)))
	}
	return familiesOf(pages...)
}

// selector finds the metrics that a query or a text names: the gateway's own, those of
// the recording rules, and those of every Go process under Prometheus.
var (
	selector = regexp.MustCompile(`\b((?:[a-z_]+:)?inquiry_gateway_[a-z0-9_:]+|(?:go|process)_[a-z0-9_]+|up)(\{[^}]*\}|\b)`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
)

// checkNames asks that each metric that is named anywhere is exposed, and that each
// selector of a query matches one of its series: a renamed metric, label or value is a
// mistake.
func checkNames(t *testing.T, exposed map[string]family) {
	recorded := map[string]bool{"up": true}
	var queries []string
	for _, r := range rulesOf(t, ruleFiles()...) {
		recorded[r.Record] = true
		queries = append(queries, r.Expr)
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	checked := 0
	for _, query := range queries {
		for _, m := range selector.FindAllStringSubmatch(query, -1) {
			f, ok := exposed[familyOf(exposed, m[1])]
			if recorded[m[1]] {
				continue
			}
			checked++
			if !ok || !f.has(m[2]) {
				t.Errorf("%s selects nothing in %s", m[0], query)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d selectors found", checked)
	}
	text := testkit.Read(t, runbook)
	for _, m := range selector.FindAllStringSubmatch(text, -1) {
		if _, ok := exposed[familyOf(exposed, m[1])]; !ok && !recorded[m[1]] {
			t.Errorf("the runbook names %s, which nothing exposes", m[1])
		}
	}
}

// panel is one of the dashboard.
type panel struct {
	Type, Title, Description string
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	text := testkit.Read(t, dashboard)
	var d struct{ Panels []panel }
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

// TestDashboard asks that each panel says what it shows, of one installation alone, and
// that Prometheus can read each query.
func TestDashboard(t *testing.T) {
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", "gateway", "$instance", ".*")
	var rules strings.Builder
	rules.WriteString("groups: [{name: dashboard, rules: [\n")
	for _, p := range panels(t) {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no title, description, unit or query", p.Title)
		}
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, `job="$job"`) {
				t.Errorf("%s mixes installations: %s", p.Title, q.Expr)
			}
			fmt.Fprintf(&rules, "{record: 'r:%d', expr: %q},\n", rules.Len(), variables.Replace(q.Expr))
		}
	}
	rules.WriteString("]}]\n")
	file := filepath.Join(t.TempDir(), "queries.yaml")
	testkit.Write(t, file, rules.String())
	promtool(t, "check", "rules", file)
}

// checkTable compares the table of metrics with what is exposed; -update writes it.
func checkTable(t *testing.T, exposed map[string]family) {
	want := metricsTable(exposed)
	if have, same := testkit.Table(t, metricsDoc, "metrics", want, *update); !same {
		t.Errorf("the table in docs/metrics.md is not what is exposed; write it with: go test ./deploy/prometheus -run TestSeries -update\n%s", difference(have, want))
	}
}

func metricsTable(exposed map[string]family) string {
	var b strings.Builder
	b.WriteString("| metric {labels} | |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(exposed)) {
		f := exposed[name]
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		mark := "" // for a type that the name does not imply
		if implied := map[bool]string{true: "counter", false: "gauge"}[strings.HasSuffix(name, "_total")]; f.Type != implied {
			mark = f.Type + ": "
		}
		if len(f.Labels) > 0 {
			name += "{" + strings.Join(f.Labels, ",") + "}"
		}
		fmt.Fprintf(&b, "| `%s` | %s%s |\n", name, mark, f.Help)
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
	Series           []map[string]string
}

// has says whether matchers such as {tier="local", result!="hit"} select one of the
// family's series. The labels of the scrape and of a histogram's buckets count as right.
func (f family) has(matchers string) bool {
	return slices.ContainsFunc(f.Series, func(labels map[string]string) bool {
		for _, m := range matcher.FindAllStringSubmatch(matchers, -1) {
			name, op, value := m[1], m[2], m[3]
			if name == "job" || name == "instance" || name == "le" {
				continue
			}
			same := labels[name] == value
			if strings.HasSuffix(op, "~") {
				same = regexp.MustCompile("^(?:" + value + ")$").MatchString(labels[name])
			}
			if same == strings.HasPrefix(op, "!") {
				return false
			}
		}
		return true
	})
}

// help, kind and sample are the lines of the text format.
var (
	help   = regexp.MustCompile(`^# HELP (\S+) (.*)`)
	kind   = regexp.MustCompile(`^# TYPE (\S+) (\S+)`)
	sample = regexp.MustCompile(`^([a-zA-Z0-9_:]+)(\{.*\})? `)
)

// familiesOf reads the text format of metrics pages, by name. What one page has
// and another lacks is taken together.
func familiesOf(pages ...[]byte) map[string]family {
	all := map[string]family{}
	for line := range strings.Lines(string(bytes.Join(pages, []byte("\n")))) {
		if m := help.FindStringSubmatch(line); m != nil {
			f := all[m[1]]
			f.Name, f.Help = m[1], m[2]
			all[m[1]] = f
		} else if m := kind.FindStringSubmatch(line); m != nil {
			f := all[m[1]]
			f.Type = m[2]
			all[m[1]] = f
		} else if m := sample.FindStringSubmatch(line); m != nil {
			name := familyOf(all, m[1])
			f, labels := all[name], map[string]string{}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if labels[l[1]] = l[3]; l[1] != "le" && !slices.Contains(f.Labels, l[1]) {
					f.Labels = append(f.Labels, l[1])
				}
			}
			slices.Sort(f.Labels)
			f.Series = append(f.Series, labels)
			all[name] = f
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
