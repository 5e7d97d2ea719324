package auth

import (
	"errors"
	"time"
)

// The outcomes of authentication and authorization other than success. Test
// for them with errors.Is.
var (
	// ErrMissingKey: no Authorization header, another scheme, or an empty key.
	ErrMissingKey = errors.New("no API key was sent")
	// ErrMultipleCredentials: more than one Authorization header (RFC 6750, 2).
	ErrMultipleCredentials = errors.New("more than one Authorization header was sent")
	// ErrInvalidKey: a key that is malformed, unknown, revoked or expired. The
	// error that matches it is a *Denial, which says which; callers of the API
	// are not told.
	ErrInvalidKey = errors.New("the API key is not valid")
	// ErrUnavailable: the key store could not be asked, and no grant of the key is cached.
	// It says nothing about the key.
	ErrUnavailable = errors.New("the key store cannot be reached")
	// ErrWrongKind: a buyer's key on the seller endpoint, or the reverse.
	ErrWrongKind = errors.New("the API key is of the other kind")
	// ErrInsufficientScope: the key lacks ScopeInquiriesRead (RFC 6750, 3.1).
	ErrInsufficientScope = errors.New("the API key lacks the scope " + ScopeInquiriesRead)
	// ErrAccessRequired: the account has no paid API access.
	ErrAccessRequired = errors.New("the account has no paid API access")

	// ErrUnknownKey is what a Store answers when it has no grant for a
	// credential. The Authenticator turns it into a Denial.
	ErrUnknownKey = errors.New("unknown key")
	// ErrMalformedResponse is returned if the response of a store cannot be parsed. The caller is refused, and
	// nothing is known about the key.
	ErrMalformedResponse = errors.New("the key store's answer makes no sense")
)

// The reasons of a Denial. The set is closed, so a reason is safe as a metric
// label.
const (
	ReasonMalformed = "malformed" // not a bearer token, or longer than MaxKeyLength
	ReasonChecksum  = "checksum"  // own format with a wrong checksum: a typo or a guess
	ReasonUnknown   = "unknown"
	ReasonUnusable  = "unusable" // see UnusableKey
	ReasonExpired   = "expired"
	ReasonRevoked   = "revoked"
)

// UnusableKey is what a Store answers for a key that is valid where it was issued and is no API key
// of this gateway: a refresh token, a token that is bound to its sender, one without the claims that
// name the account. It matches ErrUnknownKey.
type UnusableKey struct {
	Why string // for the operator; it holds no key
}

// Error says why.
func (e *UnusableKey) Error() string { return "unusable key: " + e.Why }

// Unwrap makes errors.Is(err, ErrUnknownKey) hold.
func (e *UnusableKey) Unwrap() error { return ErrUnknownKey }

// Denial says why a key was refused, for logs and metrics only. It matches
// ErrInvalidKey.
type Denial struct {
	Reason string // one of the Reason constants
	KeyID  string // empty when the key is not known
	Detail string // why a key is unusable, for the operator; else empty
}

// Error names the reason; it never holds a key or a digest.
func (d *Denial) Error() string {
	if d.Detail != "" {
		return ErrInvalidKey.Error() + ": " + d.Detail
	}
	return ErrInvalidKey.Error() + ": " + d.Reason
}

// Unwrap makes errors.Is(err, ErrInvalidKey) hold.
func (d *Denial) Unwrap() error { return ErrInvalidKey }

// TooManyInvalidKeys is the error of a client that has sent too many keys that do not exist. It says when it may go on.
type TooManyInvalidKeys struct {
	RetryAfter time.Duration // > 0
}

// Error says the same to everybody.
func (e *TooManyInvalidKeys) Error() string { return "too many unknown API keys were sent" }
