package grafana_test

import (
	"fmt"
	"strings"
	"testing"

	"inquiry-gateway/deploy/live"
	"inquiry-gateway/internal/testkit/redistest"
)

const (
	recording = "../prometheus/recording.yaml"
	alerts    = "../prometheus/alerts.yaml"
)

// mayBeEmpty are queries that a healthy demo has no answer to, and why.
func mayBeEmpty() map[string]string {
	const keysInFile = "the demo's keys are in a file"
	return map[string]string{
		"New version":                          "there is none while the test runs",
		"Breaker changes, retries, requests D": "the demo has no ceiling for the legacy system",
		"Look-ups in the key store A":          keysInFile,
		"Look-ups in the key store B":          keysInFile,
		"Cached keys dropped A":                keysInFile,
		"Cached keys dropped B":                keysInFile,
		"inquiry_gateway_auth_store_version":   keysInFile,
	}
}

// TestQueries asks a real Prometheus, which scrapes the demo, everything that
// the dashboard and the rules ask. A query that selects nothing is a mistake:
// a renamed metric, label or value.
func TestQueries(t *testing.T) {
	binary, redis := live.Build(t), redistest.Start(t)
	demo := live.StartDemo(t, binary, redis.Addr)
	server := live.StartPrometheus(t, demo.Ops, recording, alerts)
	// What happens before the first scrape is no increase to Prometheus.
	live.Eventually(t, func() string { return empty(server, `up{job="`+live.Job+`"} == 1`) })
	demo.Exercise()

	values := strings.NewReplacer("$__rate_interval", "1m", "$job", live.Job, "$instance", ".*")
	open := load(t).questions(values)
	for _, r := range live.Rules(t, recording, alerts) {
		for _, s := range live.Selectors(r.Expr) {
			open = append(open, question{s.Name, s.Name + s.Matchers})
		}
	}
	if len(open) < 100 {
		t.Fatalf("only %d queries", len(open))
	}
	answerAll(t, server, demo, open)
	checkRules(t, server)
}

// answerAll asks until every query has an answer, with callers that go on
// calling.
func answerAll(t *testing.T, server *live.Prometheus, demo *live.Demo, open []question) {
	t.Helper()
	unused := mayBeEmpty()
	live.Eventually(t, func() string {
		demo.Call(demo.Public, "")
		var left []question
		var complaints []string
		for _, q := range open {
			_, allowed := mayBeEmpty()[q.place]
			complaint := empty(server, q.expr)
			if complaint == "" || allowed && complaint == nothing {
				delete(unused, q.place)
				continue
			}
			left, complaints = append(left, q), append(complaints, fmt.Sprintf("%s: %s: %s", q.place, q.expr, complaint))
		}
		open = left
		return strings.Join(complaints, "\n")
	})
	for place := range unused {
		t.Errorf("%s is allowed to be empty and is no query", place)
	}
}

const nothing = "nothing is selected"

// empty complains of a query that is not understood or selects nothing.
func empty(server *live.Prometheus, expr string) string {
	series, err := server.Query(expr)
	if err != nil {
		return err.Error()
	}
	if len(series) == 0 {
		return nothing
	}
	return ""
}

// checkRules waits until every rule has been evaluated without an error.
func checkRules(t *testing.T, server *live.Prometheus) {
	t.Helper()
	want := len(live.Rules(t, recording, alerts))
	live.Eventually(t, func() string {
		rules, err := server.Rules()
		if err != nil || len(rules) != want {
			return fmt.Sprintf("%d of %d rules, %v", len(rules), want, err)
		}
		for _, r := range rules {
			if r.Health != "ok" {
				return fmt.Sprintf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
		return ""
	})
}
