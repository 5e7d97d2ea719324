package cache

import (
	"context"
	"time"

	"inquiry-gateway/cache/redistier"
)

// obtain walks a flight: a second look into the process, Redis, the lease of
// the fleet, and the legacy.
func (l *Lists) obtain(ctx context.Context, f *flight) {
	defer l.release(f) // also when the fill ends the goroutine
	f.best = f.have
	if l.redis == nil {
		f.cell = l.epochs.of(redistier.Hash(f.key.Account))
		if e := l.peek(f.kind, f.key); e.newerThan(f.have) && l.serveStored(ctx, f, e, TierLocal) {
			return
		}
	} else if l.obtainShared(ctx, f) {
		return
	}
	l.fill(ctx, f)
}

// obtainShared tries everything that Redis has to give; true: the flight is
// settled.
func (l *Lists) obtainShared(ctx context.Context, f *flight) bool {
	f.names = l.redis.Names(f.list())
	f.cell = l.epochs.of(f.names.Account)
	if e := l.peek(f.kind, f.key); e.newerThan(f.have) {
		if l.epochs.confirmed(e) && l.serveStored(ctx, f, e, TierLocal) {
			return true
		}
		f.best = e
	}
	var err error
	if l.epochs.kinds[f.kind].verified.Load() == 0 {
		err = l.poll(ctx) // at the very start
	}
	start, settled := time.Now(), false
	if err == nil {
		_, settled, err = l.look(ctx, f, redistier.Only)
	}
	if err != nil {
		// Without Redis the policy alone decides. What may have been purged is
		// filled again, and served only if that fails.
		return f.best != nil && l.epochs.confirmed(f.best) && l.serveStored(ctx, f, f.best, TierLocal)
	}
	if settled {
		return true
	}
	if p := l.policy.Load(); p.coalesce && p.of(f.kind, f.key.Status).lifetime() > 0 && time.Since(start) < l.redis.Slow() {
		l.tracedContend(ctx, f) // not for lists that are never stored: nobody would find one
	}
	return f.completed()
}

// lookUp reads the list and its epoch, and settles the flight if that is enough.
func (l *Lists) lookUp(ctx context.Context, f *flight, m redistier.Mode) (r redistier.Reading, settled bool, err error) {
	suspectEpoch := l.epochs.suspectEpoch.Load() // before the read: what is missed after it is not confirmed by it
	r, err = l.redis.Read(ctx, f.names, l.policy.Load().maxEntry+redistier.SealOverhead, m)
	if err != nil {
		return r, false, err
	}
	if f.cell.learn(r.Epoch, suspectEpoch) {
		key, epoch := f.names.Epoch, f.cell.epoch.Load()
		l.wg.Go(func() { defer l.opts.Panics.Catch(nil); l.restoreEpoch(l.life, key, epoch) })
	}
	if f.best != nil && !l.epochs.current(f.kind, f.best) {
		f.best = nil
	}
	return r, l.evaluate(ctx, f, r), nil
}

// evaluate serves the best entry there is, if the policy lets it be served
// without waiting; true: the flight is settled.
func (l *Lists) evaluate(ctx context.Context, f *flight, r redistier.Reading) bool {
	tier := TierLocal
	if len(r.Raw) > 0 {
		e, err := l.decodeAndVerify(f, r.Raw)
		switch {
		case err != nil && f.refused: // counted by an earlier read
		case err != nil:
			f.refused = true
			l.metrics.refused.WithLabelValues(TierRedis, err.Error()).Inc()
			l.opts.Logger.Warn("an entry in Redis was refused", "kind", f.key.Kind, "reason", err.Error())
		case e.newerThan(f.best):
			f.best, tier = e, TierRedis
			f.stale.Store(e)
		}
	}
	return f.best != nil && l.serveStored(ctx, f, f.best, tier)
}

// serveStored settles the flight with an entry that is there already, if the policy
// lets it be served at once. A background flight wants nothing less than a
// fresh one.
func (l *Lists) serveStored(ctx context.Context, f *flight, e *Entry, tier string) bool {
	terms := l.termsOf(f)
	state := l.policy.Load().judgeBy(terms, e, l.opts.Now()).state
	if tier == TierRedis && state != unusable {
		l.keep(e)
	}
	failing := l.backoff.failing(f.kind, f.key)
	outcome := Hit
	switch {
	case state == fresh:
		l.backoff.relieved(f.kind, f.key, e.AnsweredAt)
		if f.waited && tier == TierRedis {
			outcome = Collapsed
		}
	case f.background || state == unusable || (state == ifError && !failing):
		return false
	case failing:
		outcome = StaleError
	default:
		outcome = StaleRevalidate
	}
	if !l.detach(f, terms) {
		return l.serveStored(ctx, f, e, tier) // ends: terms only get stricter, and there are few
	}
	l.complete(f, func() { f.entry, f.outcome, f.tier = e, outcome, tier })
	if state != fresh && l.backoff.due(f.kind, f.key, l.opts.Now()) {
		l.relaunch(ctx, &flight{key: f.key, kind: f.kind, have: e, terms: terms, background: true})
	}
	return true
}

// fill asks the legacy and settles the flight with its answer. It has the whole
// Fills.Timeout, however long the flight has waited before: if its callers leave
// meanwhile, the list is there when they ask again.
func (l *Lists) fill(ctx context.Context, f *flight) {
	limit := l.policy.Load().fills.Timeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	watchdog := time.AfterFunc(limit+overdueGrace, func() {
		l.complete(f, func() { f.err = ErrFillOverdue })
	})
	defer watchdog.Stop()
	t := l.epochs.tag(f.kind, f.cell)
	f.tag.Store(&t)
	if f.leased {
		defer l.keepLease(ctx, f)()
	}
	e, stored, err := l.observedFill(ctx, f, t)
	if err != nil {
		f.stale.Store(f.best)
		l.complete(f, func() { f.err = err })
		return
	}
	if stored && l.redis != nil {
		n, leased := f.names, f.leased
		f.leased = false // ends with the write
		l.wg.Go(func() { defer l.opts.Panics.Catch(nil); l.tracedShare(f, e, n, leased) })
	}
	l.complete(f, func() { f.entry, f.outcome, f.stored = e, Miss, stored })
}
