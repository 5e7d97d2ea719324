package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/mapping"
)

// Failure says in one word why no list could be had. The gateway has one
// answer for each.
type Failure string

// The failures. All but FailureCanceled are the legacy system's.
const (
	FailureTimeout     Failure = "timeout"     // slower than the deadline
	FailureUnavailable Failure = "unavailable" // not asked: a breaker is open, the bulkhead or the account's part of it is full, or the ceiling is reached; or told to wait
	FailureUpstream    Failure = "upstream"    // refused, cut off, or a status other than 200
	FailureInvalid     Failure = "invalid"     // a 200 that the mapping cannot accept, or too much of it
	FailureCanceled    Failure = "canceled"    // the caller left; says nothing about the legacy
)

// Error is the only error that Fetch returns.
//
// Reason is one of a small fixed set of words, fit for a metric label:
// breaker_open, bulkhead_full, account_bulkhead_full, held_back, ceiling, throttled, connect, tls, truncated, read, timeout, canceled,
// status_2xx to status_5xx, media_type, encoding, charset, json, xml, fault, expect, items, record, owner,
// too_large, too_many, account, auth, paging, internal.
type Error struct {
	Failure    Failure
	Reason     string
	RetryAfter time.Duration // greater than zero with FailureUnavailable only
	Err        error         // for logs: without content, ids and query values
}

// ReasonInternal is the reason of a FailureUpstream that is a bug of the gateway.
const ReasonInternal = "internal"

// reasonFault is the reason of a SOAP fault, which says itself that the call failed.
const reasonFault = "fault"

// The reasons of FailureUnavailable.
const (
	reasonBreaker     = "breaker_open"
	reasonFull        = "bulkhead_full"
	reasonAccountFull = "account_bulkhead_full"
	reasonHeld        = "held_back" // the legacy has told us to wait
	reasonCeiling     = "ceiling"   // the fleet has made all the requests that it may
	reasonThrottled   = "throttled" // this is the reply that tells it
)

// Error implements error. The text is for logs, never for callers.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("legacy system: %s (%s)", e.Failure, e.Reason)
	}
	return fmt.Sprintf("legacy system: %s (%s): %v", e.Failure, e.Reason, e.Err)
}

// Unwrap gives the cause, for instance context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.Err }

// EndpointFault tells whether the endpoint itself fails, as the breaker sees it,
// and not one account's list or the gateway.
func (e *Error) EndpointFault() bool { return judge(e) == fails }

// Refused tells that the gateway did not ask: a breaker is open, the bulkhead is
// full, the ceiling is reached, or nobody wants the list any more.
func (e *Error) Refused() bool {
	return e.Failure == FailureUnavailable && e.Reason != reasonThrottled || e.Failure == FailureCanceled
}

// invalidReply makes the error for a reply that came but cannot be accepted.
func invalidReply(reason, format string, args ...any) *Error {
	return &Error{Failure: FailureInvalid, Reason: reason, Err: fmt.Errorf(format, args...)}
}

func internal(err error) *Error {
	return &Error{Failure: FailureUpstream, Reason: ReasonInternal, Err: err}
}

// bug is the error of a request during which a goroutine panicked.
func bug(thrown any) *Error { return internal(fmt.Errorf("panic: %v", thrown)) }

// asError makes sure that nothing but *Error leaves this package.
func asError(err error) *Error {
	var e *Error
	var refused *mapping.Error
	var undecoded *decode.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &refused):
		return &Error{Failure: FailureInvalid, Reason: refused.Reason, Err: refused}
	case errors.As(err, &undecoded) && undecoded.Reason == reasonFault:
		return &Error{Failure: FailureUpstream, Reason: reasonFault, Err: err}
	case errors.As(err, &undecoded):
		return &Error{Failure: FailureInvalid, Reason: undecoded.Reason, Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Failure: FailureCanceled, Reason: "canceled", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Failure: FailureTimeout, Reason: "timeout", Err: err}
	}
	return internal(err)
}
