package upstream

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of what the legacy may tell us to wait.
const (
	leastHold = time.Second // after a 429 that does not tell
	mostHold  = time.Minute // told more, the legacy is asked again after this
)

// hold keeps the gateway from asking an endpoint until a moment that the legacy has
// told. Its zero value holds nothing. It is safe for concurrent use.
type hold struct {
	until atomic.Int64 // Unix nanoseconds
}

// obey holds the endpoint if the reply told us to wait. It never ends a hold sooner.
func (h *hold) obey(err error, now func() time.Time) {
	var e *Error
	if err == nil || !errors.As(err, &e) || e.Reason != reasonThrottled {
		return
	}
	until := now().Add(max(e.RetryAfter, leastHold)).UnixNano()
	for {
		old := h.until.Load()
		if old >= until || h.until.CompareAndSwap(old, until) {
			return
		}
	}
}

// left is how long the endpoint is held yet; zero or less: it is not.
func (h *hold) left(now time.Time) time.Duration {
	return time.Unix(0, h.until.Load()).Sub(now)
}

// errHeldBack is why an endpoint is not asked that has told us to wait.
var errHeldBack = errors.New("the legacy has told us to wait")

// refusal is the error of a fetch that is not made; nil: it may be.
func (h *hold) refusal(now time.Time) error {
	left := h.left(now)
	if left <= 0 {
		return nil
	}
	return &Error{Failure: FailureUnavailable, Reason: reasonHeld, RetryAfter: wholeSeconds(left), Err: errHeldBack}
}

// wholeSeconds rounds up, to one second at least.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// throttled is the error of a reply that tells us to wait: a 429, or a 503 with
// Retry-After. Its RetryAfter is zero for a 429 that does not tell how long. Nil: the
// reply is none of them.
func throttled(resp *http.Response, now time.Time) *Error {
	wait := toldToWait(resp.Header.Get("Retry-After"), now)
	if resp.StatusCode != http.StatusTooManyRequests && (resp.StatusCode != http.StatusServiceUnavailable || wait == 0) {
		return nil
	}
	return &Error{Failure: FailureUnavailable, Reason: reasonThrottled, RetryAfter: min(wait, mostHold), Err: statusError(resp.StatusCode)}
}

// toldToWait reads Retry-After: seconds, or a date (RFC 9110, 10.2.3). Zero: it tells
// nothing.
func toldToWait(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
