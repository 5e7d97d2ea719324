package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/trace"
)

// maxLookups bounds the questions to a remote store that are under way at
// once. One more is ErrUnavailable at once rather than a queue that grows.
const maxLookups = 256

var (
	errBusy   = errors.New("too many look-ups are under way")
	errClosed = errors.New("the key store has been closed")
)

// lookup asks a remote store once. It returns ErrUnknownKey only when the
// store has said so. Its context has a deadline and no caller's cancellation.
type lookup func(ctx context.Context, c Credential) (*Grant, error)

// remembered is what the remote stores have in common: answers are remembered
// for a time and within a number, the same question is asked once at a time,
// questions in vain are limited per client, and each has a deadline.
//
// Good and bad answers are kept apart, so that a flood of made-up keys pushes
// out nothing but itself.
type remembered struct {
	name     string
	ask      lookup
	policy   memoryPolicy
	now      func() time.Time
	attempts *attempts
	metrics  *lookupMetrics
	tracer   trace.Tracer // nil: no spans

	good *otter.Cache[Digest, remembrance]
	bad  *otter.Cache[Digest, time.Time] // until when

	// epoch counts what has been forgotten. An answer to a question of an
	// earlier epoch is given to who asked but not remembered: it may be what
	// was just to be forgotten.
	epoch atomic.Uint64

	mu      sync.Mutex
	flights map[flightKey]*flight
	closed  bool
	wg      sync.WaitGroup
}

// memoryPolicy says how long and how much is remembered.
type memoryPolicy struct {
	ttl, negativeTTL time.Duration
	timeout          time.Duration // of one question
	maxKeys          int           // good answers
	attempts         AttemptsConfig
}

// maxUnknown bounds the bad answers that are remembered.
const maxUnknown = 10_000

type remembrance struct {
	grant *Grant
	until time.Time
}

type flightKey struct {
	digest Digest
	epoch  uint64
}

type flight struct {
	done  chan struct{} // closed when grant and err are set
	grant *Grant
	err   error
}

func newRemembered(name string, ask lookup, p memoryPolicy, opts Options) (*remembered, error) {
	metrics, err := newLookupMetrics(name, opts.Registerer)
	if err != nil {
		return nil, err
	}
	good, err := otter.New(&otter.Options[Digest, remembrance]{MaximumSize: p.maxKeys})
	if err != nil {
		return nil, err
	}
	bad, err := otter.New(&otter.Options[Digest, time.Time]{MaximumSize: maxUnknown})
	if err != nil {
		return nil, err
	}
	return &remembered{
		name: name, ask: ask, policy: p, now: opts.Now, metrics: metrics, tracer: newTracer(opts.Traces),
		attempts: newAttempts(p.attempts.PerSecond, p.attempts.Burst, opts.Now),
		good:     good, bad: bad, flights: make(map[flightKey]*flight),
	}, nil
}

// Find implements Store. Known keys are good within their time even when the
// store cannot be asked.
func (r *remembered) Find(ctx context.Context, c Credential) (*Grant, error) {
	if grant, known, err := r.recall(c.Digest); known {
		return grant, err
	}
	f, err := r.join(ctx, c)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.done:
		return f.grant, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// recall gives what is remembered of a key and still good.
func (r *remembered) recall(d Digest) (grant *Grant, known bool, err error) {
	if m, found := r.good.GetIfPresent(d); found && r.now().Before(m.until) {
		return m.grant, true, nil
	}
	if until, found := r.bad.GetIfPresent(d); found && r.now().Before(until) {
		return nil, true, ErrUnknownKey
	}
	return nil, false, nil
}

// join returns the flight that asks for the credential, and starts it when
// there is none.
func (r *remembered) join(ctx context.Context, c Credential) (*flight, error) {
	client := ""
	if c.Caller != nil {
		client = c.Caller.ClientIP()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := flightKey{c.Digest, r.epoch.Load()}
	if f, ok := r.flights[key]; ok {
		return f, nil
	}
	// A flight may have landed since the caller looked.
	if grant, known, err := r.recall(c.Digest); known {
		f := &flight{done: make(chan struct{}), grant: grant, err: err}
		close(f.done)
		return f, nil
	}
	switch {
	case r.closed:
		return nil, errClosed
	case len(r.flights) >= maxLookups:
		r.metrics.count(lookupBusy)
		return nil, errBusy
	}
	if wait, ok := r.attempts.take(client); !ok {
		r.metrics.count(lookupLimited)
		return nil, &TooManyAttempts{RetryAfter: wait}
	}
	f := &flight{done: make(chan struct{})}
	r.flights[key] = f
	ctx = context.WithoutCancel(ctx)
	r.wg.Go(func() { r.fly(ctx, c, client, key, f) })
	return f, nil
}

// fly asks the store and lets everybody who waits know.
func (r *remembered) fly(ctx context.Context, c Credential, client string, key flightKey, f *flight) {
	c.Caller = nil // the request it belongs to may be over
	f.grant, f.err = r.tracedAsk(ctx, c)
	if !errors.Is(f.err, ErrUnknownKey) {
		r.attempts.giveBack(client)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remember(key, f)
	delete(r.flights, key)
	close(f.done)
}

// askSafely asks with a deadline; a panic is an error of this question only.
func (r *remembered) askSafely(ctx context.Context, c Credential) (g *Grant, err error) {
	defer func() {
		if p := recover(); p != nil {
			g, err = nil, fmt.Errorf("%s: a bug: %v", r.name, p)
		}
		r.metrics.count(lookupResult(err))
	}()
	defer r.metrics.time(time.Now())
	ctx, cancel := context.WithTimeout(ctx, r.policy.timeout)
	defer cancel()
	return r.ask(ctx, c)
}

// remember keeps an answer unless something was forgotten meanwhile. r.mu is
// held, which forget takes too: nothing can be forgotten in between.
func (r *remembered) remember(key flightKey, f *flight) {
	if r.epoch.Load() != key.epoch {
		return
	}
	now := r.now()
	switch {
	case f.err == nil:
		until := now.Add(r.policy.ttl)
		if exp := f.grant.ExpiresAt; !exp.IsZero() && exp.Before(until) {
			until = exp
			if !exp.After(now) { // refused anyway, but a flood of an expired key must not reach the store
				until = now.Add(r.policy.negativeTTL)
			}
		}
		r.good.Set(key.digest, remembrance{f.grant, until})
		r.bad.Invalidate(key.digest)
	case errors.Is(f.err, ErrUnknownKey):
		r.bad.Set(key.digest, now.Add(r.policy.negativeTTL))
		r.good.Invalidate(key.digest)
	}
}

// forget drops what is remembered of one key.
func (r *remembered) forget(d Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Add(1)
	r.good.Invalidate(d)
	r.bad.Invalidate(d)
}

// forgetAccount drops what is remembered of the keys of an account.
func (r *remembered) forgetAccount(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Add(1)
	for digest, m := range r.good.All() {
		if m.grant.Principal.Account == id {
			r.good.Invalidate(digest)
		}
	}
}

// forgetAll drops everything that is remembered.
func (r *remembered) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Add(1)
	r.good.InvalidateAll()
	r.bad.InvalidateAll()
}

// close refuses new questions and waits for those under way; each ends by its
// own deadline.
func (r *remembered) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
}
