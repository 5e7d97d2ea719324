package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/telemetry"
)

const (
	// maxLookups bounds the look-ups that run at once. One more is ErrUnavailable at once rather
	// than a queue that grows.
	maxLookups = 256
	// maxUnseenLookups is how many of them keys may have that this node has never seen good, so
	// that guesses leave room for the keys of callers.
	maxUnseenLookups = maxLookups * 3 / 4
	// maxKeys bounds the good answers that are stored, unless the policy does: of more keys the
	// ones used least are looked up again. maxUnknown bounds the unknown keys.
	maxKeys    = 100_000
	maxUnknown = 10_000
	// unknownTTL is how long an unknown key is not looked up again: who makes a key may use it then.
	unknownTTL = 2 * time.Second
	// maxRefreshPause bounds the time between two background look-ups of one key when the first
	// of them failed.
	maxRefreshPause = time.Second
)

var (
	errBusy   = fmt.Errorf("%w: too many look-ups are under way", ErrNotAsked)
	errClosed = fmt.Errorf("%w: it has been closed", ErrNotAsked)
)

// Lookup asks a remote source about one key. Its context has a deadline and no caller's
// cancellation. It returns ErrUnknownKey only when the source has said so. ErrGarbage, ErrRefused and
// ErrNotAsked say what else went wrong; any other error means that the source is away.
type Lookup func(ctx context.Context, c Credential) (*Grant, error)

// RemotePolicy says how long and how much a RemoteStore stores.
type RemotePolicy struct {
	TTL     time.Duration // of a good answer, from the start of its look-up
	Timeout time.Duration // of one look-up
	MaxKeys int           // good answers; 0: 100,000
}

// Memory is what a node remembers of the keys of one source. It outlives a change of the source's
// settings, as one store after another works with it.
//
// Good and unknown keys are stored apart, so that a flood of made-up keys evicts nothing but
// itself. A good answer stays when its time is over, until newer keys need its place: it lets
// nobody in, but this node has seen the key good, so nobody's guesses hold it up.
type Memory struct {
	good    localcache.Cache[Digest, *answer]
	unknown localcache.Cache[Digest, *time.Time] // until when; a pointer as in good: one instance of otter is compiled for both

	mu       sync.Mutex
	lookups  map[Digest]*lookup             // under way; the answer of a look-up that is not here any more is not stored
	accounts localcache.Weak[atomic.Uint64] // by id: the changes of each that an answer needs
	versions map[int]int64
}

// NewMemory remembers nothing yet.
func NewMemory() *Memory {
	return &Memory{
		good:     otter.Must(&otter.Options[Digest, *answer]{MaximumSize: 1}),
		unknown:  otter.Must(&otter.Options[Digest, *time.Time]{MaximumSize: maxUnknown}),
		lookups:  map[Digest]*lookup{},
		versions: map[int]int64{},
	}
}

// Version is that of the changes of a part of the source which have been forgotten here.
func (m *Memory) Version(part int) (v int64, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, known = m.versions[part]
	return v, known
}

// SetVersion notes that all changes of a part of the source up to a version have been forgotten.
func (m *Memory) SetVersion(part int, v int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[part] = v
}

// answer is a good one. A newer answer is a new one.
type answer struct {
	grant   *Grant
	asked   time.Time      // when the look-up began
	account *atomic.Uint64 // see Memory.accounts
	changes uint64         // of the account that the answer knows of
	// due is the age at which the key is looked up again in the background; forgotten: the
	// answer does not count any more.
	due atomic.Int64
}

const forgotten = -1

// lookup is the look-up of a key, under way until done is closed.
type lookup struct {
	done    chan struct{}
	asked   time.Time
	changed []string // accounts that were forgotten meanwhile
	grant   *Grant
	err     error
}

// outdated says that the account which the answer is about has changed meanwhile.
func (l *lookup) outdated() bool {
	return l.err == nil && slices.Contains(l.changed, l.grant.Principal.Account)
}

// RemoteStore is the Store that remote stores embed: it stores answers for a time and within a
// number, runs one look-up per key at a time, and gives each look-up a deadline. It is safe for
// concurrent use.
//
// A key in use is looked up again in the background when half of its time is over. So it has
// half of its time left when the source goes away, and a change there is seen sooner. The
// keys that an earlier store of the same source has confirmed are good for their time, too, and
// are looked up again at their next use. What that store finds out then is not stored.
type RemoteStore struct {
	name    string
	ask     Lookup
	policy  RemotePolicy
	now     func() time.Time
	metrics *lookupMetrics
	tracer  *telemetry.Tracer
	panics  *telemetry.Catcher
	memory  *Memory
	away    atomic.Bool
	life    context.Context // of look-ups
	end     context.CancelFunc

	mu      sync.Mutex
	running int
	closed  bool
	wg      sync.WaitGroup
}

// NewRemoteStore makes the store that asks its source through ask. name is the store's label in
// metrics and spans.
func NewRemoteStore(name string, ask Lookup, p RemotePolicy, opts Options) *RemoteStore {
	opts = opts.WithDefaults()
	if p.MaxKeys == 0 {
		p.MaxKeys = maxKeys
	}
	s := &RemoteStore{
		name: name, ask: ask, policy: p, now: opts.Now, metrics: newLookupMetrics(name, opts.Registerer),
		tracer: telemetry.NewTracer(opts.Traces, spanScope), panics: opts.Panics, memory: opts.Memory,
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.memory.good.SetMaximum(uint64(p.MaxKeys))
	s.memory.forget(func(a *answer) {
		if due := a.due.Load(); due != forgotten {
			a.due.CompareAndSwap(due, 0)
		}
	})
	return s
}

// Find implements Store. Known keys are good within their time even when the source cannot be
// asked. It waits no longer than the context.
func (s *RemoteStore) Find(ctx context.Context, c Credential) (*Grant, error) {
	now := s.now()
	known, _ := s.memory.good.GetIfPresent(c.Digest)
	if known != nil && s.counts(known, now) {
		if s.claimRefresh(known, now) {
			s.lookUp(ctx, c, known)
		}
		return known.grant, nil
	}
	if s.memory.isUnknown(c.Digest, now) {
		return nil, ErrUnknownKey
	}
	for {
		l := s.lookUp(ctx, c, known)
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !l.outdated() {
			return l.grant, l.err
		}
	}
}

// Recall implements Store. A key that is due to be looked up again is Find's.
func (s *RemoteStore) Recall(d Digest) (g *Grant, seen bool) {
	now := s.now()
	a, seen := s.memory.good.GetIfPresent(d)
	if seen && s.counts(a, now) && now.Sub(a.asked) < time.Duration(a.due.Load()) {
		g = a.grant
	}
	return g, seen
}

// Away implements Store: the last look-up that was sent got no answer, or SetAway said so.
func (s *RemoteStore) Away() bool { return s.away.Load() }

// SetAway notes whether the source is away, for who finds that out without a look-up.
func (s *RemoteStore) SetAway(away bool) { s.away.Store(away) }

// counts says whether an answer is good now: for the ttl, and never past the key's end. A key
// that had ended before it was looked up is refused anyway, but a flood of it must not reach
// the source.
func (s *RemoteStore) counts(a *answer, now time.Time) bool {
	most := s.policy.TTL
	if exp := a.grant.ExpiresAt; !exp.IsZero() {
		if rest := exp.Sub(a.asked); rest > 0 {
			most = min(most, rest)
		} else {
			most = min(most, unknownTTL)
		}
	}
	return now.Sub(a.asked) < most && a.due.Load() != forgotten && a.changes == a.account.Load()
}

// claimRefresh reports whether the caller has to refresh the answer, and tells so one caller per
// pause. The first refresh is due after half of the ttl.
func (s *RemoteStore) claimRefresh(a *answer, now time.Time) bool {
	age, due := now.Sub(a.asked), a.due.Load()
	if due == forgotten || age < time.Duration(due) {
		return false
	}
	return a.due.CompareAndSwap(due, int64(age+min(maxRefreshPause, s.policy.TTL/8)))
}

func (m *Memory) isUnknown(d Digest, now time.Time) bool {
	until, found := m.unknown.GetIfPresent(d)
	return found && now.Before(*until)
}

// ended is the end of what has not begun.
var ended = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// lookUp joins the look-up of a key, or begins one. known is the answer that the caller has, which
// is of no use or due; if another look-up has ended since, there is a newer one. The loader of the
// cache is not used: it would hold the first caller past its deadline.
func (s *RemoteStore) lookUp(ctx context.Context, c Credential, known *answer) *lookup {
	m, now := s.memory, s.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lookups[c.Digest]; l != nil {
		return l
	}
	if a, ok := m.good.GetIfPresent(c.Digest); ok && a != known && s.counts(a, now) {
		return &lookup{done: ended, grant: a.grant}
	}
	if m.isUnknown(c.Digest, now) {
		return &lookup{done: ended, err: ErrUnknownKey}
	}
	c.Seen = known != nil
	if err := s.begin(c.Seen); err != nil {
		return &lookup{done: ended, err: err}
	}
	l := &lookup{done: make(chan struct{}), asked: now}
	m.lookups[c.Digest] = l
	ctx = context.WithoutCancel(ctx) // the request it belongs to may be over
	go func() {
		defer s.done()
		l.grant, l.err = s.run(ctx, c)
		s.store(c.Digest, l)
		close(l.done)
	}()
	return l
}

// begin takes a place among the look-ups that run; done gives it back.
func (s *RemoteStore) begin(seen bool) error {
	most := maxUnseenLookups
	if seen {
		most = maxLookups
	}
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

func (s *RemoteStore) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.wg.Done()
}

// run asks the source with a deadline, in the trace of the first caller who needs the answer. A
// panic is an error of this look-up only.
func (s *RemoteStore) run(ctx context.Context, c Credential) (g *Grant, err error) {
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
	defer context.AfterFunc(s.life, cancel)()
	g, err = s.ask(ctx, c)
	if !errors.Is(err, ErrNotAsked) {
		answered := err == nil || errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrGarbage) || errors.Is(err, ErrRefused)
		s.SetAway(!answered)
	}
	return g, err
}

// store keeps the answer of a look-up, unless its key or account was forgotten while it was under
// way: the answer may be what is to be forgotten.
func (s *RemoteStore) store(d Digest, l *lookup) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lookups[d] != l {
		return
	}
	delete(m.lookups, d)
	switch {
	case l.outdated():
	case l.err == nil:
		a := &answer{grant: l.grant, asked: l.asked, account: m.accounts.Of(l.grant.Principal.Account)}
		a.changes = a.account.Load()
		a.due.Store(int64(s.policy.TTL / 2))
		m.good.Set(d, a)
		m.unknown.Invalidate(d)
	case errors.Is(l.err, ErrUnknownKey):
		m.unknown.Set(d, new(s.now().Add(unknownTTL)))
		m.good.Invalidate(d)
	}
}

// forget changes good answers, and stores none that is under way.
func (m *Memory) forget(each func(*answer)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.lookups)
	for _, a := range m.good.All() {
		each(a)
	}
	m.unknown.InvalidateAll()
}

// Forget makes one key be looked up again. An answer under way is given to who waits for it
// and not stored.
func (s *RemoteStore) Forget(d Digest) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lookups, d)
	if a, ok := m.good.GetIfPresent(d); ok {
		a.due.Store(forgotten)
	}
	m.unknown.Invalidate(d)
}

// ForgetAccount makes the keys of an account be looked up again. It costs the same however many
// keys the node knows.
func (s *RemoteStore) ForgetAccount(id string) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lookups {
		l.changed = append(l.changed, id)
	}
	if changes := m.accounts.Find(id); changes != nil {
		changes.Add(1)
	}
}

// ForgetWhere makes the keys be looked up again that match, and all that are unknown. It looks at
// every key that the node knows.
func (s *RemoteStore) ForgetWhere(match func(*Grant) bool) {
	s.memory.forget(func(a *answer) {
		if match(a.grant) {
			a.due.Store(forgotten)
		}
	})
}

// ForgetAll makes every key be looked up again.
func (s *RemoteStore) ForgetAll() { s.ForgetWhere(func(*Grant) bool { return true }) }

// Close refuses new look-ups, gives up those that run, and waits for their end: nobody needs their
// answers, and a stop must not last as long as they may.
func (s *RemoteStore) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
}

// The results of asking a remote source.
const (
	lookupFound   = "found"
	lookupUnknown = "unknown"
	lookupFailed  = "failed"  // not reached, too slow, or an error
	lookupGarbage = "garbage" // an answer that makes no sense
	lookupBusy    = "busy"    // not asked: maxLookups were under way
)

// lookupMetrics counts the look-ups in a remote source. What is stored on the node
// needs none: requests less look-ups are the hits.
type lookupMetrics struct {
	results  map[string]prometheus.Counter
	duration prometheus.Observer
}

func newLookupMetrics(store string, reg prometheus.Registerer) *lookupMetrics {
	all := telemetry.Series(reg, "auth").With(prometheus.Labels{"store": store})
	return &lookupMetrics{
		results: telemetry.By(all.Counters("lookups_total", "Lookups in the key store by result; keys that are stored on the node need none.", "result"),
			lookupFound, lookupUnknown, lookupFailed, lookupGarbage, lookupBusy),
		duration: all.NativeHistograms("lookup_duration_seconds", "How long the key store took to answer or fail.",
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
	case errors.Is(err, ErrGarbage):
		return lookupGarbage
	}
	return lookupFailed
}
