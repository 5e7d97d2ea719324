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
	keptFades    = 8
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

// fade is a moment from which on all that was counted before counts less.
type fade struct {
	at    int64
	steps int
}

// regime notices that the traffic has become another one, so that the report need not
// average over both for hours.
type regime struct {
	mu    sync.Mutex
	last  int64 // slot's end, Unix ns
	slots []turnout
	total turnout
	fades []fade // oldest first
	since int64  // of the last one: when it may have begun
	why   string // of the last one
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
	begin := now - recent*int64(slotLength)
	g.slots, g.since, g.why = g.slots[len(g.slots)-recent:], begin, why
	steps := lab.fadeSteps(begin, now)
	if g.fades = append(g.fades, fade{now, steps}); len(g.fades) > keptFades {
		g.fades = g.fades[1:]
	}
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

// fadeSteps is by how much the past fades, so that it counts no more than the time
// since.
func (lab *kindLab) fadeSteps(begin, now int64) int {
	m := sample{halfLife: lab.halfLife, fades: lab.regime.fades}
	for i := range lab.shards {
		m.begin(&lab.shards[i])
	}
	past := m.seconds(now)
	return int(math.Ceil(max(math.Log2(past/(float64(now-begin)*1e-9)), 0)))
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

// lastFade is when the traffic last became another one, and how; the zero time: not yet.
func (lab *kindLab) lastFade() (fades []fade, at time.Time, why string) {
	g := &lab.regime
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why != "" {
		at = time.Unix(0, g.since)
	}
	return append([]fade(nil), g.fades...), at, g.why
}
