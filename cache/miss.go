package cache

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

// What happens on a miss stands here from above to below: join, look, lease, fill, share.

const (
	// maxRefreshing bounds the background refreshes of one node.
	maxRefreshing = 128
	// overdueGrace is how much longer than its deadline a fill may take to
	// return its own error before the waiters are sent away.
	overdueGrace = 250 * time.Millisecond
	leaseRenew   = redistier.LeaseLife / 3
	// Who waits for another node's fill is woken by a message. In case it is lost he also asks,
	// ever less often, and more often while no messages arrive.
	askFirst         = 5 * time.Millisecond
	askLast          = 100 * time.Millisecond
	askWithoutPubSub = 20 * time.Millisecond
)

// errResting ends a refresh that may not begin. Nobody waits for it.
var errResting = errors.New("cache: the list has failed and is not to be tried yet")

// flight is one walk to Redis and the legacy for one key, shared by everyone who
// asks meanwhile. Unlike a call of x/sync/singleflight it is detached from its
// callers: each follows its own context, and a purge or a reload lets no new
// caller join. The strictest terms of all who wait count, until it is settled.
type flight struct {
	key         Key
	kind        kindIndex
	background  bool            // a refresh, for which nobody waits
	policy      *policy         // when it began
	fingerprint string          // of the mapping by it; its names in Redis have it
	ctx         context.Context // of who began it, without its end
	span        telemetry.Span
	done        chan struct{} // closed when settled

	// Of the one goroutine that is at work on it:
	names    redistier.Names
	entry    *Entry // the newest so far
	seen     string // what Redis has and was refused
	reported bool   // that is counted
	shared   bool   // Redis has answered, so that it is to have the list, too
	quick    bool   // and quickly enough to be asked once more
	token    string // of the fleet's lease, while it is ours
	expired  bool   // a list was found that is too old to be served

	mark   atomic.Pointer[mark]  // of the fill, once it has begun
	waits  atomic.Bool           // for the fill of another node
	newest atomic.Pointer[Entry] // the newest so far, for who cannot wait for a better one

	// Guarded by Lists.mu:
	terms   Terms // the strictest of those who wait
	callers int   // that wait for it
	joined  time.Time
	settled bool

	// Set before done is closed:
	result Result
	err    error
}

// join returns the flight that brings what q is for, and whether the caller has to run it; nil: so
// many refreshes run that this one does not begin. Who waits for it must leave it. e is what the
// process has. The span of a refresh is a trace of its own, with a link to what caused it: it
// outlives that.
func (l *Lists) join(ctx context.Context, q *query, e *Entry, refresh bool) (f *flight, runs bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.flights[q.source]; ok && !l.outdated(f) {
		if !refresh {
			f.terms, f.joined = f.terms.stricter(q.terms), time.Now()
			f.callers++
		}
		return f, false, nil
	}
	p := l.policy.Load()
	f = &flight{
		key: q.source, kind: q.kind, background: refresh, terms: q.terms, joined: time.Now(), policy: p,
		fingerprint: p.kinds[q.kind].mapping.Fingerprint, done: make(chan struct{}),
	}
	switch {
	case l.closed:
		return nil, false, ErrClosed
	case !refresh:
		f.callers = 1
	case l.refreshing >= maxRefreshing:
		l.metrics.fills.WithLabelValues(q.source.Kind, fillSkipped).Inc()
		return nil, false, nil
	default:
		l.refreshing++
	}
	if e != nil && e.fingerprint == f.fingerprint { // else a reload came after the look-up
		f.entry = e
		f.newest.Store(e)
	}
	if f.ctx = context.WithoutCancel(ctx); f.background {
		f.ctx, f.span = l.tracer.Force(f.ctx, "cache.flight", trace.WithNewRoot(), telemetry.CurrentSpan(ctx).Link())
	} else {
		f.ctx, f.span = l.tracer.Start(f.ctx, "cache.flight")
	}
	l.flights[q.source] = f
	l.wg.Add(1) // until finish
	return f, true, nil
}

// outdated tells that a purge or a hint has come since the flight's fill began, or that
// the mapping is another one: who asks now must not get what it brings.
func (l *Lists) outdated(f *flight) bool {
	m := f.mark.Load()
	return f.fingerprint != l.policy.Load().kinds[f.kind].mapping.Fingerprint || m != nil && l.changes.since(f.key.Kind, m, time.Time{}) != (marks{})
}

// inFlight tells whether a key has a flight that can be joined.
func (l *Lists) inFlight(k Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.flights[k]
	return ok && !l.outdated(f)
}

// wait waits for a flight, no longer than ctx, and returns its error, or that of ctx. Who runs it
// reads Redis here, and has a fill done by another goroutine. Who does not run it has a span with
// a link to it, since it belongs to another's trace.
func (l *Lists) wait(ctx context.Context, f *flight, runs bool) error {
	var s telemetry.Span
	switch {
	case !runs:
		_, s = l.tracer.Start(ctx, "cache.wait", f.span.Link())
		defer s.End()
	case l.run(f.ctx, f, l.look, l.check):
		l.finish(f)
		return f.err
	default:
		go l.runToEnd(f, l.lease, l.fill)
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		s.Fail(reasonOf(ctx.Err()))
		return ctx.Err()
	}
}

// leave is called by each caller that does not wait for the flight any more.
func (l *Lists) leave(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.callers--
}

// refreshSoon runs a flight in the background unless its key has one already. Where it does
// not begin, the next look-up tries again.
func (l *Lists) refreshSoon(ctx context.Context, q *query, e *Entry) {
	if f, runs, _ := l.join(ctx, q, e, true); runs {
		go l.runToEnd(f, l.look, l.check, l.lease, l.fill)
	}
}

// part is one of a flight's: look, check, lease or fill. It tells whether the flight is settled.
type part func(context.Context, *flight) bool

// runToEnd is run on a goroutine of its own, until Close gives up waiting.
func (l *Lists) runToEnd(f *flight, parts ...part) {
	_ = growStack(0)
	defer l.finish(f)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	l.run(ctx, f, parts...)
}

// growStack makes the stack of a new goroutine as large as a fill needs, 16 KiB, while next
// to nothing is on it that must be copied. Later that takes 4 % of a miss.
//
//go:noinline
func growStack(i int) byte {
	var room [8 << 10]byte
	return room[i]
}

// run runs parts of a flight until one settles it. However they end, the waiters are told.
func (l *Lists) run(ctx context.Context, f *flight, parts ...part) (settled bool) {
	began, whole := l.opts.Now(), false
	defer func() {
		if settled = settled || !whole; !whole && l.settle(f, Result{}, ErrFillPanicked) { // a panic or Goexit
			l.failed(f, began, ErrFillPanicked, fillPanic)
		}
	}()
	defer l.opts.Panics.Catch(nil)
	for _, part := range parts {
		if settled = part(ctx, f); settled {
			break
		}
	}
	whole = true
	return settled
}

// look settles a flight with what the process has by now, else with what Redis has, if the policy
// lets it be served.
func (l *Lists) look(ctx context.Context, f *flight) bool {
	if l.redis != nil {
		f.names = l.redis.Names(f.list())
	} else {
		f.names.Account = redistier.Hash(f.key.Account)
	}
	q := l.queryOf(f.key)
	if e, _ := l.local(&q, f.key, l.opts.Now()); l.changes.newer(e, f.entry) {
		if f.entry = e; l.serve(ctx, f, TierLocal) {
			return true
		}
	}
	return l.redis != nil && l.read(ctx, f)
}

// check settles a flight that has found nothing to serve while the list rests after a failed fill:
// who waits gets the error of that, and a refresh does not begin.
func (l *Lists) check(_ context.Context, f *flight) bool {
	q := l.queryOf(f.key)
	now := l.opts.Now()
	if f.background {
		if h := l.healthOf(&q, f.entry, now); !h.resting {
			return false
		}
		l.backoff.looked(f.key, now)
		if l.abandon(f, true, errResting) {
			return true
		} // else somebody waits for it by now
	}
	v := l.decide(&q, f.entry, now)
	return v.action == fail && l.settle(f, Result{}, v.err)
}

// read reads the list from Redis, and settles the flight if it may be served. Without Redis
// the policy alone decides.
func (l *Lists) read(ctx context.Context, f *flight) (settled bool) {
	ctx, span := l.tracer.Start(ctx, "cache.redis")
	defer span.End()
	raw, took, err := l.readList(ctx, f.names)
	if err != nil {
		span.Fail(redisclient.ResultOf(err))
		span.Set(attribute.String("cache.result", redisclient.ResultOf(err)))
		return l.serve(ctx, f, TierLocal)
	}
	f.shared, f.quick = true, took < l.redis.Slow()
	settled = l.accept(ctx, f, raw)
	if span.Recording() {
		result := "none"
		if settled {
			result = "served"
		} else if len(raw) > 0 {
			result = "not_served"
		}
		span.Set(attribute.String("cache.result", result))
	}
	return settled
}

// readList reads a list from Redis, and tells how long that took. At the very start of the node it
// reads what purges there are before, both within one and a half of redis.timeout.
func (l *Lists) readList(ctx context.Context, n redistier.Names) (raw []byte, took time.Duration, err error) {
	start := time.Now()
	if _, synced := l.changes.polled(); !synced {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 3*l.redis.Slow())
		defer cancel()
		if err := l.poll(ctx); err != nil {
			return nil, 0, err
		}
	}
	raw, err = l.redis.Read(ctx, n, l.policy.Load().mostRead())
	return raw, time.Since(start), err
}

// accept takes what Redis has, and settles the flight with it if it may be served.
func (l *Lists) accept(ctx context.Context, f *flight, raw []byte) (settled bool) {
	tier := TierLocal
	if f.seen = redistier.Seen(raw); len(raw) > 0 {
		e, err := l.open(f.key, f.fingerprint, f.names.Account, raw)
		switch {
		case err == nil && l.changes.newer(e, f.entry):
			f.entry, tier = e, TierRedis
			f.newest.Store(e)
		case err != nil && !f.reported:
			f.reported = true
			l.metrics.refused.WithLabelValues(TierRedis, err.Error()).Inc()
			if err != errPurged { // else a purge of a kind is a warning for each account
				l.opts.Logger.Warn("an entry in Redis was refused", "kind", f.key.Kind, "reason", err.Error())
			}
		}
	}
	return l.serve(ctx, f, tier)
}

// open decodes what Redis has of a list, and holds it against the key, the purges and the clock.
// The error is one of refusals.
func (l *Lists) open(k Key, fingerprint, account string, raw []byte) (*Entry, error) {
	p := l.policy.Load()
	if len(raw) > p.mostRead() {
		return nil, errTooBig
	}
	raw, err := p.ring.open(raw, listOf(k, fingerprint))
	if err != nil {
		return nil, err
	}
	e, err := decode(raw)
	switch {
	case err != nil:
		return nil, err
	case !e.belongsTo(k, fingerprint):
		return nil, errForeign
	}
	e.mark.account, e.fingerprint = account, fingerprint // one for all entries
	now := l.opts.Now()
	_, late := l.redis.Now()
	e.AnsweredAt = now.Add(time.Unix(0, e.stamp).Sub(late)) // from here on the age runs with this process's monotonic clock
	q := l.queryOf(k)
	switch v := q.decide(e, now, l.changes.sinceFill(e, now), health{}); {
	case v.state == purged:
		return nil, errPurged
	case e.AnsweredAt.Sub(now) > maxSkew:
		return nil, errFuture
	}
	return e, nil
}

// serve settles the flight with its entry, if the policy lets it be served at once by the terms of
// all who wait. A background flight wants nothing less than a fresh one. What comes from Redis is
// kept in the process.
func (l *Lists) serve(ctx context.Context, f *flight, tier string) bool {
	if f.entry == nil {
		return false
	}
	l.backoff.gave(f.key, f.entry.AnsweredAt)
	q := query{policy: l.policy.Load(), kind: f.kind, key: f.key, source: f.key}
	l.mu.Lock()
	q.terms = f.terms
	v := l.decide(&q, f.entry, l.opts.Now())
	serves := v.state == fresh || !f.background && (v.action == serve || v.action == serveRefresh)
	if serves && l.flights[f.key] == f {
		delete(l.flights, f.key) // who comes now may have stricter terms
	}
	l.mu.Unlock()
	f.expired = f.expired || !serves && v.state != fresh
	if tier == TierRedis && v.state.servable() {
		l.keep(f.entry)
	}
	if v.state == purged {
		f.entry = nil
	}
	if !serves {
		return false
	}
	if v.state == fresh && f.waits.Load() && tier == TierRedis {
		v.outcome = Collapsed
	}
	l.settle(f, Result{Entry: f.entry, Outcome: v.outcome, Tier: tier, Expired: f.expired}, nil)
	if v.action == serveRefresh {
		l.refreshSoon(ctx, &q, f.entry)
	}
	return true
}

// lease waits until this node is the one that fills the list for the fleet, or another one has
// filled it: that settles the flight. Without an answer of Redis, or where it has no room, this
// node fills without a lease, and so it does where the lease is stuck or the list is never kept.
func (l *Lists) lease(ctx context.Context, f *flight) (settled bool) {
	q := l.queryOf(f.key)
	if !f.quick || q.decide(nil, time.Time{}, marks{}, health{}).keep <= 0 {
		return false
	}
	ctx, span := l.tracer.Start(ctx, "cache.lease")
	defer span.End()
	defer func() {
		span.Set(attribute.Bool("cache.lease.won", f.token != ""), attribute.Bool("cache.lease.waited", f.waits.Load()))
	}()
	token, last := redistier.NewToken(), ""
	var since time.Time // that the last holder is known to have it
	for pause := askFirst; ; {
		f.names.Epoch = max(l.changes.last(f.key.Kind), l.changes.last(f.names.Account))
		woken, stop := l.redis.Await(f.names) // before the call, so that no message falls between
		raw, holder, err := l.redis.Lease(ctx, f.names, token, l.policy.Load().mostRead(), f.seen)
		switch {
		case err != nil || len(raw) == 0 && holder == "":
			stop()
			return false
		case len(raw) > 0: // another list than that which was refused
			stop()
			if l.accept(ctx, f, raw) {
				return true
			}
			continue
		case holder == token: // what had it before has left nothing
			stop()
			f.token = token
			return f.waits.Load() && l.abandon(f, false, ErrFillOverdue)
		}
		f.waits.Store(true)
		if holder != last {
			last, since = holder, time.Now()
		} else if time.Since(since) > l.policy.Load().fillTimeout { // longer than any fill takes
			stop()
			return false
		}
		select {
		case <-woken:
		case <-time.After(pause):
		case <-ctx.Done():
		}
		stop()
		switch {
		case ctx.Err() != nil:
			return false
		case l.abandon(f, time.Since(l.joined(f)) > l.policy.Load().fillTimeout+redistier.LeaseLife, ErrFillOverdue):
			return true
		}
		most := askLast
		if !l.redis.Connected() {
			most = askWithoutPubSub
		}
		pause = min(2*pause, most)
	}
}

// fill asks the legacy and settles the flight with its answer. It has the whole
// Fills.Timeout, however long the flight has waited before: if its callers leave
// meanwhile, the list is there when they ask again. A failure changes nothing in the tiers.
func (l *Lists) fill(ctx context.Context, f *flight) bool {
	limit := l.policy.Load().fillTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began, start, m := l.opts.Now(), time.Now(), l.changes.mark(f.names.Account)
	changes := l.changes.text(f.key.Kind, f.names.Account)
	f.mark.Store(&m)
	watchdog := time.AfterFunc(limit+overdueGrace, func() {
		l.failed(f, began, ErrFillOverdue, fillError)
		l.settle(f, Result{}, ErrFillOverdue)
	})
	defer watchdog.Stop()
	if filling, token := ctx, f.token; token != "" { // copied, as ctx is replaced and the token given away below
		l.spawn(func() { l.keepLease(filling, f.names, token) })
	}
	q := l.queryOf(f.key)
	expired := f.expired || f.entry != nil && q.decide(f.entry, began, marks{}, health{}).state != fresh

	ctx, span := l.startSpan(ctx, "cache.fill", f.kind)
	defer span.End()
	c, err := l.opts.Fill(ctx, f.key, FillInfo{Background: l.unwanted(f), Changes: changes})
	if err != nil {
		span.Fail(reasonOf(err))
		if watchdog.Stop() { // else that is noted already
			l.failed(f, began, err, fillError)
		}
		f.newest.Store(f.entry)
		l.settle(f, Result{}, err)
		return true
	}
	e := l.entryOf(f, c)
	l.metrics.duration[f.kind].Observe(time.Since(start).Seconds())
	result := fillOK
	if c.NoStore {
		result = fillNoStore
	} else { // without the legacy nothing is known about it
		l.backoff.gave(f.key, e.AnsweredAt)
	}
	l.metrics.fills.WithLabelValues(f.key.Kind, result).Inc()
	unstored, lives := l.store(f, e, c.NoStore)
	if unstored != "" {
		l.metrics.unstored.WithLabelValues(unstored).Inc()
	}
	if span.Recording() {
		span.Set(attribute.Bool("cache.stored", unstored == ""), attribute.Int("cache.entry_bytes", e.Size()))
	}
	if o := l.opts.Observer; o != nil {
		o.Filled(e, time.Since(start))
	}
	if unstored == "" && f.shared && !l.outdated(f) { // else a newer one may be there
		l.share(f, e, lives)
	}
	l.settle(f, Result{Entry: e, Outcome: Miss, Stored: unstored == "", Expired: expired}, nil)
	return true
}

// unwanted tells that nobody waits for a refresh.
func (l *Lists) unwanted(f *flight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.background && f.callers == 0
}

// failed notes a failed fill.
func (l *Lists) failed(f *flight, began time.Time, err error, result string) {
	l.metrics.fills.WithLabelValues(f.key.Kind, result).Inc()
	a := attempt{policy: f.policy, began: began}
	if m := f.mark.Load(); m != nil {
		a.mark = *m
	}
	l.backoff.failed(f.key, a, err, l.opts.Now())
}

// entryOf makes the entry of a fill.
func (l *Lists) entryOf(f *flight, c Content) *Entry {
	now := l.opts.Now()
	if c.AnsweredAt.IsZero() || c.AnsweredAt.After(now) {
		c.AnsweredAt = now
	}
	o := origin{key: f.key, fingerprint: c.Fingerprint, mark: *f.mark.Load(), answeredAt: c.AnsweredAt, sum: bodySum(f.kind, c.Body)}
	if f.shared { // early by up to a round trip, so that no list seems younger than it is
		early, _ := l.redis.Now()
		o.stamp = early.Add(c.AnsweredAt.Sub(now)).UnixNano()
	}
	return newEntry(o, c.Body, cap(c.Body))
}

// store puts the entry of a fill into the in-process tier, or says why no tier may take it. lives
// is how long the list can be of use.
func (l *Lists) store(f *flight, e *Entry, noStore bool) (unstored string, lives time.Duration) {
	q := l.queryOf(f.key)
	now := l.opts.Now()
	v := q.decide(e, now, l.changes.sinceFill(e, now), health{})
	switch {
	case noStore:
		return unstoredNoStore, 0
	case e.fingerprint != f.fingerprint || e.fingerprint != q.mapping().Fingerprint:
		return unstoredMapping, 0
	case v.state == purged:
		return unstoredPurged, 0
	case e.Size() > q.policy.maxEntry:
		return unstoredTooBig, 0
	case v.keep <= 0:
		return unstoredPolicy, 0
	}
	l.keep(e)
	return "", v.keep
}

// keep puts an entry into the in-process tier unless a newer one is there.
func (l *Lists) keep(e *Entry) {
	l.tier.Compute(e.Key, func(old *Entry, found bool) (*Entry, otter.ComputeOp) {
		if found && old.fingerprint == e.fingerprint && l.changes.newer(old, e) {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// share writes an entry to Redis for the fleet, and ends the lease by that. The callers have
// their answer already; one goroutine alone waits, and no longer than redis.timeout.
func (l *Lists) share(f *flight, e *Entry, lives time.Duration) {
	token := f.token
	f.token = ""
	ctx, span := l.tracer.Start(f.span.In(l.life), "cache.store")
	l.spawn(func() {
		defer span.End()
		sealed := l.policy.Load().ring.seal(e.encode(), f.list())
		switch err := l.redis.Put(ctx, f.names, sealed, max(lives, time.Millisecond), token); err {
		case nil:
		case redistier.ErrBusy:
			l.metrics.unstored.WithLabelValues(unstoredBusy).Inc()
		default:
			l.metrics.unstored.WithLabelValues(unstoredRedis).Inc()
		}
	})
}

// keepLease renews a lease until the fill has ended or its time is up, so that a slow fill
// stays the only one, a dead node is found out quickly, and a fill that hangs is not
// waited for.
func (l *Lists) keepLease(ctx context.Context, n redistier.Names, token string) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if held, err := l.redis.Renew(ctx, n, token); err == nil && !held {
			return
		}
	}
}

// joined is when the last caller came.
func (l *Lists) joined(f *flight) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.joined
}

// abandon ends a flight that nobody waits for any more, so that it does not ask
// the legacy for nobody. A refresh has no callers, and is abandoned only if it
// has waited too long, or may not begin.
func (l *Lists) abandon(f *flight, evenRefresh bool, why error) bool {
	l.mu.Lock()
	nobody := f.callers == 0 && (evenRefresh || !f.background)
	if nobody && l.flights[f.key] == f {
		delete(l.flights, f.key) // nobody joins it between here and its end
	}
	l.mu.Unlock()
	return nobody && l.settle(f, Result{}, why)
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

// finish gives the lease back after a flight that stored nothing, and says in the span how it ended.
func (l *Lists) finish(f *flight) {
	defer l.wg.Done()
	if token := f.token; token != "" {
		l.spawn(func() { _ = l.redis.Release(l.life, f.names, token) }) // an error leaves the lease to its end
	}
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

// spawn runs what a flight leaves behind. Close waits for it.
func (l *Lists) spawn(run func()) {
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
