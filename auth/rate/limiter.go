// Package rate limits how many requests an account may make over a fleet of gateways.
//
// An account's tokens are in one bucket in Redis ([quota.Bucket]). A node takes them in blocks
// and spends them without asking again, so most requests cost a mutex and no round trip. Taken
// tokens are charged at once, so the fleet never gets more of them than the limit gives. Within
// any time the fleet lets at most
//
//	burst + per_second x time + nodes x Limit.Block
//
// requests of one account pass. What a node took and did not spend within a second is lost to
// the account. While Redis is away every node limits on its own, to the whole limit: at most
// nodes times as much passes.
package rate

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/telemetry"
)

const (
	// life is how long taken tokens may be spent.
	life = time.Second
	// maxAccounts bounds the accounts that a node keeps state of. One that is pushed out loses
	// the tokens that it has.
	maxAccounts = 100_000
	// callTimeout bounds one call of Redis unless the options do.
	callTimeout = 100 * time.Millisecond
	// awayFor is how long Redis is left alone after a failure.
	awayFor = time.Second
	// maxPause bounds how long a node leaves Redis alone about an account without tokens where
	// they come back sooner. They gather there meanwhile.
	maxPause = 10 * time.Millisecond
)

// Options are what a Limiter works with. The zero value is usable: every node for itself, no
// log, no metrics, the wall clock.
type Options struct {
	Redis      redis.Scripter // nil: every node limits on its own
	Prefix     string         // of every Redis key: "<prefix>:rate:<account>"
	Timeout    time.Duration  // of one call of Redis; 0: a tenth of a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Limiter decides about requests. It is safe for concurrent use.
type Limiter struct {
	opts     Options
	metrics  metrics
	limits   atomic.Pointer[limits]
	accounts localcache.Cache[string, *account]

	away atomic.Int64 // Redis is left alone until then, in nanoseconds since 1970; 0: it answers
	ctx  context.Context
	stop context.CancelFunc

	mu    sync.Mutex // guards closed against wg
	wg    sync.WaitGroup
	ended bool
}

// Decision is what Allow decided.
type Decision struct {
	Allowed    bool
	Policy     string        // the plan's name, or DefaultPolicy; empty: no limit applies
	Limit      int           // requests that may come at once; 0: no limit applies
	Window     time.Duration // in which Limit requests come back
	Remaining  int           // requests that may come at once now, as far as this node knows
	Reset      time.Duration // until Remaining is Limit again, if nothing comes
	RetryAfter time.Duration // > 0 when not Allowed: when the next request may come
}

// New returns a Limiter; the configuration must be valid. It does not need Redis to be up.
// Close ends it.
func New(cfg Config, opts Options) *Limiter {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	opts.Timeout = cmp.Or(opts.Timeout, callTimeout)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	l := &Limiter{
		opts: opts, metrics: newMetrics(opts.Registerer),
		accounts: otter.Must(&otter.Options[string, *account]{MaximumSize: maxAccounts}),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.SetConfig(cfg)
	return l
}

// SetConfig changes the limits, of accounts in use too. The configuration must be valid.
func (l *Limiter) SetConfig(cfg Config) {
	all := newLimits(cfg)
	l.limits.Store(&all)
}

// Close ends the calls of Redis that are under way and waits for them. Allow may still be
// called; every node then limits on its own.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
}

// account is what a node knows of one account's tokens.
type account struct {
	mu    sync.Mutex
	limit Limit
	own   time.Time // when the bucket is full again that this node has of its own, for when Redis is away

	tokens  int           // taken and not spent
	until   time.Time     // when they lapse
	had     int           // tokens after the last call
	block   int           // what to take next, unless more requests wait
	empty   time.Time     // Redis has no token before
	left    int           // tokens in Redis after the last call
	full    time.Time     // when Redis has all of them again
	asking  chan struct{} // closed when the call of Redis is over that is under way; nil: none is
	waiting int           // requests that wait for it
}

// Allow decides about one request of an account on a plan, and counts it when it is allowed.
// It waits for Redis only when the node has no tokens left and does not know that there are
// none, and no longer than Options.Timeout or the context. It never fails: without Redis the
// node decides on its own.
func (l *Limiter) Allow(ctx context.Context, accountID, plan string) Decision {
	limit := l.limits.Load().of(plan)
	if limit.PerSecond == 0 {
		return Decision{Allowed: true}
	}
	a, ok := l.accounts.GetIfPresent(accountID)
	if !ok {
		a, _ = l.accounts.SetIfAbsent(accountID, &account{})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		now := l.opts.Now()
		a.adopt(limit, now)
		switch {
		case l.opts.Redis == nil:
			return l.alone(a, now)
		case a.spend(now):
			if a.asking == nil && a.had > 1 && 2*a.tokens <= a.had {
				l.ask(a, accountID, now, 0)
			}
			return l.allowed(a, now)
		case now.Before(a.empty):
			return l.denied(a, now)
		case l.away.Load() != 0: // nobody waits for the call that tries whether Redis is back
			if a.asking == nil {
				l.ask(a, accountID, now, 1)
			}
			return l.alone(a, now)
		case a.asking == nil && !l.ask(a, accountID, now, 1):
			return l.alone(a, now)
		}
		a.waiting++
		answered := a.asking
		a.mu.Unlock()
		select {
		case <-answered:
		case <-ctx.Done():
		}
		a.mu.Lock()
		a.waiting--
		if ctx.Err() != nil {
			return l.alone(a, l.opts.Now())
		}
	}
}

// adopt takes a limit over. What was spent of the one before stays spent: so many requests, and
// not the time in which they would have come back. a.mu is held, as in all that follows.
func (a *account) adopt(limit Limit, now time.Time) {
	if a.limit == limit {
		return
	}
	if missing := a.own.Sub(now); missing > 0 {
		spent := min(float64(missing)/float64(a.limit.every()), float64(limit.Burst))
		a.own = now.Add(time.Duration(spent * float64(limit.every())))
	}
	a.limit, a.tokens, a.had, a.block, a.empty = limit, 0, 0, 1, time.Time{}
}

// spend takes a token that is at hand. What lapsed makes the next block no larger than what was
// spent of the last one.
func (a *account) spend(now time.Time) bool {
	if a.had > 0 && !now.Before(a.until) {
		a.block = min(a.block, max(1, a.had-a.tokens))
		a.tokens, a.had = 0, 0
	}
	if a.tokens == 0 {
		return false
	}
	a.tokens--
	// The node's own bucket follows, so that Redis going away does not give a new burst.
	a.spendOwn(now)
	return true
}

// spendOwn takes a token of the node's own bucket, if there is one.
func (a *account) spendOwn(now time.Time) bool {
	level := max(0, a.own.Sub(now)) + a.limit.every()
	if level > a.limit.full() {
		return false
	}
	a.own = now.Add(level)
	return true
}

// ask begins a call of Redis: for as many tokens as are needed, or for a block. False: Redis is
// away and was tried a moment ago, or the Limiter is closed.
func (l *Limiter) ask(a *account, id string, now time.Time, need int) bool {
	if until := l.away.Load(); until != 0 && (now.UnixNano() < until || !l.away.CompareAndSwap(until, now.Add(awayFor).UnixNano())) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	asking, limit := make(chan struct{}), a.limit
	a.asking = asking
	l.wg.Go(func() {
		ctx, cancel := context.WithTimeout(l.ctx, l.opts.Timeout)
		defer cancel()
		b := quota.Bucket{Key: l.opts.Prefix + ":rate:" + id, Every: limit.every(), Burst: limit.full(), Low: limit.full() / 2, Full: true}
		a.mu.Lock()
		if need > 0 {
			need = max(need, a.waiting)
		}
		want := max(need, a.block-a.tokens)
		a.mu.Unlock()
		got, err := quota.Take(ctx, l.opts.Redis, b, need, want, quota.Spenders{})
		l.reached(err)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asking = nil
		close(asking)
		result := leaseFailed
		if err == nil {
			result = leasePartial // of a limit of before: charged, and of no use
			if a.limit == limit {
				result = a.receive(got, need, want, l.opts.Now())
			}
		}
		l.metrics.leases[result].Inc()
	})
	return true
}

// receive takes in what Redis gave, and returns the name of that. Blocks grow while they are
// given whole and begin anew when they are not: near the limit single tokens are what a fleet
// shares fairly.
func (a *account) receive(got quota.Taken, need, want int, now time.Time) string {
	if !now.Before(a.until) {
		a.tokens = 0
	}
	a.tokens += got.Tokens
	a.had, a.until = a.tokens, now.Add(life)
	a.left, a.full = int((a.limit.full()-got.Level)/a.limit.every()), now.Add(got.Level)
	if got.Tokens == want {
		a.block = min(2*a.block, a.limit.Block)
		return leaseFull
	}
	a.block, a.had = 1, min(a.had, 1) // no call at half use
	if got.Tokens < need {
		a.empty = now.Add(max(got.Level+a.limit.every()-a.limit.full(), min(a.limit.Window()/4, maxPause), time.Millisecond))
	}
	if got.Tokens == 0 && need > 0 {
		return leaseDenied
	}
	return leasePartial
}

// reached notes whether Redis answered.
func (l *Limiter) reached(err error) {
	switch {
	case err == nil:
		if l.away.Swap(0) != 0 {
			l.metrics.fallback.Set(0)
			l.opts.Logger.Info("rate limits are shared with the fleet again")
		}
	case l.away.Swap(l.opts.Now().Add(awayFor).UnixNano()) == 0 && l.ctx.Err() == nil:
		l.metrics.fallback.Set(1)
		l.opts.Logger.Warn("rate limits are this node's own until Redis answers again", slog.Any("error", err))
	}
}

// allowed is the decision on a request that a token of the fleet pays for.
func (l *Limiter) allowed(a *account, now time.Time) Decision {
	l.metrics.decisions[1][1].Inc()
	d := a.limit.decision()
	d.Allowed, d.Remaining, d.Reset = true, min(a.left+a.tokens, a.limit.Burst), max(0, a.full.Sub(now))
	return d
}

// denied is the decision when Redis has no tokens.
func (l *Limiter) denied(a *account, now time.Time) Decision {
	l.metrics.decisions[0][1].Inc()
	d := a.limit.decision()
	d.Reset, d.RetryAfter = max(0, a.full.Sub(now)), a.empty.Sub(now)
	return d
}

// alone decides by the node's own bucket.
func (l *Limiter) alone(a *account, now time.Time) Decision {
	d := a.limit.decision()
	if d.Allowed = a.spendOwn(now); d.Allowed {
		l.metrics.decisions[1][0].Inc()
	} else {
		l.metrics.decisions[0][0].Inc()
	}
	d.Reset = max(0, a.own.Sub(now))
	d.Remaining = int((a.limit.full() - d.Reset) / a.limit.every())
	if !d.Allowed {
		d.RetryAfter = max(d.Reset+a.limit.every()-a.limit.full(), time.Millisecond)
	}
	return d
}

// The results of a call of Redis.
const (
	leaseFull    = "full"
	leasePartial = "partial"
	leaseDenied  = "denied"
	leaseFailed  = "failed"
)

// metrics counts decisions with counters that are made once.
type metrics struct {
	decisions [2][2]prometheus.Counter // by whether it was allowed, and by whether the fleet decided
	leases    map[string]prometheus.Counter
	fallback  prometheus.Gauge
}

// newMetrics makes every series at once, so that those which count nothing yet are there, too.
func newMetrics(reg prometheus.Registerer) metrics {
	all := telemetry.Series(reg, "rate_limit")
	decisions := all.Counters("decisions_total",
		"Decisions of the rate limit by result, and by who decided: the fleet's tokens or the node alone.", "result", "by")
	m := metrics{
		leases: telemetry.By(all.Counters("leases_total", "Batches of tokens asked of Redis by result.", "result"),
			leaseFull, leasePartial, leaseDenied, leaseFailed),
		fallback: all.Gauge("fallback", "1 while Redis is away and the node limits on its own."),
	}
	for allowed, result := range []string{"limited", "allowed"} {
		for fleet, by := range []string{"node", "fleet"} {
			m.decisions[allowed][fleet] = decisions.WithLabelValues(result, by)
		}
	}
	return m
}
