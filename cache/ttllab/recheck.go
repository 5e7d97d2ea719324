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
	// aimed is how much of the budget is planned for, so that chance does not exceed it.
	aimed = 0.8
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

	mu    sync.Mutex // guards what follows
	votes []grouped  // not in a batch yet
	count [2][2]tally
}

// pick is an answer to be compared.
type pick struct {
	group      *group
	key        cache.Key
	list, body uint64 // hash of the source, and of the answer
	selected   bool
	answered   int64
	share      float64 // of the answers that were drawn then
}

// grouped is a vote of a group.
type grouped struct {
	group uint8
	vote  vote
}

// tally counts re-checks of a kind of list, by whether the list had changed, and the answers
// that they stand for.
type tally struct{ checked, answers float64 }

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
	switch budget := aimed * float64(r.budget.Limit()); {
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
						l.rechecks.compare(ctx, next, fetch, timeout(), l.now, p)
					}
				}
			}
		})
	}
	all.Wait()
}

// compare makes one re-check if the budget allows it. A fetch that fails says nothing, and
// is not repeated.
func (r *rechecker) compare(ctx context.Context, p pick, fetch Fetch, timeout time.Duration, now func() time.Time, catch *telemetry.Catcher) {
	defer catch.Catch(nil)
	if !r.budget.AllowN(now(), 1) {
		r.missed.Add(1)
		return
	}
	weight := float64(1+r.missed.Swap(0)) / p.share
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, at, err := fetch(ctx, p.key)
	if err != nil || at.UnixNano() <= p.answered {
		return
	}
	r.compared(p, body, at, weight)
}

// compared notes what the legacy says of an answer that stands for so many.
func (r *rechecker) compared(p pick, body uint64, at time.Time, weight float64) {
	v := vote{Hash: p.list, Body: body, At: at.UnixNano(), Answered: p.answered, Weight: float32(weight), Outdated: body != p.body, Selected: p.selected}
	kind, result := 0, 0
	if p.group.kind != cache.KindBuyer {
		kind = 1
	}
	if v.Outdated {
		result = 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.count[kind][result]
	t.checked++
	t.answers += weight
	if len(r.votes) < ringSlots {
		r.votes = append(r.votes, grouped{p.group.index, v})
	}
}

// take hands out the votes since the last call.
func (r *rechecker) take() []grouped {
	r.mu.Lock()
	defer r.mu.Unlock()
	votes := r.votes
	r.votes = nil
	return votes
}

// votes sums up the re-checks of one group. Re-checks of one fill of one list say nearly the
// same, because until the list changes none is outdated and afterwards all are: together
// they are one vote, which may be divided.
type votes struct {
	checks int // since the start
	sum    ballot
	open   map[uint64]cluster
}

// cluster is the re-checks of one fill of one list.
type cluster struct {
	fill          int64
	all, outdated float64 // weights
}

// ballot is what the share and its error need to know of clusters.
type ballot struct{ all, outdated, squares float64 }

func (b *ballot) add(c cluster) {
	b.all += c.all
	b.outdated += c.outdated
	b.squares += c.all * c.all
}

// add takes in a re-check.
func (c *votes) add(v *vote) {
	c.checks++
	if len(c.open) >= keptClusters {
		c.close()
	}
	k, ok := c.open[v.Hash]
	// Nodes see one fill at moments that differ by what their messages take.
	if ok && max(k.fill-v.Answered, v.Answered-k.fill) > int64(500*time.Millisecond) {
		c.sum.add(k)
		ok = false
	}
	if !ok {
		k = cluster{fill: v.Answered}
	}
	k.all += float64(v.Weight)
	if v.Outdated {
		k.outdated += float64(v.Weight)
	}
	c.open[v.Hash] = k
}

// close ends all clusters.
func (c *votes) close() {
	for _, k := range c.open {
		c.sum.add(k)
	}
	clear(c.open)
}

// scale ages all votes: they count for less, and the share stays.
func (c *votes) scale(f float64) {
	c.close()
	c.sum = ballot{c.sum.all * f, c.sum.outdated * f, c.sum.squares * f}
}

// Served is what re-checks say about the answers that were really given.
type Served struct {
	Checks int `json:"checks"` // since the start
	// Outdated is the share of all answers with a list, those that waited for the
	// legacy included, that differed from what it said at that moment. Low and High
	// bound it with 95 % confidence.
	Outdated float64 `json:"outdated"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// served is the indicator "served outdated": of the answers out of the cache, those that
// differed, times the share of all answers that came out of the cache. Who waited for
// the legacy got what it said.
func (c *votes) served(s sums) Served {
	sum := c.sum
	for _, k := range c.open {
		sum.add(k)
	}
	answers := s.lookups - s.failed
	if sum.all == 0 || answers <= 0 {
		return Served{Checks: c.checks}
	}
	cached := max(answers-s.waited, 0) / answers
	p, low, high := sum.interval()
	return Served{Checks: c.checks, Outdated: p * cached, Low: low * cached, High: high * cached}
}

// interval is the share p, and what holds the true one with 95 % confidence: Wilson's
// interval with as many votes as would say as much if all had the same weight (Kish,
// "Survey Sampling", 1965, 11.7).
func (b *ballot) interval() (p, low, high float64) {
	const z = 1.96
	p = b.outdated / b.all
	z2 := z * z * b.squares / (b.all * b.all)
	mid := (p + z2/2) / (1 + z2)
	half := math.Sqrt(z2*p*(1-p)+z2*z2/4) / (1 + z2)
	return p, max(mid-half, 0), min(mid+half, 1)
}
