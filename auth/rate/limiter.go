// Package rate limits how many requests an account may make over a fleet of
// gateways.
//
// The account's tokens are kept in Redis (GCRA, a leaky bucket that stores one
// number). A node takes them in small batches, leases, and spends them without
// asking again, so most requests cost a mutex and no round trip. Taken tokens
// are charged at once, so the fleet never gets more of them than the limit
// gives. They may be spent up to LeaseTTL later: within any window the fleet
// lets at most
//
//	burst + per_second x window + nodes x Limit.Batch
//
// requests of one account pass, and what a node took and did not spend within
// LeaseTTL is lost to the account.
//
// While Redis is away every node limits on its own, to the whole limit: at
// most nodes times as much passes.
package rate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/localcache"
)

const (
	// LeaseTTL is how long taken tokens may be spent.
	LeaseTTL = time.Second
	// maxAccounts bounds the accounts that a node keeps state of. One that is
	// pushed out loses its leased tokens.
	maxAccounts = 100_000
	// leaseTimeout bounds one request to Redis unless the options do.
	leaseTimeout = 100 * time.Millisecond
	// awayFor is how long Redis is left alone after a failure.
	awayFor = time.Second
)

// Options are what a Limiter works with. The zero value is usable: every node
// for itself, no log, no metrics, the wall clock.
type Options struct {
	Redis      redis.Cmdable // nil: every node limits on its own
	Prefix     string        // of every Redis key: "<prefix>:rate:<account>"
	Timeout    time.Duration // of one request to Redis; 0: a tenth of a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Limiter decides about requests. It is safe for concurrent use.
type Limiter struct {
	fleet    *redis_rate.Limiter // nil: every node limits on its own
	timeout  time.Duration       // of one request to Redis
	now      func() time.Time
	log      *slog.Logger
	metrics  *metrics
	limits   atomic.Pointer[limits]
	accounts localcache.Cache[string, *account]

	away  atomic.Int64 // Redis is left alone until then, in nanoseconds since 1970; 0: it is fine
	ctx   context.Context
	stop  context.CancelFunc
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

// New returns a Limiter; the configuration must be valid. It does not need
// Redis to be up. Close ends it.
func New(cfg Config, opts Options) *Limiter {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Timeout = cmp.Or(opts.Timeout, leaseTimeout)
	l := &Limiter{
		timeout: opts.Timeout, now: opts.Now, log: opts.Logger, metrics: newMetrics(opts.Registerer),
		accounts: otter.Must(&otter.Options[string, *account]{MaximumSize: maxAccounts}),
	}
	if opts.Redis != nil {
		l.fleet = redis_rate.NewLimiter(underPrefix{opts.Redis, opts.Prefix})
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.SetConfig(cfg)
	return l
}

// SetConfig changes the limits, of accounts under way too. The configuration must be
// valid.
func (l *Limiter) SetConfig(cfg Config) {
	all := newLimits(cfg)
	l.limits.Store(&all)
}

// Close ends the requests to Redis that are under way and waits for them.
// Allow may still be called; every node then limits on its own.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
}

// Allow decides about one request of an account on a plan, and counts it when
// it is allowed. It waits for Redis only when the node has no tokens left and
// does not know that there are none, and no longer than Options.Timeout or the
// context. It never fails: without Redis the node decides on its own.
func (l *Limiter) Allow(ctx context.Context, accountID, plan string) Decision {
	limit := l.limits.Load().of(plan)
	if limit.PerSecond == 0 {
		return Decision{Allowed: true}
	}
	a := l.account(accountID)
	for waited := false; ; waited = true {
		v, wait := l.try(a, limit, waited)
		if wait == nil {
			l.metrics.count(v)
			return v.Decision
		}
		select {
		case <-wait:
		case <-ctx.Done():
			v := a.giveUp(l.now())
			l.metrics.count(v)
			return v.Decision
		}
	}
}

// try decides at once, or returns a channel that is closed when trying again
// makes sense; waited says that it has been waited for.
func (l *Limiter) try(a *account, limit Limit, waited bool) (verdict, <-chan struct{}) {
	now := l.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if waited {
		a.waiting--
	}
	a.adopt(limit, now)
	if l.fleet == nil {
		return a.alone(now), nil
	}
	if a.spend(now) {
		if a.shouldRenew(now) && l.reachable(now) {
			l.lease(a, a.batch-a.tokens)
		}
		return a.allowed(now), nil
	}
	if now.Before(a.deniedUntil) {
		return a.denied(now), nil
	}
	away := l.away.Load() != 0
	if a.flight == nil && (!l.reachable(now) || !l.lease(a, max(a.batch, a.waiting+1))) {
		return a.alone(now), nil
	}
	if away { // somebody is trying whether Redis is back; nobody waits for that
		return a.alone(now), nil
	}
	a.waiting++
	return verdict{}, a.flight
}

// account returns the state of an account.
func (l *Limiter) account(id string) *account {
	if a, ok := l.accounts.GetIfPresent(id); ok {
		return a
	}
	a, _ := l.accounts.SetIfAbsent(id, &account{id: id})
	return a
}

// reachable reports whether Redis may be asked. After a failure one caller per
// awayFor is told so, to try it; the others go on alone.
func (l *Limiter) reachable(now time.Time) bool {
	until := l.away.Load()
	if until == 0 {
		return true
	}
	return now.UnixNano() >= until && l.away.CompareAndSwap(until, now.Add(awayFor).UnixNano())
}

// lease starts taking n tokens from Redis. a.mu is held; a.flight is closed
// when it is done.
func (l *Limiter) lease(a *account, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	flight, limit, parts := make(chan struct{}), a.limit, n*tokenParts-a.carry
	a.flight = flight
	l.wg.Go(func() {
		r, err := l.take(a.id, limit, parts)
		l.noteHealth(err)
		a.mu.Lock()
		defer a.mu.Unlock()
		l.metrics.leases[a.receive(r, parts, err, l.now())].Inc()
		a.flight = nil
		close(flight)
	})
	return true
}

// tokenParts is how many parts Redis counts a token in. Whole tokens would not
// do: the script reckons with times of 16 digits, so that a full burst of 1 may
// come out as 0.999, and what it gives in part it rounds down.
const tokenParts = 1000

// timeError is how far the script's times may be off.
const timeError = 250 * time.Nanosecond

// take asks Redis for parts of tokens: all or nothing up to one token, so that
// nobody collects what is of no use, else as many as there are.
func (l *Limiter) take(id string, limit Limit, parts int) (r *redis_rate.Result, err error) {
	defer func() {
		if p := recover(); p != nil { // the library does not check the types of a reply
			err = fmt.Errorf("an answer of Redis that makes no sense: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(l.ctx, l.timeout)
	defer cancel()
	slack := 1 + int(timeError.Seconds()*limit.PerSecond*tokenParts)
	counted := redis_rate.Limit{Rate: tokenParts, Period: limit.interval(), Burst: limit.Burst*tokenParts + slack}
	if parts <= tokenParts {
		return l.fleet.AllowN(ctx, id, counted, parts)
	}
	return l.fleet.AllowAtMost(ctx, id, counted, parts)
}

// noteHealth keeps whether Redis answered.
func (l *Limiter) noteHealth(err error) {
	if err == nil {
		if l.away.Swap(0) != 0 {
			l.metrics.fallback.Set(0)
			l.log.Info("rate limits are shared with the fleet again")
		}
		return
	}
	if l.away.Swap(l.now().Add(awayFor).UnixNano()) == 0 && l.ctx.Err() == nil {
		l.metrics.fallback.Set(1)
		l.log.Warn("rate limits are this node's own until Redis answers again", slog.Any("error", err))
	}
}
