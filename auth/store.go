package auth

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Store finds the grant behind a key. Implementations are safe for concurrent
// use and impose their own deadline besides the context's.
type Store interface {
	// Find returns the grant of a credential. ErrUnknownKey means that the
	// store is sure there is none; any other error means that the store could
	// not find out, and the Authenticator makes ErrUnavailable of it. A revoked or
	// expired grant is returned like any other: judging it is not the store's
	// business. The grant may be shared and is not changed by anybody.
	Find(ctx context.Context, c Credential) (*Grant, error)
	// Recall gives what is at hand. It neither waits nor counts, and starts nothing; false
	// says nothing about the key.
	Recall(d Digest) (*Grant, bool)
}

// Credential is what a caller presented. Stores that hold key records look the
// digest up; only a store that has to pass the key on, such as token
// introspection, reads the key.
type Credential struct {
	Digest Digest
	Key    Secret
	Caller Caller // who presents it; nil: not known, not limited, no deadline
	Known  bool   // for a Lookup: the node has seen the key good, so no stranger has made it up
}

// Caller is the other end of a request. Its methods are called only where a key
// is refused or a remote store has to be waited for, so that a request with a
// known key does not pay for them.
type Caller interface {
	// ClientIP is the client's address with trusted proxies taken into account.
	ClientIP() string
	// Deadline is when the request has to be answered at the latest.
	Deadline() time.Time
	// LogRefusal reports whether the refusal of this request for a reason, a
	// label of the metrics, gets a log record of its own. Otherwise it is counted
	// for a summary. It is called once at most.
	LogRefusal(reason string) bool
}

// Grant is what a key gives, flattened from the key's record and its account.
type Grant struct {
	Digest    Digest    // of the key this grant belongs to
	Principal Principal // given out when the grant is neither revoked nor expired
	ExpiresAt time.Time // zero: never
	Revoked   bool

	seen atomic.Bool // the key's first use has been logged
}

// Secret is a string that prints as a placeholder with every fmt verb, in
// slog and in JSON.
type Secret string

const redacted = "[redacted]"

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return redacted }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
