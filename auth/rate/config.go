package rate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
)

// Config is the `rate_limit:` section: the limit of an account, and those of accounts on a
// plan. An account whose plan has no entry has the limit of the section itself.
type Config struct {
	Plan `yaml:",inline"`
	// Plans are the limits of accounts on a plan, by its name in the key store, in printable ASCII.
	Plans map[string]Plan `yaml:"plans"`
}

// Plan is a limit of those whom its section names.
type Plan struct {
	// PerSecond is the number of requests per second in the long run.
	PerSecond float64 `yaml:"per_second" min:"0.001" max:"1000000" zero:"no limit"`
	// Burst is the number of requests that may come at once. 0: those of one second.
	Burst int `yaml:"burst" min:"0" max:"1000000"`
}

// EffectiveBurst is how many may come at once.
func (l Plan) EffectiveBurst() int { return cmp.Or(l.Burst, int(math.Ceil(l.PerSecond))) }

// Validate reports bursts without a rate, and plans whose name no answer can say, as [setting.Problems]. That each value keeps the bounds of
// its tag is for the reader of the file to check.
func (c Config) Validate() error {
	var p setting.Problems
	c.Plan.validate(&p, "")
	for _, name := range slices.Sorted(maps.Keys(c.Plans)) {
		nonPrintable := func(r rune) bool { return r < ' ' || r > '~' }
		p.AddIf(name == "" || strings.ContainsFunc(name, nonPrintable), "plans."+name,
			"answers say the name in RateLimit-Policy, which takes printable ASCII only; rename the plan")
		c.Plans[name].validate(&p, "plans."+name+".")
	}
	return p.Err()
}

func (l Plan) validate(p *setting.Problems, path string) {
	p.AddIf(l.PerSecond == 0 && l.Burst > 0, path+"burst", "has no meaning without per_second: set per_second, or leave burst out")
}

// DefaultPolicy is the name of the limit of accounts without a plan of their own.
const DefaultPolicy = "default"

// limit is a limit as it is applied. The zero limit is no limit.
type limit struct {
	policy    string // the plan's name, or DefaultPolicy
	perSecond float64
	burst     int
	every     time.Duration // in which one token comes back
	capacity  time.Duration // of the bucket: burst times every
	window    time.Duration // in which all tokens come back
}

// newLimits computes the limits by plan; "" is everybody else's. They never change.
func newLimits(c Config) map[string]limit {
	all := map[string]limit{"": newLimit(DefaultPolicy, c.Plan)}
	for name, p := range c.Plans {
		all[name] = newLimit(name, p)
	}
	return all
}

func newLimit(policy string, p Plan) limit {
	if p.PerSecond == 0 {
		return limit{}
	}
	burst, every := p.EffectiveBurst(), time.Duration(float64(time.Second)/p.PerSecond)
	window := time.Duration(float64(burst) / p.PerSecond * float64(time.Second))
	return limit{policy, p.PerSecond, burst, every, time.Duration(burst) * every, window}
}
