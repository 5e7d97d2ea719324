package ttllab

import (
	"math"
	"sync"
	"time"
)

// pick is a look-up that was answered from the cache, drawn evenly from all of
// them since the last draw (reservoir sampling with one place).
type pick struct {
	hash   uint64
	served sighting
	ref    any
	of     uint64 // how many it was drawn from
}

// consider lets a look-up take part in the draw.
func (p *pick) consider(k *watched, now int64) {
	if k.ref == nil {
		return
	}
	p.of++
	if dice := mix(k.hash ^ uint64(now) ^ p.of<<32); dice%p.of == 0 {
		p.hash, p.served, p.ref = k.hash, k.served, k.ref
	}
}

// bucket is a token bucket.
type bucket struct {
	rate, tokens float64
	last         int64 // Unix ns; 0: never asked
}

func (b *bucket) take(now int64) bool {
	if b.rate <= 0 {
		return false
	}
	most := max(b.rate, 1)
	if b.last == 0 {
		b.tokens = most
	} else if now > b.last {
		b.tokens = min(most, b.tokens+float64(now-b.last)*1e-9*b.rate)
	}
	b.last = now
	return b.tokens >= 1
}

// Recheck is a list to be compared with the legacy.
type Recheck struct {
	Kind       int
	Ref        any       // of its Fill
	AnsweredAt time.Time // of the entry that callers got
	hash       uint64
	body       uint64
}

// Next proposes the next list to be fetched anew, or none: the budget is spent,
// or nothing was answered from the cache since the last proposal. Look-ups, not
// keys, are drawn, so lists are proposed as often as they are served. The caller
// fetches the list past the cache and tells Rechecked; while the legacy is in
// trouble it should not call Next at all. A proposal counts against the budget
// whatever becomes of it.
func (e *Estimator) Next(now time.Time) (Recheck, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.budget.take(now.UnixNano()) {
		return Recheck{}, false
	}
	var total float64
	var chosen Recheck
	for i, lab := range e.kinds {
		for j := range lab.shards {
			picks, weights := lab.shards[j].takePicks()
			for n, p := range picks {
				if p.of == 0 {
					continue
				}
				total += weights[n]
				e.dice++
				if float64(mix(e.dice^p.hash)>>11)/(1<<53)*total < weights[n] {
					chosen = Recheck{i, p.ref, time.Unix(0, p.served.at), p.hash, p.served.body}
				}
			}
		}
	}
	if total == 0 {
		return Recheck{}, false
	}
	e.budget.tokens--
	return chosen, true
}

// takePicks takes the picks of the shard's strata and the number of look-ups
// that each stands for.
func (s *shard) takePicks() (picks [2]pick, weights [2]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll()
	picks = [2]pick{s.sample.pick, s.hot.pick}
	s.sample.pick, s.hot.pick = pick{}, pick{}
	return picks, [2]float64{float64(picks[0].of) / s.rate(), float64(picks[1].of)}
}

// checks sums up the re-checks of one kind.
type checks struct {
	mu       sync.Mutex
	checked  uint64
	outdated uint64
	seconds  float64 // expected, over the outdated ones
}

// Rechecked tells what the legacy says now about a list that Next proposed: a
// hash of the body made from a fresh answer, by the same hash as Fill.Body.
func (e *Estimator) Rechecked(r Recheck, answeredAt time.Time, body uint64) {
	lab := e.lab(r.Kind)
	if lab == nil || !answeredAt.After(r.AnsweredAt) {
		return
	}
	rate := lab.shards[r.hash%shardCount].recheck(r.hash, sighting{answeredAt.UnixNano(), body})
	lab.checks.add(answeredAt.Sub(r.AnsweredAt).Seconds(), rate, body != r.body)
}

// recheck takes in a body and returns the key's rate of change, 0 if unknown.
func (s *shard) recheck(h uint64, now sighting) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, set := s.find(h)
	if k == nil {
		return 0
	}
	s.settle(k, set)
	k.observe(now)
	return pool([]looks{k.looks}).rate
}

func (c *checks) add(age, rate float64, outdated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked++
	if outdated {
		c.outdated++
		c.seconds += sinceChange(age, rate)
	}
}

// sinceChange is how long ago the first change in an interval of this length is
// expected to have been, when there was one and changes come at this rate.
func sinceChange(age, rate float64) float64 {
	x := rate * age
	if x < 1e-6 {
		return age / 2
	}
	return age - (1/rate - age/math.Expm1(x))
}

// Rechecks returns how many lists of a kind were compared with the legacy since
// the start, how many of them differed, and for how many seconds together those
// are expected to have done so. All three only grow.
func (e *Estimator) Rechecks(kind int) (checked, outdated uint64, seconds float64) {
	lab := e.lab(kind)
	if lab == nil {
		return 0, 0, 0
	}
	lab.checks.mu.Lock()
	defer lab.checks.mu.Unlock()
	return lab.checks.checked, lab.checks.outdated, lab.checks.seconds
}
