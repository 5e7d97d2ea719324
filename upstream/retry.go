package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// budget is a token bucket: every request puts a part of a token in, every
// repeat takes a whole one out. So a legacy system that is down gets a tenth
// more requests, not twice as many: over any time the repeats of an endpoint
// are at most ratio times its requests, and budgetBurst more.
type budget struct {
	mu     sync.Mutex
	ratio  float64
	tokens float64
}

// budgetBurst is how many tokens the bucket holds. They are there from the start,
// or the first blip after a start could not be bridged.
const budgetBurst = 3

// newBudget gives a full bucket; without a ratio it stays empty.
func newBudget(ratio float64) *budget {
	b := &budget{ratio: ratio}
	if ratio > 0 {
		b.tokens = budgetBurst
	}
	return b
}

// deposit is called once for every request that was sent, whether it is repeated or
// not.
func (b *budget) deposit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+b.ratio, budgetBurst)
}

// withdraw takes the token for one repeat, if there is one.
func (b *budget) withdraw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// retryReason says why a failed attempt may be repeated; empty: it may not. One that
// tells us to wait may, when the time that it tells is over.
// A reply that was cut off or too slow is not repeated: the legacy has done the
// work already and would do it again.
func retryReason(err error) string {
	switch e, ok := errors.AsType[*Error](err); {
	case ok && e.Reason == reasonThrottled && e.RetryAfter > 0:
		return reasonThrottled
	case !ok || e.Failure != FailureUpstream:
	case e.Reason == "connect":
		return "connect"
	case errors.Is(e.Err, statusError(http.StatusBadGateway)):
		return "status_502"
	case errors.Is(e.Err, statusError(http.StatusServiceUnavailable)):
		return "status_503"
	}
	return ""
}

// retried runs call until it succeeds, fails for good, or attempts, budget or
// deadline are used up.
func (e *endpoint) retried(ctx context.Context, call func() (answer, error)) (answer, error) {
	for attempt := 1; ; attempt++ {
		a, err := call()
		if attempt == 1 && !isCeiling(err) { // what the ceiling kept back is no request
			e.budget.deposit()
		}
		reason := retryReason(err)
		if reason == "" || attempt >= e.attempts {
			return a, err
		}
		// Full jitter, so that callers who failed together do not return together.
		wait := asError(err).RetryAfter + time.Duration(rand.Int64N(int64(20*time.Millisecond)<<min(attempt, 6)))
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait || !e.budget.withdraw() {
			return a, err
		}
		e.metrics.retries[reason].Inc()
		if step := trace.SpanFromContext(ctx); step.IsRecording() {
			step.AddEvent("retry", trace.WithAttributes(attribute.String("upstream.reason", reason), attribute.Int("upstream.attempt", attempt)))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return a, err
		}
	}
}
