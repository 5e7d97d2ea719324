package console

import (
	"bytes"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"inquiry-gateway/cache/redistest"
	"inquiry-gateway/deploy/live"
)

// The console reads series that a real gateway has, and shows what its /metrics
// says. A family that is renamed in another package fails here.
func TestRealProgram(t *testing.T) {
	demo := live.StartDemo(t, live.Build(t), redistest.Start(t).Addr)
	demo.Exercise()
	for range 3 {
		demo.Call(demo.Public, "")
	}
	page := live.Scrape(t, demo.Ops)
	families := parse(t, page)
	c, err := New(Options{Gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })})
	if err != nil {
		t.Fatal(err)
	}
	c.sampler.take()
	checkReadings(t, c.sampler, families)
	shown := map[string]string{}
	for _, g := range c.sampler.totals {
		for _, row := range g.Rows {
			shown[row.Series] = row.Value
		}
	}
	compare(t, string(page), shown)
	if w := ask(c, request()); w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte("inquiry_gateway_build_info")) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func parse(t *testing.T, page []byte) []*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var list []*dto.MetricFamily
	for _, f := range byName {
		list = append(list, f)
	}
	return list
}

// checkReadings holds that each reading finds at least one series.
func checkReadings(t *testing.T, s *sampler, families []*dto.MetricFamily) {
	t.Helper()
	// Not before the first of their kind happens.
	late := []string{"redis.timeout", "redis.error", "redis.skipped", "redis.canceled", "answers.3", "answers.4"}
	for _, r := range slices.Concat(s.schema.counters, s.schema.gauges, s.schema.histograms) {
		if !slices.Contains(late, r.name) && !exists(r, families) {
			t.Errorf("%s: no series of %s%s with %v", r.name, prefix, r.family, r.labels)
		}
	}
}

func exists(r reading, families []*dto.MetricFamily) bool {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == prefix+r.family && r.matches(labels) {
				return true
			}
		}
	}
	return false
}
