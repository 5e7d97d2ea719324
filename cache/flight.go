package cache

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/span"
)

const (
	// maxRefreshing bounds the background refreshes of one node.
	maxRefreshing = 128
	// overdueGrace is how much longer than its deadline a fill may take to
	// return its own error before the waiters are sent away.
	overdueGrace = 250 * time.Millisecond
)

// flight is one walk to Redis and the legacy for one key, shared by everyone who
// asks meanwhile. Unlike a call of x/sync/singleflight it is detached from its
// callers: each follows its own context, and a purge or a reload lets no new
// caller join.
type flight struct {
	key         Key
	kind        kindIndex
	have        *Entry // what the in-process tier held; may be nil
	background  bool   // a refresh, for which nobody waits
	fingerprint string // of the mapping when it began; its names in Redis have it
	span        span.Span
	maxWait     *time.Timer   // for another node's fill; each caller that joins starts it again
	done        chan struct{} // closed when settled

	// Of the flight's own goroutine:
	refused bool            // what Redis has was refused
	cell    *cell           // of the account
	names   redistier.Names // with Redis only
	best    *Entry
	leased  bool // the fleet's lease is ours
	waited  bool // for the fill of another node
	expired bool // a list was found that is too old to be served

	tag   atomic.Pointer[tag]   // of the fill, once it has begun
	stale atomic.Pointer[Entry] // the newest entry seen so far, for who cannot wait for a better one

	// Guarded by Lists.mu:
	terms   terms // the strictest of those who wait
	callers int   // that wait for it
	settled bool

	// Set before done is closed:
	result Result
	err    error
}

// join returns the flight that brings what want is for, and whether this call started
// it. Who waits for it must leave it. A flight keeps the values of ctx, not its end. The
// span of a refresh is a trace of its own, with a link to what caused it: it outlives
// that, and nobody waits for it.
func (l *Lists) join(ctx context.Context, want *flight) (f *flight, leader bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.flights[want.key]; ok && !l.outdated(f) {
		if !want.background {
			f.terms = f.terms.stricter(want.terms)
			f.callers++
			f.maxWait.Reset(l.maxWait())
		}
		return f, false, nil
	}
	switch {
	case l.closed:
		return nil, false, ErrClosed
	case !want.background:
		want.callers = 1
	case l.refreshing >= maxRefreshing:
		l.metrics.fills.WithLabelValues(want.key.Kind, fillSkipped).Inc()
		return nil, false, nil
	default:
		l.refreshing++
	}
	l.prepare(want)
	l.flights[want.key] = want
	ctx = context.WithoutCancel(ctx)
	if want.background {
		ctx, want.span = l.tracer.Force(ctx, "cache.flight", trace.WithNewRoot(), span.Current(ctx).Link())
	} else {
		ctx, want.span = l.tracer.Start(ctx, "cache.flight")
	}
	l.wg.Go(func() {
		_ = growStack(0)
		l.obtain(ctx, want)
	})
	return want, true, nil
}

// leave is called by each caller that does not wait for the flight any more.
func (l *Lists) leave(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.callers--
}

// unwanted tells that nobody waits for a flight.
func (l *Lists) unwanted(f *flight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.background && f.callers == 0
}

// wait waits for a flight, no longer than ctx, whose error it returns. Who did not
// start the flight has a span with a link to it, since it belongs to another's
// trace.
func (l *Lists) wait(ctx context.Context, f *flight, leader bool) error {
	var s span.Span
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

// refresh starts a flight in the background unless its key has one already.
func (l *Lists) refresh(ctx context.Context, f *flight) {
	f.background = true
	_, _, _ = l.join(ctx, f) // where it does not start, the next look-up tries again
}

// inFlight tells whether a key has a flight that can be joined.
func (l *Lists) inFlight(k Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.flights[k]
	return ok && !l.outdated(f)
}

// outdated tells that a purge has come since the flight's fill began, or that
// the mapping is another one: who asks now must not get what it brings.
func (l *Lists) outdated(f *flight) bool {
	t := f.tag.Load()
	return f.fingerprint != l.fingerprint(f.kind) || t != nil && *t != l.epochs.tag(f.kind, f.cell)
}

// prepare makes what those who join a flight need to find, before any can. It needs l.mu.
func (l *Lists) prepare(f *flight) {
	f.done = make(chan struct{})
	f.maxWait = time.NewTimer(l.maxWait())
	f.fingerprint = l.fingerprint(f.kind)
	if f.have != nil && f.have.fingerprint != f.fingerprint {
		f.have = nil // a reload came after the look-up
	}
	f.stale.Store(f.have)
}

// growStack makes the stack of a new goroutine as large as a fill needs, 16 KiB, while next
// to nothing is on it that must be copied. Later that takes 4 % of a miss.
//
//go:noinline
func growStack(i int) byte {
	var room [8 << 10]byte
	return room[i]
}

// complete settles a flight and tells whether it was not settled before.
func (l *Lists) complete(f *flight, r Result, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settle(f, r, err)
}

// settle is complete for who holds l.mu.
func (l *Lists) settle(f *flight, r Result, err error) bool {
	if f.settled {
		return false
	}
	f.settled, f.result, f.err = true, r, err
	l.detach(f)
	if f.background {
		l.refreshing--
	}
	close(f.done)
	return true
}

// detach lets nobody join a flight any more. It needs l.mu.
func (l *Lists) detach(f *flight) {
	if l.flights[f.key] == f {
		delete(l.flights, f.key)
	}
}

// endSpan says in the flight's span how it ended.
func (f *flight) endSpan() {
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
