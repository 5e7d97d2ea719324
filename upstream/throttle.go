package upstream

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of what the legacy may tell us to wait.
const (
	leastHold = time.Second // after a 429 that does not tell
	mostHold  = time.Minute // told more, the legacy is asked again after this
	// holdAccounts that are told to wait at a time show that all are meant.
	holdAccounts = 3
)

// hold keeps the gateway from asking an endpoint until a moment that the legacy has
// told: for the account whose request it answered, as a quota may be that account's
// own, and for everybody once holdAccounts are told at a time. Its zero value holds
// nothing. It is safe for concurrent use.
type hold struct {
	mu       sync.Mutex
	all      time.Time
	accounts map[string]time.Time // no more than were under way when everybody was held
}

// obey holds the account if the reply told us to wait. It never ends a hold sooner.
func (h *hold) obey(account string, err error, now time.Time) {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Reason != reasonThrottled {
		return
	}
	until := now.Add(max(e.RetryAfter, leastHold))
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.accounts, func(_ string, end time.Time) bool { return !end.After(now) })
	if h.accounts == nil {
		h.accounts = map[string]time.Time{}
	}
	if until.After(h.accounts[account]) {
		h.accounts[account] = until
	}
	if len(h.accounts) >= holdAccounts && until.After(h.all) {
		h.all = until
	}
}

// errHeldBack is why an endpoint is not asked that has told us to wait.
var errHeldBack = errors.New("the legacy has told us to wait")

// refusal is the error of an account's fetch that is not made; nil: it may be.
func (h *hold) refusal(account string, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := max(h.all.Sub(now), h.accounts[account].Sub(now))
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
