package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
)

const (
	// maxRefreshing bounds the background refreshes of one node.
	maxRefreshing = 128
	// overdueGrace is how much longer than its deadline a fill may take to
	// return its own error before the waiters are sent away.
	overdueGrace = 250 * time.Millisecond
)

// flight is one walk to Redis and the legacy for one key, shared by everyone
// who asks meanwhile. Its fields are set before done is closed; the atomic ones
// may be read while it is under way.
type flight struct {
	key        Key
	kind       kindIndex
	have       *Entry // what the in-process tier held; may be nil
	background bool
	terms      terms // the strictest of those who wait; guarded by Lists.mu

	fingerprint string          // of the mapping when it began; its names in Redis have it
	refused     bool            // what Redis has was refused
	cell        *cell           // of the account
	names       redistier.Names // with Redis only
	best        *Entry
	leased      bool                  // the fleet's lease is ours
	waited      bool                  // for the fill of another node
	tag         atomic.Pointer[tag]   // of the fill, once it has begun
	stale       atomic.Pointer[Entry] // the newest entry seen so far, for who cannot wait for a better one
	span        trace.Span            // nil: not traced

	callers int         // that wait for it; guarded by Lists.mu
	maxWait *time.Timer // for another node's fill; each caller that joins starts it again

	settle sync.Once
	done   chan struct{} // closed when settled

	entry   *Entry
	outcome Outcome
	tier    string
	stored  bool
	err     error
}

// join returns the flight of the query's base, and whether this call started it.
// The caller must leave it.
func (l *Lists) join(ctx context.Context, q query) (*flight, bool, error) {
	t := l.terms(q)
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.flights[q.base]; ok && !l.outdated(f) {
		f.terms = f.terms.stricter(t)
		f.callers++
		f.maxWait.Reset(l.maxWait())
		return f, false, nil
	}
	if l.closed {
		return nil, false, ErrClosed
	}
	return l.launch(ctx, &flight{key: q.base, kind: q.kind, have: q.have, terms: t, callers: 1}), true, nil
}

// leave is called by each caller that does not wait for the flight any more.
func (l *Lists) leave(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.callers--
}

// refresh starts a background flight unless the base has one already.
func (l *Lists) refresh(ctx context.Context, q query) {
	l.relaunch(ctx, &flight{key: q.base, kind: q.kind, have: q.have, terms: l.terms(q), background: true})
}

func (l *Lists) relaunch(ctx context.Context, f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now, ok := l.flights[f.key]; (ok && !l.outdated(now)) || l.closed {
		return
	}
	if l.refreshing >= maxRefreshing {
		l.metrics.fills.WithLabelValues(f.key.Kind, fillSkipped).Inc()
		return
	}
	l.refreshing++
	l.launch(ctx, f)
}

// detach takes a flight out of those that can be joined, unless somebody has
// joined with stricter terms than the given ones.
func (l *Lists) detach(f *flight, t terms) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.terms != t {
		return false
	}
	if l.flights[f.key] == f {
		delete(l.flights, f.key)
	}
	return true
}

func (l *Lists) termsOf(f *flight) terms {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.terms
}

// outdated tells that a purge has come since the flight's fill began, or that
// the mapping is another one: who asks now must not get what it brings.
func (l *Lists) outdated(f *flight) bool {
	t := f.tag.Load()
	return f.fingerprint != l.fingerprint(f.kind) || t != nil && *t != l.epochs.tag(f.kind, f.cell)
}

// launch needs l.mu. The flight keeps the caller's values, not its end.
func (l *Lists) launch(ctx context.Context, f *flight) *flight {
	f.done = make(chan struct{})
	f.maxWait = time.NewTimer(l.maxWait())
	f.fingerprint = l.fingerprint(f.kind)
	if f.have != nil && f.have.fingerprint != f.fingerprint {
		f.have = nil // a reload came after the look-up
	}
	f.stale.Store(f.have)
	l.flights[f.key] = f
	l.wg.Add(1)
	go l.run(l.startSpan(context.WithoutCancel(ctx), f), f)
	return f
}

// run runs a flight to its end. However the fill ends, the waiters are told.
func (l *Lists) run(ctx context.Context, f *flight) {
	defer l.wg.Done()
	defer f.endSpan()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	// Only a panic or Goexit leaves the flight unsettled.
	defer func() {
		l.complete(f, func() {
			l.metrics.fills.WithLabelValues(f.key.Kind, fillPanic).Inc()
			l.backoff.failed(f.kind, f.key, ErrFillPanicked, l.opts.Now())
			f.err = ErrFillPanicked
		})
	}()
	defer l.opts.Panics.Catch(nil)
	l.obtain(ctx, f)
}

// complete settles a flight once, with what set writes into it.
func (l *Lists) complete(f *flight, set func()) {
	f.settle.Do(func() {
		set()
		l.mu.Lock()
		if l.flights[f.key] == f {
			delete(l.flights, f.key)
		}
		if f.background {
			l.refreshing--
		}
		l.mu.Unlock()
		close(f.done)
	})
}

// completed tells whether the flight is settled.
func (f *flight) completed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}
