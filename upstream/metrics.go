package upstream

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"inquiry-gateway/upstream/drift"
)

const namespace, subsystem = "inquiry_gateway", "upstream"

// resultNotModified is the result of a fetch that the legacy answered with 304.
const resultNotModified = "not_modified"

// metrics are the series of one endpoint. The values of their labels are resolved,
// so that all series exist from the start and counting needs no look-up.
type metrics struct {
	requests    map[string]prometheus.Counter // by result
	refused     map[string]prometheus.Counter // by reason
	retries     map[string]prometheus.Counter // by reason
	invalid     map[string]prometheus.Counter // by field
	removed     map[string]prometheus.Counter // by field
	drift       map[string]prometheus.Counter // by change
	transitions map[string]prometheus.Counter // by state
	foreign     prometheus.Counter
	missing     prometheus.Counter
	duration    prometheus.Observer
	state       prometheus.Gauge
	inFlight    prometheus.Gauge // of both endpoints
}

// newMetrics registers the series of a kind. fields are those that a mapping may
// refuse or clean.
func newMetrics(reg prometheus.Registerer, kind string, fields []string) (*metrics, error) {
	var errs []error
	counters := func(name, help, label string, values ...string) map[string]prometheus.Counter {
		opts := prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
		vector := register(reg, prometheus.NewCounterVec(opts, []string{"kind", label}), &errs)
		resolved := make(map[string]prometheus.Counter, len(values))
		for _, value := range values {
			resolved[value] = vector.WithLabelValues(kind, value)
		}
		return resolved
	}
	m := &metrics{
		requests: counters("requests_total", "Fetches from the legacy system by result; not_modified: by a 304, the list that was there is renewed.",
			"result", "ok", resultNotModified, string(FailureTimeout),
			string(FailureUnavailable), string(FailureUpstream), string(FailureInvalid), string(FailureCanceled)),
		refused: counters("refused_total", "Fetches that were not made, by the reason: the breaker is open, all places, or the account's, are taken, the legacy has told us to wait, or the fleet's ceiling is reached.",
			"reason", reasonBreaker, reasonFleet, reasonFull, reasonAccountFull, reasonHeld, reasonCeiling),
		retries: counters("retries_total", "Repeated requests to the legacy system by the reason of the repeat.",
			"reason", "connect", "status_502", "status_503", reasonThrottled),
		invalid: counters("records_invalid_total", "Legacy records that the mapping refused, by field.", "field", fields...),
		removed: counters("internal_ids_removed_total", "Internal ids that were cut out of texts, by field.", "field", fields...),
		drift: counters("drift_total", "Paths in the legacy's records that appeared, disappeared or changed their type.",
			"change", drift.Appeared, drift.Disappeared, drift.Type),
		transitions: counters("breaker_transitions_total", "Changes of the circuit breaker by the state entered.",
			"to", gobreaker.StateClosed.String(), gobreaker.StateHalfOpen.String(), gobreaker.StateOpen.String()),
		foreign: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "foreign_records_total",
			Help: "Legacy records of another account than the one asked for.",
		}, []string{"kind"}), &errs).WithLabelValues(kind),
		missing: register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "paths_missing_total",
			Help: "Paths of always_present that a record of a list did not have, once per list and path.",
		}, []string{"kind"}), &errs).WithLabelValues(kind),
		duration: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "request_duration_seconds",
			Help:                        "Time of a fetch from the legacy system, mapping included.",
			Buckets:                     prometheus.ExponentialBuckets(0.001, 2, 14),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"kind"}), &errs).WithLabelValues(kind),
		state: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "breaker_state", Help: "Circuit breaker: 0 closed, 1 half-open, 2 open.",
		}, []string{"kind"}), &errs).WithLabelValues(kind),
		inFlight: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "in_flight", Help: "Fetches from the legacy system that are under way.",
		}), &errs),
	}
	return m, errors.Join(errs...)
}

// register makes a collector known and returns it. If one of its name is already,
// for the other kind or from a client made before, that one is counted on.
func register[C prometheus.Collector](reg prometheus.Registerer, c C, errs *[]error) C {
	err := reg.Register(c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if old, ok := known.ExistingCollector.(C); ok {
			return old
		}
	}
	if err != nil {
		*errs = append(*errs, fmt.Errorf("upstream: register metrics: %w", err))
	}
	return c
}
