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

	"inquiry-gateway/internal/panics"
)

// maxLookups bounds the questions to a remote store that are under way at
// once. One more is ErrUnavailable at once rather than a queue that grows.
// Keys that this node has never seen good get maxUnseenLookups of them, so that
// guesses leave room for the keys of callers.
const (
	maxLookups       = 256
	maxUnseenLookups = maxLookups * 3 / 4
)

// maxRefreshPause bounds the time between two background questions for one key
// when the first of them failed.
const maxRefreshPause = time.Second

var (
	errBusy   = errors.New("too many look-ups are under way")
	errClosed = errors.New("the key store has been closed")
)

// lookup asks a remote store once. It returns ErrUnknownKey only when the
// store has said so. Its context has a deadline and no caller's cancellation.
type lookup func(ctx context.Context, c Credential) (*Grant, error)

// cachedStore is what the remote stores have in common: answers are remembered
// for a time and within a number, the same question is asked once at a time,
// failed lookups are limited per client, and each has a deadline.
//
// A key in use is asked about again in the background when half of its time is
// over. So it has half of its time left when the store goes away, and a store
// that changes its mind is heard of sooner.
//
// Good and bad answers are kept apart, so that a flood of made-up keys pushes
// out nothing but itself. A good answer stays when its time is over, until
// newer keys need its place: it lets nobody in, but the key is asked about
// again without regard to what others on the same address guess.
type cachedStore struct {
	name     string
	ask      lookup
	policy   memoryPolicy
	now      func() time.Time
	attempts *attempts
	metrics  *lookupMetrics
	tracer   trace.Tracer // nil: no spans
	panics   *panics.Catcher

	good *otter.Cache[Digest, *entry]
	bad  *otter.Cache[Digest, time.Time] // until when

	// epoch counts what has been forgotten. An answer to a question of an
	// earlier epoch is given to who asked but not remembered: it may be what
	// was just to be forgotten.
	epoch atomic.Uint64

	mu      sync.Mutex
	flights map[flightKey]*flight
	refused refusedKeys
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

// entry is a good answer. A newer answer is a new entry.
type entry struct {
	grant *Grant
	asked time.Time // when the question began
	until time.Time // good before; never later than asked + ttl

	// due is the age at which the store is asked again in the background. A
	// negative one says that the answer does not count any more.
	due atomic.Int64
}

const forgotten = -1

func (e *entry) forget() { e.due.Store(forgotten) }

func (e *entry) good(now time.Time) bool { return e.due.Load() != forgotten && now.Before(e.until) }

// claimRefresh reports whether the caller has to refresh the entry, and tells
// so one caller per pause. The first refresh is due after half of the ttl.
func (e *entry) claimRefresh(now time.Time, ttl time.Duration) bool {
	age, due := now.Sub(e.asked), e.due.Load()
	if due == forgotten || age < time.Duration(due) {
		return false
	}
	return e.due.CompareAndSwap(due, int64(age+min(maxRefreshPause, ttl/8)))
}

type flightKey struct {
	digest Digest
	epoch  uint64
}

type flight struct {
	done  chan struct{} // closed when grant and err are set
	asked time.Time
	grant *Grant
	err   error
}

func newCachedStore(name string, ask lookup, p memoryPolicy, opts Options) (*cachedStore, error) {
	metrics, err := newLookupMetrics(name, opts.Registerer)
	if err != nil {
		return nil, err
	}
	good, err := otter.New(&otter.Options[Digest, *entry]{MaximumSize: p.maxKeys})
	if err != nil {
		return nil, err
	}
	bad, err := otter.New(&otter.Options[Digest, time.Time]{MaximumSize: maxUnknown})
	if err != nil {
		return nil, err
	}
	return &cachedStore{
		name: name, ask: ask, policy: p, now: opts.Now, metrics: metrics, tracer: newTracer(opts.Traces), panics: opts.Panics,
		attempts: newAttempts(p.attempts.PerSecond, p.attempts.Burst, opts.Now),
		good:     good, bad: bad, flights: make(map[flightKey]*flight),
	}, nil
}

// Find implements Store. Known keys are good within their time even when the
// store cannot be asked. It waits no longer than the caller's deadline.
func (r *cachedStore) Find(ctx context.Context, c Credential) (*Grant, error) {
	now := r.now()
	if e, ok := r.good.GetIfPresent(c.Digest); ok && e.good(now) {
		if e.claimRefresh(now, r.policy.ttl) {
			r.refresh(ctx, c)
		}
		return e.grant, nil
	}
	if r.isBad(c.Digest, now) {
		return nil, ErrUnknownKey
	}
	f, err := r.join(ctx, c)
	if err != nil {
		return nil, err
	}
	if c.Caller != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.Caller.Deadline())
		defer cancel()
	}
	select {
	case <-f.done:
		return f.grant, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *cachedStore) isBad(d Digest, now time.Time) bool {
	until, found := r.bad.GetIfPresent(d)
	return found && now.Before(until)
}

// join returns the flight that asks for the credential, and starts it when
// there is none.
func (r *cachedStore) join(ctx context.Context, c Credential) (*flight, error) {
	client := ""
	if c.Caller != nil {
		client = c.Caller.ClientIP()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.flights[flightKey{c.Digest, r.epoch.Load()}]; ok {
		return f, nil
	}
	// A flight may have landed since the caller looked.
	now := r.now()
	e, seen := r.good.GetIfPresent(c.Digest)
	switch {
	case seen && e.good(now):
		return landed(e.grant, nil), nil
	case r.isBad(c.Digest, now):
		return landed(nil, ErrUnknownKey), nil
	case seen:
		return r.start(ctx, c, "", maxLookups)
	}
	take := r.attempts.take
	if r.refused.seen(c.Digest) {
		take = r.attempts.takeAgain
	}
	if wait, ok := take(client); !ok {
		r.refused.add(c.Digest)
		r.metrics.count(lookupLimited)
		return nil, &TooManyAttempts{RetryAfter: wait}
	}
	f, err := r.start(ctx, c, client, maxUnseenLookups)
	if err != nil {
		r.attempts.release(client)
	}
	return f, err
}

// landed is a flight that has its answer already.
func landed(g *Grant, err error) *flight {
	f := &flight{done: make(chan struct{}), grant: g, err: err}
	close(f.done)
	return f
}

// refresh asks about a known key again, in the background. When the store
// cannot be asked, what is remembered stays good until its time is over.
func (r *cachedStore) refresh(ctx context.Context, c Credential) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.flights[flightKey{c.Digest, r.epoch.Load()}]; !ok {
		_, _ = r.start(ctx, c, "", maxLookups) // it is tried again after a pause
	}
}

// start asks the store, unless that many questions are under way. client is
// who pays for a failed lookup; empty: nobody. r.mu is held.
func (r *cachedStore) start(ctx context.Context, c Credential, client string, most int) (*flight, error) {
	switch {
	case r.closed:
		return nil, errClosed
	case len(r.flights) >= most:
		r.metrics.count(lookupBusy)
		return nil, errBusy
	}
	f := &flight{done: make(chan struct{}), asked: r.now()}
	key := flightKey{c.Digest, r.epoch.Load()}
	r.flights[key] = f
	ctx = context.WithoutCancel(ctx)
	r.wg.Go(func() { r.run(ctx, c, client, key, f) })
	return f, nil
}

// run asks the store and lets everybody who waits know.
func (r *cachedStore) run(ctx context.Context, c Credential, client string, key flightKey, f *flight) {
	c.Caller = nil // the request it belongs to may be over
	f.grant, f.err = r.tracedAsk(ctx, c)
	if !errors.Is(f.err, ErrUnknownKey) {
		r.attempts.release(client)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remember(key, f)
	delete(r.flights, key)
	close(f.done)
}

// askSafely asks with a deadline; a panic is an error of this question only.
func (r *cachedStore) askSafely(ctx context.Context, c Credential) (g *Grant, err error) {
	defer func() {
		r.metrics.count(lookupResult(err))
	}()
	defer r.panics.Catch(func(p any) { g, err = nil, fmt.Errorf("%s: a bug: %v", r.name, p) })
	defer r.metrics.time(time.Now())
	ctx, cancel := context.WithTimeout(ctx, r.policy.timeout)
	defer cancel()
	return r.ask(ctx, c)
}

// remember keeps an answer unless something was forgotten meanwhile. r.mu is
// held, which forget takes too: nothing can be forgotten in between.
func (r *cachedStore) remember(key flightKey, f *flight) {
	if r.epoch.Load() != key.epoch {
		return
	}
	now := r.now()
	switch {
	case f.err == nil:
		until := f.asked.Add(r.policy.ttl)
		if exp := f.grant.ExpiresAt; !exp.IsZero() && exp.Before(until) {
			until = exp
			if !exp.After(now) { // refused anyway, but a flood of an expired key must not reach the store
				until = now.Add(r.policy.negativeTTL)
			}
		}
		e := &entry{grant: f.grant, asked: f.asked, until: until}
		e.due.Store(int64(r.policy.ttl / 2))
		r.good.Set(key.digest, e)
		r.bad.Invalidate(key.digest)
	case errors.Is(f.err, ErrUnknownKey):
		r.bad.Set(key.digest, now.Add(r.policy.negativeTTL))
		r.good.Invalidate(key.digest)
	}
}

// forget makes one key be asked about again.
func (r *cachedStore) forget(d Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Add(1)
	if e, ok := r.good.GetIfPresent(d); ok {
		e.forget()
	}
	r.bad.Invalidate(d)
}

// forgetAccount makes the keys of an account be asked about again.
func (r *cachedStore) forgetAccount(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Add(1)
	for _, e := range r.good.All() {
		if e.grant.Principal.Account == id {
			e.forget()
		}
	}
}

// forgetAll makes every key be asked about again.
func (r *cachedStore) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Add(1)
	for _, e := range r.good.All() {
		e.forget()
	}
	r.bad.InvalidateAll()
}

// close refuses new questions and waits for those under way; each ends by its
// own deadline.
func (r *cachedStore) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
}
