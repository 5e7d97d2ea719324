// Package auth turns the Authorization header of a request into a Principal.
//
// A key is an opaque bearer token (RFC 6750). Only its digest is ever stored,
// compared or used as a map key; the key itself appears in no log, metric,
// error or file. An Authenticator reads the header, checks the checksum of keys
// in the gateway's own format, hashes the key and asks a Store for the Grant
// behind the digest. Stores, one package each, differ in where grants come from.
// What a grant means (revoked, expired, kind, scope, paid access) is decided here
// and nowhere else.
package auth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
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

	Guesses *Guesses           // beyond it a client that sends unknown keys gets ErrTooManyAttempts; nil: no limit
	Known   *Known             // what an earlier store of the same source knew; nil: nothing
	Panics  *telemetry.Catcher // of its goroutines; nil: logged only
}

// spanScope names the spans of this package.
const spanScope = "inquiry-gateway/auth"

// WithDefaults fills in what is not set. Stores call it; Registerer and Traces
// may stay nil.
func (o Options) WithDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Panics = cmp.Or(o.Panics, telemetry.NewCatcher("auth", nil, o.Logger))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Authenticator turns an Authorization header into a Principal. It is safe for
// concurrent use and does not allocate for a key that the store knows.
type Authenticator struct {
	store    Store
	hasher   Hasher
	now      func() time.Time
	guesses  *Guesses
	results  map[string]prometheus.Counter
	security *securityLog
	tracer   *telemetry.Tracer
}

// NewAuthenticator returns an Authenticator over a store, which must hold
// digests of the same hasher.
func NewAuthenticator(store Store, h Hasher, opts Options) *Authenticator {
	opts = opts.WithDefaults()
	return &Authenticator{
		store:    store,
		hasher:   h,
		now:      opts.Now,
		guesses:  opts.Guesses,
		results:  newResults(opts.Registerer),
		security: newSecurityLog(opts.Logger),
		tracer:   telemetry.NewTracer(opts.Traces, spanScope),
	}
}

// AuthenticateFrom takes the values of the Authorization header as received. The
// error matches ErrMissingKey, ErrMultipleCredentials, ErrInvalidKey (then it
// is a *Denial) or ErrUnavailable; the last one also wraps the store's error,
// the context's included. What the principal may do is Authorize's decision.
//
// A caller that keeps sending keys that do not exist gets ErrTooManyAttempts; keys that
// exist are not held up by that. A nil caller is not limited. The grant is
// shared, and must not be changed.
func (a *Authenticator) AuthenticateFrom(ctx context.Context, authorization []string, from Caller) (*Grant, error) {
	// The span says how authentication ended and how long it took. Neither a key
	// nor its digest or id is in it.
	ctx, span := a.tracer.Start(ctx, "auth")
	defer span.End()
	grant, err := a.find(ctx, authorization, from)
	if err == nil {
		err = a.judge(grant)
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
		a.security.failed(ctx, result, err, from)
		return nil, err
	}
	if span.Recording() {
		span.Set(attribute.String("auth.key_kind", grant.Principal.Kind))
	}
	a.security.used(ctx, grant)
	return grant, nil
}

// Recall is the part of AuthenticateFrom that neither counts, logs nor waits: the grant
// of a good key that the store has at hand. False says nothing about the key. Where
// the grant is used, Accept follows.
func (a *Authenticator) Recall(authorization []string) (*Grant, bool) {
	key, err := bearer(authorization)
	if err != nil || ownFormat(key) && !checksumOK(key) {
		return nil, false
	}
	digest := a.hasher.Hash(key)
	g, ok := a.store.Recall(digest)
	return g, ok && subtle.ConstantTimeCompare(g.Digest[:], digest[:]) == 1 && a.judge(g) == nil
}

// Accept counts and logs the use of a grant of Recall.
func (a *Authenticator) Accept(ctx context.Context, g *Grant) {
	a.results[resultOK].Inc()
	a.security.used(ctx, g)
}

// find gets the grant of the key in the header, judging nothing but form.
func (a *Authenticator) find(ctx context.Context, authorization []string, from Caller) (*Grant, error) {
	key, err := bearer(authorization)
	if err != nil {
		return nil, err
	}
	if ownFormat(key) && !checksumOK(key) {
		return nil, a.unknown(from, ReasonChecksum)
	}
	digest := a.hasher.Hash(key)
	grant, err := a.store.Find(ctx, Credential{Digest: digest, Key: Secret(key), Caller: from})
	switch {
	case errors.Is(err, ErrTooManyAttempts):
		return nil, err
	case errors.Is(err, errAsked):
		return nil, &Denial{Reason: ReasonUnknown}
	case errors.Is(err, ErrUnknownKey):
		return nil, a.unknown(from, ReasonUnknown)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case subtle.ConstantTimeCompare(grant.Digest[:], digest[:]) != 1:
		// A store that answers with another key's grant must not let anybody in.
		return nil, &Denial{Reason: ReasonUnknown}
	}
	return grant, nil
}

// unknown refuses a key that does not exist, without a store having been asked, in one of two
// ways: a client that keeps sending such keys is told to wait.
func (a *Authenticator) unknown(from Caller, reason string) error {
	if from != nil {
		if wait, ok := a.guesses.take(from.ClientIP()); !ok {
			return &TooManyAttempts{RetryAfter: wait}
		}
	}
	return &Denial{Reason: reason}
}

// judge refuses grants that no longer count. Revocation is told before expiry:
// the use of a revoked key is what an operator wants to know.
func (a *Authenticator) judge(g *Grant) error {
	if g.Revoked {
		return &Denial{Reason: ReasonRevoked, KeyID: g.Principal.KeyID}
	}
	if !g.ExpiresAt.IsZero() && !a.now().Before(g.ExpiresAt) {
		return &Denial{Reason: ReasonExpired, KeyID: g.Principal.KeyID}
	}
	return nil
}

// ErrNoKeyIDs means that the source of keys cannot find a key by its id. Only the
// keys file and Redis can.
var ErrNoKeyIDs = errors.New("this source of keys cannot find a key by its id")

// ByID says what AuthenticateFrom would answer to the key of that id, for tools
// that explain it: the same store is asked, but nothing is counted or logged,
// and the principal is there with a Denial, too. Further errors: ErrNoSuchKey,
// ErrNoKeyIDs, and ErrUnavailable as for AuthenticateFrom.
func (a *Authenticator) ByID(ctx context.Context, id string) (Principal, error) {
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
	return grant.Principal, a.judge(grant)
}
