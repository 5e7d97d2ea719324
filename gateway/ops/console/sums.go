package console

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

const prefix = "inquiry_gateway_"

// selected are the families that the page's charts and the conditions are made from, with the
// labels that are told apart, in order; over the others is summed. A test compares them
// with the series of the running program.
var selected = map[string][]string{
	"cache_lookups_total": {"kind", "outcome"}, "cache_age_seconds": {"kind"},
	"http_requests_total": {"code", "error"}, "http_request_duration_seconds": nil, "panics_total": {"where"},
	"upstream_requests_total": {"kind", "result"}, "upstream_request_duration_seconds": {"kind"}, "upstream_breaker_state": {"kind"},
	"upstream_foreign_records_total": {"kind"}, "upstream_records_invalid_total": {"kind"},
	"redis_operations_total": {"result"}, "redis_breaker_state": nil,
	"auth_requests_total": {"result"}, "auth_lookups_total": {"result"}, "rate_limit_decisions_total": {"result"},
}

// sums are the selected series, by family without the prefix and by the values of its
// labels, joined by a blank. They are not changed once they are made.
type sums map[string]map[string]*sum

// sum is a counter or a gauge; or with bounds a classic histogram: how many observations
// were at most each bound. The value is that of all observations then.
type sum struct {
	Value  float64   `json:"v"`
	Bounds []float64 `json:"le,omitempty"`
	Counts []float64 `json:"n,omitempty"`
}

// collect reads the metrics.
func collect(from prometheus.Gatherer) (sums, error) {
	families, err := from.Gather()
	all := sums{}
	for name := range selected {
		all[name] = map[string]*sum{}
	}
	for _, family := range families {
		name, _ := strings.CutPrefix(family.GetName(), prefix)
		labels, ok := selected[name]
		if !ok {
			continue
		}
		for _, m := range family.GetMetric() {
			values := make([]string, len(labels))
			for i, label := range labels {
				for _, pair := range m.GetLabel() {
					if pair.GetName() == label {
						values[i] = pair.GetValue()
					}
				}
			}
			key := strings.Join(values, " ")
			s := all[name][key]
			if s == nil {
				s = &sum{}
				all[name][key] = s
			}
			h := m.GetHistogram()
			// One of the three is there. All series of a family have one type and the same bounds.
			s.Value += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(h.GetSampleCount())
			for i, b := range h.GetBucket() {
				if i == len(s.Bounds) {
					s.Bounds, s.Counts = append(s.Bounds, b.GetUpperBound()), append(s.Counts, 0)
				}
				s.Counts[i] += float64(b.GetCumulativeCount())
			}
		}
	}
	return all, err
}

// increase is by how much each series of a family has grown. Those that have not are left out.
func (w window) increase(family string) map[string]float64 {
	more := map[string]float64{}
	for key, now := range w.now[family] {
		n := now.Value
		if old, ok := w.before[family][key]; ok && old.Value <= n {
			n -= old.Value
		}
		if n > 0 {
			more[key] = n
		}
	}
	return more
}

// eachResponse calls f with the responses of the last minute, by status and public error code.
func (w window) eachResponse(f func(status, code string, n float64)) {
	for key, n := range w.increase("http_requests_total") {
		status, code, _ := strings.Cut(key, " ")
		f(status, code, n)
	}
}
