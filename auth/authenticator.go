// Package auth turns the Authorization header of a request into a Principal.
//
// A key is an opaque bearer token (RFC 6750). Only its digest is ever stored,
// compared or used as a map key; the key itself appears in no log, metric,
// error or file. An Authenticator reads the header, checks the checksum of keys
// in the gateway's own format, hashes the key and has a Store find the Grant
// behind the digest. Stores, one package each, differ in where grants come from:
// auth/keysfile knows all of them; auth/keysredis and auth/introspect are each a
// RemoteStore, which looks a key up and stores the answer for a time.
// What a grant means (revoked, expired, kind, scope, paid access) is decided here
// and nowhere else.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/telemetry"
)

// Options are what the parts of this package share. The zero value is usable:
// no log, no metrics, the wall clock.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
	Traces     trace.TracerProvider // nil: no spans
	// Dial opens the connections to an authorization server; nil: a [net.Dialer] does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	InvalidKeys *InvalidKeyLimiter // rate limiter for unknown keys; nil disables it
	Panics      *telemetry.Catcher // of its goroutines; nil: logged only
}

// spanScope names the spans of this package.
const spanScope = "inquiry-gateway/auth"

// WithDefaults fills in what is not set. Stores call it; Registerer, Traces, Dial and
// InvalidKeys may stay nil.
func (o Options) WithDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Panics = cmp.Or(o.Panics, telemetry.NewCatcher("auth", nil, o.Logger))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store finds the grant behind a key. Implementations are safe for concurrent
// use and impose their own deadline besides the context's.
type Store interface {
	// Find returns the grant of a credential. ErrUnknownKey means that the
	// store is sure there is none; any other error means that the store could
	// not find out, and the Authenticator makes ErrUnavailable of it. A revoked or
	// expired grant is returned like any other: the Authenticator rejects it.
	// The grant may be shared and must not be changed.
	Find(ctx context.Context, c Credential) (*Grant, error)
	// Cached gives the grant that this node has; nil says nothing about the key. Known keys, of which
	// this node has had a grant, are exempt from the limit of invalid keys. Cached does not block.
	Cached(d Digest) (g *Grant, known bool)
}

// Credential is what a caller presented. Stores that hold key records find it by the
// digest; only a store that has to pass the key on, such as token introspection, reads
// the key.
type Credential struct {
	Digest Digest
	Key    Secret
	Known  bool // for a LookupFunc: this node has had a grant of the key
}

// Caller is the client of a request. Its methods are called only where a key
// is refused or a remote store has to be waited for, so that a request with a
// known key does not pay for them.
type Caller interface {
	// ClientIP is the client's address with trusted proxies taken into account.
	ClientIP() netip.Addr
	// Deadline is when the request has to be answered at the latest.
	Deadline() time.Time
	// LogRefusal reports whether the refusal of this request for a reason, a
	// label of the metrics, gets a log record of its own. Otherwise it is only
	// counted. It is called once at most.
	LogRefusal(reason string) bool
}

// Authenticator turns an Authorization header into a Principal. It is safe for
// concurrent use and does not allocate for a key that the store knows.
type Authenticator struct {
	store       Store
	hasher      Hasher
	now         func() time.Time
	invalidKeys *InvalidKeyLimiter
	results     map[string]prometheus.Counter
	log         *slog.Logger
	tracer      *telemetry.Tracer
}

// NewAuthenticator returns an Authenticator over a store, which must hold
// digests of the same hasher.
func NewAuthenticator(store Store, h Hasher, opts Options) *Authenticator {
	opts = opts.WithDefaults()
	return &Authenticator{
		store:       store,
		hasher:      h,
		now:         opts.Now,
		invalidKeys: opts.InvalidKeys,
		results:     newResults(opts.Registerer),
		log:         opts.Logger,
		tracer:      telemetry.NewTracer(opts.Traces, spanScope),
	}
}

// AuthenticateFrom takes the values of the Authorization header as received. The
// error matches ErrMissingKey, ErrMultipleCredentials, ErrInvalidKey (then it
// is a *Denial) or ErrUnavailable; the last one also wraps the store's error,
// the context's included. What the principal may do is Authorize's decision.
//
// A caller that keeps sending keys that do not exist gets a *TooManyInvalidKeys, but never for a key
// that this node knows. The grant is shared, and must not
// be changed.
func (a *Authenticator) AuthenticateFrom(ctx context.Context, authorization []string, from Caller) (*Grant, error) {
	// The span says how authentication ended and how long it took. Neither a key
	// nor its digest or id is in it.
	ctx, span := a.tracer.Start(ctx, "auth")
	defer span.End()
	grant, err := a.find(ctx, authorization, from)
	if err == nil {
		err = a.check(grant)
	}
	result := resultOf(err)
	a.results[result].Inc()
	if span.Recording() {
		span.Set(attribute.String("auth.result", result))
	}
	if err != nil {
		if result == resultUnavailable { // a key that is refused is no failure of ours
			span.Fail(resultUnavailable)
		}
		a.logRefusal(ctx, result, err, from)
		return nil, err
	}
	if span.Recording() {
		span.Set(attribute.String("auth.key_kind", grant.Principal.Kind))
	}
	return grant, nil
}

// find gets the grant of the key in the header. It checks the form of the key only.
func (a *Authenticator) find(ctx context.Context, authorization []string, from Caller) (*Grant, error) {
	key, err := bearer(authorization)
	if err != nil {
		return nil, err
	}
	if ownFormat(key) && !checksumOK(key) {
		return nil, &Denial{Reason: ReasonChecksum}
	}
	digest := a.hasher.Hash(key)
	grant, known := a.store.Cached(digest)
	if grant == nil {
		grant, err = a.lookUpLimited(ctx, Credential{Digest: digest, Key: Secret(key)}, known, from)
	}
	if err == nil && !grant.belongsTo(digest) {
		err = ErrUnknownKey // a store that answers with another key's grant must not let anybody in
	}
	return grant, toDenial(err)
}

// lookUpLimited asks the store within the caller's deadline. A client that has sent too many keys that do not
// exist has to wait, except for a key that this node knows.
func (a *Authenticator) lookUpLimited(ctx context.Context, c Credential, known bool, from Caller) (*Grant, error) {
	if !known {
		if wait := a.invalidKeys.Wait(from.ClientIP()); wait > 0 {
			return nil, &TooManyInvalidKeys{RetryAfter: wait}
		}
	}
	ctx, cancel := context.WithDeadline(ctx, from.Deadline())
	defer cancel()
	grant, err := a.store.Find(ctx, c)
	if errors.Is(err, ErrUnknownKey) {
		a.invalidKeys.Count(from.ClientIP())
	}
	return grant, err
}

// toDenial turns the error of a look-up into one that AuthenticateFrom may return: a Denial for an unknown key,
// ErrUnavailable for anything else. A TooManyInvalidKeys is passed on.
func toDenial(err error) error {
	if _, tooMany := errors.AsType[*TooManyInvalidKeys](err); err == nil || tooMany {
		return err
	}
	if errors.Is(err, ErrUnknownKey) {
		if unusable, ok := errors.AsType[*UnusableKey](err); ok {
			return &Denial{Reason: ReasonUnusable, Detail: unusable.Why}
		}
		return &Denial{Reason: ReasonUnknown}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// check rejects revoked and expired grants. Revocation comes first:
// the use of a revoked key is what an operator wants to know.
func (a *Authenticator) check(g *Grant) error {
	if g.Revoked {
		return &Denial{Reason: ReasonRevoked, KeyID: g.Principal.KeyID}
	}
	if !g.ExpiresAt.IsZero() && !a.now().Before(g.ExpiresAt) {
		return &Denial{Reason: ReasonExpired, KeyID: g.Principal.KeyID}
	}
	return nil
}

// ErrNoKeyIDs means that the key store cannot find a key by its id. Only the keys file
// and Redis can.
var ErrNoKeyIDs = errors.New("this key store cannot find a key by its id")

// CheckByID says what AuthenticateFrom would answer to the key of that id, for tools that explain
// it. It asks the same Store, whose look-up counts as any other, but it counts no
// authentication and logs nothing. With a *Denial it returns the principal, too. Further
// errors: ErrNoSuchKey, ErrNoKeyIDs, and ErrUnavailable as for AuthenticateFrom.
func (a *Authenticator) CheckByID(ctx context.Context, id string) (Principal, error) {
	store, ok := a.store.(interface {
		DigestOf(ctx context.Context, id string) (Digest, error)
	})
	if !ok {
		return Principal{}, ErrNoKeyIDs
	}
	digest, err := store.DigestOf(ctx, id)
	if errors.Is(err, ErrNoSuchKey) {
		return Principal{}, err
	}
	var grant *Grant
	if err == nil {
		grant, err = a.store.Find(ctx, Credential{Digest: digest})
	}
	switch {
	case errors.Is(err, ErrUnknownKey):
		return Principal{}, NoSuchKey(id)
	case err != nil:
		return Principal{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return grant.Principal, a.check(grant)
}

// The results of authentication that are not reasons of a Denial.
const (
	resultOK          = "ok"
	resultMissing     = "missing"
	resultMultiple    = "multiple"
	resultUnavailable = "unavailable"
	resultLimited     = "limited"
	resultCanceled    = "canceled" // the caller left while the store was asked
)

// newResults makes the counters of the outcomes of AuthenticateFrom.
func newResults(reg prometheus.Registerer) map[string]prometheus.Counter {
	return telemetry.Resolve(telemetry.Series(reg, "auth").Counters("requests_total", "Authentications: ok, or why the request was refused.", "result"),
		resultOK, resultMissing, resultMultiple, resultUnavailable, resultCanceled, resultLimited,
		ReasonMalformed, ReasonChecksum, ReasonUnknown, ReasonUnusable, ReasonExpired, ReasonRevoked)
}

// resultOf names the outcome of AuthenticateFrom with a bounded label.
func resultOf(err error) string {
	if err == nil {
		return resultOK
	}
	var denial *Denial // declared here, as they are allocated
	var tooMany *TooManyInvalidKeys
	switch {
	case errors.Is(err, ErrUnavailable): // first: what a store wraps is not ours to trust
		if errors.Is(err, context.Canceled) {
			return resultCanceled
		}
		return resultUnavailable
	case errors.Is(err, ErrMissingKey):
		return resultMissing
	case errors.Is(err, ErrMultipleCredentials):
		return resultMultiple
	case errors.As(err, &tooMany):
		return resultLimited
	case errors.As(err, &denial):
		return denial.Reason
	}
	return resultUnavailable
}
