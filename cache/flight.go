package cache

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/telemetry"
)

// What happens on a miss is read from above to below: how callers share one flight here, what a
// flight does before the legacy is asked in miss.go, and the fill in fill.go.

// maxRefreshing bounds the background refreshes of one node.
const maxRefreshing = 128

// flight is one walk to Redis and the legacy for one key, shared by everyone who
// asks meanwhile. Unlike a call of x/sync/singleflight it is detached from its
// callers: each follows its own context, and a purge or a reload lets no new
// caller join.
type flight struct {
	key        Key
	kind       kindIndex
	background bool            // a refresh, for which nobody waits
	policy     *policy         // when it began
	ctx        context.Context // of who began it, without its end
	span       telemetry.Span

	callers callers // guarded by Lists.mu

	newest atomic.Pointer[Entry]        // the newest entry so far, for who cannot wait for a better one, too
	fetch  atomic.Pointer[fetchVersion] // once the fill has begun
	waits  atomic.Bool                  // for the fill of another node

	// Of the one goroutine that is at work on it:
	redis  inRedis
	tooOld bool // a list was found that is too old to be served

	done   chan struct{} // closed when settled; result and err do not change after that
	result Result
	err    error
}

// callers are those who wait for a flight. The strictest terms of all of them count, until it is
// settled.
type callers struct {
	number  int
	terms   Terms
	last    time.Time // when the last one came
	settled bool      // they have been told
}

// inRedis is what a flight knows of its list in Redis.
type inRedis struct {
	names redistier.Names
	there bool   // Redis has answered, so that it is to have the list, too
	quick bool   // and quickly enough to be asked once more
	seen  string // what it has and was refused
	token string // of the fleet's lease, while it is ours
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
			f.callers.terms, f.callers.last = f.callers.terms.stricter(q.terms), time.Now()
			f.callers.number++
		}
		return f, false, nil
	}
	f = &flight{
		key: q.source, kind: q.kind, background: refresh, policy: l.policy.Load(), callers: callers{terms: q.terms, last: time.Now()}, done: make(chan struct{}),
	}
	switch {
	case l.closed:
		return nil, false, ErrClosed
	case !refresh:
		f.callers.number = 1
	case l.refreshing >= maxRefreshing:
		l.metrics.fills.WithLabelValues(q.source.Kind, fillSkipped).Inc()
		return nil, false, nil
	default:
		l.refreshing++
	}
	if e != nil && e.fingerprint == f.fingerprint() { // else a reload came after the look-up
		f.newest.Store(e)
	}
	if f.ctx = context.WithoutCancel(ctx); f.background {
		f.ctx, f.span = l.tracer.StartAlways(f.ctx, "cache.flight", trace.WithNewRoot(), telemetry.CurrentSpan(ctx).Link())
	} else {
		f.ctx, f.span = l.tracer.Start(f.ctx, "cache.flight")
	}
	l.flights[q.source] = f
	l.wg.Add(1) // until finish
	return f, true, nil
}

// outdated tells that a purge has come since the flight's fill began, or that
// the mapping is another one: who asks now must not get what it brings.
func (l *Lists) outdated(f *flight) bool {
	m := f.fetch.Load()
	return f.fingerprint() != l.policy.Load().kinds[f.kind].mapping.Fingerprint || m != nil && l.invalidations.since(f.key.Kind, *m) != (invalidation{})
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
	f.callers.number--
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

// abandon ends a flight that nobody waits for any more, so that it does not ask
// the legacy for nobody. A refresh has no callers, and is abandoned only if it
// has waited too long, or may not begin.
func (l *Lists) abandon(f *flight, evenRefresh bool, why error) bool {
	l.mu.Lock()
	nobody := f.callers.number == 0 && (evenRefresh || !f.background)
	if nobody && l.flights[f.key] == f {
		delete(l.flights, f.key) // nobody joins it between here and its end
	}
	l.mu.Unlock()
	return nobody && l.settle(f, Result{}, why)
}

// joined is when the last caller came.
func (l *Lists) joined(f *flight) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.callers.last
}

// settle tells all who wait how the flight has ended, and whether that was not settled
// before.
func (l *Lists) settle(f *flight, r Result, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.callers.settled {
		return false
	}
	f.callers.settled, f.result, f.err = true, r, err
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
	if token := f.redis.token; token != "" {
		l.spawn(func() { _ = l.redis.Release(l.life, f.redis.names, token) }) // an error leaves the lease to its end
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

// idOf is what names a list in Redis.
func idOf(k Key, fingerprint string) redistier.ListID {
	return redistier.ListID{Kind: k.Kind, Account: k.Account, Status: k.Status, InquiryType: k.InquiryType, Fingerprint: fingerprint}
}

func (f *flight) id() redistier.ListID { return idOf(f.key, f.fingerprint()) }

// fingerprint is that of the mapping when the flight began; its names in Redis have it.
func (f *flight) fingerprint() string { return f.policy.kinds[f.kind].mapping.Fingerprint }
