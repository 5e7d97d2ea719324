package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/panics"
	"inquiry-gateway/internal/span"
)

const (
	// maxLookups bounds the lookups that run at once. One more is ErrUnavailable
	// at once rather than a queue that grows.
	maxLookups = 256
	// maxUnseenLookups is how many of them keys may have that this node has never
	// seen good, so that guesses leave room for the keys of callers.
	maxUnseenLookups = maxLookups * 3 / 4
	// maxUnknown bounds the failed lookups that are stored.
	maxUnknown = 10_000
	// maxRefreshPause bounds the time between two background lookups of one key
	// when the first of them failed.
	maxRefreshPause = time.Second
)

var (
	errBusy   = errors.New("too many lookups are under way")
	errClosed = errors.New("the key store has been closed")
)

// Lookup asks a remote store about one key. It returns ErrUnknownKey only when the
// store has said so. Its context has a deadline and no caller's cancellation.
type Lookup func(ctx context.Context, c Credential) (*Grant, error)

// CachePolicy says how long and how much a CachedStore stores.
type CachePolicy struct {
	TTL         time.Duration // of a good answer, from the start of its lookup
	NegativeTTL time.Duration // of ErrUnknownKey
	Timeout     time.Duration // of one lookup
	MaxKeys     int           // good answers
	UnknownKeys AttemptsConfig
}

// CachedStore is the Store that remote stores embed: it stores answers for a time
// and within a number, runs one lookup per key at a time, limits failed lookups
// per client, and gives each lookup a deadline. It is safe for concurrent use.
//
// A key in use is looked up again in the background when half of its time is
// over. So it has half of its time left when the remote store goes away, and a
// change there is seen sooner.
//
// Good and bad answers are stored apart, so that a flood of made-up keys evicts
// nothing but itself. A good answer stays when its time is over, until newer keys
// need its place: it lets nobody in, but the key is looked up again whatever
// others on the same address guess.
//
// Lookups of one key are joined here and not by the loader of the cache below:
// that one would give the first caller's refusal to everybody who waits, would
// hold the first caller past its deadline, and could store an answer that began
// before a change to the key's account.
type CachedStore struct {
	name     string
	ask      Lookup
	policy   CachePolicy
	now      func() time.Time
	attempts *attempts
	metrics  *lookupMetrics
	tracer   *span.Tracer
	panics   *panics.Catcher

	good localcache.Cache[Digest, *entry]
	bad  localcache.Cache[Digest, *time.Time] // until when; a pointer as in good: one instance of otter is compiled for both

	mu      sync.Mutex
	flights map[Digest]*flight // lookups whose answers will be stored
	running int                // lookups, also those that were forgotten meanwhile
	refused refusedKeys
	closed  bool
	wg      sync.WaitGroup
}

// entry is a good answer. A newer answer is a new entry.
type entry struct {
	grant *Grant
	asked time.Time // when the lookup began
	until time.Time // good before; never later than asked + ttl

	// due is the age at which the key is looked up again in the background. A
	// negative one says that the answer does not count any more.
	due atomic.Int64
}

const forgotten = -1

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

// flight is a lookup that callers wait for.
type flight struct {
	done  chan struct{} // closed when grant and err are set
	asked time.Time
	grant *Grant
	err   error
}

// NewCachedStore makes the store that asks through ask. name is the store's label
// in metrics and spans. The policy must have room for a key.
func NewCachedStore(name string, ask Lookup, p CachePolicy, opts Options) *CachedStore {
	opts = opts.WithDefaults()
	return &CachedStore{
		name: name, ask: ask, policy: p, now: opts.Now, metrics: newLookupMetrics(name, opts.Registerer), panics: opts.Panics,
		tracer:   span.New(opts.Traces, spanScope),
		attempts: newAttempts(p.UnknownKeys.PerSecond, p.UnknownKeys.Burst, opts.Now),
		good:     otter.Must(&otter.Options[Digest, *entry]{MaximumSize: p.MaxKeys}),
		bad:      otter.Must(&otter.Options[Digest, *time.Time]{MaximumSize: maxUnknown}),
		flights:  make(map[Digest]*flight),
	}
}

// Find implements Store. Known keys are good within their time even when the
// store cannot be asked. It waits no longer than the caller's deadline.
func (s *CachedStore) Find(ctx context.Context, c Credential) (*Grant, error) {
	now := s.now()
	if e, ok := s.good.GetIfPresent(c.Digest); ok && e.good(now) {
		if e.claimRefresh(now, s.policy.TTL) {
			s.refresh(ctx, c)
		}
		return e.grant, nil
	}
	if s.isBad(c.Digest, now) {
		return nil, ErrUnknownKey
	}
	f, err := s.join(ctx, c)
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

// Recall implements Recaller. A key that is due to be looked up again is Find's.
func (s *CachedStore) Recall(d Digest) (*Grant, bool) {
	now := s.now()
	e, ok := s.good.GetIfPresent(d)
	if !ok || !e.good(now) || now.Sub(e.asked) >= time.Duration(e.due.Load()) {
		return nil, false
	}
	return e.grant, true
}

func (s *CachedStore) isBad(d Digest, now time.Time) bool {
	until, found := s.bad.GetIfPresent(d)
	return found && now.Before(*until)
}

// join returns the lookup of the credential, and starts it when there is none.
func (s *CachedStore) join(ctx context.Context, c Credential) (*flight, error) {
	client := ""
	if c.Caller != nil {
		client = c.Caller.ClientIP()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.flights[c.Digest]; ok {
		return f, nil
	}
	// A lookup may have ended since the caller looked at what is stored.
	now := s.now()
	e, seen := s.good.GetIfPresent(c.Digest)
	switch {
	case seen && e.good(now):
		return ended(e.grant), nil
	case s.isBad(c.Digest, now):
		return nil, ErrUnknownKey
	case seen:
		return s.start(ctx, c, "", maxLookups)
	}
	if wait, ok := s.attempts.take(client, s.refused.seen(c.Digest)); !ok {
		s.refused.add(c.Digest)
		s.metrics.results[lookupLimited].Inc()
		return nil, &TooManyAttempts{RetryAfter: wait}
	}
	f, err := s.start(ctx, c, client, maxUnseenLookups)
	if err != nil {
		s.attempts.release(client)
	}
	return f, err
}

// ended is a flight that has its answer already.
func ended(g *Grant) *flight {
	f := &flight{done: make(chan struct{}), grant: g}
	close(f.done)
	return f
}

// refresh looks a known key up again, in the background. When the remote store
// cannot be asked, what is stored stays good until its time is over.
func (s *CachedStore) refresh(ctx context.Context, c Credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.flights[c.Digest]; !ok {
		_, _ = s.start(ctx, c, "", maxLookups) // it is tried again after a pause
	}
}

// start starts a lookup, unless that many run. client is who pays for a failed
// one; empty: nobody. s.mu is held.
func (s *CachedStore) start(ctx context.Context, c Credential, client string, most int) (*flight, error) {
	switch {
	case s.closed:
		return nil, errClosed
	case s.running >= most:
		s.metrics.results[lookupBusy].Inc()
		return nil, errBusy
	}
	f := &flight{done: make(chan struct{}), asked: s.now()}
	s.flights[c.Digest] = f
	s.running++
	c.Caller = nil // the request it belongs to may be over
	ctx = context.WithoutCancel(ctx)
	s.wg.Go(func() {
		f.grant, f.err = s.lookup(ctx, c)
		if !errors.Is(f.err, ErrUnknownKey) {
			s.attempts.release(client)
		}
		s.end(c.Digest, f)
	})
	return f, nil
}

// lookup asks with a deadline, in the trace of the first caller who needs the
// answer. A panic is an error of this lookup only.
func (s *CachedStore) lookup(ctx context.Context, c Credential) (g *Grant, err error) {
	ctx, span := s.tracer.Start(ctx, "auth.lookup", trace.WithSpanKind(trace.SpanKindClient))
	defer func(start time.Time) {
		s.metrics.duration.Observe(time.Since(start).Seconds())
		result := lookupResult(err)
		s.metrics.results[result].Inc()
		if span.Recording() {
			span.Set(attribute.String("auth.store", s.name), attribute.String("auth.result", result))
		}
		if result != lookupFound && result != lookupUnknown {
			span.Fail(result)
		}
		span.End()
	}(time.Now())
	defer s.panics.Catch(func(p any) { g, err = nil, fmt.Errorf("%s: a bug: %v", s.name, p) })
	ctx, cancel := context.WithTimeout(ctx, s.policy.Timeout)
	defer cancel()
	return s.ask(ctx, c)
}

// end stores the answer, unless it was forgotten while it was on its way, and
// wakes everybody who waits.
func (s *CachedStore) end(d Digest, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.flights[d] == f {
		delete(s.flights, d)
		s.store(d, f)
	}
	close(f.done)
}

// store keeps an answer. s.mu is held, which Forget takes too: nothing is
// forgotten in between.
func (s *CachedStore) store(d Digest, f *flight) {
	now := s.now()
	switch {
	case f.err == nil:
		until := f.asked.Add(s.policy.TTL)
		if exp := f.grant.ExpiresAt; !exp.IsZero() && exp.Before(until) {
			until = exp
			if !exp.After(now) { // refused anyway, but a flood of an expired key must not reach the store
				until = now.Add(s.policy.NegativeTTL)
			}
		}
		e := &entry{grant: f.grant, asked: f.asked, until: until}
		e.due.Store(int64(s.policy.TTL / 2))
		s.good.Set(d, e)
		s.bad.Invalidate(d)
	case errors.Is(f.err, ErrUnknownKey):
		s.bad.Set(d, new(now.Add(s.policy.NegativeTTL)))
		s.good.Invalidate(d)
	}
}

// Forget makes one key be looked up again. An answer on its way is given to who
// waits for it and not stored: it may be what is to be forgotten.
func (s *CachedStore) Forget(d Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.flights, d)
	if e, ok := s.good.GetIfPresent(d); ok {
		e.due.Store(forgotten)
	}
	s.bad.Invalidate(d)
}

// ForgetAccount makes the keys of an account be looked up again. Whose the answers
// on their way are is not known, so none of them is stored.
func (s *CachedStore) ForgetAccount(id string) {
	s.forget(func(g *Grant) bool { return g.Principal.Account == id })
}

// ForgetAll makes every key be looked up again.
func (s *CachedStore) ForgetAll() {
	s.forget(func(*Grant) bool { return true })
	s.bad.InvalidateAll()
}

// forget makes the keys that match be looked up again. No answer that is on its way is
// stored: it may be of before the change.
func (s *CachedStore) forget(match func(*Grant) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.flights)
	for _, e := range s.good.All() {
		if match(e.grant) {
			e.due.Store(forgotten)
		}
	}
}

// Close refuses new lookups and waits for those that run; each ends by its own
// deadline.
func (s *CachedStore) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}
