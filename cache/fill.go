package cache

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/cache/redistier"
)

// fill asks the legacy and settles the flight with its answer. It has the whole
// Fills.Timeout, however long the flight has waited before: if its callers leave
// meanwhile, the list is there when they ask again.
func (l *Lists) fill(ctx context.Context, f *flight) {
	limit := l.policy.Load().fills.Timeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watchdog := time.AfterFunc(limit+overdueGrace, func() { l.settle(f, Result{}, ErrFillOverdue) })
	defer watchdog.Stop()
	t := l.changes.tag(f.kind, f.cell)
	f.tag.Store(&t)
	if f.leased {
		l.background(func() { l.keepLease(ctx, f.names) })
	}
	expired := f.expired
	if p := l.policy.Load(); f.best != nil {
		expired = expired || decide(p, p.of(f.kind, f.key.Status), f.best, l.opts.Now(), marks{}, health{}).state != fresh
	}
	start := time.Now()
	e, stored, err := l.fetch(ctx, f, t)
	if l.opts.Filled != nil {
		l.opts.Filled(f.key)
	}
	if err != nil {
		f.stale.Store(f.best)
		l.settle(f, Result{}, err)
		return
	}
	if l.opts.Observer != nil {
		l.opts.Observer.Filled(e, time.Since(start))
	}
	if stored && !f.clock.redis.IsZero() {
		leased := f.leased
		f.leased = false // ends with the write
		ctx, span := l.tracer.Start(f.span.In(l.life), "cache.store")
		l.background(func() { defer span.End(); l.share(ctx, e, f.names, leased) })
	}
	l.settle(f, Result{Entry: e, Outcome: Miss, Stored: stored, Expired: expired}, nil)
}

// fetch asks the legacy and puts the answer into the in-process tier. A failure
// changes nothing there.
func (l *Lists) fetch(ctx context.Context, f *flight, t tag) (e *Entry, stored bool, err error) {
	ctx, span := l.startSpan(ctx, "cache.fill", f.kind)
	defer span.End()
	start, began, suspectEpoch := time.Now(), l.opts.Now(), l.changes.suspectEpoch.Load()
	if l.unwanted(f) {
		ctx = InBackground(ctx)
	}
	ctx = context.WithValue(ctx, changesKey{}, t)
	c, err := l.opts.Fill(ctx, f.key)
	if err != nil {
		span.Fail(reasonOf(err))
		l.metrics.fills.WithLabelValues(f.key.Kind, fillError).Inc()
		l.backoff.failed(f.key, err, began, l.opts.Now())
		return nil, false, err
	}
	e = l.build(f, t, c)
	e.suspectEpoch = suspectEpoch
	l.metrics.duration[f.kind].Observe(time.Since(start).Seconds())
	result := fillOK
	if c.NoStore {
		result = fillNoStore
	} else { // without the legacy nothing is known about it
		l.backoff.gave(f.key, e.AnsweredAt)
	}
	l.metrics.fills.WithLabelValues(f.key.Kind, result).Inc()
	if unstored := l.unstored(f, e, c.NoStore); unstored != "" {
		l.metrics.unstored.WithLabelValues(unstored).Inc()
	} else {
		l.keep(e)
		stored = true
	}
	if span.Recording() {
		span.Set(attribute.Bool("cache.stored", stored), attribute.Int("cache.entry_bytes", e.Size()))
	}
	return e, stored, nil
}

// build makes the entry of a fill.
func (l *Lists) build(f *flight, t tag, c Content) *Entry {
	now := l.opts.Now()
	if c.AnsweredAt.IsZero() || c.AnsweredAt.After(now) {
		c.AnsweredAt = now
	}
	o := origin{key: f.key, fingerprint: c.Fingerprint, tag: t, answeredAt: c.AnsweredAt, sum: bodySum(f.kind, c.Body)}
	if !f.clock.redis.IsZero() {
		o.stamp = f.clock.stamp(c.AnsweredAt)
	}
	e := newEntry(o, c.Body, cap(c.Body))
	e.cell = f.cell
	e.isSource()
	return e
}

// unstored is the reason why no tier may take the entry of a fill; empty: none.
func (l *Lists) unstored(f *flight, e *Entry, noStore bool) string {
	p := l.policy.Load()
	switch {
	case noStore:
		return unstoredNoStore
	case e.fingerprint != f.fingerprint || e.fingerprint != l.fingerprint(f.kind):
		return unstoredMapping
	case l.changes.purged(f.kind, e):
		return unstoredPurged
	case e.Size() > p.maxEntry:
		return unstoredTooBig
	case p.of(f.kind, f.key.Status).lifetime() <= 0:
		return unstoredPolicy
	}
	return ""
}

// keep puts an entry into the in-process tier unless a newer one is there.
func (l *Lists) keep(e *Entry) {
	l.tier.Compute(e.Key, func(old *Entry, found bool) (*Entry, otter.ComputeOp) {
		if found && old.newerThan(e) && old.fingerprint == e.fingerprint {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// share writes an entry to Redis for the fleet. The callers have their answer
// already; this goroutine alone waits, and no longer than the store's timeout.
func (l *Lists) share(ctx context.Context, e *Entry, n redistier.Names, leased bool) {
	i, _ := indexOf(e.Kind)
	p := l.policy.Load()
	ttl := p.of(i, e.Status).lifetime() - l.opts.Now().Sub(e.AnsweredAt)
	if ttl < time.Millisecond {
		if leased {
			_ = l.redis.Release(ctx, n) // an error leaves it to its end
		}
		return
	}
	switch err := l.redis.Put(ctx, n, p.ring.seal(e.encode(), listOf(e.Key, e.fingerprint)), ttl, leased); err {
	case nil:
	case redistier.ErrBusy:
		l.metrics.unstored.WithLabelValues(unstoredBusy).Inc()
	default:
		l.metrics.unstored.WithLabelValues(unstoredRedis).Inc()
	}
}

// keepLease renews a lease until the fill has ended or its time is up, so that a slow fill
// stays the only one, a dead node is found out quickly, and a fill that hangs is not
// waited for.
func (l *Lists) keepLease(ctx context.Context, n redistier.Names) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if held, err := l.redis.Renew(ctx, n); err == nil && !held {
			return
		}
	}
}

// release gives the lease back after a flight that stored nothing.
func (l *Lists) release(f *flight) {
	if f.leased {
		f.leased = false
		l.background(func() { _ = l.redis.Release(l.life, f.names) }) // an error leaves the lease to its end
	}
}
