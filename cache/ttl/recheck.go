package ttl

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
)

const (
	// rechecksAtOnce is how many lists are compared at a time. An answer that is drawn while none is
	// free is not compared: later, its list might have changed since the answer.
	rechecksAtOnce = 4
	// targetUtilization is the share of the budget that is drawn for, so that chance does not exceed it.
	targetUtilization = 0.8
)

// Fetch asks the legacy for a list, past the cache. body is as [cache.BodySum] has it.
type Fetch func(ctx context.Context, k cache.Key) (body uint64, answeredAt time.Time, err error)

// Rechecker compares answers out of the cache with what the legacy says at that moment, and counts
// them. Each answer is drawn with the same probability. It is a collector of the counters.
type Rechecker struct {
	now     func() time.Time
	share   atomic.Uint64 // of the answers out of the cache that are drawn, of 2^64
	answers atomic.Uint64 // out of the cache
	missed  atomic.Uint64 // drawn and not compared since the last one that was
	drawn   chan recheck
	budget  *rate.Limiter

	mu      sync.Mutex
	checked map[recheckLabels]recheckCount
}

// recheck is an answer to compare.
type recheck struct {
	entry *cache.Entry
	share float64 // at which it was drawn
}

type recheckLabels struct{ kind, result string }

type recheckCount struct{ checks, answers float64 }

func newRechecker(perSecond float64, now func() time.Time) *Rechecker {
	r := &Rechecker{now: now, drawn: make(chan recheck), budget: rate.NewLimiter(0, 1), checked: map[recheckLabels]recheckCount{}}
	r.SetRate(perSecond)
	return r
}

// SetRate sets how many lists may be compared per second; 0: none.
func (r *Rechecker) SetRate(perSecond float64) {
	r.budget.SetBurst(max(int(perSecond), 1))
	r.budget.SetLimit(rate.Limit(perSecond))
	if perSecond == 0 {
		r.share.Store(0)
	} else if r.share.Load() == 0 {
		r.share.Store(math.MaxUint64) // until tune knows the traffic
	}
}

// offer draws an answer, and has it compared at once if a worker is free.
func (r *Rechecker) offer(e *cache.Entry) {
	share := r.share.Load()
	if share == 0 {
		return
	}
	r.answers.Add(1)
	if rand.Uint64() > share {
		return
	}
	select {
	case r.drawn <- recheck{e, float64(share) / math.MaxUint64}:
	default:
		r.missed.Add(1)
	}
}

// tune follows the traffic, so that re-checks use the budget and stay within it, until ctx ends.
func (r *Rechecker) tune(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	smoothed, last := -1.0, r.answers.Load()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := r.answers.Load()
		perSecond := float64(n - last)
		if last = n; smoothed < 0 {
			smoothed = perSecond
		}
		smoothed += 0.3 * (perSecond - smoothed)
		if budget := targetUtilization * float64(r.budget.Limit()); budget > 0 {
			r.share.Store(uint64(min(budget/max(smoothed, budget), 1) * math.Nextafter(math.MaxUint64, 0)))
		}
	}
}

// Recheck compares lists as often as the budget allows, until ctx ends. timeout is that of one
// fetch. healthy keeps it from adding to the trouble of a legacy that has some. A panic ends one
// comparison; a fetch that fails says nothing.
func (r *Rechecker) Recheck(ctx context.Context, fetch Fetch, timeout func() time.Duration, healthy func() bool, p *telemetry.Catcher) {
	var all sync.WaitGroup
	all.Go(func() { r.tune(ctx) })
	for range rechecksAtOnce {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case next := <-r.drawn:
					if healthy() {
						r.compare(ctx, next, fetch, timeout(), p)
					}
				}
			}
		})
	}
	all.Wait()
}

func (r *Rechecker) compare(ctx context.Context, next recheck, fetch Fetch, timeout time.Duration, catch *telemetry.Catcher) {
	defer catch.Catch(nil)
	if !r.budget.AllowN(r.now(), 1) {
		r.missed.Add(1)
		return
	}
	weight := float64(1+r.missed.Swap(0)) / next.share
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, at, err := fetch(ctx, next.entry.Key)
	if err != nil || !at.After(next.entry.AnsweredAt) {
		return
	}
	labels := recheckLabels{next.entry.Kind, "same"}
	if body != next.entry.Sum() {
		labels.result = "outdated"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.checked[labels]
	r.checked[labels] = recheckCount{c.checks + 1, c.answers + weight}
}

var (
	rechecksDesc = prometheus.NewDesc("inquiry_gateway_cache_rechecks_total", "Cached lists compared with the legacy system by re-checks.", []string{"kind", "result"}, nil)
	answersDesc  = prometheus.NewDesc("inquiry_gateway_cache_rechecked_answers_total", "Cached responses, outdated or not, estimated from re-checks.", []string{"kind", "result"}, nil)
)

// Describe sends the series' descriptions.
func (r *Rechecker) Describe(ch chan<- *prometheus.Desc) {
	ch <- rechecksDesc
	ch <- answersDesc
}

// Collect sends what was counted. While re-checks are off it sends nothing: a zero would look like a
// gateway that serves nothing outdated.
func (r *Rechecker) Collect(ch chan<- prometheus.Metric) {
	if r.budget.Limit() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range [...]string{cache.KindBuyer, cache.KindSeller} {
		for _, result := range [...]string{"same", "outdated"} {
			c := r.checked[recheckLabels{kind, result}]
			ch <- prometheus.MustNewConstMetric(rechecksDesc, prometheus.CounterValue, c.checks, kind, result)
			ch <- prometheus.MustNewConstMetric(answersDesc, prometheus.CounterValue, c.answers, kind, result)
		}
	}
}
