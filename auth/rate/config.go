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

// Limit is a limit as it is applied. The zero Limit is no limit.
type Limit struct {
	Policy    string  // the plan's name, or DefaultPolicy
	PerSecond float64 // how fast tokens come back
	Burst     int     // how many there are at most
}

// Window is the time in which Burst tokens come back.
func (l Limit) Window() time.Duration {
	if l.PerSecond == 0 {
		return 0
	}
	return time.Duration(float64(l.Burst) / l.PerSecond * float64(time.Second))
}

// every is the time in which one token comes back.
func (l Limit) every() time.Duration { return time.Duration(float64(time.Second) / l.PerSecond) }

// capacity is the bucket in terms of time.
func (l Limit) capacity() time.Duration { return time.Duration(l.Burst) * l.every() }

// limit works out what a plan means.
func (l Plan) limit(policy string) Limit {
	if l.PerSecond == 0 {
		return Limit{}
	}
	return Limit{Policy: policy, PerSecond: l.PerSecond, Burst: l.EffectiveBurst()}
}

// limits are the limits of a configuration by plan; "" is everybody else's. They never change.
type limits map[string]Limit

// newLimits works out each plan once, as Allow asks for one with each request.
func newLimits(c Config) limits {
	l := limits{"": c.Plan.limit(DefaultPolicy)}
	for name, p := range c.Plans {
		l[name] = p.limit(name)
	}
	return l
}

// forPlan is the limit of a plan. An account on a plan that has no entry gets the default.
func (l limits) forPlan(plan string) Limit {
	if limit, ok := l[plan]; ok {
		return limit
	}
	return l[""]
}
