package v1

import (
	"net/http"
	"strconv"
)

// Problem is an error as a caller sees it: an error object of JSON:API 1.1 but for its id.
// It must never carry a text or an id of the legacy system, or a key.
type Problem struct {
	Status int // HTTP status
	Code   string
	Title  string  // the same for every occurrence of a code
	Detail string  // tells the caller what to do
	Source *Source // nil: the error is about no single part of the request
}

// Source names the part of the request that an error is about: a header, or else a
// query parameter, whose name may be empty, as in "?=x".
type Source struct{ Parameter, Header string }

// The errors of the public contract, by status: the whole catalogue. They are never changed.
var (
	// InvalidRequest is for a request with more than one Authorization header (RFC
	// 6750, section 3.1).
	InvalidRequest = Problem{http.StatusBadRequest, "invalid_request", "Invalid request",
		"Send exactly one Authorization header.", nil}
	// InvalidParameter is for a query parameter that is unknown, repeated, malformed
	// or badly escaped. Its occurrence has a Source with the parameter.
	InvalidParameter = Problem{http.StatusBadRequest, "invalid_parameter", "Invalid parameter",
		"Use only the parameters status and inquiry_type, each at most once, with 1 to 64 of the characters A-Z a-z 0-9 . _ -", nil}
	// MissingAPIKey is for a request without Authorization, with another scheme than
	// Bearer, or with an empty key.
	MissingAPIKey = Problem{http.StatusUnauthorized, "missing_api_key", "API key missing",
		"Send your API key in the header Authorization: Bearer <API_KEY>. Keys in the URL are not read.", nil}
	// InvalidAPIKey is for a key that is malformed, unknown, revoked or expired;
	// which of these it was is for the log only.
	InvalidAPIKey = Problem{http.StatusUnauthorized, "invalid_api_key", "API key not accepted",
		"The API key is not valid. Check that it was copied whole, or ask for a new one.", nil}
	// WrongKeyKind is for a seller's key on the buyers' path or the reverse.
	WrongKeyKind = Problem{http.StatusForbidden, "wrong_key_kind", "Key is of the other kind",
		"Use a buyer key on /api/v1/buyer/inquiries and a seller key on /api/v1/seller/inquiries.", nil}
	// InsufficientScope is for a key without the scope inquiries:read.
	InsufficientScope = Problem{http.StatusForbidden, "insufficient_scope", "Scope missing",
		"Use a key that has the scope inquiries:read.", nil}
	// APIAccessRequired is for an account without paid api_access.
	APIAccessRequired = Problem{http.StatusForbidden, "api_access_required", "Paid API access required",
		"Order API access for the account of this key; the key will then work as it is.", nil}
	// NotFound is for an unknown path.
	NotFound = Problem{http.StatusNotFound, "not_found", "Not found",
		"Check the path: the lists are /api/v1/buyer/inquiries and /api/v1/seller/inquiries.", nil}
	// MethodNotAllowed is for another method than GET and HEAD on a known path.
	MethodNotAllowed = Problem{http.StatusMethodNotAllowed, "method_not_allowed", "Method not allowed",
		"Use GET or HEAD; this API only reads.", nil}
	// RateLimited is for an account over its rate.
	RateLimited = Problem{http.StatusTooManyRequests, "rate_limited", "Too many requests",
		"Wait for the seconds given in Retry-After, then go on more slowly.", nil}
	// HeaderFieldsTooLarge is for a request line and header fields that are too large together (RFC
	// 6585, section 5).
	HeaderFieldsTooLarge = Problem{http.StatusRequestHeaderFieldsTooLarge, "header_fields_too_large", "Header fields too large",
		"Send at most 16 KiB of header fields. The API needs no cookies.", nil}
	// InternalError is for a bug of the gateway.
	InternalError = Problem{http.StatusInternalServerError, "internal_error", "Internal error",
		"Try again later. If it stays, report the id of this error.", nil}
	// AccountUnsupported is for an account whose id the backend's requests cannot name.
	AccountUnsupported = Problem{http.StatusNotImplemented, "account_unsupported", "Account not supported",
		"The inquiry system cannot be asked for the account of this key. Trying again will not help. Report the id of this error.", nil}
	// UpstreamError is for a backend that answered 5xx, cut its answer off or
	// refused the connection.
	UpstreamError = Problem{http.StatusBadGateway, "upstream_error", "The inquiry system failed",
		"Try again in a few seconds. If it stays, report the id of this error.", nil}
	// UpstreamSignInFailed is for a backend that does not let the gateway in.
	UpstreamSignInFailed = Problem{http.StatusBadGateway, "upstream_sign_in_failed", "The inquiry system does not let the gateway in",
		"Your key is good. Try again in a minute. If it stays, report the id of this error.", nil}
	// UpstreamInvalidResponse is for an answer of the backend that cannot be
	// accepted, or that is too big.
	UpstreamInvalidResponse = Problem{http.StatusBadGateway, "upstream_invalid_response", "The inquiry system gave an unusable answer",
		"Trying again at once will not help. Report the id of this error.", nil}
	// UpstreamUnavailable is for a backend that is not asked at the moment: it
	// failed too often, or too many requests to it are under way.
	UpstreamUnavailable = Problem{http.StatusServiceUnavailable, "upstream_unavailable", "The inquiry system is not available",
		"Try again after the seconds given in Retry-After.", nil}
	// AuthUnavailable is for a key that could not be checked because the key store
	// did not answer. It says nothing about the key.
	AuthUnavailable = Problem{http.StatusServiceUnavailable, "auth_unavailable", "API keys cannot be checked now",
		"Keep your key and try again after the seconds given in Retry-After.", nil}
	// UpstreamTimeout is for a backend that did not answer in time.
	UpstreamTimeout = Problem{http.StatusGatewayTimeout, "upstream_timeout", "The inquiry system was too slow",
		"Try again in a few seconds.", nil}
)

// Problems are all errors of the contract, by status. Their details fit any occurrence.
func Problems() []Problem {
	return []Problem{
		InvalidRequest, InvalidParameter, MissingAPIKey, InvalidAPIKey,
		WrongKeyKind, InsufficientScope, APIAccessRequired, NotFound,
		MethodNotAllowed, RateLimited, HeaderFieldsTooLarge, InternalError, AccountUnsupported, UpstreamError,
		UpstreamSignInFailed, UpstreamInvalidResponse, UpstreamUnavailable, AuthUnavailable, UpstreamTimeout,
	}
}

// Render gives the whole reply of a request that met p: the envelope with no data and one
// error, whose id is the request's.
func (p Problem) Render(id string) []byte {
	dst := appendText([]byte(`{"data":[],"meta":{},"errors":[`), `{"id":`, id)
	dst = appendText(dst, `,"status":`, strconv.Itoa(p.Status))
	dst = appendText(dst, `,"code":`, p.Code)
	dst = appendText(dst, `,"title":`, p.Title)
	dst = appendText(dst, `,"detail":`, p.Detail)
	switch s := p.Source; {
	case s == nil:
	case s.Header != "":
		dst = append(appendText(dst, `,"source":{"header":`, s.Header), '}')
	default:
		dst = append(appendText(dst, `,"source":{"parameter":`, s.Parameter), '}')
	}
	return append(dst, `}]}`...)
}
