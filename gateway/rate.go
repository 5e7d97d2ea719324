package gateway

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"inquiry-gateway/auth"
)

// rateError refuses a request that is over its account's rate.
type rateError struct {
	policy string
	wait   time.Duration // until the next one may come
}

func (e *rateError) Error() string { return fmt.Sprintf("over the rate of policy %q", e.policy) }

// waited is how long authentication takes at least where a key store was waited
// for. Only then the limiter's own bound is not enough, and a timer is worth its
// cost.
const waited = time.Millisecond

// withinRate counts the request against its account. It comes after all checks
// of who asks, so that nobody can use up the rate of another.
func (g *Gateway) withinRate(x *exchange, p auth.Principal) error {
	if g.rate == nil {
		return nil
	}
	ctx := x.request.Context()
	if x.authTime > waited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, x.Deadline())
		defer cancel()
	}
	x.rate = g.rate.Allow(ctx, p.Account, p.Plan)
	if !x.rate.Allowed {
		return &rateError{x.rate.Policy, x.rate.RetryAfter}
	}
	return nil
}

// rateHeaders tell the account's rate and what is left of it, in the form of
// the IETF's draft on RateLimit header fields. Moments are rounded up, so that
// who waits for them waits long enough.
func (x *exchange) rateHeaders() {
	if x.rate.Policy == "" {
		return
	}
	policy := strconv.Quote(x.rate.Policy)
	x.add("Ratelimit-Policy", []string{policy + ";q=" + strconv.Itoa(x.rate.Limit) + ";w=" + wholeSeconds(x.rate.Window)})
	x.add("Ratelimit", []string{policy + ";r=" + strconv.Itoa(x.rate.Remaining) + ";t=" + wholeSeconds(x.rate.Reset)})
}

func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
