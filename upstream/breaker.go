package upstream

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breaker stops asking an endpoint that does not answer. What counts against
// the legacy: refused or cut off connections, 5xx, and our own deadline. What
// does not: a caller who left, a 4xx, and a 200 whose content is no good. The
// last is on purpose: the legacy is up, one account's bad record must not shut
// out all the others, and the caller already gets an error of its own for it.
type breaker struct {
	cb        *gobreaker.CircuitBreaker[struct{}]
	openUntil atomic.Int64 // Unix nanoseconds
}

// buckets is the resolution of the rolling window.
const buckets = 10

// newBreaker gives a closed breaker whose changes show in the metrics and the
// log.
func newBreaker(kind string, cfg BreakerConfig, m *metrics, log *slog.Logger) *breaker {
	b := &breaker{}
	m.state.Set(0)
	b.cb = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         kind,
		MaxRequests:  1,
		Interval:     cfg.Window,
		BucketPeriod: cfg.Window / buckets,
		Timeout:      cfg.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			answered := c.TotalSuccesses + c.TotalFailures
			return answered >= uint32(cfg.MinRequests) && float64(c.TotalFailures) >= cfg.FailureRatio*float64(answered)
		},
		IsSuccessful: func(err error) bool { return !against(err) },
		IsExcluded: func(err error) bool {
			if err == nil {
				return false
			}
			var e *Error
			return errors.As(err, &e) && e.Failure == FailureCanceled
		},
		// Runs under the breaker's lock: it must not ask the breaker anything.
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.openUntil.Store(time.Now().Add(cfg.OpenFor).UnixNano())
			}
			m.state.Set(float64(to))
			m.transitions[to].Inc()
			log.Warn("circuit breaker changed", "kind", kind, "from", from.String(), "to", to.String())
		},
	})
	return b
}

// against tells whether a result says that the legacy does not answer.
func against(err error) bool {
	if err == nil {
		return false
	}
	var e *Error
	if !errors.As(err, &e) {
		return true
	}
	switch e.Failure {
	case FailureTimeout:
		return true
	case FailureUpstream:
		switch e.Reason {
		case "status_2xx", "status_3xx", "status_4xx", "account", "auth":
			return false
		}
		return true
	case FailureUnavailable, FailureInvalid, FailureCanceled:
	}
	return false
}

// do runs call unless the breaker is open.
func (b *breaker) do(call func() error) error {
	_, err := b.cb.Execute(func() (struct{}, error) { return struct{}{}, call() })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gobreaker.ErrOpenState):
		return &Error{Failure: FailureUnavailable, Reason: "breaker_open", RetryAfter: b.retryAfter(), Err: err}
	case errors.Is(err, gobreaker.ErrTooManyRequests): // another caller's probe is under way
		return &Error{Failure: FailureUnavailable, Reason: "breaker_open", RetryAfter: time.Second, Err: err}
	}
	return err
}

// retryAfter is the time to the next probe in whole seconds, at least one.
func (b *breaker) retryAfter() time.Duration {
	left := time.Until(time.Unix(0, b.openUntil.Load()))
	return max(time.Second, (left + time.Second - 1).Truncate(time.Second))
}
