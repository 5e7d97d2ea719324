package cache

import (
	"context"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"inquiry-gateway/cache/redistier"
)

// observedFill is fillAndStore under the eyes of the observer.
func (l *Lists) observedFill(ctx context.Context, f *flight, t tag) (*Entry, bool, error) {
	e, stored, err := l.tracedFill(ctx, f, t)
	if l.opts.Observer != nil {
		l.opts.Observer.Filled(f.key, e, err)
	}
	return e, stored, err
}

// fillAndStore asks the legacy and puts the answer into the in-process tier. A
// failure changes nothing there.
func (l *Lists) fillAndStore(ctx context.Context, f *flight, t tag) (*Entry, bool, error) {
	start, suspectEpoch := time.Now(), l.epochs.suspectEpoch.Load()
	c, err := l.opts.Fill(ctx, f.key)
	if err != nil {
		l.metrics.fills.WithLabelValues(f.key.Kind, fillError).Inc()
		l.backoff.failed(f.kind, f.key, err, l.opts.Now())
		return nil, false, err
	}
	e := l.build(f, origin{key: f.key, fingerprint: c.Fingerprint, tag: t}, c)
	e.suspectEpoch = suspectEpoch
	l.metrics.duration[f.kind].Observe(time.Since(start).Seconds())
	if c.NoStore {
		l.metrics.fills.WithLabelValues(f.key.Kind, fillNoStore).Inc()
		l.metrics.unstored.WithLabelValues(unstoredNoStore).Inc()
		return e, false, nil
	}
	l.metrics.fills.WithLabelValues(f.key.Kind, fillOK).Inc()
	l.backoff.worked(f.kind, f.key) // not above: without the legacy nothing is known about it
	p := l.policy.Load()
	switch {
	case e.fingerprint != f.fingerprint || e.fingerprint != p.kinds[f.kind].fingerprint:
		l.metrics.unstored.WithLabelValues(unstoredMapping).Inc()
	case e.Size() > p.maxEntry:
		l.metrics.unstored.WithLabelValues(unstoredTooBig).Inc()
	case p.of(f.kind, f.key.Status).lifetime() <= 0:
		l.metrics.unstored.WithLabelValues(unstoredPolicy).Inc()
	default:
		l.keep(e)
		return e, true, nil
	}
	return e, false, nil
}

// build makes the entry of a fill.
func (l *Lists) build(f *flight, o origin, c Content) *Entry {
	now := l.opts.Now()
	if c.AnsweredAt.IsZero() || c.AnsweredAt.After(now) {
		c.AnsweredAt = now
	}
	o.answeredAt = c.AnsweredAt
	if l.redis != nil {
		o.stamp = l.redis.Stamp(c.AnsweredAt)
	}
	e := newEntry(o, bodySum(c.Body), c.Body, cap(c.Body))
	e.cell, e.name = f.cell, l.nameOf(f.key)
	return e
}

// keep puts an entry into the in-process tier unless a newer one is there.
func (l *Lists) keep(e *Entry) {
	l.local.Compute(e.key(), func(old *Entry, found bool) (*Entry, otter.ComputeOp) {
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
	if len(raw) > p.maxEntry+redistier.SealOverhead {
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
	e.cell, e.name = f.cell, l.nameOf(f.key)
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
	return e, nil
}

// share writes an entry to Redis for the fleet. The callers have their answer
// already; this goroutine alone waits, and no longer than the store's timeout.
func (l *Lists) share(ctx context.Context, e *Entry, n redistier.Names, leased bool) {
	i, _ := indexOf(e.Kind)
	ttl := l.policy.Load().of(i, e.Status).lifetime() - l.opts.Now().Sub(e.AnsweredAt)
	if ttl < time.Millisecond {
		if leased {
			_ = l.redis.Release(ctx, n) // an error leaves it to its end
		}
		return
	}
	sealed := l.policy.Load().ring.Seal(e.encode(), listOf(e.key(), e.fingerprint))
	err := l.redis.Put(ctx, n, sealed, ttl, leased)
	switch {
	case err == nil:
	case err == redistier.ErrBusy:
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
