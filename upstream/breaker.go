package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	breakers "inquiry-gateway/internal/breaker"
	"inquiry-gateway/upstream/fleet"
)

// breaker stops asking an endpoint that does not answer. What counts against
// the legacy: refused or cut off connections, 5xx, and our own deadline. A 4xx
// and a 200 whose content is no good count for it. This is on purpose: the
// legacy is up, one account's bad record must not shut out all the others, and
// the caller already gets an error of its own for it. A caller who left, and a
// request that was not made, count for nothing.
type breaker struct {
	cb        *gobreaker.CircuitBreaker[answer]
	openFor   time.Duration
	openUntil atomic.Int64 // Unix nanoseconds
	untold    atomic.Bool  // it has opened and the fleet does not know yet
}

// newBreaker gives a closed breaker whose changes show in the metrics and the
// log.
func newBreaker(kind string, cfg BreakerConfig, m *metrics, log *slog.Logger) *breaker {
	b := &breaker{openFor: cfg.OpenFor}
	m.state.Set(0)
	known := func(err error) (well, counts bool) {
		v := judge(err)
		return v == fleet.Answers, v != fleet.Unknown
	}
	opens := breakers.Config{Window: cfg.Window, Least: cfg.MinRequests, Ratio: cfg.FailureRatio, OpenFor: cfg.OpenFor}
	b.cb = breakers.New[answer](opens, known, func(from, to gobreaker.State) {
		if to == gobreaker.StateOpen {
			b.openUntil.Store(time.Now().Add(cfg.OpenFor).UnixNano())
			b.untold.Store(true)
		}
		m.state.Set(float64(to))
		m.transitions[to.String()].Inc()
		log.Warn("circuit breaker changed", "kind", kind, "from", from.String(), "to", to.String())
	})
	return b
}

// judge is the only judge of what a result says about the endpoint: for the
// breaker, for the back-off of the cache and for the advice between breakers.
func judge(err error) fleet.Verdict {
	if err == nil {
		return fleet.Answers
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return fleet.Unknown
	}
	switch e.Failure {
	case FailureTimeout:
		return fleet.Fails
	case FailureInvalid:
		return fleet.Answers
	case FailureUpstream:
		switch e.Reason {
		case "status_2xx", "status_3xx", "status_4xx", reasonFault:
			return fleet.Answers
		case "account", "auth", ReasonInternal: // the legacy was not asked, or it is a bug of ours
			return fleet.Unknown
		}
		return fleet.Fails
	case FailureUnavailable:
		// A 429 is the word of a system that is well; a 503 is not.
		switch {
		case e.Reason == reasonThrottled && errors.Is(e.Err, statusError(http.StatusTooManyRequests)):
			return fleet.Answers
		case e.Reason == reasonThrottled:
			return fleet.Fails
		}
	case FailureCanceled:
	}
	return fleet.Unknown
}

// do runs call unless the breaker is open.
func (b *breaker) do(call func() (answer, error)) (answer, error) {
	a, err := b.cb.Execute(call)
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, gobreaker.ErrOpenState):
		return a, b.refusal(err, b.retryAfter())
	case errors.Is(err, gobreaker.ErrTooManyRequests): // another caller's probe is under way
		return a, b.refusal(err, time.Second)
	}
	return a, err
}

func (b *breaker) state() gobreaker.State { return b.cb.State() }

func (b *breaker) refusal(cause error, retryAfter time.Duration) *Error {
	return &Error{Failure: FailureUnavailable, Reason: reasonBreaker, RetryAfter: retryAfter, Err: cause}
}

// errFleetBreaker is why a legacy that another node found failing is not asked.
var errFleetBreaker = errors.New("another node's breaker is open")

// enter asks the fleet whether the endpoint may be called now for an account. While
// this node's own breaker is open the fleet is not asked: a probe could not be made.
func (c *Client) enter(ctx context.Context, e *endpoint, account string) (fleet.Ticket, error) {
	if e.breaker.state() == gobreaker.StateOpen {
		return fleet.Ticket{}, e.breaker.refusal(gobreaker.ErrOpenState, e.breaker.retryAfter())
	}
	if err := e.hold.refusal(account, c.now()); err != nil {
		return fleet.Ticket{}, err
	}
	t, wait, ok := c.fleet.Enter(ctx, e.plan.Kind, c.cfg.Timeout)
	if !ok {
		return t, &Error{Failure: FailureUnavailable, Reason: reasonFleet, RetryAfter: wait, Err: errFleetBreaker}
	}
	return t, nil
}

// leave tells the fleet how a call went, and of a breaker that has opened.
func (c *Client) leave(ctx context.Context, e *endpoint, t fleet.Ticket, v fleet.Verdict) {
	if e.breaker.untold.Swap(false) {
		c.fleet.Opened(ctx, e.plan.Kind, time.Unix(0, e.breaker.openUntil.Load()))
		return
	}
	t.Done(ctx, v, e.breaker.openFor)
}

// retryAfter is the time to the next probe in whole seconds, at least one.
func (b *breaker) retryAfter() time.Duration {
	return wholeSeconds(time.Until(time.Unix(0, b.openUntil.Load())))
}
