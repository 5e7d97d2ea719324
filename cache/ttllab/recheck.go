package ttllab

import (
	"math"
	"sync"
	"time"
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
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Recheck is a list to be compared with the legacy.
type Recheck struct {
	Kind       int
	List       List
	AnsweredAt time.Time // of the entry that the caller got
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
	budget bucket
	rate   float64 // answers out of the cache per second, smoothed
	last   int64   // tuning, Unix ns
	hits   uint64  // until then
	lost   float64 // answers that those drawn over the budget stand for
	picked chan Recheck
}

// drawn tells, by the number of a look-up, whether it is to be re-checked.
func (e *Estimator) drawn(n uint64) (weight float64, ok bool) {
	share := e.share.Load()
	if share == 0 || mix(n^0x9e3779b97f4a7c15) > share {
		return 0, false
	}
	return math.MaxUint64 / float64(share), true
}

// pick has an answer compared if the budget allows it. If not, the next one stands for
// this one too.
func (e *Estimator) pick(r Recheck, now time.Time) {
	p := &e.picker
	p.mu.Lock()
	defer p.mu.Unlock()
	r.weight += p.lost
	p.lost = r.weight
	if len(p.picked) == cap(p.picked) || !p.budget.take(now.UnixNano()) {
		return
	}
	p.lost = 0
	p.picked <- r // has room: only who holds the lock sends
}

// Picked gives the answers that are to be compared with the legacy, one by one and as
// soon as they are given. The caller fetches the list past the cache and tells
// Rechecked.
func (e *Estimator) Picked() <-chan Recheck { return e.picker.picked }

// Tune follows the traffic, so that re-checks use the budget and stay within it. It is
// to be called about once a second.
func (e *Estimator) Tune(now time.Time) {
	var hits uint64
	for _, lab := range e.kinds {
		hits += lab.hits()
		if lab.halfLife > 0 {
			lab.watchRegime(now.UnixNano())
		}
	}
	e.step(now)
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
func (e *Estimator) retune() {
	p := &e.picker
	share := 1.0
	if most := aimed * p.budget.rate; p.rate > most {
		share = most / p.rate
	}
	switch {
	case p.budget.rate <= 0:
		e.share.Store(0)
	case share >= 1:
		e.share.Store(math.MaxUint64)
	default:
		e.share.Store(uint64(share * math.MaxUint64))
	}
}

// hits is how many look-ups were answered out of the cache since the start.
func (lab *kindLab) hits() (n uint64) {
	for i := range lab.shards {
		n += lab.shards[i].seen.Load()
	}
	return n - min(n, lab.waited.Load()+lab.failed.Load())
}

// Rechecked tells what the legacy says now about a list that Picked gave: a
// hash of the body made from a fresh answer, by the same hash as the served one's.
func (e *Estimator) Rechecked(r Recheck, answeredAt time.Time, body uint64) {
	lab := e.lab(r.Kind)
	if lab == nil || !answeredAt.After(r.AnsweredAt) {
		return
	}
	now := sighting{answeredAt.UnixNano(), body}
	w := lab.shards[r.hash%shardCount].recheck(r, now)
	lab.checks.add(r, now, w, e.goals.Load().LateAfter)
}

// recheck takes in a body and returns when the first change since the fill was, if there
// was one. The key's rate of change is 0 if unknown.
func (s *shard) recheck(r Recheck, now sighting) window {
	w := window{from: r.AnsweredAt.UnixNano(), to: now.at}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _ := s.find(r.hash)
	if k == nil {
		return w
	}
	if !r.selected {
		w.known(k.known, r.body)
		k.observe(now)
	}
	w.rate = pool([]looks{k.looks}).rate
	return w
}

// Rechecks are the re-checks of one kind since the start. All only grow.
type Rechecks struct {
	Checked, Outdated uint64
	// Answers and OutdatedAnswers are how many answers out of the cache these stand
	// for.
	Answers, OutdatedAnswers float64
	LateAnswers              float64 // of these, longer than cache.goals.late_after
	// Seconds is for how long together the outdated lists are expected to have been so.
	Seconds float64
}

func (r Rechecks) plus(o Rechecks) Rechecks {
	return Rechecks{r.Checked + o.Checked, r.Outdated + o.Outdated, r.Answers + o.Answers, r.OutdatedAnswers + o.OutdatedAnswers, r.LateAnswers + o.LateAnswers, r.Seconds + o.Seconds}
}

// Rechecks returns what was compared with the legacy of a kind since the start.
func (e *Estimator) Rechecks(kind int) Rechecks {
	lab := e.lab(kind)
	if lab == nil {
		return Rechecks{}
	}
	lab.checks.mu.Lock()
	defer lab.checks.mu.Unlock()
	return lab.checks.ever
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
