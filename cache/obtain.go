package cache

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
)

// obtain settles a flight by the first of these that the policy lets be served: a
// second look into the process, Redis, the fill of another node, and the legacy.
// However it ends, the waiters are told.
func (l *Lists) obtain(ctx context.Context, f *flight) {
	defer f.endSpan()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	defer func() {
		if l.complete(f, Result{}, ErrFillPanicked) { // only a panic or Goexit leaves it unsettled
			l.metrics.fills.WithLabelValues(f.key.Kind, fillPanic).Inc()
			l.backoff.failed(f.kind, f.key, ErrFillPanicked, l.opts.Now())
		}
	}()
	defer l.opts.Panics.Catch(nil)
	defer l.release(f)
	account := ""
	if l.redis != nil {
		f.names = l.redis.Names(f.list())
		account = f.names.Account
	} else {
		account = redistier.Hash(f.key.Account)
	}
	f.cell, f.best = l.epochs.of(account), f.have
	if e := l.local(f.kind, f.key, f.fingerprint); e.newerThan(f.have) {
		if l.epochs.confirmed(e) && l.serveStored(ctx, f, e, TierLocal) {
			return
		}
		f.best = e
	}
	if l.redis == nil || !l.obtainShared(ctx, f) {
		l.fill(ctx, f)
	}
}

// obtainShared tries everything that Redis has to give; true: the flight is
// settled.
func (l *Lists) obtainShared(ctx context.Context, f *flight) (settled bool) {
	var err error
	if !l.epochs.polledOnce() {
		err = l.poll(ctx) // at the very start
	}
	start := time.Now()
	if err == nil {
		_, settled, err = l.read(ctx, f, redistier.Only)
	}
	if err != nil {
		// Without Redis the policy alone decides. What may have been purged is
		// filled again, and served only if that fails.
		return f.best != nil && l.epochs.confirmed(f.best) && l.serveStored(ctx, f, f.best, TierLocal)
	}
	p := l.policy.Load()
	if settled || p.of(f.kind, f.key.Status).lifetime() <= 0 || time.Since(start) >= l.redis.Slow() {
		return settled // nobody would find a list that is never stored
	}
	ctx, span := l.tracer.Start(ctx, "cache.lease")
	defer span.End()
	settled = l.contend(ctx, f)
	if span.Recording() {
		span.Set(attribute.Bool("cache.lease.won", f.leased), attribute.Bool("cache.lease.waited", f.waited))
	}
	return settled
}

// read reads the list and its epoch from Redis, and settles the flight if that is
// enough.
func (l *Lists) read(ctx context.Context, f *flight, m redistier.Mode) (r redistier.Reading, settled bool, err error) {
	ctx, span := l.tracer.Start(ctx, "cache.redis")
	defer span.End()
	suspectEpoch := l.epochs.suspectEpoch.Load() // before the read: what is missed after it is not confirmed by it
	if r, err = l.redis.Read(ctx, f.names, l.policy.Load().mostRead(), m); err != nil {
		span.Fail(redisclient.ResultOf(err))
		span.Set(attribute.String("cache.result", redisclient.ResultOf(err)))
		return r, false, err
	}
	if f.cell.learn(r.Epoch, suspectEpoch) {
		key, epoch := f.names.Epoch, f.cell.known()
		l.background(func() { l.restoreEpoch(l.life, key, epoch) })
	}
	if f.best != nil && !l.epochs.current(f.kind, f.best) {
		f.best = nil
	}
	tier := TierLocal
	if e := l.accept(f, r.Raw); e.newerThan(f.best) {
		f.best, tier = e, TierRedis
		f.stale.Store(e)
	}
	settled = f.best != nil && l.serveStored(ctx, f, f.best, tier)
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

// accept is the entry that was read from Redis; nil: there is none, or it is
// refused.
func (l *Lists) accept(f *flight, raw []byte) *Entry {
	if len(raw) == 0 {
		return nil
	}
	e, err := l.decodeAndVerify(f, raw)
	if err == nil {
		return e
	}
	if !f.refused { // counted by an earlier read
		f.refused = true
		l.metrics.refused.WithLabelValues(TierRedis, err.Error()).Inc()
		l.opts.Logger.Warn("an entry in Redis was refused", "kind", f.key.Kind, "reason", err.Error())
	}
	return nil
}

// serveStored settles the flight with an entry that is there already, if the policy
// lets it be served at once by the terms of all who wait. A background flight wants
// nothing less than a fresh one.
func (l *Lists) serveStored(ctx context.Context, f *flight, e *Entry, tier string) bool {
	now := l.opts.Now()
	l.mu.Lock()
	terms := f.terms
	state := l.judge(l.policy.Load(), f.kind, terms, e, now).state
	outcome, ok := l.outcomeOf(f.kind, f.key, state)
	if ok = ok && (state == fresh || !f.background); ok {
		l.detach(f) // who comes now may have stricter terms
	}
	l.mu.Unlock()
	f.expired = f.expired || !ok && state != fresh
	if tier == TierRedis && state != unusable {
		l.keep(e)
	}
	if !ok {
		return false
	}
	if state == fresh {
		l.backoff.relieved(f.kind, f.key, e.AnsweredAt)
		if f.waited && tier == TierRedis {
			outcome = Collapsed
		}
	}
	l.complete(f, Result{Entry: e, Outcome: outcome, Tier: tier, Expired: f.expired}, nil)
	if state != fresh && l.backoff.due(f.kind, f.key, now, true) {
		l.refresh(ctx, &flight{key: f.key, kind: f.kind, have: e, terms: terms})
	}
	return true
}

// background runs what a flight leaves behind. Close waits for it.
func (l *Lists) background(run func()) {
	l.wg.Go(func() {
		defer l.opts.Panics.Catch(nil)
		run()
	})
}
