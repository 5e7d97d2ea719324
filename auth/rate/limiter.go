// Package rate limits how many requests an account may make over a fleet of gateways.
//
// An account's tokens are in one bucket in Redis ([quota.Bucket]). A node lets a few requests
// pass and charges them afterwards, all at once: Limit.Uncharged at most, a tenth of the burst.
// While an account is far from its limit that is one plain command of Redis per charge.
// Where that many wait to be charged, or Redis has said that there is none, it asks before it
// answers. It has a bucket of its own besides, of the same limit, so that a node alone never lets
// more pass than the limit gives. Within any time the fleet lets at most
//
//	burst + per_second x time + nodes x Limit.Uncharged
//
// requests of one account pass, and as many again of Limit.Uncharged for each time that a node
// forgets an account, at its end too. While Redis is away every node limits on its own, to the
// whole limit: at most nodes times as much passes.
package rate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/telemetry"
)

const (
	// maxAccounts bounds the accounts that a node keeps state of.
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
	Redis      redis.Cmdable // nil: every node limits on its own
	Prefix     string        // of every Redis key: "<prefix>:rate:<per second>:<burst>:<account>"
	Timeout    time.Duration // of one call of Redis; 0: a tenth of a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Limiter decides about requests. It is safe for concurrent use.
type Limiter struct {
	opts     Options
	metrics  metrics
	limits   atomic.Pointer[limits]
	accounts localcache.Cache[bucketName, *account]

	away atomic.Int64 // Redis is left alone until then, in nanoseconds since 1970; 0: it answers
	ctx  context.Context
	stop context.CancelFunc

	mu    sync.Mutex // guards ended: no wg.Go after it
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
		accounts: otter.Must(&otter.Options[bucketName, *account]{MaximumSize: maxAccounts}),
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

// bucketName is an account and its limit: each limit of an account has a bucket of its own. So tokens
// of one account on different plans do not refill each other's bucket, and a changed limit begins with a full one.
type bucketName struct {
	account   string
	perSecond float64
	burst     int
}

// account is what a node knows of one account's tokens under one limit.
type account struct {
	mu    sync.Mutex
	limit Limit         // the Policy is that of the request which made it
	own   *rate.Limiter // the node's own bucket

	uncharged  int           // requests that have passed and are to be charged
	paid       int           // tokens for those who have waited for a call of Redis
	emptyUntil time.Time     // Redis has no token before
	fullAt     time.Time     // when Redis has all of them again
	asking     chan struct{} // closed when the call of Redis is over that is under way; nil: none is
	waiting    int           // requests that wait for it
}

// Allow decides about one request of an account on a plan, and counts it when it is allowed.
// It waits for Redis only when as many requests as may be are not charged yet, and it does not
// know that there are no tokens, and no longer than Options.Timeout or the context, also where it
// comes too late for the call that is under way. It never fails: after that, and without Redis,
// the node decides on its own.
func (l *Limiter) Allow(ctx context.Context, accountID, plan string) Decision {
	limit := l.limits.Load().of(plan)
	if limit.PerSecond == 0 {
		return Decision{Allowed: true}
	}
	name := bucketName{accountID, limit.PerSecond, limit.Burst}
	a, ok := l.accounts.GetIfPresent(name)
	if !ok {
		a, _ = l.accounts.SetIfAbsent(name, &account{limit: limit, own: rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var cancel context.CancelFunc // of the one deadline, however many calls of Redis are waited for
	for {
		now := l.opts.Now()
		a.limit.Policy = limit.Policy
		switch {
		case l.opts.Redis == nil:
			return l.alone(a, now)
		case l.away.Load() != 0: // nobody waits for the call that tries whether Redis is back
			if a.asking == nil {
				l.ask(a, accountID, now)
			}
			return l.alone(a, now)
		case a.own.TokensAt(now) < 1:
			return l.denied(a, now)
		case a.paid > 0:
			a.paid--
			return l.allowed(a, now)
		case now.Before(a.emptyUntil):
			return l.denied(a, now)
		case a.uncharged < limit.Uncharged:
			if a.uncharged++; a.asking == nil && a.uncharged >= limit.Uncharged-limit.Uncharged/8 {
				l.ask(a, accountID, now)
			}
			return l.allowed(a, now)
		}
		a.waiting++
		if a.asking == nil && !l.ask(a, accountID, now) {
			a.waiting--
			return l.alone(a, now)
		}
		answered := a.asking
		a.mu.Unlock()
		if cancel == nil {
			ctx, cancel = context.WithTimeout(ctx, l.opts.Timeout)
			defer cancel()
		}
		select {
		case <-answered:
		case <-ctx.Done():
		}
		a.mu.Lock()
		a.waiting--
		if ctx.Err() != nil {
			a.paid = min(a.paid, a.waiting)
			return l.alone(a, l.opts.Now())
		}
	}
}

// ask begins a call of Redis: for what is not charged yet, and for those who wait. False: Redis is
// away and was tried a moment ago, or the Limiter is closed. a.mu is held, as in all that follows.
func (l *Limiter) ask(a *account, id string, now time.Time) bool {
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
		key := fmt.Sprintf("%s:rate:%g:%d:%s", l.opts.Prefix, limit.PerSecond, limit.Burst, id)
		b := quota.Bucket{Key: key, Every: limit.every(), Burst: limit.capacity(), Full: true}
		a.mu.Lock()
		n, rested := a.uncharged+a.waiting, !a.fullAt.After(l.opts.Now())
		a.mu.Unlock()
		got, err := quota.Charge(ctx, l.opts.Redis, b, n, rested)
		l.reached(err)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asking = nil
		close(asking)
		result := chargeFailed
		if err == nil {
			result = a.charged(got, n, l.opts.Now())
		}
		l.metrics.charges[result].Inc()
	})
	return true
}

// charged takes in what Redis gave of n tokens, and returns the name of that.
func (a *account) charged(got quota.Taken, n int, now time.Time) string {
	owed := min(got.Tokens, a.uncharged)
	a.uncharged -= owed
	a.paid = min(got.Tokens-owed, a.waiting)
	a.fullAt = now.Add(got.Level)
	if got.Tokens < n {
		a.emptyUntil = now.Add(max(got.Level+a.limit.every()-a.limit.capacity(), min(a.limit.Window()/4, maxPause), time.Millisecond))
	}
	switch got.Tokens {
	case n:
		return chargeFull
	case 0:
		return chargeDenied
	}
	return chargePartial
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

// allowed is the decision on a request that is within the fleet's limit.
func (l *Limiter) allowed(a *account, now time.Time) Decision {
	a.own.AllowN(now, 1)
	l.metrics.decisions[1][1].Inc()
	return a.decision(now, true)
}

// denied is the decision when Redis has no tokens, or this node alone has let pass as many as the
// limit gives.
func (l *Limiter) denied(a *account, now time.Time) Decision {
	l.metrics.decisions[0][1].Inc()
	d := a.decision(now, false)
	d.Remaining, d.RetryAfter = 0, max(d.RetryAfter, a.emptyUntil.Sub(now))
	return d
}

// alone decides by the node's own bucket.
func (l *Limiter) alone(a *account, now time.Time) Decision {
	a.fullAt = now // what Redis has said is of no use
	if a.own.AllowN(now, 1) {
		l.metrics.decisions[1][0].Inc()
		return a.decision(now, true)
	}
	l.metrics.decisions[0][0].Inc()
	return a.decision(now, false)
}

// decision is what the bucket of the node and what is known of that in Redis say, of which the
// emptier one counts.
func (a *account) decision(now time.Time, allowed bool) Decision {
	missing := a.fullAt.Sub(now) + time.Duration(a.uncharged)*a.limit.every()
	tokens := a.own.TokensAt(now)
	own := a.limit.times(float64(a.limit.Burst) - tokens)
	d := Decision{Allowed: allowed, Policy: a.limit.Policy, Limit: a.limit.Burst, Window: a.limit.Window(), Reset: min(max(own, missing), a.limit.capacity())}
	// A level of Redis is in whole microseconds, a token of the node's a fraction.
	d.Remaining = max(0, min(int(tokens+1e-6), int((a.limit.capacity()-max(missing, 0)+time.Microsecond)/a.limit.every())))
	if !allowed {
		d.RetryAfter = max(a.limit.times(1-tokens), time.Millisecond)
	}
	return d
}

// The results of a call of Redis.
const (
	chargeFull    = "full"
	chargePartial = "partial"
	chargeDenied  = "denied"
	chargeFailed  = "failed"
)

// metrics counts decisions with counters that are made once.
type metrics struct {
	decisions [2][2]prometheus.Counter // by whether it was allowed, and by whether the fleet decided
	charges   map[string]prometheus.Counter
	fallback  prometheus.Gauge
}

// newMetrics makes every series at once, so that those which count nothing yet are there, too.
func newMetrics(reg prometheus.Registerer) metrics {
	all := telemetry.Series(reg, "rate_limit")
	decisions := all.Counters("decisions_total",
		"Decisions of the rate limit by result, and by who decided: the fleet's tokens or the node alone.", "result", "by")
	m := metrics{
		charges: telemetry.By(all.Counters("charges_total", "Calls of Redis, each of which charges the requests of one account, by result: full, partial, denied (no token is left) or failed.", "result"),
			chargeFull, chargePartial, chargeDenied, chargeFailed),
		fallback: all.Gauge("fallback", "1 while Redis is away and the node limits on its own."),
	}
	for allowed, result := range []string{"limited", "allowed"} {
		for fleet, by := range []string{"node", "fleet"} {
			m.decisions[allowed][fleet] = decisions.WithLabelValues(result, by)
		}
	}
	return m
}
