package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/panics"
)

// Options are what the parts of this package share. The zero value is usable:
// no log, no metrics, the wall clock.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
	Traces     trace.TracerProvider // nil: no spans

	// UnknownKeys limits how often one client address is told that its key does
	// not exist; beyond that it gets ErrTooManyAttempts. Zero: no limit.
	UnknownKeys AttemptsConfig
	Panics      *panics.Catcher // of its goroutines; nil: logged only
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Panics == nil {
		o.Panics = panics.New("auth", nil, o.Logger)
	}
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
	guesses  *attempts
	results  *results
	security *securityLog
	tracer   trace.Tracer // nil: no spans
}

// NewAuthenticator returns an Authenticator over a store, which must hold
// digests of the same hasher. It fails only when its metrics cannot be
// registered.
func NewAuthenticator(store Store, h Hasher, opts Options) (*Authenticator, error) {
	opts = opts.withDefaults()
	counted, err := newResults(opts.Registerer)
	if err != nil {
		return nil, err
	}
	return &Authenticator{
		store:    store,
		hasher:   h,
		now:      opts.Now,
		guesses:  newAttempts(opts.UnknownKeys.PerSecond, opts.UnknownKeys.Burst, opts.Now),
		results:  counted,
		security: newSecurityLog(opts.Logger),
		tracer:   newTracer(opts.Traces),
	}, nil
}

// Authenticate takes the values of the Authorization header as received. The
// error matches ErrMissingKey, ErrMultipleCredentials, ErrInvalidKey (then it
// is a *Denial) or ErrUnavailable; the last one also wraps the store's error,
// the context's included. What the principal may do is Authorize's decision.
func (a *Authenticator) Authenticate(ctx context.Context, authorization []string) (Principal, error) {
	return a.AuthenticateFrom(ctx, authorization, nil)
}

// AuthenticateFrom is Authenticate for a caller whose address is known. One
// that keeps sending keys that do not exist gets ErrTooManyAttempts; keys that
// exist are not held up by that. A nil caller is not limited.
func (a *Authenticator) AuthenticateFrom(ctx context.Context, authorization []string, from Caller) (Principal, error) {
	if a.tracer != nil {
		return a.traced(ctx, authorization, from)
	}
	return a.authenticate(ctx, authorization, from)
}

func (a *Authenticator) authenticate(ctx context.Context, authorization []string, from Caller) (Principal, error) {
	grant, err := a.find(ctx, authorization, from)
	if err == nil {
		err = a.judge(grant)
	}
	a.results.count(err)
	if err != nil {
		a.security.failed(ctx, err, from)
		return Principal{}, err
	}
	if !grant.seen.Load() {
		a.security.used(ctx, grant)
	}
	return grant.Principal, nil
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

// unknown refuses a key that does not exist, in one of two ways: a client that
// keeps sending such keys is told to wait.
func (a *Authenticator) unknown(from Caller, reason string) error {
	if from != nil {
		if wait, ok := a.guesses.take(from.ClientIP()); !ok {
			return &TooManyAttempts{RetryAfter: wait}
		}
	}
	return &Denial{Reason: reason}
}

// judge refuses grants that no longer count. Revocation is told before expiry:
// the use of a revoked key is what an operator wants to hear of.
func (a *Authenticator) judge(g *Grant) error {
	if g.Revoked {
		return &Denial{Reason: ReasonRevoked, KeyID: g.Principal.KeyID}
	}
	if !g.ExpiresAt.IsZero() && !a.now().Before(g.ExpiresAt) {
		return &Denial{Reason: ReasonExpired, KeyID: g.Principal.KeyID}
	}
	return nil
}
