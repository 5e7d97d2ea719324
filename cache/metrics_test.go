package cache

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A rate over a series sees its first event only if the series was there before.
func TestRareSeriesBeginAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	newMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{ // each reason of Redis, and three for the process
		"inquiry_gateway_cache_refused_entries_total": len(refusals()) + 3,
		"inquiry_gateway_cache_unstored_total":        7,
	}
	for _, f := range families {
		if n, ok := want[f.GetName()]; ok && len(f.GetMetric()) != n {
			t.Errorf("%s has %d series, want %d", f.GetName(), len(f.GetMetric()), n)
		}
		for _, m := range f.GetMetric() {
			if m.GetCounter().GetValue() != 0 {
				t.Errorf("%s begins at %v", f.GetName(), m.GetCounter().GetValue())
			}
		}
		delete(want, f.GetName())
	}
	for name := range want {
		t.Errorf("%s is not there", name)
	}
}
