package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/mapping"
)

// Failure says whose failure it is that there is no list. It is the same word in metrics,
// log, spans, explain and console.
type Failure string

// The failures.
const (
	FailureSystem   Failure = "system"   // the legacy system fails
	FailureSignIn   Failure = "sign_in"  // it rejects the credential, or a sign-in fails
	FailureMapping  Failure = "mapping"  // its reply does not fit the mapping, or it rejects our request
	FailureForeign  Failure = "foreign"  // its reply has records of another account
	FailureAccount  Failure = "account"  // no request can name the account; this is permanent
	FailureRefused  Failure = "refused"  // by the gateway (breaker, places, ceiling), or the legacy system told us to wait
	FailureCanceled Failure = "canceled" // the caller has left
	FailureBug      Failure = "bug"      // of the gateway
)

// sentences begin the texts of errors.
var sentences = map[Failure]string{
	FailureSystem:   "the legacy system fails",
	FailureSignIn:   "the legacy system rejects the gateway's credentials, or a sign-in fails",
	FailureMapping:  "the mapping does not fit",
	FailureForeign:  "the reply has records of another account",
	FailureAccount:  "this account cannot be asked for",
	FailureRefused:  "the list is refused for now",
	FailureCanceled: "the caller has left",
	FailureBug:      "a bug of the gateway",
}

// Result is the label of a fetch in requests_total. It decides the status that a caller gets.
type Result string

// The results.
const (
	ResultOK          Result = "ok"
	ResultTimeout     Result = "timeout"
	ResultUnavailable Result = "unavailable" // now; it may be later
	ResultFailed      Result = "upstream"
	ResultInvalid     Result = "invalid" // the reply cannot be accepted
	ResultCanceled    Result = "canceled"
)

// verdict is what the outcome of a fetch means for the breaker.
type verdict int

// The verdicts. noVerdict is for a fetch that was not made, or whose caller has left.
const (
	noVerdict verdict = iota
	isWell
	isFailing // evidence for the breaker
)

// meaning is what a reason stands for.
type meaning struct {
	failure Failure
	result  Result
	says    verdict
}

// reasons maps each reason to its meaning, and is the only place that does. No reply with status 200 is
// evidence for the breaker: one account's bad record must not shut out all the others.
var reasons = meaningsOf(map[meaning]string{
	{FailureSystem, ResultFailed, isFailing}:       "connect tls truncated read status_5xx",
	{FailureSystem, ResultTimeout, isFailing}:      "timeout",
	{FailureSystem, ResultUnavailable, isFailing}:  "overloaded",                           // a 503 that tells us to wait
	{FailureSystem, ResultFailed, isWell}:          "fault",                                // of SOAP, which says itself that the call failed
	{FailureSystem, ResultInvalid, isWell}:         "media_type encoding charset json xml", // what no mapping could read
	{FailureSignIn, ResultFailed, isWell}:          "denied",                               // a 401 or 403, a page that asks for a password, a session that has ended
	{FailureSignIn, ResultFailed, noVerdict}:       "auth",                                 // there is no sign-in, so that the list was not asked for
	{FailureMapping, ResultInvalid, isWell}:        "status_2xx status_3xx status_4xx expect items record paging changed too_many too_large",
	{FailureForeign, ResultInvalid, isWell}:        "owner",
	{FailureAccount, ResultFailed, noVerdict}:      "account",
	{FailureRefused, ResultUnavailable, noVerdict}: "breaker_open bulkhead_full account_bulkhead_full replies_full ceiling",
	{FailureRefused, ResultUnavailable, isFailing}: "throttled", // a 429
	{FailureCanceled, ResultCanceled, noVerdict}:   "canceled",
	{FailureBug, ResultFailed, noVerdict}:          "internal",
})

func meaningsOf(words map[meaning]string) map[string]meaning {
	all := map[string]meaning{}
	for m, list := range words {
		for reason := range strings.FieldsSeq(list) {
			all[reason] = m
		}
	}
	return all
}

// Reasons that more than one place needs.
const (
	reasonBreaker     = "breaker_open"
	reasonFull        = "bulkhead_full"
	reasonAccountFull = "account_bulkhead_full"
	reasonBytes       = "replies_full" // upstream.max_total_response_bytes
	reasonCeiling     = "ceiling"      // the fleet has made all the requests that it may
	reasonThrottled   = "throttled"    // a reply that tells us to wait
	reasonOverloaded  = "overloaded"
	reasonConnect     = "connect"
	reason5xx         = "status_5xx"
	reasonTimeout     = "timeout"
	reasonCanceled    = "canceled"
	reasonDenied      = "denied"
	reasonNoSignIn    = "auth"
	reasonBug         = "internal"
)

// Error is the only error that Fetch returns.
type Error struct {
	Reason string        // a word of a small fixed set, see [reasons], fit for a metric label
	Wait   time.Duration // after which the list may be asked for again; 0: nobody knows
	Err    error         // for logs: without content, ids and query values
}

// Failure returns whose failure it is.
func (e *Error) Failure() Failure { return e.meaning().failure }

// Result returns the result of the fetch.
func (e *Error) Result() Result { return e.meaning().result }

// meaning returns the meaning of the reason. An unknown reason is a bug of the gateway.
func (e *Error) meaning() meaning {
	if m, known := reasons[e.Reason]; known {
		return m
	}
	return reasons[reasonBug]
}

// Error implements error. The text is for logs, never for callers.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.sentence()
	}
	return e.sentence() + ": " + e.Err.Error()
}

// Cause returns the error's text without the sentence about whose failure it is; without a text it is that sentence.
func (e *Error) Cause() string {
	if e.Err == nil {
		return e.sentence()
	}
	return e.Err.Error()
}

// sentence returns whose failure it is, and the reason.
func (e *Error) sentence() string { return sentences[e.Failure()] + " (" + e.Reason + ")" }

// Unwrap gives the cause, for instance context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.Err }

// Refused reports whether the gateway sent no request, or the caller has left: the error says nothing about the list.
func (e *Error) Refused() bool {
	m := e.meaning()
	return m.says == noVerdict && (m.failure == FailureRefused || m.failure == FailureCanceled)
}

// RetryAfter returns how long a 429 or 503 told us to wait, at most a minute; 0: it did not say.
func (e *Error) RetryAfter() time.Duration {
	if e.Reason == reasonThrottled || e.Reason == reasonOverloaded {
		return e.Wait
	}
	return 0
}

// verdictOf returns the verdict of a fetch that ended with err, which may be nil.
func verdictOf(err error) verdict {
	if err == nil {
		return isWell
	}
	return asError(err).meaning().says
}

// failure makes an error. Its text must not hold content of a reply.
func failure(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// notAsked makes the error of a request that the gateway does not send now.
func notAsked(reason string, wait time.Duration, format string, args ...any) *Error {
	return &Error{Reason: reason, Wait: wholeSeconds(wait), Err: fmt.Errorf(format, args...)}
}

// bug is the error of a request during which a goroutine panicked.
func bug(thrown any) *Error { return failure(reasonBug, "panic: %v", thrown) }

// asError converts any error of this package into an *Error.
func asError(err error) *Error {
	var e *Error
	var refused *mapping.Error
	var undecoded *decode.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &refused):
		return &Error{Reason: refused.Reason, Err: refused}
	case errors.As(err, &undecoded):
		return &Error{Reason: undecoded.Reason, Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Reason: reasonCanceled, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Reason: reasonTimeout, Err: err}
	}
	return &Error{Reason: reasonBug, Err: err}
}

// isFault reports whether an error is that of a SOAP fault, whatever its status.
func isFault(err error) bool {
	fault, ok := errors.AsType[*decode.Error](err)
	return ok && fault.Reason == "fault"
}

// classify returns the *Error of a request that was made with ctx. If ctx was canceled, the caller has left, or
// another page of the same list failed first.
func classify(ctx context.Context, err error) *Error {
	var e *Error
	var dial *net.OpError
	var timeout net.Error
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	cause := withoutAddress(err)
	switch {
	// First, because net/http gives the cause of the cancellation as the error
	// of the request, and that is the failure of another page.
	case errors.Is(ctx.Err(), context.Canceled):
		return &Error{Reason: reasonCanceled, Err: context.Canceled}
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return &Error{Reason: reasonTimeout, Err: ctx.Err()}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Reason: reasonTimeout, Err: cause}
	case errors.As(err, &cert) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch):
		return &Error{Reason: "tls", Err: cause}
	case errors.As(err, &dial) && dial.Op == "dial":
		return &Error{Reason: reasonConnect, Err: cause}
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return &Error{Reason: "truncated", Err: cause}
	}
	if what, _, quotes := strings.Cut(cause.Error(), `"`); quotes { // net/http quotes bytes of the reply
		cause = fmt.Errorf("the reply is not HTTP: %s", strings.TrimRight(what, " ["))
	}
	return &Error{Reason: "read", Err: cause}
}

// withoutAddress takes the address out of a client's error: it holds the account and
// the filters.
func withoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
