package ttllab

import "inquiry-gateway/internal/invalid"

const (
	maxBudget = 1000 // re-checks per second; more is no sample any longer
)

// Config is the part of the `cache:` section that belongs to the lab. Its zero
// value is usable: no re-checks, no goals.
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

// GoalsConfig marks the ttls in the report that keep it. Zero: no such goal.
type GoalsConfig struct {
	// MaxUpstreamPerSecond is the most requests per second that the legacy shall
	// get for all kinds together.
	MaxUpstreamPerSecond float64 `yaml:"max_upstream_per_second" json:"max_upstream_per_second"`
	// MaxOutdated is the largest share of answers, 0 to 1, that may differ from
	// what the legacy would say at that moment.
	MaxOutdated float64 `yaml:"max_outdated" json:"max_outdated"`
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
	return p.Err()
}
