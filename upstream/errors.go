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
	"syscall"
	"time"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/mapping"
)

// Error is the only error that Fetch returns.
type Error struct {
	Kind Kind
	// Reason is one of a small fixed set of words, fit for a metric label: breaker_open,
	// bulkhead_full, account_bulkhead_full, held_back, ceiling, throttled, connect, tls,
	// truncated, read, timeout, canceled, status_2xx to status_5xx, media_type, encoding,
	// charset, json, xml, fault, expect, items, record, owner, too_large, too_many,
	// account, auth, paging, changed, internal.
	Reason string
	Wait   time.Duration // after which the list may be asked for again; 0: nobody knows
	Err    error         // for logs: without content, ids and query values
}

// Kind alone says what a failure means: for the breaker and the back-off, whether the
// legacy system is at fault; for the gateway, what the caller is answered.
type Kind int

// The kinds of failures.
const (
	KindBug        Kind = iota // of the gateway, and whatever it does not know
	KindNotAsked               // held back here: by breaker, bulkhead or ceiling, or because the legacy told us to wait
	KindUnready                // cannot be asked for: there is no sign-in, or the account cannot be sent
	KindCanceled               // nobody wants the list any more
	KindThrottled              // a 429
	KindRejected               // another status that is no failure, such as a 404, or a SOAP fault
	KindInvalid                // a 200 that the mapping cannot accept, or too much of it
	KindTimeout                // slower than the deadline
	KindOverloaded             // a 503 with Retry-After
	KindFailed                 // refused, cut off, or another 5xx
)

// verdict is what a call says of the legacy system.
type verdict int

// The verdicts. unknown is for a call that was not made, or that nobody waited for.
const (
	unknown verdict = iota
	well
	atFault
)

// about gives the verdict of a kind, and its word in metrics and logs. A 429 is the word
// of a system that is well. So is bad content: one account's bad record must not shut
// out all the others.
func (k Kind) about() (v verdict, word string) {
	switch k {
	case KindNotAsked:
		return unknown, "unavailable"
	case KindCanceled:
		return unknown, "canceled"
	case KindThrottled:
		return well, "unavailable"
	case KindRejected:
		return well, "upstream"
	case KindInvalid:
		return well, "invalid"
	case KindTimeout:
		return atFault, "timeout"
	case KindOverloaded:
		return atFault, "unavailable"
	case KindFailed:
		return atFault, "upstream"
	case KindBug, KindUnready:
	}
	return unknown, "upstream"
}

// String is one of timeout, unavailable, upstream, invalid and canceled.
func (k Kind) String() string {
	_, word := k.about()
	return word
}

// verdictOf is what the error of a call, or nil, says of the legacy system.
func verdictOf(err error) verdict {
	if err == nil {
		return well
	}
	v, _ := asError(err).Kind.about()
	return v
}

// Reasons that more than one place needs.
const (
	reasonBreaker     = "breaker_open"
	reasonFull        = "bulkhead_full"
	reasonAccountFull = "account_bulkhead_full"
	reasonHeld        = "held_back" // the legacy has told us to wait
	reasonCeiling     = "ceiling"   // the fleet has made all the requests that it may
	reasonThrottled   = "throttled" // this is the reply that tells it
	reasonConnect     = "connect"
	reasonFault       = "fault" // of SOAP, which says itself that the call failed
)

// Error implements error. The text is for logs, never for callers.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("legacy system: %s (%s)", e.Kind, e.Reason)
	}
	return fmt.Sprintf("legacy system: %s (%s): %v", e.Kind, e.Reason, e.Err)
}

// Unwrap gives the cause, for instance context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.Err }

// Refused tells that the gateway did not ask, or that nobody wants the list any more:
// that says nothing about the list.
func (e *Error) Refused() bool { return e.Kind == KindNotAsked || e.Kind == KindCanceled }

// failure makes an error with a text.
func failure(kind Kind, reason, format string, args ...any) *Error {
	return &Error{Kind: kind, Reason: reason, Err: fmt.Errorf(format, args...)}
}

// notAsked makes the error of a list that is not asked for now.
func notAsked(reason string, wait time.Duration, format string, args ...any) *Error {
	return &Error{Kind: KindNotAsked, Reason: reason, Wait: wholeSeconds(wait), Err: fmt.Errorf(format, args...)}
}

// invalidReply makes the error for a reply that came but cannot be accepted.
func invalidReply(reason, format string, args ...any) *Error {
	return failure(KindInvalid, reason, format, args...)
}

// bug is the error of a request during which a goroutine panicked.
func bug(thrown any) *Error { return failure(KindBug, "internal", "panic: %v", thrown) }

// asError makes sure that nothing but *Error leaves this package.
func asError(err error) *Error {
	var e *Error
	var refused *mapping.Error
	var undecoded *decode.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &refused):
		return &Error{Kind: KindInvalid, Reason: refused.Reason, Err: refused}
	case errors.As(err, &undecoded) && undecoded.Reason == reasonFault:
		return &Error{Kind: KindRejected, Reason: reasonFault, Err: err}
	case errors.As(err, &undecoded):
		return &Error{Kind: KindInvalid, Reason: undecoded.Reason, Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Kind: KindCanceled, Reason: "canceled", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: KindTimeout, Reason: "timeout", Err: err}
	}
	return &Error{Kind: KindBug, Reason: "internal", Err: err}
}

// classify names what went wrong with a request made with ctx. A context that
// was canceled means that nobody wants the reply any more: the caller left, or
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
		return &Error{Kind: KindCanceled, Reason: "canceled", Err: context.Canceled}
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return &Error{Kind: KindTimeout, Reason: "timeout", Err: ctx.Err()}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Kind: KindTimeout, Reason: "timeout", Err: cause}
	case errors.As(err, &cert) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch):
		return &Error{Kind: KindFailed, Reason: "tls", Err: cause}
	case errors.As(err, &dial) && dial.Op == "dial":
		return &Error{Kind: KindFailed, Reason: reasonConnect, Err: cause}
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		return &Error{Kind: KindFailed, Reason: "truncated", Err: cause}
	}
	return &Error{Kind: KindFailed, Reason: "read", Err: cause}
}

// withoutAddress takes the address out of a client's error: it holds the account and
// the filters.
func withoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
