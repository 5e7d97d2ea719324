package auth

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/telemetry"
)

const (
	// maxLookups bounds the look-ups in flight. One more fails at once rather than wait in a queue that grows.
	maxLookups = 256
	// maxNewLookups bounds those of keys that are not cached. The rest is reserved for refreshing known keys.
	maxNewLookups = maxLookups * 3 / 4
	// maxKeys bounds the cached keys. Those used least are evicted.
	maxKeys = 100_000
	// expiredTTL is how long a key is cached that had expired before it was looked up. It is refused
	// anyway; a flood of it does not reach the key store.
	expiredTTL = 2 * time.Second
	// maxRefreshPause bounds the time between two background look-ups of one key if the first one failed.
	maxRefreshPause = time.Second
)

var errBusy = errors.New("too many look-ups are in flight")

// LookupFunc looks one key up in a remote key store. Its context has a deadline and no caller's
// cancellation. ErrUnknownKey: the store has no such key. Any other error says nothing about the key;
// ErrMalformedResponse marks an answer that makes no sense.
type LookupFunc func(ctx context.Context, c Credential) (*Grant, error)

// RemotePolicy says how a RemoteStore looks keys up and how long it caches them.
type RemotePolicy struct {
	Lookup  LookupFunc
	TTL     time.Duration // of a grant, from the start of its look-up
	Timeout time.Duration // of one look-up
}

// RemoteStore is a Store that caches what a remote key store answers. It is safe for concurrent use.
//
// Concurrent look-ups of one key are one. A key in use is looked up again in the background when half of its
// TTL is over. So it has at least half of it left when the key store fails, and a change there is seen sooner. Unknown keys
// are not cached.
type RemoteStore struct {
	name        string
	now         func() time.Time
	created     time.Time
	metrics     *lookupMetrics
	tracer      *telemetry.Tracer
	panics      *telemetry.Catcher
	policy      atomic.Pointer[RemotePolicy]
	grants      localcache.Cache[Digest, *cachedGrant]
	flights     singleflight.Group
	slots       chan struct{}   // one for each look-up in flight
	newKeySlots chan struct{}   // one more for each of a key that is not cached
	ctx         context.Context // of look-ups
	stop        func()

	mu         sync.Mutex
	generation int // raised by Invalidate: answers to older look-ups are not cached
}

// cachedGrant is a grant with times on the store's clock.
type cachedGrant struct {
	grant     *Grant
	began     time.Duration // when the look-up did
	lifetime  time.Duration // the most that the grant may be cached, whatever the TTL
	refreshAt atomic.Int64  // when the next use triggers a refresh; invalidated: the grant must not be used
}

const invalidated = math.MinInt64

// NewRemoteStore makes a store. name is its label in metrics and spans. Close ends it.
func NewRemoteStore(name string, p RemotePolicy, opts Options) *RemoteStore {
	opts = opts.WithDefaults()
	s := &RemoteStore{
		name: name, now: opts.Now, created: opts.Now(), metrics: newLookupMetrics(name, opts.Registerer),
		tracer: telemetry.NewTracer(opts.Traces, spanScope), panics: opts.Panics,
		grants: otter.Must(&otter.Options[Digest, *cachedGrant]{MaximumSize: maxKeys}),
		slots:  make(chan struct{}, maxLookups), newKeySlots: make(chan struct{}, maxNewLookups),
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.ctx = ctx
	s.stop = sync.OnceFunc(func() {
		cancel()
		for range maxLookups { // each look-up in flight gives its slot back at its end
			s.slots <- struct{}{}
		}
	})
	s.policy.Store(&p)
	return s
}

// SetPolicy is for a reload that keeps the key store. Known keys stay cached, for the new TTL from their last look-up on, and
// each is looked up again in the background at its next use. Answers to look-ups by the old policy are not cached.
func (s *RemoteStore) SetPolicy(p RemotePolicy) {
	s.policy.Store(&p)
	s.mu.Lock()
	s.generation++
	s.mu.Unlock()
	for _, c := range s.grants.All() {
		if at := c.refreshAt.Load(); at != invalidated {
			c.refreshAt.CompareAndSwap(at, 0)
		}
	}
}

// clock is the time since the store was made, which goes on when the wall clock is set.
func (s *RemoteStore) clock() time.Duration { return s.now().Sub(s.created) }

// valid tells whether a cached grant counts: for the TTL, and never past the key's expiry.
func (s *RemoteStore) valid(c *cachedGrant, now time.Duration) bool {
	return now-c.began < min(s.policy.Load().TTL, c.lifetime) && c.refreshAt.Load() != invalidated
}

// Cached implements Store. It gives no grant of a key that is due to be looked up again: Find does, and
// starts the look-up.
func (s *RemoteStore) Cached(d Digest) (g *Grant, known bool) {
	c, known := s.grants.GetIfPresent(d)
	if !known {
		return nil, false
	}
	if now := s.clock(); s.valid(c, now) && int64(now) < c.refreshAt.Load() {
		g = c.grant
	}
	return g, true
}

// Find implements Store. A cached grant counts for its time even if the key store is unavailable. Find waits no
// longer than the context.
func (s *RemoteStore) Find(ctx context.Context, c Credential) (*Grant, error) {
	cached, known := s.grants.GetIfPresent(c.Digest)
	c.Known = known
	if now := s.clock(); known && s.valid(cached, now) {
		if at := cached.refreshAt.Load(); int64(now) >= at {
			pause := min(maxRefreshPause, s.policy.Load().TTL/8)
			if at != invalidated && cached.refreshAt.CompareAndSwap(at, int64(now+pause)) { // one caller starts it
				s.startLookup(ctx, c, cached)
			}
		}
		return cached.grant, nil
	}
	select {
	case r := <-s.startLookup(ctx, c, cached):
		grant, _ := r.Val.(*Grant)
		return grant, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startLookup starts a look-up, or joins the one in flight that began after the last Invalidate. old is what the
// caller has found in the cache, or nil.
func (s *RemoteStore) startLookup(ctx context.Context, c Credential, old *cachedGrant) <-chan singleflight.Result {
	s.mu.Lock()
	generation := s.generation
	s.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // the request it belongs to may be over
	return s.flights.DoChan(fmt.Sprintf("%d %s", generation, c.Digest.Hex()), func() (any, error) {
		if newer, ok := s.grants.GetIfPresent(c.Digest); ok && newer != old && s.valid(newer, s.clock()) {
			return newer.grant, nil // a look-up has ended since
		}
		release, err := s.acquire(c.Known)
		if err != nil {
			return nil, err
		}
		defer release()
		began := s.clock()
		grant, err := s.lookUp(ctx, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.generation != generation: // what was invalidated meanwhile may be this
		case err == nil:
			s.cache(c.Digest, grant, began)
		case errors.Is(err, ErrUnknownKey):
			s.grants.Invalidate(c.Digest)
		}
		return grant, err
	})
}

// acquire takes a slot among the look-ups in flight.
func (s *RemoteStore) acquire(known bool) (release func(), err error) {
	queues := []chan struct{}{s.slots, s.newKeySlots}
	if known {
		queues = queues[:1]
	}
	for i, queue := range queues {
		select {
		case queue <- struct{}{}:
		default:
			for _, taken := range queues[:i] {
				<-taken
			}
			s.metrics.results[lookupBusy].Inc()
			return nil, errBusy
		}
	}
	return func() {
		for _, taken := range queues {
			<-taken
		}
	}, nil
}

func (s *RemoteStore) cache(d Digest, g *Grant, began time.Duration) {
	c := &cachedGrant{grant: g, began: began, lifetime: math.MaxInt64}
	if !g.ExpiresAt.IsZero() {
		if c.lifetime = g.ExpiresAt.Sub(s.created) - began; c.lifetime <= 0 {
			c.lifetime = expiredTTL
		}
	}
	c.refreshAt.Store(int64(began + s.policy.Load().TTL/2))
	s.grants.Set(d, c)
}

// lookUp asks the key store with a deadline, in the trace of the first caller. A panic is an error of this look-up only.
func (s *RemoteStore) lookUp(ctx context.Context, c Credential) (g *Grant, err error) {
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
	p := s.policy.Load()
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if g, err = p.Lookup(ctx, c); g == nil && err == nil {
		err = errors.New("a bug: no grant and no error")
	}
	return g, err
}

// Invalidate makes the keys be looked up again whose grants match. Answers to look-ups that began before are not
// cached. It visits every cached key.
func (s *RemoteStore) Invalidate(match func(*Grant) bool) {
	s.mu.Lock()
	s.generation++
	s.mu.Unlock()
	for _, c := range s.grants.All() {
		if match(c.grant) {
			c.refreshAt.Store(invalidated)
		}
	}
}

// Close cancels the look-ups in flight, waits for them, and refuses new ones.
func (s *RemoteStore) Close() { s.stop() }

// The results of looking a key up in a remote key store.
const (
	lookupFound   = "found"
	lookupUnknown = "unknown"
	lookupFailed  = "failed"  // not reached, too slow, or an error
	lookupGarbage = "garbage" // an answer that makes no sense
	lookupBusy    = "busy"    // not sent: maxLookups were in flight
)

// lookupMetrics counts the look-ups. Cached grants need none: requests less look-ups are the hits.
type lookupMetrics struct {
	results  map[string]prometheus.Counter
	duration prometheus.Observer
}

func newLookupMetrics(store string, reg prometheus.Registerer) *lookupMetrics {
	all := telemetry.Series(reg, "auth").With(prometheus.Labels{"store": store})
	return &lookupMetrics{
		results: telemetry.Resolve(all.Counters("lookups_total", "Look-ups of keys that are not cached on the node.", "result"),
			lookupFound, lookupUnknown, lookupFailed, lookupGarbage, lookupBusy),
		duration: all.NativeHistograms("lookup_duration_seconds", "Duration of look-ups in the key store.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}).WithLabelValues(),
	}
}

// lookupResult names the outcome of a look-up with a bounded label.
func lookupResult(err error) string {
	switch {
	case err == nil:
		return lookupFound
	case errors.Is(err, ErrUnknownKey):
		return lookupUnknown
	case errors.Is(err, ErrMalformedResponse):
		return lookupGarbage
	}
	return lookupFailed
}
