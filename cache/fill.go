package cache

import (
	"context"
	"strings"
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
	watchdog := time.AfterFunc(limit+overdueGrace, func() { l.complete(f, Result{}, ErrFillOverdue) })
	defer watchdog.Stop()
	t := l.epochs.tag(f.kind, f.cell)
	f.tag.Store(&t)
	if f.leased {
		defer l.keepLease(ctx, f)()
	}
	expired := f.expired
	if f.best != nil {
		p := l.policy.Load()
		expired = expired || p.judge(p.of(f.kind, f.key.Status), f.best, l.opts.Now()).state != fresh
	}
	start := time.Now()
	e, stored, err := l.fetch(ctx, f, t)
	l.filled(f.key, e, time.Since(start))
	if err != nil {
		f.stale.Store(f.best)
		l.complete(f, Result{}, err)
		return
	}
	if stored && l.redis != nil {
		leased := f.leased
		f.leased = false // ends with the write
		ctx, span := l.tracer.Start(f.span.In(l.life), "cache.store")
		l.background(func() { defer span.End(); l.share(ctx, e, f.names, leased) })
	}
	l.complete(f, Result{Entry: e, Outcome: Miss, Stored: stored, Expired: expired}, nil)
}

// filled tells who watches of a fill that has ended; e is nil when it failed.
func (l *Lists) filled(k Key, e *Entry, took time.Duration) {
	if l.opts.Filled != nil {
		l.opts.Filled(k)
	}
	if e != nil && l.opts.Observer != nil {
		l.opts.Observer.Filled(e, took)
	}
}

// fetch asks the legacy and puts the answer into the in-process tier. A failure
// changes nothing there.
func (l *Lists) fetch(ctx context.Context, f *flight, t tag) (e *Entry, stored bool, err error) {
	ctx, span := l.startSpan(ctx, "cache.fill", f.kind)
	defer span.End()
	start, suspectEpoch := time.Now(), l.epochs.suspectEpoch.Load()
	if l.unwanted(f) {
		ctx = InBackground(ctx)
	}
	c, err := l.opts.Fill(ctx, f.key)
	if err != nil {
		l.metrics.fills.WithLabelValues(f.key.Kind, fillError).Inc()
		l.backoff.failed(f.kind, f.key, err, l.opts.Now())
		span.Fail(reasonOf(err))
		return nil, false, err
	}
	e = l.build(f, t, c)
	e.suspectEpoch = suspectEpoch
	l.metrics.duration[f.kind].Observe(time.Since(start).Seconds())
	result := fillOK
	if c.NoStore {
		result = fillNoStore
	} else { // without the legacy nothing is known about it
		l.backoff.worked(f.kind, f.key)
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

// unstored is the reason why no tier may take the entry of a fill; empty: none.
func (l *Lists) unstored(f *flight, e *Entry, noStore bool) string {
	p := l.policy.Load()
	switch {
	case noStore:
		return unstoredNoStore
	case e.fingerprint != f.fingerprint || e.fingerprint != l.fingerprint(f.kind):
		return unstoredMapping
	case e.Size() > p.maxEntry:
		return unstoredTooBig
	case p.of(f.kind, f.key.Status).lifetime() <= 0:
		return unstoredPolicy
	}
	return ""
}

// build makes the entry of a fill.
func (l *Lists) build(f *flight, t tag, c Content) *Entry {
	now := l.opts.Now()
	if c.AnsweredAt.IsZero() || c.AnsweredAt.After(now) {
		c.AnsweredAt = now
	}
	o := origin{key: f.key, fingerprint: c.Fingerprint, tag: t, answeredAt: c.AnsweredAt, sum: bodySum(f.kind, c.Body)}
	if l.redis != nil {
		o.stamp = l.redis.Stamp(c.AnsweredAt)
	}
	e := newEntry(o, c.Body, cap(c.Body))
	e.cell = f.cell
	e.isSource()
	return e
}

// keep puts an entry into the in-process tier unless a newer one is there.
func (l *Lists) keep(e *Entry) {
	l.tier.Compute(e.key(), func(old *Entry, found bool) (*Entry, otter.ComputeOp) {
		if found && old.newerThan(e) && old.fingerprint == e.fingerprint {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// decodeAndVerify decodes what Redis gave and holds it against the key, the epochs and
// the clock.
func (l *Lists) decodeAndVerify(f *flight, raw []byte) (*Entry, error) {
	p := l.policy.Load()
	if len(raw) > p.mostRead() {
		return nil, errTooBig
	}
	raw, err := p.ring.Open(raw, f.list())
	if err != nil {
		return nil, err
	}
	e, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if !e.belongsTo(f.key, f.fingerprint) {
		return nil, errForeign
	}
	e.cell = f.cell
	e.fingerprint = f.fingerprint // the same, and one for all entries
	if !l.epochs.current(f.kind, e) {
		return nil, errPurged
	}
	now := l.opts.Now()
	age := l.redis.Age(now, e.stamp)
	if age < -maxSkew {
		return nil, errFuture
	}
	// From here on the age runs with this process's monotonic clock.
	e.AnsweredAt = now.Add(-age)
	e.isSource()
	return e, nil
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
	switch err := l.redis.Put(ctx, n, p.ring.Seal(e.encode(), listOf(e.key(), e.fingerprint)), ttl, leased); err {
	case nil:
	case redistier.ErrBusy:
		l.metrics.unstored.WithLabelValues(unstoredBusy).Inc()
	default:
		l.metrics.unstored.WithLabelValues(unstoredRedis).Inc()
	}
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
