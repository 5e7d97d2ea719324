package cache

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
)

// leasePoll is how often a node asks for a list that another one fetches.
const leasePoll = 25 * time.Millisecond

// errResting ends a refresh that may not begin. Nobody waits for it.
var errResting = errors.New("cache: the list has failed and is not to be tried yet")

// look settles a flight with what the process has by now, else with what Redis has, if the policy
// lets it be served.
func (l *Lists) look(ctx context.Context, f *flight) bool {
	if l.redis != nil {
		f.redis.names = l.redis.Names(f.id())
	} else {
		f.redis.names.Account = redistier.Hash(f.key.Account)
	}
	q := l.queryOf(f.key)
	if e, _ := l.local(&q, f.key, l.opts.Now()); l.invalidations.newer(e, f.newest.Load()) {
		f.newest.Store(e)
		if l.serve(ctx, f, TierLocal) {
			return true
		}
	}
	return l.redis != nil && l.read(ctx, f)
}

// check settles a flight that has found nothing to serve while the list rests after a failed fill:
// who waits gets the error of that, and a refresh does not begin.
func (l *Lists) check(_ context.Context, f *flight) bool {
	q := l.queryOf(f.key)
	now := l.opts.Now()
	if f.background {
		if h := l.healthOf(&q, f.newest.Load(), now); !h.resting {
			return false
		}
		l.backoff.markChecked(f.key, now)
		if l.abandon(f, true, errResting) {
			return true
		} // else somebody waits for it by now
	}
	v := l.decide(&q, f.newest.Load(), now)
	return v.action == fail && l.settle(f, Result{}, v.err)
}

// read reads the list from Redis, and settles the flight if it may be served. Without Redis
// the policy alone decides.
func (l *Lists) read(ctx context.Context, f *flight) (settled bool) {
	ctx, span := l.tracer.Start(ctx, "cache.redis")
	defer span.End()
	raw, took, err := l.readList(ctx, f.redis.names)
	if err != nil {
		span.Fail(redisclient.ResultOf(err))
		span.Set(attribute.String("cache.result", redisclient.ResultOf(err)))
		return l.serve(ctx, f, TierLocal)
	}
	f.redis.there, f.redis.quick = true, took < l.redis.Slow()
	settled = l.accept(ctx, f, raw)
	if span.Recording() {
		result := "none"
		if settled {
			result = "served"
		} else if len(raw) > 0 {
			result = "not_served"
		}
		span.Set(attribute.String("cache.result", result))
	}
	return settled
}

// readList reads a list from Redis, and tells how long that took. At the very start of the node it
// reads what purges there are before, both within one and a half of redis.timeout.
func (l *Lists) readList(ctx context.Context, n redistier.Names) (raw []byte, took time.Duration, err error) {
	start := time.Now()
	if _, synced := l.invalidations.position(); !synced {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 3*l.redis.Slow())
		defer cancel()
		if err := l.poll(ctx); err != nil {
			return nil, 0, err
		}
	}
	raw, err = l.redis.Read(ctx, n, l.policy.Load().mostRead())
	return raw, time.Since(start), err
}

// accept takes what Redis has, and settles the flight with it if it may be served.
func (l *Lists) accept(ctx context.Context, f *flight, raw []byte) (settled bool) {
	tier := TierLocal
	if f.redis.seen = redistier.Seen(raw); len(raw) > 0 {
		e, err := l.open(f.key, f.fingerprint(), f.redis.names.Account, raw)
		switch {
		case err == nil && l.invalidations.newer(e, f.newest.Load()):
			f.newest.Store(e)
			tier = TierRedis
		case err != nil:
			l.metrics.refused.WithLabelValues(TierRedis, err.Error()).Inc()
			if err != errPurged { // else a purge of a kind is a warning for each account
				l.opts.Logger.Warn("an entry in Redis was refused", "kind", f.key.Kind, "reason", err.Error())
			}
		}
	}
	return l.serve(ctx, f, tier)
}

// open decodes what Redis has of a list, and holds it against the key, the purges and the clock.
// The error is one of refusals.
func (l *Lists) open(k Key, fingerprint, account string, raw []byte) (*Entry, error) {
	p := l.policy.Load()
	if len(raw) > p.mostRead() {
		return nil, errTooBig
	}
	raw, err := p.ring.open(raw, idOf(k, fingerprint))
	if err != nil {
		return nil, err
	}
	e, err := decode(raw)
	switch {
	case err != nil:
		return nil, err
	case !e.belongsTo(k, fingerprint):
		return nil, errForeign
	}
	e.fetch.account, e.fingerprint = account, fingerprint // one for all entries
	now := l.opts.Now()
	_, late := l.clock()
	e.AnsweredAt = now.Add(time.Unix(0, e.stamp).Sub(late)) // from here on the age runs with this process's monotonic clock
	q := l.queryOf(k)
	switch v := q.decide(e, now, l.invalidations.sinceFetch(e), health{}); {
	case v.state == purged:
		return nil, errPurged
	case e.AnsweredAt.Sub(now) > maxSkew:
		return nil, errFuture
	}
	return e, nil
}

// serve settles the flight with its entry, if the policy lets it be served at once by the terms of
// all who wait. A background flight wants nothing less than a fresh one. What comes from Redis is
// kept in the process.
func (l *Lists) serve(ctx context.Context, f *flight, tier string) bool {
	e := f.newest.Load()
	if e == nil {
		return false
	}
	l.backoff.succeeded(f.key, e.AnsweredAt)
	q := l.queryOf(f.key)
	if tier == TierRedis && l.decide(&q, e, l.opts.Now()).state.servable() {
		l.keep(e) // before another flight can begin, which would read it again
	}
	l.mu.Lock()
	q.terms = f.callers.terms
	v := l.decide(&q, e, l.opts.Now())
	serves := v.state == fresh || !f.background && (v.action == serve || v.action == serveRefresh)
	if serves && l.flights[f.key] == f {
		delete(l.flights, f.key) // who comes now may have stricter terms
	}
	l.mu.Unlock()
	f.tooOld = f.tooOld || !serves && v.state != fresh
	if v.state == purged {
		f.newest.Store(nil)
	}
	if !serves {
		return false
	}
	if v.state == fresh && f.waits.Load() && tier == TierRedis {
		v.outcome = Collapsed
	}
	l.settle(f, Result{Entry: e, Outcome: v.outcome, Tier: tier, TooOld: f.tooOld}, nil)
	if v.action == serveRefresh {
		l.refreshSoon(ctx, &q, e)
	}
	return true
}

// lease waits until this node is the one that fills the list for the fleet, or another one has
// filled it: that settles the flight. A node that has crashed keeps the lease for as long as a fill may take.
// Without an answer of Redis, or if it has no room, this node fills without a lease, and so it does if the
// lease does not end or the list is never kept.
func (l *Lists) lease(ctx context.Context, f *flight) (settled bool) {
	q := l.queryOf(f.key)
	if !f.redis.quick || q.decide(nil, time.Time{}, invalidation{}, health{}).keep <= 0 {
		return false
	}
	ctx, span := l.tracer.Start(ctx, "cache.lease")
	defer span.End()
	defer func() {
		span.Set(attribute.Bool("cache.lease.won", f.redis.token != ""), attribute.Bool("cache.lease.waited", f.waits.Load()))
	}()
	token, limit := redistier.NewToken(), l.policy.Load().fillTimeout+overdueGrace // no fill takes longer
	for start := time.Now(); time.Since(start) < 2*limit; {
		f.redis.names.Purged = l.invalidations.last(f.key.Kind, f.redis.names.Account)
		raw, won, err := l.redis.Lease(ctx, f.redis.names, token, limit, l.policy.Load().mostRead(), f.redis.seen)
		if won {
			f.redis.token = token
		}
		switch {
		case err != nil:
			return false
		case len(raw) > 0 && l.accept(ctx, f, raw): // another list than that which was refused
			return true
		case won: // who had it before has left nothing
			return f.waits.Load() && l.abandon(f, false, ErrFillOverdue)
		}
		f.waits.Store(true)
		select {
		case <-time.After(leasePoll):
		case <-ctx.Done():
			return false
		}
		if l.abandon(f, time.Since(l.joined(f)) > limit, ErrFillOverdue) {
			return true
		}
	}
	return false
}
