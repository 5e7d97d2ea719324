package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"inquiry-gateway/deploy/live"
	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/internal/testkit/redistest"
)

// The console reads series that a real gateway has. A family that is renamed in another package fails here.
func TestRealProgram(t *testing.T) {
	demo := live.StartDemo(t, live.Build(t), redistest.Start(t).Addr)
	demo.Exercise()
	for range 3 {
		demo.Call(demo.Public, "")
	}
	families, err := measure.ParseSeries(live.Get(t, demo.Ops+"/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	opts := newFeed().options(Options{})
	opts.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	c.sampler.take()
	checkReadings(t, c.sampler.readings, families)
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/console/data", nil)); w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// checkReadings holds that each reading finds at least one series.
func checkReadings(t *testing.T, all *readings, families []*dto.MetricFamily) {
	t.Helper()
	// Not before the first of their kind happens.
	late := []string{"redis.timeout", "redis.error", "redis.skipped", "redis.canceled", "answers.failed", "errors.", "canary.access.empty", "canary.contract.empty", "canary.freshness.empty", "canary.keys.empty"}
	for _, r := range all.list {
		if !slices.ContainsFunc(late, func(begin string) bool { return strings.HasPrefix(r.name, begin) }) && !exists(r, families) {
			t.Errorf("%s: no series of %s%s with %v", r.name, prefix, r.family, r.labels)
		}
	}
}

func exists(r reading, families []*dto.MetricFamily) bool {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == prefix+r.family && r.matches(m.GetLabel()) {
				return true
			}
		}
	}
	return false
}
