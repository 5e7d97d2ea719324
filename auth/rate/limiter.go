// Package rate limits how many requests an account may make over a fleet of gateways.
//
// Each node decides on its own, from its copy of the account's bucket (GCRA), and never waits for Redis.
// Once a tenth of the burst has passed that Redis does not know of, the node reports it in the background: a
// script adds it to the bucket in Redis and returns the level there, which the node adopts. The level
// in Redis may exceed the bucket. That is a debt: what the nodes have let pass beyond the limit is
// paid back before more passes. Within any time t the fleet passes at most
//
//	burst + per_second x t + nodes x (burst/10 + 1 + what passes during one call of Redis)
//
// requests of one account, and in the long run per_second. A burst that comes to several nodes at once may
// pass once per node. While Redis is unavailable, each node applies the whole limit on its own.
package rate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/telemetry"
)

const (
	// maxBuckets bounds the buckets that a node keeps. It forgets the ones used least.
	maxBuckets = 100_000
	// callTimeout bounds one call of Redis unless the options do.
	callTimeout = 100 * time.Millisecond
	// backOff is the pause after a Redis error.
	backOff = time.Second
	// maxDebt bounds the level in Redis, in windows. Twenty nodes that each pass a burst at once owe 20.
	maxDebt = 32
)

// Options are what a Limiter works with. The zero value is usable: every node for itself, no
// log, no metrics, the wall clock.
type Options struct {
	Redis      redis.Scripter // nil: every node limits on its own
	Prefix     string         // of every Redis key: "<prefix>:rate:<per second>:<burst>:<account>"
	Timeout    time.Duration  // of one call of Redis; 0: a tenth of a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Limiter decides about requests. It is safe for concurrent use.
type Limiter struct {
	opts    Options
	metrics metrics
	limits  atomic.Pointer[map[string]limit]
	buckets localcache.Cache[bucketName, *bucket]

	downUntil atomic.Int64 // back-off after an error, in nanoseconds since 1970; 0: Redis answers
	ctx       context.Context
	stop      context.CancelFunc

	mu     sync.Mutex // guards closed: no wg.Go after Close
	wg     sync.WaitGroup
	closed bool
}

// bucketName is an account and its limit: each limit of an account has a bucket of its own. So tokens of
// one account on different plans do not refill each other's bucket, and a changed limit begins with a full one.
type bucketName struct {
	account   string
	perSecond float64
	burst     int
}

// bucket is a node's copy of an account's bucket.
type bucket struct {
	mu         sync.Mutex
	fullAt     time.Time // the theoretical arrival time of GCRA; past: the bucket is full
	unreported int       // requests that Redis does not know of
	inFlight   bool      // a report is
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
		buckets: otter.Must(&otter.Options[bucketName, *bucket]{MaximumSize: maxBuckets}),
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

// Close cancels the reports in flight and waits for them. Allow may still be called; the node then
// limits on its own.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
}

// Allow decides about one request of an account on a plan, and counts it if it is allowed. It does not
// block and does not fail.
func (l *Limiter) Allow(accountID, plan string) Decision {
	limit := l.limitOf(plan)
	if limit.perSecond == 0 {
		return Decision{Allowed: true}
	}
	name := bucketName{accountID, limit.perSecond, limit.burst}
	b, ok := l.buckets.GetIfPresent(name)
	if !ok {
		b, _ = l.buckets.SetIfAbsent(name, new(bucket))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, every, capacity := l.opts.Now(), limit.every, limit.capacity
	level := max(b.fullAt.Sub(now), 0)
	d := Decision{Policy: limit.policy, Limit: limit.burst, Window: limit.window}
	if d.Allowed = level+every <= capacity; d.Allowed {
		level += every
		b.fullAt = now.Add(level)
		if b.unreported++; b.unreported > limit.burst/10 && !b.inFlight {
			l.report(b, name, limit)
		}
	} else {
		d.RetryAfter = level + every - capacity
	}
	// A level of Redis is in whole microseconds, a token a fraction.
	d.Remaining, d.Reset = max(0, int((capacity-level+time.Microsecond)/every)), level
	l.metrics.count(d.Allowed, l.decidesLocally())
	return d
}

// limitOf is the limit of a plan. A plan without an entry has the default.
func (l *Limiter) limitOf(plan string) limit {
	all := *l.limits.Load()
	if limit, ok := all[plan]; ok {
		return limit
	}
	return all[""]
}

// decidesLocally tells whether the fleet's level is out of reach.
func (l *Limiter) decidesLocally() bool { return l.opts.Redis == nil || l.downUntil.Load() != 0 }

// chargeScript adds tokens to the level of a bucket, beyond its capacity too, and returns the level. One number is
// stored: the moment at which the bucket is full again, by the clock of Redis. All in microseconds. '%.0f': Lua
// itself writes 14 digits, and a time in microseconds has 16. The most that a level may be limits the harm of a clock of Redis
// that is set back.
//
//	KEYS: the bucket
//	ARGV: tokens, the most that the level may be
var chargeScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local level = math.max((tonumber(redis.call('GET', KEYS[1]) or '') or now) - now, 0)
level = math.floor(math.min(level + ARGV[1], tonumber(ARGV[2])))
redis.call('SET', KEYS[1], string.format('%.0f', now + level), 'PX', string.format('%.0f', math.ceil(level / 1000) + 1))
return string.format('%.0f', level)`)

// report begins to report the requests of a bucket that Redis does not know of. While Redis is unavailable they are dropped:
// the node's own copy has counted them, and the fleet owes nothing for them. b.mu is held.
func (l *Limiter) report(b *bucket, name bucketName, limit limit) {
	n := b.unreported
	if l.opts.Redis == nil {
		b.unreported = 0
		return
	}
	if until, now := l.downUntil.Load(), l.opts.Now(); until != 0 && (now.UnixNano() < until || !l.downUntil.CompareAndSwap(until, now.Add(backOff).UnixNano())) {
		b.unreported = 0
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	b.inFlight = true
	l.wg.Go(func() {
		began := l.opts.Now()
		level, err := l.charge(name, time.Duration(n)*limit.every, maxDebtOf(limit.capacity))
		l.recordResult(err)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.inFlight = false
		b.unreported -= n
		// The level is that of some moment during the call. The start of the call is assumed, so that the account
		// does not pay for its latency. If this node's copy says less is left, it wins: Redis may have lost its data.
		if fullAt := began.Add(level + time.Duration(b.unreported)*limit.every); err == nil && fullAt.After(b.fullAt) {
			b.fullAt = fullAt
		}
	})
}

// maxDebtOf is the debt that an account with this capacity can have.
func maxDebtOf(capacity time.Duration) time.Duration {
	if capacity > math.MaxInt64/maxDebt {
		return math.MaxInt64
	}
	return maxDebt * capacity
}

// charge runs the script.
func (l *Limiter) charge(name bucketName, tokens, most time.Duration) (level time.Duration, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.opts.Timeout)
	defer cancel()
	key := fmt.Sprintf("%s:rate:%g:%d:%s", l.opts.Prefix, name.perSecond, name.burst, name.account)
	micros := func(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1000) }
	n, err := chargeScript.Run(ctx, l.opts.Redis, []string{key}, micros(tokens), micros(most)).Int64()
	return time.Duration(n) * time.Microsecond, err
}

// recordResult keeps whether Redis answers.
func (l *Limiter) recordResult(err error) {
	switch {
	case err == nil:
		if l.downUntil.Swap(0) != 0 {
			l.metrics.fallback.Set(0)
			l.opts.Logger.Info("rate limits are shared with the fleet again")
		}
	case l.downUntil.Swap(l.opts.Now().Add(backOff).UnixNano()) == 0 && l.ctx.Err() == nil:
		l.metrics.fallback.Set(1)
		l.opts.Logger.Warn("rate limits are this node's own until Redis answers again", slog.Any("error", err))
	}
}

// metrics counts decisions with counters that are made once.
type metrics struct {
	decisions [2][2]prometheus.Counter // by whether it was allowed, and by whether the node decided locally
	fallback  prometheus.Gauge
}

// newMetrics makes every series at once, so that those which count nothing yet are there, too.
func newMetrics(reg prometheus.Registerer) (m metrics) {
	all := telemetry.Series(reg, "rate_limit")
	decisions := all.Counters("decisions_total",
		"Decisions of the rate limit, by the fleet's count or the node's alone.", "result", "by")
	m.fallback = all.Gauge("fallback", "1 while Redis is unavailable and this node limits on its own.")
	for allowed, result := range []string{"limited", "allowed"} {
		for local, by := range []string{"fleet", "node"} {
			m.decisions[allowed][local] = decisions.WithLabelValues(result, by)
		}
	}
	return m
}

func (m *metrics) count(allowed, local bool) {
	index := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	m.decisions[index(allowed)][index(local)].Inc()
}
