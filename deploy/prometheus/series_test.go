package prometheus_test

import (
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
func exposedFamilies(t *testing.T, binary string) map[string]live.Family {
	t.Helper()
	demo := live.StartDemo(t, binary, redistest.Start(t).Addr)
	demo.Exercise()
	return live.Families(append(otherKeyStores(t, demo, binary), live.Scrape(t, demo.Ops))...)
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
		pages = append(pages, live.Scrape(t, demo.StartNode(binary, auth).Ops))
	}
	return pages
}

// checkNames looks for every metric that is named anywhere.
func checkNames(t *testing.T, exposed map[string]live.Family) {
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
			if !known[live.FamilyOf(exposed, s.Name)] {
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
func checkTable(t *testing.T, exposed map[string]live.Family) {
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

func metricsTable(exposed map[string]live.Family) string {
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
