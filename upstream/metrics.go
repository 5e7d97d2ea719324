package upstream

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
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
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
		}, labels)
	}
	s := &series{
		requests:    counter("requests_total", "Fetches from the legacy system by result.", "kind", "result"),
		refused:     counter("refused_total", "Fetches that were not made, by the reason: the breaker is open, or all places, or the account's, are taken.", "kind", "reason"),
		retries:     counter("retries_total", "Repeated requests to the legacy system by the reason of the repeat.", "kind", "reason"),
		invalid:     counter("records_invalid_total", "Legacy records that the mapping refused, by field.", "kind", "field"),
		removed:     counter("internal_ids_removed_total", "Internal ids that were cut out of texts, by field.", "kind", "field"),
		transitions: counter("breaker_transitions_total", "Changes of the circuit breaker by the state entered.", "kind", "to"),
		foreign:     counter("foreign_records_total", "Legacy records of another account than the one asked for.", "kind"),
		drift:       counter("drift_total", "Paths in the legacy's records that appeared, disappeared or changed their type.", "kind", "change"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "request_duration_seconds",
			Help:                        "Time of a fetch from the legacy system, mapping included.",
			Buckets:                     prometheus.ExponentialBuckets(0.001, 2, 14),
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		}, []string{"kind"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "breaker_state",
			Help: "Circuit breaker: 0 closed, 1 half-open, 2 open.",
		}, []string{"kind"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "in_flight",
			Help: "Fetches from the legacy system that are under way.",
		}),
	}
	err := errors.Join(
		register(reg, &s.requests), register(reg, &s.refused), register(reg, &s.retries), register(reg, &s.invalid), register(reg, &s.removed),
		register(reg, &s.transitions), register(reg, &s.foreign), register(reg, &s.drift),
		register(reg, &s.duration), register(reg, &s.state), register(reg, &s.inFlight),
	)
	return s, err
}

// register makes a series known. If it is already, by a client made before from
// another version of the configuration, that one is counted on.
func register[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	var known prometheus.AlreadyRegisteredError
	if !errors.As(err, &known) {
		return err
	}
	old, ok := known.ExistingCollector.(C)
	if !ok {
		return fmt.Errorf("upstream: register metrics: %w", err)
	}
	*c = old
	return nil
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
		drift:       children(s.drift, driftAppeared, driftDisappeared, driftType),
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

// fieldNames are the label values of the series by field.
func (p *endpointPlan) fieldNames() []string {
	names := []string{"record", p.created.name}
	texts := []*textPlan{p.title, p.content, p.status, p.inquiryType, p.company}
	if r := p.responses; r != nil {
		texts = append(texts, r.content, r.role)
		names = append(names, "responses", r.created.name)
	}
	for _, t := range texts {
		if t != nil {
			names = append(names, t.name)
		}
	}
	return names
}
