package upstream

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"inquiry-gateway/upstream/drift"
)

// metrics are the series of one endpoint, with their label values resolved.
type metrics struct {
	requests    map[string]prometheus.Counter // by result
	refused     map[string]prometheus.Counter // by reason
	retries     map[string]prometheus.Counter // by reason
	invalid     map[string]prometheus.Counter // by field
	removed     map[string]prometheus.Counter // by field
	drift       map[string]prometheus.Counter // by change
	duration    prometheus.Observer
	state       prometheus.Gauge
	transitions map[gobreaker.State]prometheus.Counter
	foreign     prometheus.Counter
}

// series are the vectors that both endpoints share.
type series struct {
	requests, refused, retries, invalid, removed, transitions, foreign, drift *prometheus.CounterVec
	duration                                                                  *prometheus.HistogramVec
	state                                                                     *prometheus.GaugeVec
	inFlight                                                                  prometheus.Gauge
}

const namespace, subsystem = "inquiry_gateway", "upstream"

// newSeries makes the vectors and registers them.
func newSeries(reg prometheus.Registerer) (*series, error) {
	var errs []error
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
		return register(reg, prometheus.NewCounterVec(opts, append([]string{"kind"}, labels...)), &errs)
	}
	s := &series{
		requests:    counter("requests_total", "Fetches from the legacy system by result.", "result"),
		refused:     counter("refused_total", "Fetches that were not made, by the reason: the breaker is open, or all places, or the account's, are taken.", "reason"),
		retries:     counter("retries_total", "Repeated requests to the legacy system by the reason of the repeat.", "reason"),
		invalid:     counter("records_invalid_total", "Legacy records that the mapping refused, by field.", "field"),
		removed:     counter("internal_ids_removed_total", "Internal ids that were cut out of texts, by field.", "field"),
		transitions: counter("breaker_transitions_total", "Changes of the circuit breaker by the state entered.", "to"),
		foreign:     counter("foreign_records_total", "Legacy records of another account than the one asked for."),
		drift:       counter("drift_total", "Paths in the legacy's records that appeared, disappeared or changed their type.", "change"),
		duration: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "request_duration_seconds",
			Help:                        "Time of a fetch from the legacy system, mapping included.",
			Buckets:                     prometheus.ExponentialBuckets(0.001, 2, 14),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"kind"}), &errs),
		state: register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "breaker_state", Help: "Circuit breaker: 0 closed, 1 half-open, 2 open.",
		}, []string{"kind"}), &errs),
		inFlight: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "in_flight", Help: "Fetches from the legacy system that are under way.",
		}), &errs),
	}
	return s, errors.Join(errs...)
}

// register makes a series known and returns it. If it is already, by a client made
// before from another version of the configuration, that one is counted on.
func register[C prometheus.Collector](reg prometheus.Registerer, c C, errs *[]error) C {
	err := reg.Register(c)
	var known prometheus.AlreadyRegisteredError
	if errors.As(err, &known) {
		if old, ok := known.ExistingCollector.(C); ok {
			return old
		}
	}
	if err != nil {
		*errs = append(*errs, fmt.Errorf("upstream: register metrics: %w", err))
	}
	return c
}

// of resolves the label values of one kind, so that all series exist from the
// start and counting needs no look-up by label.
func (s *series) of(kind string, fields []string) *metrics {
	children := func(v *prometheus.CounterVec, values ...string) map[string]prometheus.Counter {
		m := make(map[string]prometheus.Counter, len(values))
		for _, value := range values {
			m[value] = v.WithLabelValues(kind, value)
		}
		return m
	}
	m := &metrics{
		requests: children(s.requests, "ok", string(FailureTimeout), string(FailureUnavailable),
			string(FailureUpstream), string(FailureInvalid), string(FailureCanceled)),
		refused:     children(s.refused, reasonBreaker, reasonFleet, reasonFull, reasonAccountFull),
		retries:     children(s.retries, "connect", "status_502", "status_503"),
		invalid:     children(s.invalid, fields...),
		removed:     children(s.removed, fields...),
		drift:       children(s.drift, drift.Appeared, drift.Disappeared, drift.Type),
		duration:    s.duration.WithLabelValues(kind),
		state:       s.state.WithLabelValues(kind),
		foreign:     s.foreign.WithLabelValues(kind),
		transitions: map[gobreaker.State]prometheus.Counter{},
	}
	for _, state := range []gobreaker.State{gobreaker.StateClosed, gobreaker.StateHalfOpen, gobreaker.StateOpen} {
		m.transitions[state] = s.transitions.WithLabelValues(kind, state.String())
	}
	return m
}
