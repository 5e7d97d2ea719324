package upstream

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	breakers "inquiry-gateway/internal/breaker"
)

// breaker stops asking an endpoint that does not answer. What counts against
// the legacy: refused or cut off connections, 5xx, and our own deadline. A 4xx
// and a 200 whose content is no good count for it. This is on purpose: the
// legacy is up, one account's bad record must not shut out all the others, and
// the caller already gets an error of its own for it. A caller who left, and a
// request that was not made, count for nothing.
type breaker struct {
	cb        *gobreaker.CircuitBreaker[answer]
	openUntil atomic.Int64 // Unix nanoseconds

	// For the fleet's one probe.
	redis   redis.Cmdable // nil: this node probes by itself
	key     string
	longest time.Duration // of a call
}

// newBreaker gives a closed breaker whose changes show in the metrics and the
// log.
func newBreaker(kind string, cfg Config, m *metrics, opts Options) *breaker {
	b := &breaker{redis: opts.Redis, key: cmp.Or(opts.Prefix, "iq") + ":probe:{" + kind + "}", longest: cfg.Timeout}
	m.state.Set(0)
	known := func(err error) (well, counts bool) {
		v := judge(err)
		return v == answers, v != unknown
	}
	opens := breakers.Config{Window: cfg.Breaker.Window, Least: cfg.Breaker.MinRequests, Ratio: cfg.Breaker.FailureRatio, OpenFor: cfg.Breaker.OpenFor}
	b.cb = breakers.New[answer](opens, known, func(from, to gobreaker.State) {
		if to == gobreaker.StateOpen {
			b.openUntil.Store(time.Now().Add(cfg.Breaker.OpenFor).UnixNano())
		}
		m.state.Set(float64(to))
		m.transitions[to.String()].Inc()
		opts.Logger.Warn("circuit breaker changed", "kind", kind, "from", from.String(), "to", to.String())
	})
	return b
}

// verdict is what a call says about an endpoint of the legacy system.
type verdict int

// The verdicts. unknown is for a call that was not made, or that nobody waited for.
const (
	unknown verdict = iota
	answers
	fails
)

// judge is the only judge of what a result says about the endpoint: for the
// breaker and for the back-off of the cache.
func judge(err error) verdict {
	if err == nil {
		return answers
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return unknown
	}
	switch e.Failure {
	case FailureTimeout:
		return fails
	case FailureInvalid:
		return answers
	case FailureUpstream:
		switch e.Reason {
		case "status_2xx", "status_3xx", "status_4xx", reasonFault:
			return answers
		case "account", "auth", ReasonInternal: // the legacy was not asked, or it is a bug of ours
			return unknown
		}
		return fails
	case FailureUnavailable:
		// A 429 is the word of a system that is well; a 503 is not.
		switch {
		case e.Reason == reasonThrottled && errors.Is(e.Err, statusError(http.StatusTooManyRequests)):
			return answers
		case e.Reason == reasonThrottled:
			return fails
		}
	case FailureCanceled:
	}
	return unknown
}

// do runs call unless the breaker is open. A half-open one lets one call of the whole
// fleet through at a time.
func (b *breaker) do(ctx context.Context, call func() (answer, error)) (answer, error) {
	a, err := b.cb.Execute(func() (answer, error) {
		if b.cb.State() != gobreaker.StateHalfOpen || b.redis == nil {
			return call()
		}
		// Without an answer of Redis this node probes by itself.
		if won, err := b.redis.SetNX(ctx, b.key, 1, b.longest).Result(); err == nil && !won {
			return answer{}, b.refusal(errOtherProbe, time.Second)
		}
		a, err := call()
		if judge(err) != fails { // else the others wait until the lease ends
			_ = b.redis.Del(context.WithoutCancel(ctx), b.key).Err()
		}
		return a, err
	})
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, gobreaker.ErrOpenState):
		return a, b.refusal(err, wholeSeconds(time.Until(time.Unix(0, b.openUntil.Load()))))
	case errors.Is(err, gobreaker.ErrTooManyRequests): // another caller's probe is under way
		return a, b.refusal(err, time.Second)
	}
	return a, err
}

// errOtherProbe is why a half-open breaker lets no call through.
var errOtherProbe = errors.New("another node asks whether the legacy is well")

func (b *breaker) state() gobreaker.State { return b.cb.State() }

func (b *breaker) refusal(cause error, retryAfter time.Duration) *Error {
	return &Error{Failure: FailureUnavailable, Reason: reasonBreaker, RetryAfter: retryAfter, Err: cause}
}
