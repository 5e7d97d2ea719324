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
	// maxNewLookups is how many of them may be of keys that this node does not know, so that
	// guesses leave room for known keys.
	maxNewLookups = maxLookups * 3 / 4
	// maxKeys bounds the known keys, unless the policy does: of more keys the ones used least are
	// forgotten. maxUnknown bounds the unknown keys.
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

// Lookup asks a remote key store about one key. Its context has a deadline and no caller's
// cancellation. It returns ErrUnknownKey only when the key store has said so. ErrGarbage, ErrRefused
// and ErrNotAsked say what else went wrong; any other error means that the key store is away.
type Lookup func(ctx context.Context, c Credential) (*Grant, error)

// RemotePolicy says how long and how much a RemoteStore remembers.
type RemotePolicy struct {
	TTL     time.Duration // of a grant, from the start of its look-up
	Timeout time.Duration // of one look-up
	MaxKeys int           // known keys; 0: 100,000
}

// Memory is what a node remembers of the keys of one key store. It outlives a reload that changes
// only how that is asked: the next RemoteStore goes on with it.
//
// A known key is one of which there is an answer with a grant, also of a revoked key; an unknown key
// is one of which the key store has said that there is none. The two are kept apart, so that a flood of made-up
// keys evicts nothing but itself. A known key stays known when the time of its grant is over, until
// newer keys need its place: it has to be looked up again, but no guesses of others hold that up.
type Memory struct {
	known   localcache.Cache[Digest, *answer]
	unknown localcache.Cache[Digest, *time.Time] // until when; a pointer as in known: one instance of otter is compiled for both

	mu       sync.Mutex
	lookups  map[Digest]*lookup             // under way; the answer of a look-up that is not here any more is not remembered
	accounts localcache.Weak[atomic.Uint64] // by id: the changes of each that an answer needs
	versions map[int]int64
}

// NewMemory remembers nothing yet.
func NewMemory() *Memory {
	return &Memory{
		known:    otter.Must(&otter.Options[Digest, *answer]{MaximumSize: 1}),
		unknown:  otter.Must(&otter.Options[Digest, *time.Time]{MaximumSize: maxUnknown}),
		lookups:  map[Digest]*lookup{},
		versions: map[int]int64{},
	}
}

// Version is the version of a part of the key store up to which SetVersion has noted all changes.
func (m *Memory) Version(part int) (v int64, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, known = m.versions[part]
	return v, known
}

// SetVersion notes that this node remembers nothing from before a version of a part of the key store.
func (m *Memory) SetVersion(part int, v int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[part] = v
}

// answer is a grant as the key store gave it. A newer look-up makes a new answer.
type answer struct {
	grant   *Grant
	asked   time.Time      // when the look-up began
	account *atomic.Uint64 // see Memory.accounts
	changes uint64         // of the account that the answer knows of
	// due is the age from which on the next use looks the key up again, in the background; forgotten:
	// the answer does not count any more.
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

// RemoteStore is the Store that those of remote key stores embed: it remembers answers for a time and
// within a number, runs one look-up per key at a time, and gives each look-up a deadline. It is safe
// for concurrent use.
//
// A key in use is looked up again in the background when half of its time is over. So it has at least
// half of its time left when the key store goes away, and a change there is seen sooner.
//
// A new RemoteStore that goes on with the Memory of an earlier one looks each known key up at its next
// use, in the background. Look-ups that the earlier one has under way still answer those who wait for them,
// and are not remembered.
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

// NewRemoteStore makes the store that asks through ask. name is its label in metrics and spans.
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
	s.memory.known.SetMaximum(uint64(p.MaxKeys))
	s.memory.forget(func(a *answer) {
		if due := a.due.Load(); due != forgotten {
			a.due.CompareAndSwap(due, 0)
		}
	})
	return s
}

// Find implements Store. The grant of a known key counts for its time even when the key store is
// away. Find waits no longer than the context.
func (s *RemoteStore) Find(ctx context.Context, c Credential) (*Grant, error) {
	now := s.now()
	known, _ := s.memory.known.GetIfPresent(c.Digest)
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

// Recall implements Store. It gives no grant of a key that is due to be looked up again: Find gives
// that, and begins the look-up.
func (s *RemoteStore) Recall(d Digest) (g *Grant, known bool) {
	now := s.now()
	a, known := s.memory.known.GetIfPresent(d)
	if known && s.counts(a, now) && now.Sub(a.asked) < time.Duration(a.due.Load()) {
		g = a.grant
	}
	return g, known
}

// Away implements Store: it is what the last look-up that was sent, or the last SetAway, has found out.
func (s *RemoteStore) Away() bool { return s.away.Load() }

// SetAway notes whether the key store is away, for who finds that out without a look-up.
func (s *RemoteStore) SetAway(away bool) { s.away.Store(away) }

// counts says whether an answer counts now: for the ttl, and never past the key's end. A key that had
// expired before it was looked up is refused anyway; its answer counts for unknownTTL, so that a flood
// of it does not reach the key store.
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

// claimRefresh reports whether the caller has to look the key up again: from due on, one caller is
// told so per pause.
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

// ended is the done of look-ups that never ran.
var ended = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// lookUp joins the look-up of a key that is under way, or begins one. known is the answer that the
// caller has found, which does not count or is due; nil: none. If a look-up has ended since, its newer
// answer is used. The loader of the cache is not used: it would hold the first caller past its
// deadline.
func (s *RemoteStore) lookUp(ctx context.Context, c Credential, known *answer) *lookup {
	m, now := s.memory, s.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lookups[c.Digest]; l != nil {
		return l
	}
	if a, ok := m.known.GetIfPresent(c.Digest); ok && a != known && s.counts(a, now) {
		return &lookup{done: ended, grant: a.grant}
	}
	if m.isUnknown(c.Digest, now) {
		return &lookup{done: ended, err: ErrUnknownKey}
	}
	c.Known = known != nil
	if err := s.begin(c.Known); err != nil {
		return &lookup{done: ended, err: err}
	}
	l := &lookup{done: make(chan struct{}), asked: now}
	m.lookups[c.Digest] = l
	ctx = context.WithoutCancel(ctx) // the request it belongs to may be over
	go func() {
		defer s.done()
		l.grant, l.err = s.run(ctx, c)
		s.remember(c.Digest, l)
		close(l.done)
	}()
	return l
}

// begin takes a place among the look-ups that run; done gives it back.
func (s *RemoteStore) begin(known bool) error {
	most := maxNewLookups
	if known {
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

// run asks the key store with a deadline, in the trace of the first caller who needs the answer. A
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

// remember keeps the answer of a look-up, unless its key or account was forgotten while it was under
// way: the answer may be what is to be forgotten.
func (s *RemoteStore) remember(d Digest, l *lookup) {
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
		m.known.Set(d, a)
		m.unknown.Invalidate(d)
	case errors.Is(l.err, ErrUnknownKey):
		if _, unusable := errors.AsType[*UnusableKey](l.err); !unusable { // each record in the log says why
			m.unknown.Set(d, new(s.now().Add(unknownTTL)))
		}
		m.known.Invalidate(d)
	}
}

// forget changes all answers, and has none remembered that is under way.
func (m *Memory) forget(each func(*answer)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.lookups)
	for _, a := range m.known.All() {
		each(a)
	}
	m.unknown.InvalidateAll()
}

// Forget makes one key be looked up again. An answer under way is given to who waits for it
// and not remembered.
func (s *RemoteStore) Forget(d Digest) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lookups, d)
	if a, ok := m.known.GetIfPresent(d); ok {
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

// The results of asking a remote key store.
const (
	lookupFound   = "found"
	lookupUnknown = "unknown"
	lookupFailed  = "failed"  // not reached, too slow, or an error
	lookupGarbage = "garbage" // an answer that makes no sense
	lookupBusy    = "busy"    // not asked: maxLookups were under way
)

// lookupMetrics counts the look-ups in a remote key store. Answers that the node remembers
// need none: requests less look-ups are the hits.
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
