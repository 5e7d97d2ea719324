package gateway

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream"
)

var (
	errNotFound         = errors.New("no such path")
	errMethodNotAllowed = errors.New("method not allowed")
)

// authRetryAfter is what a caller is asked to wait when the key store cannot be
// reached: long enough not to add to its trouble, short enough to recover with it.
const authRetryAfter = 2 * time.Second

// upstreamRetryAfter is what a caller is asked to wait after a failure of the legacy system. By then the list
// is fetched again.
const upstreamRetryAfter = 5 * time.Second

// signInRetryAfter is what a caller is asked to wait if the legacy system rejects the gateway's credentials: a sign-in
// is tried again after a minute at the latest.
const signInRetryAfter = time.Minute

// problem is an error as the caller sees it, with the header that goes with it.
type problem struct {
	v1.Problem
	header [2]string // name and value; empty: none
}

// ProblemOf is what a caller would be answered to an error of the parts, for tools
// that explain what would happen.
func ProblemOf(err error) v1.Problem { return problemOf(err).Problem }

// problemOf is the one table of errors. What it does not know is a bug, and the
// caller learns no more than that.
func problemOf(err error) problem {
	var parameter *parameterError
	var limited *rateError
	var invalidKeys *auth.TooManyInvalidKeys
	var failure *upstream.Error
	switch {
	case errors.Is(err, errNotFound):
		return problem{Problem: v1.NotFound}
	case errors.Is(err, errMethodNotAllowed):
		return problem{Problem: v1.MethodNotAllowed, header: [2]string{"Allow", "GET, HEAD"}}
	case errors.As(err, &parameter):
		p := v1.InvalidParameter
		p.Detail = "The query parameter " + strconv.Quote(parameter.shownName()) + " " + parameter.what + "."
		p.Source = &v1.Source{Parameter: parameter.shownName()}
		return problem{Problem: p}
	case errors.As(err, &limited):
		return problem{Problem: v1.RateLimited, header: retryAfter(limited.wait)}
	case errors.As(err, &failure):
		p := upstreamProblem(failure)
		if backoff, ok := errors.AsType[*cache.BackoffError](err); ok && failure.Result() == upstream.ResultUnavailable {
			p.header = retryAfter(backoff.Left)
		}
		return p
	case errors.Is(err, auth.ErrUnavailable): // before the deadline, which may be why
		return problem{Problem: v1.AuthUnavailable, header: retryAfter(authRetryAfter)}
	case errors.Is(err, context.DeadlineExceeded):
		return problem{Problem: v1.UpstreamTimeout, header: retryAfter(upstreamRetryAfter)}
	case errors.As(err, &invalidKeys):
		return problem{Problem: v1.RateLimited, header: retryAfter(invalidKeys.RetryAfter)}
	case errors.Is(err, errHeadTooLarge):
		return problem{Problem: v1.HeaderFieldsTooLarge}
	case errors.Is(err, auth.ErrMissingKey):
		return problem{Problem: v1.MissingAPIKey, header: challenge("")}
	case errors.Is(err, auth.ErrMultipleCredentials):
		p := v1.InvalidRequest
		p.Source = &v1.Source{Header: "Authorization"}
		return problem{Problem: p, header: challenge(`, error="invalid_request"`)}
	case errors.Is(err, auth.ErrInvalidKey):
		return problem{Problem: v1.InvalidAPIKey, header: challenge(`, error="invalid_token"`)}
	case errors.Is(err, auth.ErrWrongKind):
		return problem{Problem: v1.WrongKeyKind}
	case errors.Is(err, auth.ErrInsufficientScope):
		return problem{Problem: v1.InsufficientScope, header: challenge(`, error="insufficient_scope", scope="` + auth.ScopeInquiriesRead + `"`)}
	case errors.Is(err, auth.ErrAccessRequired):
		return problem{Problem: v1.APIAccessRequired}
	}
	return problem{Problem: v1.InternalError}
}

// upstreamProblem says whose failure it is that there is no list, as far as a caller is told. A mapping or a record may
// have been corrected a moment later, so every 502 has a Retry-After.
func upstreamProblem(e *upstream.Error) problem {
	switch e.Failure() {
	case upstream.FailureAccount:
		return problem{Problem: v1.AccountUnsupported}
	case upstream.FailureSignIn:
		return problem{Problem: v1.UpstreamSignInFailed, header: retryAfter(signInRetryAfter)}
	case upstream.FailureMapping, upstream.FailureForeign:
		return problem{Problem: v1.UpstreamInvalidResponse, header: retryAfter(upstreamRetryAfter)}
	case upstream.FailureSystem, upstream.FailureRefused:
		switch e.Result() {
		case upstream.ResultTimeout:
			return problem{Problem: v1.UpstreamTimeout, header: retryAfter(upstreamRetryAfter)}
		case upstream.ResultUnavailable:
			return problem{Problem: v1.UpstreamUnavailable, header: retryAfter(e.Wait)}
		case upstream.ResultInvalid:
			return problem{Problem: v1.UpstreamInvalidResponse, header: retryAfter(upstreamRetryAfter)}
		case upstream.ResultFailed:
			return problem{Problem: v1.UpstreamError, header: retryAfter(upstreamRetryAfter)}
		case upstream.ResultOK, upstream.ResultCanceled:
		}
	case upstream.FailureCanceled, upstream.FailureBug:
	}
	return problem{Problem: v1.InternalError}
}

// challenge is the WWW-Authenticate of RFC 6750; params say what was wrong with
// the credentials that came, and are empty where none did.
func challenge(params string) [2]string {
	return [2]string{"Www-Authenticate", `Bearer realm="inquiries"` + params}
}

// retryAfter is in whole seconds, rounded up so that nobody returns too early.
func retryAfter(d time.Duration) [2]string {
	return [2]string{"Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))}
}
