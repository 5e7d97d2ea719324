package cache

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// maxRefreshing bounds the background refreshes of one node.
	maxRefreshing = 128
	// overdueGrace is how much longer than its deadline a fill may take to
	// return its own error before the waiters are sent away.
	overdueGrace = 250 * time.Millisecond
)

// flight is one walk to Redis and the legacy for one key, shared by everyone
// who asks meanwhile. Its fields are set before done is closed.
type flight struct {
	key        Key
	kind       kindIndex
	have       *Entry // what the in-process tier held; may be nil
	background bool

	settle sync.Once
	done   chan struct{}

	entry   *Entry
	outcome Outcome
	tier    string
	stored  bool
	err     error
	stale   *Entry // the newest entry seen, when err is set
}

// join returns the flight of the key, and whether this call started it.
func (l *Lists) join(ctx context.Context, i kindIndex, k Key, have *Entry) (*flight, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.flights[k]; ok {
		return f, false, nil
	}
	if l.closed {
		return nil, false, ErrClosed
	}
	return l.launch(ctx, &flight{key: k, kind: i, have: have}), true, nil
}

// refresh starts a background flight unless the key has one already.
func (l *Lists) refresh(ctx context.Context, i kindIndex, k Key, have *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.flights[k]; ok || l.closed {
		return
	}
	if l.refreshing >= maxRefreshing {
		l.metrics.fills.WithLabelValues(k.Kind, fillSkipped).Inc()
		return
	}
	l.refreshing++
	l.launch(ctx, &flight{key: k, kind: i, have: have, background: true})
}

// launch needs l.mu. The flight keeps the caller's values, not its end.
func (l *Lists) launch(ctx context.Context, f *flight) *flight {
	f.done = make(chan struct{})
	l.flights[f.key] = f
	l.wg.Add(1)
	go l.fly(context.WithoutCancel(ctx), f)
	return f
}

// fly runs a flight to its end. However the fill ends, the waiters are told.
func (l *Lists) fly(ctx context.Context, f *flight) {
	defer l.wg.Done()
	ctx, cancel := context.WithTimeout(ctx, l.opts.FillTimeout)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	watchdog := time.AfterFunc(l.opts.FillTimeout+overdueGrace, func() {
		l.land(f, func() { f.err, f.stale = ErrFillOverdue, f.have })
	})
	defer watchdog.Stop()
	// Only a panic or Goexit leaves the flight unsettled.
	defer func() {
		if p := recover(); p != nil {
			l.opts.Logger.Error("a fill panicked", "kind", f.key.Kind, "panic", p, "stack", string(debug.Stack()))
		}
		l.land(f, func() {
			l.metrics.fills.WithLabelValues(f.key.Kind, fillPanic).Inc()
			l.backoff.failed(f.kind, f.key, l.opts.Now())
			f.err, f.stale = ErrFillPanicked, f.have
		})
	}()
	l.obtain(ctx, f)
}

// land settles a flight once, with what set writes into it.
func (l *Lists) land(f *flight, set func()) {
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

// obtain looks a second time, then into Redis, then fills.
func (l *Lists) obtain(ctx context.Context, f *flight) {
	if e := l.peek(f.key); e.newerThan(f.have) && l.offer(ctx, f, e, TierLocal) {
		return
	}
	best := f.have
	if l.redis != nil {
		if e := l.fetch(ctx, f); e.newerThan(best) {
			if l.offer(ctx, f, e, TierRedis) {
				return
			}
			best = e
		}
	}
	e, stored, err := l.fillAndStore(ctx, f)
	if err != nil {
		l.backoff.failed(f.kind, f.key, l.opts.Now())
		l.land(f, func() { f.err, f.stale = err, best })
		return
	}
	l.backoff.worked(f.kind, f.key)
	l.land(f, func() { f.entry, f.outcome, f.stored = e, Miss, stored })
	if stored && l.redis != nil {
		l.share(e)
	}
}

// offer settles the flight with an entry that another flight or node has
// brought, if the policy lets it be served at once. A background flight wants
// nothing less than a fresh one.
func (l *Lists) offer(ctx context.Context, f *flight, e *Entry, tier string) bool {
	state := l.policy.Load().judge(f.kind, e, l.opts.Now()).state
	if tier == TierRedis && state != unusable {
		l.keep(e)
	}
	if state == fresh {
		l.backoff.forget(f.key)
		l.land(f, func() { f.entry, f.outcome, f.tier = e, Hit, tier })
		return true
	}
	failing := l.backoff.failing(f.kind, f.key)
	if f.background || state == unusable || (state == ifError && !failing) {
		return false
	}
	outcome := StaleRevalidate
	if failing {
		outcome = StaleError
	}
	l.land(f, func() { f.entry, f.outcome, f.tier = e, outcome, tier })
	if l.backoff.due(f.kind, f.key, l.opts.Now()) {
		l.refresh(ctx, f.kind, f.key, e)
	}
	return true
}
