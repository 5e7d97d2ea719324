package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"inquiry-gateway/internal/series"
)

const subsystem = "upstream"

// metrics are the series of one endpoint. The values of their labels are resolved,
// so that all series exist from the start and counting needs no look-up.
type metrics struct {
	requests    map[string]prometheus.Counter // by result
	refused     map[string]prometheus.Counter // by reason
	retries     map[string]prometheus.Counter // by reason
	invalid     map[string]prometheus.Counter // by field
	removed     map[string]prometheus.Counter // by field
	defaulted   map[string]prometheus.Counter // by field
	transitions map[string]prometheus.Counter // by state
	foreign     prometheus.Counter
	hidden      prometheus.Counter
	duration    prometheus.Observer
	state       prometheus.Gauge
	inFlight    prometheus.Gauge // of both endpoints
}

// newMetrics makes the series of a kind. fields are those that a mapping may refuse or
// clean.
func newMetrics(reg prometheus.Registerer, kind string, fields []string) *metrics {
	all := series.In(reg, subsystem)
	counters := func(name, help, label string, values ...string) map[string]prometheus.Counter {
		return series.By(all.Counters(name, help, "kind", label).MustCurryWith(prometheus.Labels{"kind": kind}), values...)
	}
	return &metrics{
		requests: counters("requests_total", "Fetches from the legacy system by result.",
			"result", "ok", string(FailureTimeout),
			string(FailureUnavailable), string(FailureUpstream), string(FailureInvalid), string(FailureCanceled)),
		refused: counters("refused_total", "Fetches that were not made, by the reason: the breaker is open, all places, or the account's, are taken, the legacy has told us to wait, or the fleet's ceiling is reached.",
			"reason", reasonBreaker, reasonFull, reasonAccountFull, reasonHeld, reasonCeiling),
		retries: counters("retries_total", "Repeated requests to the legacy system by the reason of the repeat.",
			"reason", "connect", "status_502", "status_503", reasonThrottled),
		invalid:   counters("records_invalid_total", "Legacy records that the mapping refused, by field.", "field", fields...),
		removed:   counters("internal_ids_removed_total", "Internal ids that were cut out of texts, by field.", "field", fields...),
		defaulted: counters("defaulted_total", "Fields of legacy records with nothing, or null, at their paths: the default was taken, or null. A jump tells that a path has vanished.", "field", fields...),
		transitions: counters("breaker_transitions_total", "Changes of the circuit breaker by the state entered.",
			"to", gobreaker.StateClosed.String(), gobreaker.StateHalfOpen.String(), gobreaker.StateOpen.String()),
		hidden:  all.Counters("hidden_records_total", "Legacy records that the mapping's where does not show.", "kind").WithLabelValues(kind),
		foreign: all.Counters("foreign_records_total", "Legacy records of another account than the one asked for.", "kind").WithLabelValues(kind),
		duration: all.NativeHistograms("request_duration_seconds", "Time of a fetch from the legacy system, mapping included.",
			prometheus.ExponentialBuckets(0.001, 2, 14), "kind").WithLabelValues(kind),
		state:    all.Gauges("breaker_state", "Circuit breaker: 0 closed, 1 half-open, 2 open.", "kind").WithLabelValues(kind),
		inFlight: all.Gauge("in_flight", "Fetches from the legacy system that are under way."),
	}
}
