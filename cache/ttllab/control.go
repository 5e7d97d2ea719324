package ttllab

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
)

const (
	// controlEvery is how often the plan follows the traffic.
	controlEvery = 10 * time.Second
	// aimedLoad is the share of the budget that is planned for; chance takes the rest.
	aimedLoad = 0.95
	// aimedOutdated is the share of max_outdated that is planned for: the plan prefers the
	// lists whose rates happen to be taken for too low.
	aimedOutdated = 0.9
	// What is measured is remembered for these half-lives.
	rememberAsked = 2 * time.Minute  // how often each list is looked up
	rememberTotal = 20 * time.Second // how often all are, which needs less time to be known
	rememberLoad  = 40 * time.Second // by how much the load differs from the expected one
	// newestChanges of a list tell how often it changes now.
	newestChanges = 8
	// A TTL stays where a new one differs by less than this share, and goes half of the
	// way to a shorter one: estimates scatter, and each change costs requests. It goes to
	// a longer one at once, as too much load may be the reason.
	deadBand = 0.1
	// Before so many look-ups, and looks for changes, the configured TTLs stay.
	leastLookups = 200
	leastLooks   = 20
	// The measured load is taken to be at least and at most so many times the expected one.
	leastRatio, mostRatio = 0.5, 4
)

// Group is a group of lists that has a TTL of its own, as the plan knows it.
type Group uint64

// GroupOf is the group with this name, that of a Kind.
func GroupOf(name string) Group { return Group(xxh3.HashString(name)) }

// ttls are those of a plan: by list, under the group's own number that of its other
// lists, and under 0 the shortest of all. They are immutable.
type ttls map[uint64]time.Duration

// TTL is what the plan that is kept has for a list, which is named as in Answer. Without
// one it is the configured one. Group 0, any, gets the shortest of all. TTL takes no lock
// and allocates nothing.
func (l *Lab) TTL(g Group, list uint64, configured time.Duration) time.Duration {
	if l == nil {
		return configured
	}
	kept := l.current.Load().kept.Load()
	if kept == nil {
		return configured
	}
	return kept.of(g, mix(list))
}

// of is the TTL of a list of a group, by its hash.
func (t ttls) of(g Group, hash uint64) time.Duration {
	if ttl, ok := t[uint64(g)^hash]; ok {
		return ttl
	}
	return t[uint64(g)]
}

// Plan puts TTLs in force until the next plan is made: those of some lists of a group that
// are above 0, and that of its other lists.
func (l *Lab) Plan(lists map[uint64]time.Duration, group string, others time.Duration) {
	g := uint64(GroupOf(group))
	next := ttls{g: others, 0: others}
	for list, ttl := range lists {
		if ttl > 0 {
			next[g^mix(list)], next[0] = ttl, min(next[0], ttl)
		}
	}
	l.current.Load().kept.Store(&next)
}

// controller makes the plan. Every controlEvery it learns from the watched lists how often
// each is looked up and changes, compares the load that it had expected with what came, and
// has the planner choose TTLs that meet the goals. In a fleet one node's plan counts for all.
type controller struct {
	mu       sync.Mutex
	last     int64       // step, Unix ns
	counted  counts      // of all nodes until then
	lookups  float64     // since the start
	begun    float64     // fetches of lists that nobody had looked up before, in the last step
	load     [2]float64  // measured and expected requests, fading
	spent    [3]float64  // re-checks, fetches of new lists, and seconds: fading
	expected float64     // requests until the next step
	groups   []groupFlow // by kind
	planner  planner
	prices   [2]float64 // by which the two goals were met last
	ttls     ttls
	plan     *Plan // nil: too little is known
}

// groupFlow is what the look-ups of a group tell together. A list of which little is known
// is taken to be like the group's mean.
type groupFlow struct {
	came, expected float64 // look-ups, fading
	asked, change  float64 // per second, of a list in the mean
}

// step makes a new plan when it is time. It is to be called about once a second.
func (e *estimator) step(now time.Time) {
	c, goals := &e.control, *e.goals.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if goals.none() {
		c.last, c.plan, c.ttls = 0, nil, nil
		return
	}
	seconds := float64(now.UnixNano()-c.last) * 1e-9
	if c.last != 0 && seconds >= 0 && seconds < controlEvery.Seconds() {
		return
	}
	first := c.last == 0 || seconds < 0 || seconds > 10*controlEvery.Seconds() // or the process stood still
	c.last = now.UnixNano()
	if first { // what was known before may be of another traffic
		seconds, c.groups = 0, make([]groupFlow, len(e.kinds))
		c.lookups, c.load, c.spent = 0, [2]float64{}, [3]float64{}
	}
	looks := c.gather(e, seconds, now.UnixNano())
	c.measure(e, seconds)
	if first || c.lookups < leastLookups || looks < leastLooks {
		c.expected = 0
		return
	}
	c.solve(e, goals)
	if kept := c.ttls; goals.Mode == ModeKeep {
		e.kept.Store(&kept)
	}
}

// newest is the newest plan, which does not change any more; nil: too little is known.
func (c *controller) newest() *Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plan
}

// fading is what is left of a memory after some seconds.
func fading(seconds float64, halfLife time.Duration) float64 {
	return math.Exp2(-seconds / halfLife.Seconds())
}

// gather learns how often each list is looked up and changes. It returns how often
// anybody has looked for a change.
func (c *controller) gather(e *estimator, seconds float64, now int64) (looks int) {
	c.planner.lists = c.planner.lists[:0]
	c.begun = 0
	for g, lab := range e.kinds {
		flow, begin := &c.groups[g], len(c.planner.lists)
		var came, expected, exposure, changes float64
		for i := range lab.shards {
			for _, w := range lab.shards[i].recent(seconds) {
				d := w.demand(flow, now)
				d.id, d.group = uint64(lab.group)^w.hash, g
				came, expected = came+(1+d.others)*w.came, expected+(1+d.others)*d.asked*seconds
				if w.begun {
					c.begun += 1 + d.others
				}
				quiet := w.looks.quiet()
				exposure, looks = exposure+quiet.seconds, looks+int(quiet.looks)+int(w.looks.count)
				changes += float64(w.looks.count)
				c.planner.lists = append(c.planner.lists, d)
			}
		}
		c.lookups += came
		f := fading(seconds, rememberTotal)
		flow.came, flow.expected = flow.came*f+came, flow.expected*f+expected
		flow.follow(c.planner.lists[begin:])
		if least := priorChanges / max(exposure, 1); flow.change < least {
			flow.change = least * (1 + changes/priorChanges)
		}
	}
	return looks
}

// follow scales what the lists tell to what all tell, and notes the mean.
func (f *groupFlow) follow(lists []demand) {
	var asked, change, n, seen float64
	for i := range lists {
		d := &lists[i]
		if f.expected > 0 {
			d.asked *= f.came / f.expected
		}
		d.asked = max(d.asked, slowest)
		asked, n = asked+(1+d.others)*d.asked, n+1+d.others
		if d.looked {
			change, seen = change+(1+d.others)*d.change, seen+1+d.others
		}
	}
	if n > 0 {
		f.asked = asked / n
	}
	if seen > 0 {
		f.change = change / seen
	}
}

// recently is a watched key and what the last step has shown of it.
type recently struct {
	hash        uint64
	begun       bool // it was fetched for the first time
	others      float64
	came        float64
	asked, span float64
	looks       looks
	filled      int64
}

// recent copies what the keys have shown since the last step, and lets it fade. After 0
// seconds, which is the first step, they have shown nothing.
func (s *shard) recent(seconds float64) (all []recently) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll()
	f := fading(seconds, rememberAsked)
	take := func(k *watched, others float64) {
		came, begun := float64(k.came), k.begun
		k.came, k.begun = 0, false
		if seconds == 0 {
			k.asked, k.span = 0, 0
			return
		}
		k.asked, k.span = k.asked*f+came, k.span*f+seconds
		filled := k.filled
		if s.shared && k.held.last > 0 { // other nodes fill it, too
			filled = k.held.last + int64(settleDelay)
		}
		all = append(all, recently{k.hash, begun, others, came, k.asked, k.span, k.looks.newest(newestChanges), filled})
	}
	for i := range s.hot.keys {
		take(&s.hot.keys[i], 0)
	}
	for i := range s.sample.keys {
		if k := &s.sample.keys[i]; !s.hot.has(k.hash) {
			take(k, 1/s.rate()-1)
		}
	}
	return all
}

// demand is what is believed of a key: the less it has shown, the more it is like the
// mean of its group.
func (w *recently) demand(f *groupFlow, now int64) demand {
	d := demand{others: w.others, looked: w.looks.seen(), age: -1, asked: w.asked / w.span, change: w.looks.now(f.change)}
	if f.asked > 0 {
		d.asked = (w.asked + priorChanges) / (w.span + priorChanges/f.asked)
	}
	if w.filled > 0 {
		d.age = max(float64(now-w.filled)*1e-9, 0)
	}
	return d
}

// measure compares the load with what was expected.
func (c *controller) measure(e *estimator, seconds float64) {
	var now counts
	for _, lab := range e.kinds {
		now = now.plus(lab.all())
	}
	d := now.minus(c.counted)
	if seconds > 0 {
		f := fading(seconds, rememberLoad)
		for i, n := range [...]float64{max(float64(d.Fills)-c.begun, 0), c.expected * seconds / controlEvery.Seconds()} {
			if c.load[i] *= f; c.expected > 0 {
				c.load[i] += n
			}
		}
		for i, n := range [...]float64{float64(d.Rechecks), c.begun, seconds} {
			c.spent[i] = c.spent[i]*f + n
		}
	}
	c.counted = now
}

// ratio is how many times the expected load the measured one is.
func (c *controller) ratio() float64 {
	const few = 20 // requests by which it is 1
	return min(max((c.load[0]+few)/(c.load[1]+few), leastRatio), mostRatio)
}

// solve makes the plan.
func (c *controller) solve(e *estimator, goals GoalsConfig) {
	p := &c.planner
	p.horizon, p.swr, p.typical = controlEvery.Seconds(), make([]float64, len(e.kinds)), make([]demand, len(e.kinds))
	var policy Policy
	for g, lab := range e.kinds {
		policy = lab.rules.Load().policy // they differ in their TTLs only
		p.swr[g] = policy.StaleWhileRevalidate.Seconds()
		p.typical[g] = demand{asked: max(c.groups[g].asked, slowest), change: c.groups[g].change}
	}
	p.low, p.high = policy.mean(goals.MinTTL), policy.mean(goals.MaxTTL)
	p.prepare()
	plan := &Plan{Mode: goals.Mode, Correction: c.ratio(), Rechecks: c.spent[0] / max(c.spent[2], 1), New: c.spent[1] / max(c.spent[2], 1)}
	var now ttls
	if kept := e.kept.Load(); kept != nil {
		now = *kept
	}
	p.apply(e, now)
	plan.Now = plan.figures(p.cost(-1))
	_, soon := p.load()
	c.meet(goals, plan)
	c.ttls = e.fleet.agree(c.last, func() ttls { return c.damp(e, policy) })
	p.apply(e, c.ttls)
	plan.Planned = plan.figures(p.cost(-1))
	plan.describe(e, p, policy)
	if goals.Mode == ModeKeep {
		_, soon = p.load()
	}
	c.expected, c.plan = soon*p.horizon, plan
}

// meet sets the TTLs that keep the goals: those of the least price within the budget; if
// that gives fewer outdated answers than are allowed, the fewest requests for these.
func (c *controller) meet(goals GoalsConfig, plan *Plan) {
	p := &c.planner
	p.price = cheapest
	if goals.MaxUpstreamPerSecond > 0 {
		left := (aimedLoad*goals.MaxUpstreamPerSecond - plan.Rechecks - plan.New) / plan.Correction
		enough := func() bool { mean, soon := p.load(); return max(mean, soon) <= left }
		p.price = c.prices[0]
		p.solve(enough)
		if c.prices[0] = p.price; !enough() {
			plan.Limit = LimitMaxTTL
			return
		}
		plan.Limit = GoalUpstream
	}
	if goals.MaxOutdated > 0 {
		within := p.price
		p.price = c.prices[1]
		p.solve(func() bool { all := p.cost(-1); return all.outdated >= aimedOutdated*goals.MaxOutdated*all.answers })
		if c.prices[1] = p.price; p.price > within {
			plan.Limit = GoalOutdated
			return
		}
		p.at(within)
	}
	if p.price <= cheapest {
		plan.Limit = LimitMinTTL
	}
}

// damp is the planner's TTLs, kept from following each estimate.
func (c *controller) damp(e *estimator, policy Policy) ttls {
	p := &c.planner
	next := make(ttls, len(p.lists)+len(p.rest)+1)
	set := func(id uint64, mean float64) {
		old, ok := c.ttls[id]
		ttl := time.Duration(mean * float64(time.Second) / policy.mean(time.Second))
		switch change := math.Log(float64(ttl) / float64(old)); {
		case !ok:
		case math.Abs(change) < deadBand:
			ttl = old
		case change < 0:
			ttl = time.Duration(math.Sqrt(float64(ttl) * float64(old)))
		}
		next[id] = ttl
	}
	for i := range p.lists {
		set(p.lists[i].id, p.ttl[i])
	}
	for g, lab := range e.kinds {
		set(uint64(lab.group), p.rest[g])
	}
	next[0] = slices.Min(slices.Collect(maps.Values(next)))
	return next
}

// apply sets the TTLs that a plan has; nil: the configured ones.
func (p *planner) apply(e *estimator, plan ttls) {
	for g, lab := range e.kinds {
		policy := lab.rules.Load().policy
		ttl, ok := plan[uint64(lab.group)]
		if !ok {
			ttl = policy.TTL
		}
		p.rest[g] = policy.mean(ttl)
		for i := range p.lists {
			if p.lists[i].group != g {
				continue
			}
			if p.ttl[i] = p.rest[g]; plan[p.lists[i].id] > 0 {
				p.ttl[i] = policy.mean(plan[p.lists[i].id])
			}
		}
	}
}
