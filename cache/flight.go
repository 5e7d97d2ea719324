package cache

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

const (
	// maxRefreshing bounds the background refreshes of one node.
	maxRefreshing = 128
	// overdueGrace is how much longer than its deadline a fill may take to
	// return its own error before the waiters are sent away.
	overdueGrace = 250 * time.Millisecond
	leaseRenew   = redistier.LeaseLife / 3
	// A waiter is woken by a message. In case it is lost the waiter also polls,
	// ever less often, and more often while no messages arrive.
	pollFirst         = 5 * time.Millisecond
	pollMost          = 100 * time.Millisecond
	pollWithoutPubSub = 20 * time.Millisecond
)

// flight is one walk to Redis and the legacy for one key, shared by everyone who
// asks meanwhile. Unlike a call of x/sync/singleflight it is detached from its
// callers: each follows its own context, and a purge or a reload lets no new
// caller join. It is reading from Redis, waiting for another node's fill, or filling,
// until it is settled; the strictest terms of all who wait count.
type flight struct {
	key         Key
	kind        kindIndex
	background  bool   // a refresh, for which nobody waits
	fingerprint string // of the mapping when it began; its names in Redis have it
	span        telemetry.Span
	maxWait     *time.Timer   // for another node's fill; each caller that joins starts it again
	done        chan struct{} // closed when settled

	// Of the flight's own goroutine:
	cell     *cell           // of the account
	names    redistier.Names // with Redis only
	best     *Entry          // the newest so far
	clock    redisMoment     // the time of Redis at the last read
	reported bool            // what Redis has was refused, and that is counted
	leased   bool            // the fleet's lease is ours
	expired  bool            // a list was found that is too old to be served

	tag    atomic.Pointer[tag]   // of the fill, once it has begun
	waited atomic.Bool           // for the fill of another node
	stale  atomic.Pointer[Entry] // the newest entry seen so far, for who cannot wait for a better one

	// Guarded by Lists.mu:
	terms   terms // the strictest of those who wait
	callers int   // that wait for it
	settled bool

	// Set before done is closed:
	result Result
	err    error
}

// errResting ends a refresh that may not begin. Nobody waits for it.
var errResting = errors.New("cache: the list has failed and is not to be tried yet")

// redisMoment is one moment on the clock of Redis and on this node's, which was not earlier.
// Where Redis was not read it is zero.
type redisMoment struct{ redis, local time.Time }

// stamp is a later or earlier moment of this node's clock as it is written to Redis, Unix
// ns. It is early by up to a round trip, so that no list seems younger than it is.
func (m redisMoment) stamp(at time.Time) int64 { return m.redis.Add(at.Sub(m.local)).UnixNano() }

// join returns the flight that brings what q is for, and whether this call started it.
// Who waits for it must leave it. A flight keeps the values of ctx, not its end. The
// span of a refresh is a trace of its own, with a link to what caused it: it outlives
// that, and nobody waits for it.
func (l *Lists) join(ctx context.Context, q *query, have *Entry, background bool) (f *flight, leader bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.flights[q.base]; ok && !l.outdated(f) {
		if !background {
			f.terms = f.terms.stricter(q.terms)
			f.callers++
			f.maxWait.Reset(l.maxWait())
		}
		return f, false, nil
	}
	f = &flight{key: q.base, kind: q.kind, background: background, terms: q.terms, fingerprint: l.fingerprint(q.kind), done: make(chan struct{})}
	switch {
	case l.closed:
		return nil, false, ErrClosed
	case !background:
		f.callers = 1
	case l.refreshing >= maxRefreshing:
		l.metrics.fills.WithLabelValues(q.base.Kind, fillSkipped).Inc()
		return nil, false, nil
	default:
		l.refreshing++
	}
	if have != nil && have.fingerprint == f.fingerprint { // else a reload came after the look-up
		f.best = have
		f.stale.Store(have)
	}
	f.maxWait = time.NewTimer(l.maxWait())
	l.flights[q.base] = f
	ctx = context.WithoutCancel(ctx)
	if background {
		ctx, f.span = l.tracer.Force(ctx, "cache.flight", trace.WithNewRoot(), telemetry.CurrentSpan(ctx).Link())
	} else {
		ctx, f.span = l.tracer.Start(ctx, "cache.flight")
	}
	l.wg.Go(func() {
		_ = growStack(0)
		l.run(ctx, f)
	})
	return f, true, nil
}

// refresh starts a flight in the background unless its key has one already. Where it does
// not start, the next look-up tries again.
func (l *Lists) refresh(ctx context.Context, q *query, have *Entry) {
	_, _, _ = l.join(ctx, q, have, true)
}

// leave is called by each caller that does not wait for the flight any more.
func (l *Lists) leave(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.callers--
}

// wait waits for a flight, no longer than ctx, whose error it returns. Who did not
// start the flight has a span with a link to it, since it belongs to another's
// trace.
func (l *Lists) wait(ctx context.Context, f *flight, leader bool) error {
	var s telemetry.Span
	if !leader {
		_, s = l.tracer.Start(ctx, "cache.wait", f.span.Link())
		defer s.End()
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		s.Fail(reasonOf(ctx.Err()))
		return ctx.Err()
	}
}

// inFlight tells whether a key has a flight that can be joined.
func (l *Lists) inFlight(k Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.flights[k]
	return ok && !l.outdated(f)
}

// outdated tells that a purge or a hint has come since the flight's fill began, or that
// the mapping is another one: who asks now must not get what it brings.
func (l *Lists) outdated(f *flight) bool {
	t := f.tag.Load()
	return f.fingerprint != l.fingerprint(f.kind) || t != nil && *t != l.changes.tag(f.kind, f.cell)
}

// growStack makes the stack of a new goroutine as large as a fill needs, 16 KiB, while next
// to nothing is on it that must be copied. Later that takes 4 % of a miss.
//
//go:noinline
func growStack(i int) byte {
	var room [8 << 10]byte
	return room[i]
}

// run settles a flight by the first of these that the policy lets be served: a
// second look into the process, Redis, the fill of another node, and the legacy.
// However it ends, the waiters are told.
func (l *Lists) run(ctx context.Context, f *flight) {
	defer l.endSpan(f)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	defer f.maxWait.Stop()
	began := l.opts.Now()
	defer func() {
		if l.settle(f, Result{}, ErrFillPanicked) { // only a panic or Goexit leaves it unsettled
			l.metrics.fills.WithLabelValues(f.key.Kind, fillPanic).Inc()
			l.backoff.failed(f.key, ErrFillPanicked, began, l.opts.Now())
		}
	}()
	defer l.opts.Panics.Catch(nil)
	defer l.release(f)
	if l.redis != nil {
		f.names = l.redis.Names(f.list())
		f.cell = l.changes.accounts.Of(f.names.Account)
	} else {
		f.cell = l.changes.accounts.Of(redistier.Hash(f.key.Account))
	}
	if e := l.local(f.kind, f.key, f.fingerprint); e.newerThan(f.best) {
		if f.best = e; l.serveStored(ctx, f, TierLocal) {
			return
		}
	}
	for {
		resting := l.resting(f)
		if l.redis != nil && l.runShared(ctx, f, !resting) {
			return
		}
		if !resting {
			l.fill(ctx, f)
			return
		}
		if l.resting(f) { // what was read may have shown that it works, and somebody may have come
			l.backoff.looked(f.key, l.opts.Now())
			if l.abandon(f, true, errResting) {
				return
			}
		}
	}
}

// resting tells that the legacy is not to be asked yet, because the list has failed lately and
// nobody waits for it.
func (l *Lists) resting(f *flight) bool {
	if !l.unwanted(f) {
		return false
	}
	var answered time.Time
	if f.best != nil {
		answered = f.best.AnsweredAt
	}
	now := l.opts.Now()
	a := l.backoff.of(f.key, answered, now)
	return a != nil && now.Before(a.next)
}

// unwanted tells that nobody waits for a refresh.
func (l *Lists) unwanted(f *flight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.background && f.callers == 0
}

// runShared tries everything that Redis has to give; true: the flight is settled. Else this
// node fills, with the lease, or without one where Redis is in trouble, has no room, or
// the lease is stuck. It waits as long as another node fills: that one's answer comes
// before any that begins later. Unless this node may fill it only looks.
func (l *Lists) runShared(ctx context.Context, f *flight, mayFill bool) (settled bool) {
	if !l.changes.polledOnce() && l.poll(ctx) != nil { // at the very start
		return l.serveStored(ctx, f, TierLocal)
	}
	p := l.policy.Load()
	wanted := p.of(f.kind, f.key.Status).lifetime() > 0 && mayFill // nobody would find a list that is never stored
	start := time.Now()
	r, settled, err := l.read(ctx, f, wanted, "")
	switch {
	case err != nil:
		// Without Redis the policy alone decides. What may have been purged is
		// filled again, and served only if that fails.
		return l.serveStored(ctx, f, TierLocal)
	case settled || f.leased || !wanted || time.Since(start) >= l.redis.Slow():
		return settled
	}
	var holder string
	var since time.Time // that it holds the lease, as far as is known here
	ctx, span := l.tracer.Start(ctx, "cache.lease")
	defer span.End()
	defer func() {
		span.Set(attribute.Bool("cache.lease.won", f.leased), attribute.Bool("cache.lease.waited", f.waited.Load()))
	}()
	for wait := pollFirst; ; {
		woken, stop := l.redis.Await(f.names) // before the read, so that no message falls between
		seen := r.Seen()
		r, settled, err = l.read(ctx, f, true, seen)
		if settled || err != nil || r.Holder == "" {
			stop()
			if err == nil && !settled && r.Seen() != seen {
				continue // another list than that which was refused, and no better
			}
			return settled // or Redis has no room for a lease
		}
		if f.leased { // what had it before has left nothing
			stop()
			return f.waited.Load() && l.abandon(f, false, ErrFillOverdue)
		}
		f.waited.Store(true)
		if r.Holder != holder {
			holder, since = r.Holder, time.Now()
		} else if time.Since(since) > l.policy.Load().fills.Timeout { // longer than any fill takes
			stop()
			return false
		}
		inTime := pause(ctx, f, woken, wait)
		stop()
		if !inTime {
			if ctx.Err() != nil {
				return false
			}
			if l.abandon(f, true, ErrFillOverdue) {
				return true
			}
			f.maxWait.Reset(l.maxWait())
		}
		most := pollMost
		if !l.redis.Connected() {
			most = pollWithoutPubSub
		}
		wait = min(2*wait, most)
	}
}

// read reads the list, its epoch and the time from Redis, takes the lease where it is
// wanted and free, and settles the flight if what was read is enough.
func (l *Lists) read(ctx context.Context, f *flight, lease bool, seen string) (r redistier.Reading, settled bool, err error) {
	ctx, span := l.tracer.Start(ctx, "cache.redis")
	defer span.End()
	suspectEpoch := l.changes.suspectEpoch.Load() // before the read: what is missed after it is not confirmed by it
	before, sent := f.cell.known(), l.opts.Now()
	if r, err = l.redis.Read(ctx, f.names, l.policy.Load().mostRead(), lease, seen); err != nil {
		span.Fail(redisclient.ResultOf(err))
		span.Set(attribute.String("cache.result", redisclient.ResultOf(err)))
		return r, false, err
	}
	got := l.opts.Now()
	f.leased = f.leased || r.Holder == f.names.Token
	f.clock = redisMoment{r.Time, got}
	if f.cell.learn(r.Epoch, before, l.moment(got), suspectEpoch) {
		l.background(func() { l.restoreLost(f.names.Account, f.cell) })
	}
	if f.best != nil && l.changes.purged(f.kind, f.best) {
		f.best = nil
	}
	tier := TierLocal
	if e := l.accept(f, r.Raw, redisMoment{r.Time, sent}); e.newerThan(f.best) {
		f.best, tier = e, TierRedis
		f.stale.Store(e)
	}
	settled = l.serveStored(ctx, f, tier)
	if span.Recording() {
		result := "none"
		if settled {
			result = "served"
		} else if len(r.Raw) > 0 {
			result = "not_served"
		}
		span.Set(attribute.String("cache.result", result))
	}
	return r, settled, nil
}

// accept is the entry that was read from Redis, read not before the moment; nil: there is
// none, or it is refused.
func (l *Lists) accept(f *flight, raw []byte, sent redisMoment) *Entry {
	if len(raw) == 0 {
		return nil
	}
	e, err := l.decodeAndVerify(f, raw, sent)
	if err == nil {
		return e
	}
	if !f.reported {
		f.reported = true
		l.metrics.refused.WithLabelValues(TierRedis, err.Error()).Inc()
		if !errors.Is(err, errPurged) { // else a purge of a kind is a warning for each account
			l.opts.Logger.Warn("an entry in Redis was refused", "kind", f.key.Kind, "reason", err.Error())
		}
	}
	return nil
}

// decodeAndVerify decodes what Redis gave and holds it against the key, the epochs and
// the clock.
func (l *Lists) decodeAndVerify(f *flight, raw []byte, sent redisMoment) (*Entry, error) {
	p := l.policy.Load()
	if len(raw) > p.mostRead() {
		return nil, errTooBig
	}
	raw, err := p.ring.open(raw, f.list())
	if err != nil {
		return nil, err
	}
	e, err := decode(raw)
	switch {
	case err != nil:
		return nil, err
	case !e.belongsTo(f.key, f.fingerprint):
		return nil, errForeign
	}
	e.cell = f.cell
	e.fingerprint = f.fingerprint // the same, and one for all entries
	if l.changes.purged(f.kind, e) {
		return nil, errPurged
	}
	age := sent.redis.Sub(time.Unix(0, e.stamp))
	if age < -maxSkew {
		return nil, errFuture
	}
	e.AnsweredAt = sent.local.Add(-age) // from here on the age runs with this process's monotonic clock
	e.isSource()
	return e, nil
}

// serveStored settles the flight with its best entry, if the policy lets it be served at
// once by the terms of all who wait. A background flight wants nothing less than a fresh
// one.
func (l *Lists) serveStored(ctx context.Context, f *flight, tier string) bool {
	if f.best == nil {
		return false
	}
	q := query{policy: l.policy.Load(), kind: f.kind, key: f.key, base: f.key}
	l.backoff.gave(f.key, f.best.AnsweredAt)
	l.mu.Lock()
	q.terms = f.terms
	v := l.decide(&q, f.best, l.opts.Now())
	ok := v.action != fetch && (v.state == fresh || !f.background)
	if ok && l.flights[f.key] == f {
		delete(l.flights, f.key) // who comes now may have stricter terms
	}
	l.mu.Unlock()
	f.expired = f.expired || !ok && v.state != fresh
	if tier == TierRedis && v.state != unusable {
		l.keep(f.best)
	}
	if !ok {
		return false
	}
	if v.state == fresh && f.waited.Load() && tier == TierRedis {
		v.outcome = Collapsed
	}
	l.settle(f, Result{Entry: f.best, Outcome: v.outcome, Tier: tier, Expired: f.expired}, nil)
	if v.action == serveRefresh {
		l.refresh(ctx, &q, f.best)
	}
	return true
}

// maxWait is how long a flight waits for other nodes after its last caller came.
// By then all callers have left; it is a little longer than a stuck lease needs
// to be found out.
func (l *Lists) maxWait() time.Duration { return l.policy.Load().fills.Timeout + redistier.LeaseLife }

// abandon ends a flight that nobody waits for any more, so that it does not ask
// the legacy for nobody. A refresh has no callers, and is abandoned only if it
// has waited too long, or may not begin.
func (l *Lists) abandon(f *flight, late bool, why error) bool {
	l.mu.Lock()
	nobody := f.callers == 0 && (late || !f.background)
	if nobody && l.flights[f.key] == f {
		delete(l.flights, f.key) // nobody joins it between here and its end
	}
	l.mu.Unlock()
	return nobody && l.settle(f, Result{}, why)
}

// pause waits for a message or for d; false: the flight has waited too long.
func pause(ctx context.Context, f *flight, woken <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-woken:
	case <-t.C:
	case <-f.maxWait.C:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// settle tells all who wait how the flight has ended, and whether that was not settled
// before.
func (l *Lists) settle(f *flight, r Result, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.settled {
		return false
	}
	f.settled, f.result, f.err = true, r, err
	if l.flights[f.key] == f {
		delete(l.flights, f.key)
	}
	if f.background {
		l.refreshing--
	}
	close(f.done)
	return true
}

// endSpan says in the flight's span how it ended.
func (l *Lists) endSpan(f *flight) {
	if f.span.Recording() {
		f.span.Set(attribute.String("inquiry.kind", f.key.Kind), attribute.Bool("cache.background", f.background))
		if f.err != nil {
			f.span.Fail(reasonOf(f.err))
		} else {
			setAnswer(f.span, f.result)
		}
	}
	f.span.End()
}

// background runs what a flight leaves behind. Close waits for it.
func (l *Lists) background(run func()) {
	l.wg.Go(func() {
		defer l.opts.Panics.Catch(nil)
		run()
	})
}

// clone detaches a key from the buffers of the request it came with.
func (k Key) clone() Key {
	return Key{strings.Clone(k.Kind), strings.Clone(k.Account), strings.Clone(k.Status), strings.Clone(k.InquiryType)}
}

// listOf is what names a list in Redis.
func listOf(k Key, fingerprint string) redistier.List {
	return redistier.List{Kind: k.Kind, Account: k.Account, Status: k.Status, InquiryType: k.InquiryType, Fingerprint: fingerprint}
}

func (f *flight) list() redistier.List { return listOf(f.key, f.fingerprint) }
