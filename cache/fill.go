package cache

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/cache/redistier"
)

// overdueGrace is how much longer than its deadline a fill may take to
// return its own error before the waiters are sent away.
const overdueGrace = 250 * time.Millisecond

// fill asks the legacy and settles the flight with its answer. It has the whole
// Fills.Timeout, however long the flight has waited before: if its callers leave
// meanwhile, the list is there when they ask again. A failure changes nothing in the tiers.
func (l *Lists) fill(ctx context.Context, f *flight) bool {
	limit := l.policy.Load().fillTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began, start := l.opts.Now(), time.Now()
	early, _ := l.clock()
	version := l.invalidations.begin(f.key.Kind, f.redis.names.Account, early)
	changes := l.invalidations.text(f.key.Kind, f.redis.names.Account)
	f.fetch.Store(&version)
	watchdog := time.AfterFunc(limit+overdueGrace, func() {
		l.failed(f, began, ErrFillOverdue, fillError)
		l.settle(f, Result{}, ErrFillOverdue)
	})
	defer watchdog.Stop()
	q := l.queryOf(f.key)
	newest := f.newest.Load()
	tooOld := f.tooOld || newest != nil && q.decide(newest, began, invalidation{}, health{}).state != fresh

	ctx, span := l.startSpan(ctx, "cache.fill", f.kind)
	defer span.End()
	c, err := l.opts.Fill(ctx, f.key, FillInfo{Background: l.unwanted(f), Failing: l.failing(&q), Changes: changes})
	if err != nil {
		span.Fail(reasonOf(err))
		if watchdog.Stop() { // else that is noted already
			l.failed(f, began, err, fillError)
		}
		l.settle(f, Result{}, err)
		return true
	}
	e := l.entryOf(f, c)
	l.metrics.duration[f.kind].Observe(time.Since(start).Seconds())
	result := fillOK
	if c.NoStore {
		result = fillNoStore
	} else { // without the legacy nothing is known about it
		l.backoff.succeeded(f.key, e.AnsweredAt)
	}
	l.metrics.fills.WithLabelValues(f.key.Kind, result).Inc()
	unstored, lives := l.store(f, e, c.NoStore)
	if unstored != "" {
		l.metrics.unstored.WithLabelValues(unstored).Inc()
	}
	if span.Recording() {
		span.Set(attribute.Bool("cache.stored", unstored == ""), attribute.Int("cache.entry_bytes", e.Size()))
	}
	if unstored == "" && f.redis.there && !l.outdated(f) { // else a newer one may be there
		l.share(f, e, lives)
	}
	l.settle(f, Result{Entry: e, Outcome: Miss, Stored: unstored == "", TooOld: tooOld}, nil)
	return true
}

// unwanted tells that nobody waits for a refresh.
func (l *Lists) unwanted(f *flight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.background && f.callers.number == 0
}

// failing reports whether the last fill of a query's source failed, and no purge or reload came since.
// A soft purge does not make a list that goes on failing count as a new failure.
func (l *Lists) failing(q *query) bool {
	r := l.backoff.lookup(q.source, time.Time{})
	return r != nil && r.count > 0 && r.policy == q.policy && !l.invalidations.since(q.source.Kind, r.fetch).hard
}

// failed notes a failed fill.
func (l *Lists) failed(f *flight, began time.Time, err error, result string) {
	l.metrics.fills.WithLabelValues(f.key.Kind, result).Inc()
	failed := failure{policy: f.policy, began: began, err: err}
	if m := f.fetch.Load(); m != nil {
		failed.fetch = *m
	}
	l.backoff.failed(f.key, failed, l.opts.Now())
}

// entryOf makes the entry of a fill.
func (l *Lists) entryOf(f *flight, c Content) *Entry {
	now := l.opts.Now()
	if c.AnsweredAt.IsZero() || c.AnsweredAt.After(now) {
		c.AnsweredAt = now
	}
	o := origin{key: f.key, fingerprint: c.Fingerprint, fetch: *f.fetch.Load(), answeredAt: c.AnsweredAt, sum: bodySum(f.kind, c.Body)}
	if f.redis.there { // early by up to a round trip, so that no list seems younger than it is
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
	v := q.decide(e, now, l.invalidations.sinceFetch(e), health{})
	switch {
	case noStore:
		return unstoredNoStore, 0
	case e.fingerprint != f.fingerprint() || e.fingerprint != q.mapping().Fingerprint:
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
		if found && old.fingerprint == e.fingerprint && l.invalidations.newer(old, e) {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// share writes an entry to Redis for the fleet, and ends the lease by that. The callers have
// their answer already; one goroutine alone waits, and no longer than redis.timeout.
func (l *Lists) share(f *flight, e *Entry, lives time.Duration) {
	token := f.redis.token
	f.redis.token = ""
	ctx, span := l.tracer.Start(f.span.In(l.life), "cache.store")
	l.spawn(func() {
		defer span.End()
		sealed := l.policy.Load().ring.seal(e.encode(), f.id())
		switch err := l.redis.Put(ctx, f.redis.names, sealed, max(lives, time.Millisecond), token); err {
		case nil:
		case redistier.ErrBusy:
			l.metrics.unstored.WithLabelValues(unstoredBusy).Inc()
		default:
			l.metrics.unstored.WithLabelValues(unstoredRedis).Inc()
		}
	})
}
