package rate

import (
	"math"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"golang.org/x/time/rate"
)

// account is what a node knows of one account's tokens.
type account struct {
	id string

	mu    sync.Mutex
	limit Limit
	own   *rate.Limiter // the node's own view, for when Redis is away

	tokens      int       // leased and not spent
	carry       int       // parts of a token that were leased besides, less than one token
	until       time.Time // when they lapse
	leased      int       // what there was of them after the last lease
	batch       int       // to take next, unless more requests wait
	deniedUntil time.Time // Redis has none before
	remaining   int       // in Redis, after the last lease
	resetAt     time.Time // when Redis has all of them again

	flight  chan struct{} // closed when the lease under way is done; nil: none is
	waiting int           // requests that wait for it
}

// verdict is a decision and who made it.
type verdict struct {
	Decision
	fleet bool // false: the node on its own
}

// adopt takes a limit over. a.mu is held, as in all methods but giveUp.
func (a *account) adopt(limit Limit, now time.Time) {
	if a.limit == limit {
		return
	}
	if a.own == nil {
		a.own = rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)
	}
	a.own.SetLimitAt(now, rate.Limit(limit.PerSecond))
	a.own.SetBurstAt(now, limit.Burst)
	a.limit, a.batch = limit, 1
	a.tokens, a.carry, a.leased, a.deniedUntil = 0, 0, 0, time.Time{}
}

// spend takes a leased token. A lease that lapsed makes the next one no larger
// than what was spent of it: the rest was the account's, and it is lost.
func (a *account) spend(now time.Time) bool {
	if a.leased > 0 && !now.Before(a.until) {
		a.batch = min(a.batch, max(1, a.leased-a.tokens))
		a.tokens, a.carry, a.leased = 0, 0, 0
	}
	if a.tokens == 0 {
		return false
	}
	a.tokens--
	// The node's own view follows, so that Redis going away and coming back
	// does not hand out a new burst each time.
	a.own.AllowN(now, 1)
	return true
}

// shouldRenew reports whether a lease should be under way before the tokens
// run out. An account that has needed one token at a time so far waits.
func (a *account) shouldRenew(now time.Time) bool {
	return a.flight == nil && a.leased > 1 && 2*a.tokens <= a.batch && !now.Before(a.deniedUntil)
}

// The results of a lease.
const (
	leaseFull    = "full"
	leasePartial = "partial"
	leaseDenied  = "denied"
	leaseFailed  = "failed"
)

// receive takes in what Redis gave of a number of parts. Leases grow while they
// are given whole and begin anew when they are not: near the limit single
// tokens are what a fleet shares fairly.
func (a *account) receive(r *redis_rate.Result, asked int, err error, now time.Time) string {
	if err != nil {
		return leaseFailed
	}
	if !now.Before(a.until) {
		a.tokens = 0
	}
	a.remaining, a.resetAt = r.Remaining/tokenParts, now.Add(r.ResetAfter)
	parts := a.carry + r.Allowed
	a.carry = parts % tokenParts
	a.tokens += parts / tokenParts
	a.leased, a.until = a.tokens, now.Add(LeaseTTL)
	if r.Allowed == asked {
		a.batch = min(2*a.batch, a.limit.Batch)
		return leaseFull
	}
	a.batch = 1
	wait := r.RetryAfter
	if asked > tokenParts { // Redis has been emptied and says when there is a part again
		wait = a.duration(float64(tokenParts-a.carry) / tokenParts)
	}
	a.deniedUntil = now.Add(max(wait, a.limit.pause()))
	if parts < tokenParts {
		return leaseDenied
	}
	return leasePartial
}

// allowed is the verdict on a request that a leased token pays for.
func (a *account) allowed(now time.Time) verdict {
	d := a.base()
	d.Allowed = true
	d.Remaining = min(a.remaining+a.tokens, a.limit.Burst)
	d.Reset = max(0, a.resetAt.Sub(now))
	return verdict{d, true}
}

// denied is the verdict when Redis has no tokens.
func (a *account) denied(now time.Time) verdict {
	d := a.base()
	d.Reset = max(0, a.resetAt.Sub(now))
	d.RetryAfter = a.deniedUntil.Sub(now)
	return verdict{d, true}
}

// giveUp decides for a request that will not wait any longer. a.mu is not held.
func (a *account) giveUp(now time.Time) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	return a.alone(now)
}

// alone decides by the node's own view.
func (a *account) alone(now time.Time) verdict {
	d := a.base()
	d.Allowed = a.own.AllowN(now, 1)
	tokens := a.own.TokensAt(now)
	d.Remaining = max(0, int(tokens))
	d.Reset = a.duration(float64(a.limit.Burst) - tokens)
	if !d.Allowed {
		d.RetryAfter = max(a.duration(1-tokens), time.Millisecond)
	}
	return verdict{d, false}
}

// duration is the time in which a number of tokens comes back.
func (a *account) duration(tokens float64) time.Duration {
	return time.Duration(math.Ceil(max(0, tokens) / a.limit.PerSecond * float64(time.Second)))
}

// base is the part of a decision that the limit alone decides.
func (a *account) base() Decision {
	return Decision{Policy: a.limit.Policy, Limit: a.limit.Burst, Window: a.limit.Window()}
}
