package cache

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/telemetry"
)

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
)

// Reasons for an entry that was not stored, as labels.
const (
	unstoredTooBig  = "too_big"
	unstoredNoStore = "no_store"
	unstoredPolicy  = "policy"  // of no use by the ttl and stale windows
	unstoredMapping = "mapping" // a reload changed it meanwhile
	unstoredPurged  = "purged"  // a purge came while it was filled
	unstoredBusy    = "redis_busy"
	unstoredRedis   = "redis_error"
)

// Modes of a purge, as labels.
const (
	purgeSoft = "soft"
	purgeHard = "hard"
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
	purges   *prometheus.CounterVec
	derived  *prometheus.CounterVec
	evicted  prometheus.Counter
}

// newMetrics makes the series, with those of rare events at zero.
func newMetrics(reg prometheus.Registerer) *metrics {
	all := telemetry.Series(reg, "cache")
	m := &metrics{
		fills:    all.Counters("fills_total", "Fetches of lists for the cache.", "kind", "result"),
		refused:  all.Counters("refused_entries_total", "Stored entries that were refused, and fetched again.", "tier", "reason"),
		unstored: all.Counters("unstored_total", "Fetched lists that were not stored.", "reason"),
		derived: all.Counters("derived_total",
			"Lists that needed no fetch: selected from another list, or empty because of the filter values.",
			"kind", "result"),
		evicted: all.Counter("evictions_total", "Lists evicted from the in-process tier."),
		purges:  all.Counters("purges_total", "Accounts and kinds purged at this node.", "mode"),
	}
	lookups := all.Counters("lookups_total", "Look-ups of lists; tier is empty after a fetch.", "kind", "outcome", "tier")
	// Ages end at the ttl, somewhere inside a bucket: narrow ones keep a percentile
	// from being taken for far more. A native histogram costs a hit 100 ns.
	ages := all.Histograms("age_seconds", "Age of the served lists since the legacy system's response.",
		[]float64{.1, .5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 20, 25, 30, 35, 45, 60, 75, 90, 120, 180, 300, 600, 1200, 1800, 3600}, "kind")
	duration := all.Histograms("fill_duration_seconds", "Duration of fetches of lists, with rendering.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "kind")
	for k, kind := range kindNames {
		m.ages[k], m.duration[k] = ages.WithLabelValues(kind), duration.WithLabelValues(kind)
		for o, outcome := range outcomes {
			for t, tier := range tiers {
				m.lookups[k][o][t] = lookups.WithLabelValues(kind, string(outcome), tier)
			}
		}
	}
	m.startRare()
	return m
}

// startRare makes the series of rare events, so that a rate sees the first of them.
func (m *metrics) startRare() {
	for _, kind := range kindNames {
		for _, result := range []string{derivedSelected, derivedImpossible} {
			m.derived.WithLabelValues(kind, result)
		}
	}
	for _, mode := range []string{purgeSoft, purgeHard} {
		m.purges.WithLabelValues(mode)
	}
	for _, reason := range []error{errForeign, errPurged} {
		m.refused.WithLabelValues(TierLocal, reason.Error())
	}
	for _, reason := range refusals() {
		m.refused.WithLabelValues(TierRedis, reason.Error())
	}
	for _, reason := range []string{unstoredTooBig, unstoredNoStore, unstoredPolicy, unstoredMapping, unstoredPurged, unstoredBusy, unstoredRedis} {
		m.unstored.WithLabelValues(reason)
	}
}

// served counts one look-up that has an entry.
func (m *metrics) served(i kindIndex, r Result) {
	m.lookups[i][slices.Index(outcomes[:], r.Outcome)][slices.Index(tiers[:], r.Tier)].Inc()
	m.ages[i].Observe(r.Age.Seconds())
}

func (m *metrics) failed(i kindIndex) { m.lookups[i][len(outcomes)-1][0].Inc() }
