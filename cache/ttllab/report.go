package ttllab

import (
	"time"

	"inquiry-gateway/cache"
)

// Report is what would have happened at other TTLs, as of To. It is a copy and
// belongs to the caller.
type Report struct {
	To    time.Time         `json:"to"`
	Kinds []KindReport      `json:"kinds"`
	Goals cache.GoalsConfig `json:"goals"`
	// Nodes is how many nodes the figures are about, this one included: those that
	// share their look-ups through Redis. The re-checked share is of this node alone.
	Nodes int `json:"nodes"`
	// LostLookups were too many to be shared, since the start; the figures lack them.
	LostLookups uint64      `json:"lost_lookups,omitempty"`
	Log         *LogSummary `json:"log,omitempty"` // of FromLog
}

// KindReport is the report of one kind.
type KindReport struct {
	Kind                 string  `json:"kind"`
	TTL                  float64 `json:"ttl_seconds"` // today's
	StaleWhileRevalidate float64 `json:"stale_while_revalidate_seconds"`
	// Observed is the time that the figures cover. Older parts count less: each
	// half-life halves them.
	Observed         float64 `json:"observed_seconds"`
	LookupsPerSecond float64 `json:"lookups_per_second"` // all, counted
	FillsPerSecond   float64 `json:"fills_per_second"`   // all of this node at today's TTL, counted
	// RechecksPerSecond are requests of the lab's own; they are part of each candidate's.
	RechecksPerSecond float64 `json:"rechecks_per_second"`
	WatchedKeys       int     `json:"watched_keys"`
	Keys              float64 `json:"keys"` // distinct ones, estimated

	Changes    Changes     `json:"changes"`
	Served     Served      `json:"served"`
	Candidates []Candidate `json:"candidates"` // ascending by TTL; empty before the first look-up
	// TTLChanges are the newest changes of the TTL, oldest first: what was predicted, and
	// what then happened.
	TTLChanges []TTLChange `json:"ttl_changes,omitempty"`
}

// Changes is how often lists change.
type Changes struct {
	// PerHour is the rate of a list as answers meet it: each list counts as often
	// as it is asked for.
	PerHour Estimate `json:"per_hour"`
	Looks   int      `json:"looks"`   // pairs of bodies compared, back to the 16th last change of each key
	Changes int      `json:"changes"` // of these: differing ones
}

// Served is what re-checks say about the answers that this node really gave.
type Served struct {
	Checks int `json:"checks"` // since the start
	// Outdated is the share of all answers with a list, those that waited for the
	// legacy included, that differed from what it said at that moment. Low and High
	// bound it with 95 % confidence: re-checks of one fill are taken for one.
	Outdated float64 `json:"outdated"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// OutdatedFor is how long those had differed, on average, in seconds, if
	// changes come at random within the time since the fill.
	OutdatedFor float64 `json:"outdated_for_seconds"`
}

// Candidate is what one TTL would have done.
type Candidate struct {
	TTL      float64  `json:"ttl_seconds"`
	HitRatio Estimate `json:"hit_ratio"`           // share of answers that did not wait for the legacy
	Upstream Estimate `json:"upstream_per_second"` // requests to the legacy, refreshes and re-checks included
	MeanAge  Estimate `json:"mean_age_seconds"`    // over all answers
	P99Age   float64  `json:"p99_age_seconds"`     // to within 1/64 of the largest possible age
	// Outdated is the chance that an answer differs from what the legacy would
	// say. Its error includes that of the kind's rate of change, not that of how
	// it differs from list to list. Null: no list was seen twice yet.
	Outdated   *Estimate `json:"outdated"`
	RedisBytes Estimate  `json:"redis_bytes"` // as of now, keys and Redis' own overhead included
	// Current marks the candidate nearest to today's TTL.
	Current bool `json:"current"`
	// KeepsGoals: by the estimate all goals are kept at this TTL, the other kinds staying
	// at theirs. Null without goals.
	KeepsGoals *bool `json:"keeps_goals,omitempty"`
	// Settled: at least four TTLs were observed. Before that the start, when
	// everything was a miss, still weighs.
	Settled bool `json:"settled"`
}
