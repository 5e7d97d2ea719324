package prometheus_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/testkit"
)

const runbook = "../../docs/runbook.md"

func ruleFiles() []string { return []string{"recording.yaml", "alerts.yaml"} }

// rule is a recording rule (Record is set) or an alert (Alert is set).
type rule struct {
	Record, Alert, Expr string
	Annotations         map[string]string
}

// rulesOf reads files of rules.
func rulesOf(t *testing.T, files ...string) []rule {
	t.Helper()
	var rules []rule
	for _, file := range files {
		text := testkit.Read(t, file)
		var content struct{ Groups []struct{ Rules []rule } }
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range content.Groups {
			rules = append(rules, g.Rules...)
		}
	}
	return rules
}

func testFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("tests/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests of rules: %v", err)
	}
	return files
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	testkit.SkipShort(t)
	testkit.SkipUnderRace(t)
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreValid(t *testing.T) {
	promtool(t, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, ruleFiles()...)...)
}

func TestExampleConfiguration(t *testing.T) {
	promtool(t, "check", "config", "--syntax-only", "prometheus.yaml")
	text := testkit.Read(t, "prometheus.yaml")
	var content struct {
		Files []string `yaml:"rule_files"`
	}
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(content.Files, ruleFiles()) {
		t.Errorf("it loads %v, there are %v", content.Files, ruleFiles())
	}
}

func TestRules(t *testing.T) {
	for _, file := range testFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel() // promtool uses one processor for seconds
			promtool(t, "test", "rules", file)
		})
	}
}

// TestEveryAlertIsTested asks of promtool's tests that each alert is seen both
// to fire and to be quiet, so that none can be always or never true.
func TestEveryAlertIsTested(t *testing.T) {
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, file := range testFiles(t) {
		var content struct {
			Tests []struct {
				Alerts []struct {
					Name     string `yaml:"alertname"`
					Expected []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		text := testkit.Read(t, file)
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range content.Tests {
			for _, a := range test.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
				quiet[a.Name] = quiet[a.Name] || len(a.Expected) == 0
			}
		}
	}
	alerts := map[string]bool{}
	for _, r := range rulesOf(t, "alerts.yaml") {
		if !fires[r.Alert] || !quiet[r.Alert] {
			t.Errorf("%s: a test sees it fire: %t, be quiet: %t", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
		alerts[r.Alert] = true
	}
	for name := range fires {
		if !alerts[name] {
			t.Errorf("there is a test of %s, which is no alert", name)
		}
	}
}

// TestRunbook asks for one chapter per alert, and for no chapter without one.
func TestRunbook(t *testing.T) {
	text := testkit.Read(t, runbook)
	chapters, used := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(text) {
		if title, ok := strings.CutPrefix(strings.TrimSpace(line), "## InquiryGateway"); ok {
			chapters[strings.ToLower("InquiryGateway"+title)] = true
		}
	}
	for _, r := range rulesOf(t, "alerts.yaml") {
		anchor, ok := strings.CutPrefix(r.Annotations["runbook_url"], "http://127.0.0.1:9090/console/runbook#")
		if !ok || anchor != strings.ToLower(r.Alert) || !chapters[anchor] {
			t.Errorf("%s points to %q, and there is such a chapter: %t", r.Alert, r.Annotations["runbook_url"], chapters[anchor])
		}
		used[anchor] = true
	}
	for chapter := range chapters {
		if !used[chapter] {
			t.Errorf("the chapter %s is of no alert", chapter)
		}
	}
}
