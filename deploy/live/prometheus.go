package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Job is the value of the label job that StartPrometheus gives its targets.
const Job = "inquiry-gateway"

// Prometheus is a running server that scrapes gateways four times a second and
// evaluates rules as often.
type Prometheus struct {
	URL string

	t testing.TB
}

const prometheusConfig = `
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
rule_files: [%s]
scrape_configs:
  - job_name: %s
    static_configs: [{targets: [%s]}]
`

// listening is what Prometheus logs once it answers: the port it was given, and
// that it has read everything.
var listening = regexp.MustCompile(`(?s)"?Listening on"? address=(\S+).*Server is ready to receive web requests`)

// StartPrometheus runs Debian's Prometheus in a temporary folder. ops are the URLs of the
// gateways' ops listeners, with commas between them.
func StartPrometheus(t testing.TB, ops string, ruleFiles ...string) *Prometheus {
	t.Helper()
	dir := t.TempDir()
	for i, file := range ruleFiles {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		ruleFiles[i] = fmt.Sprintf("%q", path)
	}
	// Scraping four times a second makes rates of a minute full of samples soon.
	config := fmt.Sprintf(prometheusConfig, strings.Join(ruleFiles, ", "), Job, strings.ReplaceAll(ops, "http://", ""))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _ := start(t, listening, nil, Tool(t, "prometheus", "prometheus"),
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	return &Prometheus{URL: "http://" + m[1], t: t}
}

// Series is one series of an answer; numbers of both an instant and a range
// vector are left out.
type Series struct {
	Metric map[string]string
}

// Query asks for the value of an expression now.
func (p *Prometheus) Query(expr string) ([]Series, error) {
	p.t.Helper()
	var data struct{ Result []Series }
	err := p.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	return data.Result, err
}

// RuleHealth is the state of one rule by its last evaluation.
type RuleHealth struct{ Name, Health, LastError string }

// Rules tells how the rules are.
func (p *Prometheus) Rules() ([]RuleHealth, error) {
	p.t.Helper()
	var data struct {
		Groups []struct{ Rules []RuleHealth }
	}
	err := p.get("/api/v1/rules", &data)
	var rules []RuleHealth
	for _, g := range data.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules, err
}

// get asks the HTTP API of Prometheus and decodes the part "data" of the answer.
func (p *Prometheus) get(path string, data any) error {
	p.t.Helper()
	_, body := fetch(p.t, newRequest(p.t, http.MethodGet, p.URL+path, "", nil))
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%w in %.200s", err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}
