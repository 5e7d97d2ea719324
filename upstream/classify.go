package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// classify names what went wrong with a request made with ctx. A context that
// was canceled means that nobody wants the reply any more: the caller left, or
// another page of the same list failed first.
func classify(ctx context.Context, err error) *Error {
	var e *Error
	var dial *net.OpError
	var timeout net.Error
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	// First, because net/http gives the cause of the cancellation as the error
	// of the request, and that is the failure of another page.
	case errors.Is(ctx.Err(), context.Canceled):
		return &Error{Failure: FailureCanceled, Reason: "canceled", Err: context.Canceled}
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return &Error{Failure: FailureTimeout, Reason: "timeout", Err: ctx.Err()}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Failure: FailureTimeout, Reason: "timeout", Err: redact(err)}
	case errors.As(err, &cert) || errors.As(err, &alert) || errors.Is(err, http.ErrSchemeMismatch):
		return &Error{Failure: FailureUpstream, Reason: "tls", Err: redact(err)}
	case errors.As(err, &dial) && dial.Op == "dial":
		return &Error{Failure: FailureUpstream, Reason: "connect", Err: redact(err)}
	case isCutOff(err):
		return &Error{Failure: FailureUpstream, Reason: "truncated", Err: redact(err)}
	}
	return &Error{Failure: FailureUpstream, Reason: "read", Err: redact(err)}
}

// redact takes the address out of a client's error: it holds the account and
// the filters.
func redact(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// isCutOff tells whether the legacy closed the connection before the end.
func isCutOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
