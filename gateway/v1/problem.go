package v1

import (
	"net/http"
	"strconv"
)

// Problem is one kind of public error: what is the same in each occurrence, and
// a detail that fits any occurrence. The functions below are the whole
// catalogue; each returns its own copy.
type Problem struct {
	Status int // HTTP status
	Code   string
	Title  string
	Detail string // tells the caller what to do
}

// WithDetail returns p with another detail, which must tell the caller what to
// do and must not carry legacy text, ids or keys.
func (p Problem) WithDetail(detail string) Problem {
	p.Detail = detail
	return p
}

// Occurrence returns the error object for one request that met p.
func (p Problem) Occurrence(requestID string) Error {
	return Error{ID: requestID, Status: strconv.Itoa(p.Status), Code: p.Code, Title: p.Title, Detail: p.Detail}
}

// Problems returns every problem of the public contract, by status.
func Problems() []Problem {
	return []Problem{
		ProblemInvalidRequest(), ProblemInvalidParameter(),
		ProblemMissingAPIKey(), ProblemInvalidAPIKey(),
		ProblemWrongKeyKind(), ProblemInsufficientScope(), ProblemAPIAccessRequired(),
		ProblemNotFound(), ProblemMethodNotAllowed(), ProblemRateLimited(),
		ProblemInternalError(), ProblemUpstreamError(), ProblemUpstreamInvalidResponse(),
		ProblemUpstreamUnavailable(), ProblemAuthUnavailable(), ProblemUpstreamTimeout(),
	}
}

// ProblemInvalidRequest is for a request with more than one Authorization
// header (RFC 6750, section 3.1).
func ProblemInvalidRequest() Problem {
	return Problem{http.StatusBadRequest, "invalid_request", "Invalid request",
		"Send exactly one Authorization header."}
}

// ProblemInvalidParameter is for a query parameter that is unknown, repeated,
// malformed or badly escaped. Its occurrence has a Source with the parameter.
func ProblemInvalidParameter() Problem {
	return Problem{http.StatusBadRequest, "invalid_parameter", "Invalid parameter",
		"Use only the parameters status and inquiry_type, each at most once, with 1 to 64 of the characters A-Z a-z 0-9 . _ -"}
}

// ProblemMissingAPIKey is for a request without Authorization, with another
// scheme than Bearer, or with an empty key.
func ProblemMissingAPIKey() Problem {
	return Problem{http.StatusUnauthorized, "missing_api_key", "API key missing",
		"Send your API key in the header Authorization: Bearer <API_KEY>. Keys in the URL are not read."}
}

// ProblemInvalidAPIKey is for a key that is malformed, unknown, revoked or
// expired; which of these it was is for the log only.
func ProblemInvalidAPIKey() Problem {
	return Problem{http.StatusUnauthorized, "invalid_api_key", "API key not accepted",
		"The API key is not valid. Check that it was copied whole, or ask for a new one."}
}

// ProblemWrongKeyKind is for a seller's key on the buyers' path or the reverse.
func ProblemWrongKeyKind() Problem {
	return Problem{http.StatusForbidden, "wrong_key_kind", "Key is of the other kind",
		"Use a buyer key on /api/v1/buyer/inquiries and a seller key on /api/v1/seller/inquiries."}
}

// ProblemInsufficientScope is for a key without the scope inquiries:read.
func ProblemInsufficientScope() Problem {
	return Problem{http.StatusForbidden, "insufficient_scope", "Scope missing",
		"Use a key that has the scope inquiries:read."}
}

// ProblemAPIAccessRequired is for an account without paid api_access.
func ProblemAPIAccessRequired() Problem {
	return Problem{http.StatusForbidden, "api_access_required", "Paid API access required",
		"Order API access for the account of this key; the key will then work as it is."}
}

// ProblemNotFound is for an unknown path.
func ProblemNotFound() Problem {
	return Problem{http.StatusNotFound, "not_found", "Not found",
		"Check the path: the lists are /api/v1/buyer/inquiries and /api/v1/seller/inquiries."}
}

// ProblemMethodNotAllowed is for another method than GET and HEAD on a known
// path.
func ProblemMethodNotAllowed() Problem {
	return Problem{http.StatusMethodNotAllowed, "method_not_allowed", "Method not allowed",
		"Use GET or HEAD; this API only reads."}
}

// ProblemRateLimited is for an account over its rate.
func ProblemRateLimited() Problem {
	return Problem{http.StatusTooManyRequests, "rate_limited", "Too many requests",
		"Wait for the seconds given in Retry-After, then go on more slowly."}
}

// ProblemInternalError is for a bug of the gateway.
func ProblemInternalError() Problem {
	return Problem{http.StatusInternalServerError, "internal_error", "Internal error",
		"Try again later. If it stays, report the id of this error."}
}

// ProblemUpstreamError is for a backend that answered 5xx, cut its answer off
// or refused the connection.
func ProblemUpstreamError() Problem {
	return Problem{http.StatusBadGateway, "upstream_error", "The inquiry system failed",
		"Try again in a few seconds. If it stays, report the id of this error."}
}

// ProblemUpstreamInvalidResponse is for an answer of the backend that cannot be
// accepted, or that is too big.
func ProblemUpstreamInvalidResponse() Problem {
	return Problem{http.StatusBadGateway, "upstream_invalid_response", "The inquiry system gave an unusable answer",
		"Trying again at once will not help. Report the id of this error."}
}

// ProblemUpstreamUnavailable is for a backend that is not asked at the moment:
// it failed too often, or too many requests to it are under way.
func ProblemUpstreamUnavailable() Problem {
	return Problem{http.StatusServiceUnavailable, "upstream_unavailable", "The inquiry system is not available",
		"Try again after the seconds given in Retry-After."}
}

// ProblemAuthUnavailable is for a key that could not be checked because the
// key store did not answer. It says nothing about the key.
func ProblemAuthUnavailable() Problem {
	return Problem{http.StatusServiceUnavailable, "auth_unavailable", "API keys cannot be checked now",
		"Keep your key and try again after the seconds given in Retry-After."}
}

// ProblemUpstreamTimeout is for a backend that did not answer in time.
func ProblemUpstreamTimeout() Problem {
	return Problem{http.StatusGatewayTimeout, "upstream_timeout", "The inquiry system was too slow",
		"Try again in a few seconds."}
}
