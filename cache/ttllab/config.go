package ttllab

import (
	"time"

	"inquiry-gateway/internal/invalid"
)

const (
	maxBudget = 1000 // re-checks per second; more is no sample any longer
	maxLate   = 100_000
	minTTL    = 100 * time.Millisecond
	maxTTL    = 24 * time.Hour
)

// Config is the part of the `cache:` section that belongs to the lab. Its zero
// value is usable: no re-checks, no goals, no plan.
type Config struct {
	Recheck RecheckConfig `yaml:"recheck"`
	Goals   GoalsConfig   `yaml:"goals"`
}

// RecheckConfig bounds what the lab may ask of the legacy for its own sake.
type RecheckConfig struct {
	// BudgetPerSecond is how many cached lists per second, over all kinds, may be
	// compared with the legacy. 0 turns re-checks off.
	BudgetPerSecond float64 `yaml:"budget_per_second"`
}

// What is done about the goals.
const (
	ModeAdvise = "advise"
	ModeKeep   = "keep"
)

// GoalsConfig is what the advice and the plan aim at. Zero: no such goal.
type GoalsConfig struct {
	// MaxUpstreamPerSecond is the most requests per second that the legacy shall
	// get for all kinds together.
	MaxUpstreamPerSecond float64 `yaml:"max_upstream_per_second" json:"max_upstream_per_second"`
	// MaxOutdated is the largest share of answers, 0 to 1, that may differ from
	// what the legacy would say at that moment.
	MaxOutdated float64 `yaml:"max_outdated" json:"max_outdated"`
	// LateAfter and MaxLatePerMillion are a promise: of a million answers at most so many
	// show a list that had changed longer ago than late_after. It is measured by the
	// re-checks, which it needs. 0: there is none.
	LateAfter time.Duration `yaml:"late_after" json:"-"`
	// MaxLatePerMillion is how many of a million answers may be late, up to 100000: one nine.
	MaxLatePerMillion float64 `yaml:"max_late_per_million" json:"max_late_per_million,omitempty"`
	// Mode keep gives each list that is asked for often a ttl of its own, and all others
	// one together: within max_upstream_per_second the fewest answers are outdated, and
	// with max_outdated no more requests are made than this takes. advise shows what keep
	// would do. A ttl of 0 stays.
	Mode string `yaml:"mode" json:"mode,omitempty" enum:",advise,keep"`
	// MinTTL is the shortest ttl that keep chooses.
	MinTTL time.Duration `yaml:"min_ttl" json:"-"`
	// MaxTTL is the longest one.
	MaxTTL time.Duration `yaml:"max_ttl" json:"-"`
}

// none tells that nothing is aimed at.
func (g GoalsConfig) none() bool {
	return g.MaxUpstreamPerSecond == 0 && g.MaxOutdated == 0 || g.MaxTTL == 0
}

// DefaultConfig has no goal and no re-checks.
func DefaultConfig() Config {
	return Config{Goals: GoalsConfig{Mode: ModeAdvise, MinTTL: time.Second, MaxTTL: 10 * time.Minute}}
}

// Validate returns all problems joined; each has a method Field() string with
// the path of the key inside the `cache:` section.
func (c Config) Validate() error {
	var p invalid.Problems
	for _, v := range []struct {
		field      string
		value, max float64
		what       string
	}{
		{"recheck.budget_per_second", c.Recheck.BudgetPerSecond, maxBudget, "re-checks per second; 0 turns them off"},
		{"goals.max_upstream_per_second", c.Goals.MaxUpstreamPerSecond, 1e9, "requests per second; leave it out for no goal"},
		{"goals.max_outdated", c.Goals.MaxOutdated, 1, "a share of answers, such as 0.01; leave it out for no goal"},
	} {
		// Written this way NaN is refused, too.
		p.AddIf(!(v.value >= 0 && v.value <= v.max), v.field, "must be between 0 and %g: %s", v.max, v.what)
	}
	switch g := c.Goals; {
	case g.LateAfter < 0 || g.LateAfter > maxTTL:
		p.Add("goals.late_after", "must be between 0 and 24h")
	case !(g.MaxLatePerMillion >= 0 && g.MaxLatePerMillion <= maxLate):
		p.Add("goals.max_late_per_million", "must be between 0 and %d", maxLate)
	case (g.LateAfter > 0) != (g.MaxLatePerMillion > 0):
		p.Add("goals.late_after", "needs max_late_per_million, and that needs late_after")
	case g.LateAfter > 0 && c.Recheck.BudgetPerSecond == 0:
		p.Add("goals.late_after", "is measured by re-checks: set recheck.budget_per_second, too")
	}
	p.Enums("goals", c.Goals)
	switch g := c.Goals; {
	case g.MaxTTL < 0 || g.MaxTTL > maxTTL:
		p.Add("goals.max_ttl", "must be between goals.min_ttl and 24h")
	case g.MinTTL > g.MaxTTL || g.MinTTL < min(minTTL, g.MaxTTL):
		p.Add("goals.min_ttl", "must be between 100ms and goals.max_ttl")
	case g.Mode == ModeKeep && g.none():
		p.Add("goals.mode", "keep needs max_upstream_per_second or max_outdated")
	}
	return p.Err()
}
