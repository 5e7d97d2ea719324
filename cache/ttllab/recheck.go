package ttllab

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
)

const (
	// rechecksAtOnce is how many lists are compared at a time. An answer that is drawn while
	// none is free is not compared: later, its list might have changed since the answer.
	rechecksAtOnce = 4
	// planned is how much of the budget is drawn for, so that chance does not exceed it.
	planned = 0.8
	// keptClusters bounds the lists whose re-checks are summed up by fill.
	keptClusters = 4096
)

// Fetch asks the legacy for a list, past the cache. body is as [cache.BodySum] has it.
type Fetch func(ctx context.Context, k cache.Key) (body uint64, answeredAt time.Time, err error)

// rechecker draws answers and has them compared with the legacy. Each answer out of the
// cache is drawn with the same probability, by itself and at the moment when it is given:
// draws at even times would prefer quiet hours.
type rechecker struct {
	share  atomic.Uint64 // of the answers, of 2^64; 0: none is drawn
	missed atomic.Uint64 // answers that were drawn and not compared since the last one that was
	picks  chan pick     // to be compared at once
	budget *rate.Limiter
	hits   float64 // answers out of the cache per second, smoothed
	last   uint64  // of them, until the last tuning

	mu     sync.Mutex
	counts [2][2]recheckCount // by kind, and by whether the list had changed
}

// pick is an answer to be compared.
type pick struct {
	group      *groupIntake
	key        cache.Key
	list, body uint64 // hash of the source, and of the answer
	selected   bool
	answered   int64
	share      float64 // of the answers that were drawn then
}

// recheckCount counts re-checks, and the answers that they stand for.
type recheckCount struct{ checked, answers float64 }

func newRechecker(perSecond float64) *rechecker {
	r := &rechecker{picks: make(chan pick), budget: rate.NewLimiter(0, 1)}
	r.setBudget(perSecond)
	return r
}

func (r *rechecker) setBudget(perSecond float64) {
	r.budget.SetBurst(max(int(perSecond), 1))
	r.budget.SetLimit(rate.Limit(perSecond))
	r.aim()
}

// drawn tells, by the number of a look-up, whether its answer is to be compared.
func (r *rechecker) drawn(number uint64) (share float64, ok bool) {
	s := r.share.Load()
	if s == 0 || mix(number^0x9e3779b97f4a7c15) > s {
		return 0, false
	}
	return float64(s) / math.MaxUint64, true
}

// offer has an answer compared if a place is free.
func (r *rechecker) offer(p pick) {
	select {
	case r.picks <- p:
	default:
		r.missed.Add(1)
	}
}

// tune follows the traffic, so that re-checks use the budget and stay within it. It is for
// the lab's goroutine, once a second; hits are all answers out of the cache so far.
func (r *rechecker) tune(hits uint64) {
	if r.hits += 0.3 * (float64(hits-min(r.last, hits)) - r.hits); r.last == 0 {
		r.hits = float64(hits)
	}
	r.last = hits
	r.aim()
}

// aim draws as many answers as the budget allows.
func (r *rechecker) aim() {
	switch budget := planned * float64(r.budget.Limit()); {
	case budget == 0:
		r.share.Store(0)
	case r.hits <= budget:
		r.share.Store(math.MaxUint64)
	default:
		r.share.Store(uint64(budget / r.hits * math.MaxUint64))
	}
}

// Recheck compares lists that were served with what the legacy says now, as often as the
// budget allows, until ctx ends. timeout is that of one fetch. healthy keeps it from adding
// to the trouble of a legacy that has some. A panic ends one comparison.
func (l *Lab) Recheck(ctx context.Context, fetch Fetch, timeout func() time.Duration, healthy func() bool, p *telemetry.Catcher) {
	var all sync.WaitGroup
	for range rechecksAtOnce {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case next := <-l.rechecks.picks:
					if healthy() {
						l.compare(ctx, next, fetch, timeout(), p)
					}
				}
			}
		})
	}
	all.Wait()
}

// compare makes one re-check if the budget allows it. A fetch that fails says nothing, and
// is not repeated.
func (l *Lab) compare(ctx context.Context, p pick, fetch Fetch, timeout time.Duration, catch *telemetry.Catcher) {
	defer catch.Catch(nil)
	weight, ok := l.rechecks.allow(l.now())
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if body, at, err := fetch(ctx, p.key); err == nil && at.UnixNano() > p.answered {
		l.rechecks.compared(p, body, at, weight/p.share)
	}
}

// allow spends the budget of one re-check. It stands for the answers that were drawn and
// not compared before it, too.
func (r *rechecker) allow(now time.Time) (weight float64, ok bool) {
	if !r.budget.AllowN(now, 1) {
		r.missed.Add(1)
		return 0, false
	}
	return float64(1 + r.missed.Swap(0)), true
}

// compared notes what the legacy says of an answer that stands for so many.
func (r *rechecker) compared(p pick, body uint64, at time.Time, weight float64) {
	outdated := body != p.body
	p.group.rechecks.add(recheck{Hash: p.list, Body: body, At: at.UnixNano(), Answered: p.answered, Weight: float32(weight), Outdated: outdated, Selected: p.selected})
	kind, result := 0, 0
	if p.group.kind != cache.KindBuyer {
		kind = 1
	}
	if outdated {
		result = 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counts[kind][result]
	c.checked++
	c.answers += weight
}

// clusters sums up the re-checks of one group. Re-checks of one fill of one list say nearly the
// same, because until the list changes none is outdated and afterwards all are: together
// they are one vote, which may be divided.
type clusters struct {
	checks int // since the start
	closed votes
	open   map[uint64]cluster // by list
}

// cluster is the re-checks of one fill of one list.
type cluster struct {
	filled        int64
	all, outdated float64 // weights
}

// votes are what the share and its error need to know of clusters.
type votes struct{ all, outdated, squares float64 }

func (v *votes) add(c cluster) {
	v.all += c.all
	v.outdated += c.outdated
	v.squares += c.all * c.all
}

// add takes in a re-check.
func (cs *clusters) add(r *recheck) {
	cs.checks++
	if len(cs.open) >= keptClusters {
		cs.close()
	}
	c, ok := cs.open[r.Hash]
	// Nodes see one fill at moments that differ by what their messages take.
	if ok && max(c.filled-r.Answered, r.Answered-c.filled) > int64(500*time.Millisecond) {
		cs.closed.add(c)
		ok = false
	}
	if !ok {
		c = cluster{filled: r.Answered}
	}
	c.all += float64(r.Weight)
	if r.Outdated {
		c.outdated += float64(r.Weight)
	}
	cs.open[r.Hash] = c
}

// close ends all clusters.
func (cs *clusters) close() {
	for _, c := range cs.open {
		cs.closed.add(c)
	}
	clear(cs.open)
}

// age has what came until now count for less. The share stays.
func (cs *clusters) age(f float64) {
	cs.close()
	cs.closed = votes{cs.closed.all * f, cs.closed.outdated * f, cs.closed.squares * f}
}

// served is the indicator "served outdated": of the answers out of the cache, those that
// differed, times the share of all answers that came out of the cache. Who waited for
// the legacy got what it said.
func (cs *clusters) served(s sums) Served {
	sum := cs.closed
	for _, c := range cs.open {
		sum.add(c)
	}
	answers := s.lookups - s.failed
	if sum.all == 0 || answers <= 0 {
		return Served{Checks: cs.checks}
	}
	cached := max(answers-s.waited, 0) / answers
	p, low, high := sum.interval()
	return Served{Checks: cs.checks, Outdated: p * cached, Low: low * cached, High: high * cached}
}

// interval is the share p, and what holds the true one with 95 % confidence: Wilson's
// interval with as many votes as would say as much if all had the same weight (Kish,
// "Survey Sampling", 1965, 11.7).
func (v *votes) interval() (p, low, high float64) {
	const z = 1.96
	p = v.outdated / v.all
	z2 := z * z * v.squares / (v.all * v.all)
	mid := (p + z2/2) / (1 + z2)
	half := math.Sqrt(z2*p*(1-p)+z2*z2/4) / (1 + z2)
	return p, max(mid-half, 0), min(mid+half, 1)
}
