package cache

import (
	"slices"

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

// How lists are marked as changed, and results of reading a stream of that, as labels.
const (
	hintSoft      = "soft"
	hintHard      = "hard"
	streamApplied = "applied"
	streamRefused = "refused"
	streamFailed  = "failed"
	streamUnread  = "unread"
	streamLost    = "lost"
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
	hints    *prometheus.CounterVec
	stream   *prometheus.CounterVec
	dropped  prometheus.Counter
	ahead    prometheus.Counter
	derived  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	var all []prometheus.Collector
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: "cache", Name: name, Help: help}, labels)
		all = append(all, c)
		return c
	}
	histogram := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		o := prometheus.HistogramOpts{Namespace: namespace, Subsystem: "cache", Name: name, Help: help, Buckets: buckets}
		h := prometheus.NewHistogramVec(o, []string{"kind"})
		all = append(all, h)
		return h
	}
	m := &metrics{
		fills:    counter("fills_total", "Fills by result.", "kind", "result"),
		refused:  counter("refused_entries_total", "Stored entries that were refused and filled again.", "tier", "reason"),
		unstored: counter("unstored_total", "Filled lists that a tier did not take.", "reason"),
		derived: counter("derived_total",
			"Lists made in the process without asking anybody: selected from another list, or empty because no record can have the filter values.",
			"kind", "result"),
		purges: counter("purges_total", "Purges that were begun on this node.").WithLabelValues(),
		hints:  counter("hints_total", "Accounts and kinds whose lists this node has marked as changed, by how: soft or hard.", "how"),
		stream: counter("hint_stream_total",
			"Entries of cache.hints.stream that this node has read, by result: applied, refused (not understood), or failed (Redis did not take the mark; tried again); unread counts failed reads, and lost streams that had vanished.",
			"result"),
		dropped: counter("hint_records_dropped_total", "Hints of records, told by other nodes, that this node did not look for: too many waited.").WithLabelValues(),
		ahead:   counter("refreshes_ahead_total", "Refreshes of fresh lists that were begun before their ttl ended.").WithLabelValues(),
	}
	lookups := counter("lookups_total", "Look-ups by outcome and by the tier that answered; tier is empty for a fill.", "kind", "outcome", "tier")
	// Ages end at the ttl, somewhere inside a bucket: narrow ones keep a percentile
	// from being taken for far more. A native histogram costs a hit 100 ns.
	ages := histogram("age_seconds", "Age of the lists that were served, counted from the legacy's answer.",
		.1, .5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 20, 25, 30, 35, 45, 60, 75, 90, 120, 180, 300, 600, 1200, 1800, 3600)
	duration := histogram("fill_duration_seconds", "Time that fills took, from the first request to the finished body.",
		.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)
	for k, kind := range kindNames {
		m.ages[k], m.duration[k] = ages.WithLabelValues(kind), duration.WithLabelValues(kind)
		for o, outcome := range outcomes {
			for t, tier := range tiers {
				m.lookups[k][o][t] = lookups.WithLabelValues(kind, string(outcome), tier)
			}
		}
	}
	m.startRare()
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// startRare makes the series of rare events, so that a rate sees the first of them.
func (m *metrics) startRare() {
	for _, kind := range kindNames {
		for _, result := range []string{derivedSelected, derivedImpossible, derivedFailed} {
			m.derived.WithLabelValues(kind, result)
		}
	}
	for _, how := range []string{hintSoft, hintHard} {
		m.hints.WithLabelValues(how)
	}
	for _, result := range []string{streamApplied, streamRefused, streamFailed, streamUnread, streamLost} {
		m.stream.WithLabelValues(result)
	}
	for _, reason := range []error{errForeign, errPurged, errMapping} {
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
	m.lookups[i][slices.Index(outcomes[:], r.Outcome)][slices.Index(tiers[:], r.Tier)].Inc()
	m.ages[i].Observe(r.Age.Seconds())
}

func (m *metrics) failed(i kindIndex) { m.lookups[i][len(outcomes)-1][0].Inc() }
