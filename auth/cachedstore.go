package auth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/telemetry"
)

const (
	// maxLookups bounds the lookups that run at once. One more is ErrUnavailable at once rather
	// than a queue that grows.
	maxLookups = 256
	// maxUnseenLookups is how many of them keys may have that this node has never seen good, so
	// that guesses leave room for the keys of callers.
	maxUnseenLookups = maxLookups * 3 / 4
	// maxUnknown bounds the unknown keys that are stored.
	maxUnknown = 10_000
	// maxRefreshPause bounds the time between two background lookups of one key when the first
	// of them failed.
	maxRefreshPause = time.Second
)

var (
	errBusy   = errors.New("too many lookups are under way")
	errClosed = errors.New("the key store has been closed")
	// errAsked marks an unknown key whose client has been charged for it.
	errAsked = errors.New("the store was asked")
	// errFailing is for a client whose look-ups have used up what it may guess by failing.
	errFailing = errors.New("too many lookups for this client have failed")
)

// Lookup asks a remote store about one key. It returns ErrUnknownKey only when the store has
// said so. Its context has a deadline and no caller's cancellation.
type Lookup func(ctx context.Context, c Credential) (*Grant, error)

// CachePolicy says how long and how much a CachedStore stores.
type CachePolicy struct {
	TTL         time.Duration // of a good answer, from the start of its lookup
	NegativeTTL time.Duration // of ErrUnknownKey
	MaxKeys     int           // good answers; at least 1
	Timeout     time.Duration // of one lookup
}

// Known is what a node knows of the keys of one source: the answers that it stores. It outlives
// a change of the source's settings, as one store after another works with it.
//
// Good and bad answers are stored apart, so that a flood of made-up keys evicts nothing but
// itself. A good answer stays when its time is over, until newer keys need its place: it lets
// nobody in, but the key is looked up again whatever others on the same address guess.
type Known struct {
	good localcache.Cache[Digest, *entry]
	bad  localcache.Cache[Digest, *time.Time] // until when; a pointer as in good: one instance of otter is compiled for both

	mu         sync.Mutex
	generation uint64 // raised by each Forget: what was asked before is not stored

	version atomic.Int64 // see Version
}

// NewKnown knows nothing yet.
func NewKnown() *Known {
	k := &Known{
		good: otter.Must(&otter.Options[Digest, *entry]{MaximumSize: 1}),
		bad:  otter.Must(&otter.Options[Digest, *time.Time]{MaximumSize: maxUnknown}),
	}
	k.version.Store(-1)
	return k
}

// Version is that of the source's changes which have been forgotten here; negative: none is known.
func (k *Known) Version() int64 { return k.version.Load() }

// SetVersion notes that all changes up to a version have been forgotten.
func (k *Known) SetVersion(v int64) { k.version.Store(v) }

// entry is a good answer. A newer answer is a new entry.
type entry struct {
	grant *Grant
	asked time.Time // when the lookup began
	// due is the age at which the key is looked up again in the background; forgotten: the
	// answer does not count any more.
	due atomic.Int64
}

const forgotten = -1

// CachedStore is the Store that remote stores embed: it stores answers for a time and within a
// number, runs one lookup per key at a time, limits guesses, and gives each lookup a deadline.
// It is safe for concurrent use.
//
// A key in use is looked up again in the background when half of its time is over. So it has
// half of its time left when the remote store goes away, and a change there is seen sooner. The
// keys that an earlier store of the same source has confirmed are good for their time, too, and
// are looked up again at their next use. What it was asked before is not stored.
type CachedStore struct {
	name    string
	ask     Lookup
	policy  CachePolicy
	now     func() time.Time
	guesses *Guesses
	metrics *lookupMetrics
	tracer  *telemetry.Tracer
	panics  *telemetry.Catcher
	known   *Known
	away    atomic.Bool // the last lookup that ended was not answered

	flights singleflight.Group // by digest and generation

	mu      sync.Mutex
	running int
	closed  bool
	wg      sync.WaitGroup
}

// NewCachedStore makes the store that asks through ask. name is the store's label in metrics
// and spans.
func NewCachedStore(name string, ask Lookup, p CachePolicy, opts Options) *CachedStore {
	opts = opts.WithDefaults()
	s := &CachedStore{
		name: name, ask: ask, policy: p, now: opts.Now, guesses: opts.Guesses, metrics: newLookupMetrics(name, opts.Registerer),
		tracer: telemetry.NewTracer(opts.Traces, spanScope), panics: opts.Panics, known: opts.Known,
	}
	if s.known == nil {
		s.known = NewKnown()
	}
	s.known.good.SetMaximum(uint64(p.MaxKeys))
	s.known.bad.InvalidateAll()
	s.known.change(func(e *entry) {
		if due := e.due.Load(); due != forgotten {
			e.due.CompareAndSwap(due, 0)
		}
	})
	return s
}

// Find implements Store. Known keys are good within their time even when the store cannot be
// asked. It waits no longer than the caller's deadline.
func (s *CachedStore) Find(ctx context.Context, c Credential) (*Grant, error) {
	now := s.now()
	e, seen := s.known.good.GetIfPresent(c.Digest)
	if seen && s.counts(e, now) {
		if s.claimRefresh(e, now) {
			s.start(ctx, c, true)
		}
		return e.grant, nil
	}
	if s.known.isBad(c.Digest, now) {
		return nil, ErrUnknownKey
	}
	client := "" // whose the lookup is, unless the node has seen the key good
	if c.Caller != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.Caller.Deadline())
		defer cancel()
		if !seen {
			client = c.Caller.ClientIP()
		}
	}
	if err := s.guesses.reserve(ctx, client, c.Digest); err != nil {
		if ctx.Err() == nil {
			s.metrics.results[lookupLimited].Inc()
		}
		if s.away.Load() {
			return nil, errFailing
		}
		return nil, err
	}
	var answer singleflight.Result
	select {
	case answer = <-s.start(ctx, c, seen):
	case <-ctx.Done():
		answer.Err = ctx.Err()
	}
	s.guesses.settle(client, answer.Err)
	if errors.Is(answer.Err, ErrUnknownKey) {
		return nil, fmt.Errorf("%w: %w", errAsked, answer.Err)
	}
	g, _ := answer.Val.(*Grant)
	return g, answer.Err
}

// Recall implements Store. A key that is due to be looked up again is Find's.
func (s *CachedStore) Recall(d Digest) (*Grant, bool) {
	now := s.now()
	e, ok := s.known.good.GetIfPresent(d)
	if !ok || !s.counts(e, now) || now.Sub(e.asked) >= time.Duration(e.due.Load()) {
		return nil, false
	}
	return e.grant, true
}

// counts says whether an answer is good now: for the ttl, and never past the key's end. A key
// that had ended before it was asked for is refused anyway, but a flood of it must not reach
// the store.
func (s *CachedStore) counts(e *entry, now time.Time) bool {
	age, most := now.Sub(e.asked), s.policy.TTL
	if exp := e.grant.ExpiresAt; !exp.IsZero() {
		if rest := exp.Sub(e.asked); rest > 0 {
			most = min(most, rest)
		} else {
			most = min(most, s.policy.NegativeTTL)
		}
	}
	return age < most && e.due.Load() != forgotten
}

// claimRefresh reports whether the caller has to refresh the entry, and tells so one caller per
// pause. The first refresh is due after half of the ttl.
func (s *CachedStore) claimRefresh(e *entry, now time.Time) bool {
	age, due := now.Sub(e.asked), e.due.Load()
	if due == forgotten || age < time.Duration(due) {
		return false
	}
	return e.due.CompareAndSwap(due, int64(age+min(maxRefreshPause, s.policy.TTL/8)))
}

func (k *Known) isBad(d Digest, now time.Time) bool {
	until, found := k.bad.GetIfPresent(d)
	return found && now.Before(*until)
}

// start joins the lookup of a key, or starts one; the answer comes through the channel. seen
// says that this node has seen the key good. Lookups from before a Forget are not joined. The
// loader of the cache is not used: it would hold the first caller past its deadline.
func (s *CachedStore) start(ctx context.Context, c Credential, seen bool) <-chan singleflight.Result {
	s.known.mu.Lock()
	generation := s.known.generation
	s.known.mu.Unlock()
	most := maxUnseenLookups
	if seen {
		most = maxLookups
	}
	c.Caller, c.Known = nil, seen // the request it belongs to may be over
	ctx = context.WithoutCancel(ctx)
	return s.flights.DoChan(string(c.Digest[:])+strconv.FormatUint(generation, 36), func() (any, error) {
		if err := s.begin(most); err != nil {
			return nil, err
		}
		defer s.end()
		asked := s.now()
		// A lookup may have ended since the caller looked at what is stored.
		if e, ok := s.known.good.GetIfPresent(c.Digest); ok && s.counts(e, asked) && e.due.Load() == int64(s.policy.TTL/2) {
			return e.grant, nil
		}
		if s.known.isBad(c.Digest, asked) {
			return nil, ErrUnknownKey
		}
		g, err := s.lookup(ctx, c)
		s.SetAway(err != nil && !errors.Is(err, ErrUnknownKey))
		s.store(c.Digest, g, err, asked, generation)
		return g, err
	})
}

// begin takes a place among the lookups that run; end gives it back.
func (s *CachedStore) begin(most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.running >= most:
		s.metrics.results[lookupBusy].Inc()
		return errBusy
	}
	s.running++
	s.wg.Add(1)
	return nil
}

func (s *CachedStore) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.wg.Done()
}

// lookup asks with a deadline, in the trace of the first caller who needs the answer. A panic
// is an error of this lookup only.
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

// store keeps an answer, unless something was forgotten while it was on its way: the answer may
// be what is to be forgotten.
func (s *CachedStore) store(d Digest, g *Grant, err error, asked time.Time, generation uint64) {
	k := s.known
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.generation != generation:
	case err == nil:
		e := &entry{grant: g, asked: asked}
		e.due.Store(int64(s.policy.TTL / 2))
		k.good.Set(d, e)
		k.bad.Invalidate(d)
	case errors.Is(err, ErrUnknownKey):
		k.bad.Set(d, new(s.now().Add(s.policy.NegativeTTL)))
		k.good.Invalidate(d)
	}
}

// change changes all good answers. No answer that is on its way is stored.
func (k *Known) change(each func(*entry)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	for _, e := range k.good.All() {
		each(e)
	}
}

// SetAway notes whether the remote store is away, for who finds that out without a lookup. A client
// that may not have it asked is told so then, and not that it guesses.
func (s *CachedStore) SetAway(away bool) { s.away.Store(away) }

// Forget makes one key be looked up again. An answer on its way is given to who waits for it
// and not stored.
func (s *CachedStore) Forget(d Digest) {
	k := s.known
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	if e, ok := k.good.GetIfPresent(d); ok {
		e.due.Store(forgotten)
	}
	k.bad.Invalidate(d)
}

// ForgetAccount makes the keys of an account be looked up again.
func (s *CachedStore) ForgetAccount(id string) {
	s.known.change(func(e *entry) {
		if e.grant.Principal.Account == id {
			e.due.Store(forgotten)
		}
	})
}

// ForgetAll makes every key be looked up again.
func (s *CachedStore) ForgetAll() {
	s.known.change(func(e *entry) { e.due.Store(forgotten) })
	s.known.bad.InvalidateAll()
}

// Close refuses new lookups and waits for those that run; each ends by its own deadline.
func (s *CachedStore) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}
