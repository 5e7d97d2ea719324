package ttllab

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"inquiry-gateway/cache"
)

const (
	// tuneEvery is how often the share of answers that are re-checked follows the
	// traffic.
	tuneEvery = time.Second
	// keptPicks bounds the answers that wait to be compared. Who waits for long is
	// compared with a later state of the legacy than its caller could have got.
	keptPicks = 16
	// aimed is how much of the budget is planned for, so that chance does not exceed it.
	aimed = 0.8
	// keptClusters bounds the lists whose re-checks are summed up by fill.
	keptClusters = 4096
)

// recheck is a list to be compared with the legacy.
type recheck struct {
	lab        *kindLab
	list       cache.Key
	answeredAt int64 // of the entry that the caller got, Unix ns
	hash       uint64
	body       uint64
	selected   bool    // from the list that the legacy is asked for
	weight     float64 // answers that it stands for
}

// picker draws the answers that are re-checked. Each answer out of the cache is drawn
// with the same probability, by itself and at the moment when it is given: draws at
// even times would prefer quiet hours, and a later comparison would count changes that
// came after the answer.
type picker struct {
	mu     sync.Mutex
	budget *rate.Limiter // re-checks; never nil
	rate   float64       // answers out of the cache per second, smoothed
	last   int64         // tuning, Unix ns
	hits   uint64        // until then
	lost   float64       // answers that those drawn over the budget stand for
	picked chan recheck  // to be compared at once
}

// drawn tells, by the number of a look-up, whether it is to be re-checked.
func (e *estimator) drawn(n uint64) (weight float64, ok bool) {
	share := e.drawShare.Load()
	if share == 0 || mix(n^0x9e3779b97f4a7c15) > share {
		return 0, false
	}
	return math.MaxUint64 / float64(share), true
}

// pick has an answer compared if the budget allows it. If not, the next one stands for
// this one too.
func (e *estimator) pick(r recheck, now time.Time) {
	p := &e.picker
	p.mu.Lock()
	defer p.mu.Unlock()
	r.weight += p.lost
	p.lost = r.weight
	if len(p.picked) == cap(p.picked) || !p.budget.AllowN(now, 1) {
		return
	}
	p.lost = 0
	p.picked <- r // has room: only who holds the lock sends
}

// tune follows the traffic, so that re-checks use the budget and stay within it. It is
// to be called about once a second.
func (e *estimator) tune(now time.Time) {
	var hits uint64
	for _, lab := range e.kinds {
		own := lab.own()
		hits += own.Lookups - min(own.Lookups, own.Unserved)
	}
	p := &e.picker
	p.mu.Lock()
	defer p.mu.Unlock()
	if seconds := float64(now.UnixNano()-p.last) * 1e-9; p.last != 0 && seconds > 0 {
		p.rate += 0.3 * (float64(max(hits, p.hits)-p.hits)/seconds - p.rate)
	}
	p.last, p.hits = now.UnixNano(), hits
	e.retune()
}

// retune needs the picker's lock.
func (e *estimator) retune() {
	p := &e.picker
	switch budget := aimed * float64(p.budget.Limit()); {
	case budget == 0:
		e.drawShare.Store(0)
	case p.rate <= budget:
		e.drawShare.Store(math.MaxUint64)
	default:
		e.drawShare.Store(uint64(budget / p.rate * math.MaxUint64))
	}
}

// compared takes in what the legacy says now: a hash of the body made from a fresh answer,
// by the same hash as the served one's.
func (r recheck) compared(now sighting) {
	if now.at <= r.answeredAt {
		return
	}
	r.lab.checks.add(r, now, r.lab.shards[r.hash%shardCount].recheck(r, now))
}

// recheck takes in a body and returns the key's rate of change, per second; 0: unknown.
func (s *shard) recheck(r recheck, now sighting) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _ := s.find(r.hash)
	if k == nil {
		return 0
	}
	if !r.selected {
		k.observe(now)
	}
	return pool([]looks{k.looks}).rate
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
