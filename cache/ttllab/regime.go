package ttllab

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// aging halves counts at the end of each half-life, counted from 1970.
type aging struct {
	halfLife int64 // ns; 0: nothing is ever forgotten
	epoch    int64 // number of half-lives since 1970; 0: nothing counted yet
	next     int64 // when the next begins, Unix ns
}

// steps is how many half-lives have ended since the last call.
func (a *aging) steps(now int64) int {
	if a.halfLife == 0 || now < a.next {
		return 0
	}
	epoch := now / a.halfLife
	a.next = (epoch + 1) * a.halfLife
	if a.epoch == 0 {
		a.epoch = epoch
	}
	steps := int(min(max(epoch-a.epoch, 0), 64))
	a.epoch = max(a.epoch, epoch)
	return steps
}

const (
	slotLength = 20 * time.Second
	recent     = 6  // slots that are compared with those before: 2 minutes
	leastPast  = 15 // of these, so that there is something to compare with: 5 minutes
	mostPast   = 90 // half an hour: a daily wave changes by less than a factor of two in it
	enough     = 200
	// A change of regime is twice or half the look-ups, or that share more or fewer
	// misses at today's TTL.
	regimeFactor = 2
	regimeMisses = 0.15
)

// turnout is what the regime is known by. Misses are those of the simulation: a purge,
// an outage or another TTL is no other traffic.
type turnout struct {
	lookups        float64
	waits, fetches [candidateCount]float64
}

// add adds o so many times.
func (t *turnout) add(o *turnout, times float64) {
	t.lookups += times * o.lookups
	for c := range t.waits {
		t.waits[c] += times * o.waits[c]
		t.fetches[c] += times * o.fetches[c]
	}
}

// observation is for how long a kind has been watched. It ages like what was counted.
type observation struct {
	seconds float64 // until then
	until   int64   // when the past last faded, Unix ns; 0: it never has
}

// at is the time observed by now since the first look-up, in seconds.
func (o observation) at(now, first, halfLife int64) float64 {
	seconds, from := o.seconds, max(o.until, first)
	if halfLife > 0 {
		from = max(from, (now/halfLife-64)*halfLife) // what is older counts for nothing
		for end := (from/halfLife + 1) * halfLife; end < now; end += halfLife {
			seconds, from = (seconds+float64(end-from)*1e-9)/2, end
		}
	}
	return seconds + float64(max(now-from, 0))*1e-9
}

// regime notices that the traffic has become another one, so that the report need not
// average over both for hours. It compares the newest two minutes with up to half an hour
// before them, by the rate of look-ups and by the share of misses that the simulation makes
// of them at today's TTL.
type regime struct {
	mu    sync.Mutex
	last  int64 // slot's end, Unix ns
	slots []turnout
	total turnout

	observed observation
	change   *Regime   // the last one; nil: none yet
	noticed  time.Time // that one
}

// watchRegime looks whether another slot has ended, and lets go of the past if the
// traffic has changed.
func (lab *kindLab) watchRegime(now int64) {
	g := &lab.regime
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != 0 && now-g.last < int64(slotLength) {
		return
	}
	total := lab.turnout()
	if g.last != 0 && now-g.last < 2*int64(slotLength) {
		slot := total
		slot.add(&g.total, -1)
		g.slots = append(g.slots, slot)
	} else {
		g.slots = nil // the first one, or the process stood still
	}
	g.last, g.total = now, total
	if len(g.slots) > mostPast+recent {
		g.slots = g.slots[1:]
	}
	why := g.changed(lab.rules.Load().today)
	if why == "" {
		return
	}
	g.slots = g.slots[len(g.slots)-recent:]
	// The past fades until it counts no more than the time since.
	since := recent * slotLength
	past := g.observed.at(now, lab.first.Load(), lab.halfLife)
	steps := int(math.Ceil(max(math.Log2(past/since.Seconds()), 0)))
	g.observed = observation{math.Ldexp(past, -steps), now}
	g.noticed = time.Unix(0, now)
	g.change = &Regime{g.noticed.Add(-since), why}
	lab.fade(steps, now)
}

// changed says what differs between the newest slots and those before, with misses at
// the TTL of today; empty: nothing.
func (g *regime) changed(today int) string {
	past := len(g.slots) - recent
	if past < leastPast {
		return ""
	}
	var before, after turnout
	for i := range g.slots {
		to := &before
		if i >= past {
			to = &after
		}
		to.add(&g.slots[i], 1)
	}
	if max(before.lookups*recent/float64(past), after.lookups) < enough {
		return ""
	}
	then, now := before.lookups/float64(past), after.lookups/recent
	if now > regimeFactor*then || then > regimeFactor*now {
		return fmt.Sprintf("%.3g look-ups/s before, %.3g after", then/slotLength.Seconds(), now/slotLength.Seconds())
	}
	misses, missed := before.waits[today]/before.lookups, after.waits[today]/after.lookups
	if math.Abs(missed-misses) > regimeMisses {
		return fmt.Sprintf("%.0f %% of the look-ups were misses before, %.0f %% after", 100*misses, 100*missed)
	}
	return ""
}

// fade halves all counts so many times.
func (lab *kindLab) fade(steps int, now int64) {
	for i := range lab.shards {
		s := &lab.shards[i]
		s.mu.Lock()
		s.advance(now)
		s.age(steps, now)
		s.mu.Unlock()
	}
	lab.checks.fade(steps, now)
}

// turnout sums up the shards; the sample's counts stand for all of its keys.
func (lab *kindLab) turnout() (sum turnout) {
	for i := range lab.shards {
		s := &lab.shards[i]
		s.mu.Lock()
		s.settleAll()
		sum.add(&s.sample.turns, 1)
		sum.add(&s.hot.turns, 1)
		s.mu.Unlock()
	}
	return sum
}

// observed is for how long the kind has been watched, aged like the counts; seconds.
func (lab *kindLab) observed(now int64) float64 {
	first := lab.first.Load()
	if first == 0 {
		return 0
	}
	lab.regime.mu.Lock()
	defer lab.regime.mu.Unlock()
	return lab.regime.observed.at(now, first, lab.halfLife)
}

// newest is when the traffic last became another one, and when that was noticed; nil: not
// yet.
func (g *regime) newest() (change *Regime, noticed time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.change, g.noticed
}
