package cache

import (
	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "inquiry_gateway"

// outcomeFailed labels a look-up that ended without an entry.
const outcomeFailed Outcome = "error"

// Results of a fill, as labels.
const (
	fillOK      = "ok"
	fillNoStore = "no_store"
	fillError   = "error"
	fillPanic   = "panic"
	fillSkipped = "skipped" // a background refresh over the limit
)

// Results of a derivation, as labels.
const (
	derivedSelected   = "selected"
	derivedImpossible = "impossible"
	derivedFailed     = "failed" // the list was asked for by its own key
)

// Reasons for an entry that was not stored, as labels.
const (
	unstoredTooBig  = "too_big"
	unstoredNoStore = "no_store"
	unstoredPolicy  = "policy"  // of no use by the ttl and stale windows
	unstoredMapping = "mapping" // a reload changed it meanwhile
	unstoredBusy    = "redis_busy"
	unstoredRedis   = "redis_error"
)

var (
	outcomes = [...]Outcome{Hit, Miss, Collapsed, StaleRevalidate, StaleError, outcomeFailed}
	tiers    = [...]string{"", TierLocal, TierRedis}
)

// metrics holds the series of the two tiers. Those of the hot path are resolved
// once.
type metrics struct {
	lookups  [kindCount][len(outcomes)][len(tiers)]prometheus.Counter
	ages     [kindCount]prometheus.Observer
	fills    *prometheus.CounterVec
	duration [kindCount]prometheus.Observer
	refused  *prometheus.CounterVec
	unstored *prometheus.CounterVec
	purges   prometheus.Counter
	derived  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: "cache", Name: "lookups_total",
		Help: "Look-ups by outcome and by the tier that answered; tier is empty for a fill.",
	}, []string{"kind", "outcome", "tier"})
	ages := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: "cache", Name: "age_seconds",
		Help: "Age of the lists that were served, counted from the legacy's answer.",
		// Ages end at the ttl, somewhere inside a bucket: narrow ones keep a percentile
		// from being taken for far more. A native histogram costs a hit 100 ns.
		Buckets: []float64{.1, .5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 20, 25, 30, 35, 45, 60, 75, 90, 120, 180, 300, 600, 1200, 1800, 3600},
	}, []string{"kind"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: "cache", Name: "fill_duration_seconds",
		Help:    "Time that fills took, from the first request to the finished body.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"kind"})
	m := &metrics{
		fills: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "cache", Name: "fills_total", Help: "Fills by result.",
		}, []string{"kind", "result"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "cache", Name: "refused_entries_total",
			Help: "Stored entries that were refused and filled again.",
		}, []string{"tier", "reason"}),
		unstored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "cache", Name: "unstored_total",
			Help: "Filled lists that a tier did not take.",
		}, []string{"reason"}),
		derived: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "cache", Name: "derived_total",
			Help: "Lists made in the process without asking anybody: selected from another list, or empty because no record can have the filter values.",
		}, []string{"kind", "result"}),
		purges: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "cache", Name: "purges_total", Help: "Purges that were begun on this node.",
		}),
	}
	for _, c := range []prometheus.Collector{lookups, ages, duration, m.fills, m.refused, m.unstored, m.purges, m.derived} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.begin()
	for k, kind := range kindNames {
		for _, result := range []string{derivedSelected, derivedImpossible, derivedFailed} {
			m.derived.WithLabelValues(kind, result)
		}
		m.ages[k] = ages.WithLabelValues(kind)
		m.duration[k] = duration.WithLabelValues(kind)
		for o, outcome := range outcomes {
			for t, tier := range tiers {
				m.lookups[k][o][t] = lookups.WithLabelValues(kind, string(outcome), tier)
			}
		}
	}
	return m, nil
}

// begin makes the series of rare events, so that a rate sees the first of them.
func (m *metrics) begin() {
	for _, reason := range []error{errForeign, errPurged} {
		m.refused.WithLabelValues(TierLocal, reason.Error())
	}
	for _, reason := range refusals() {
		m.refused.WithLabelValues(TierRedis, reason.Error())
	}
	for _, reason := range []string{unstoredTooBig, unstoredNoStore, unstoredPolicy, unstoredMapping, unstoredBusy, unstoredRedis} {
		m.unstored.WithLabelValues(reason)
	}
}

// served counts one look-up that has an entry.
func (m *metrics) served(i kindIndex, r Result) {
	m.lookups[i][outcomeIndex(r.Outcome)][tierIndex(r.Tier)].Inc()
	m.ages[i].Observe(r.Age.Seconds())
}

func (m *metrics) failed(i kindIndex) { m.lookups[i][outcomeIndex(outcomeFailed)][0].Inc() }

func outcomeIndex(o Outcome) int {
	for i := range outcomes {
		if outcomes[i] == o {
			return i
		}
	}
	return len(outcomes) - 1
}

func tierIndex(t string) int {
	for i := range tiers {
		if tiers[i] == t {
			return i
		}
	}
	return 0
}
