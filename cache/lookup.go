package cache

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/internal/telemetry"
)

// Lookup is the hot path: a list of the in-process tier that is fresh, or that is
// stale while no refresh may begin or one is under way. It allocates nothing, never waits, counts
// no look-up, and leaves everything else to Get. After sending the list, call Served.
func (l *Lists) Lookup(k Key) (Result, bool) {
	var q query
	if !l.start(&q, k) {
		return Result{}, false
	}
	now := l.opts.Now()
	e, v := l.local(&q, k, now)
	if v.action != serve && v.action != serveRefresh {
		return Result{}, false
	}
	if v.state != fresh { // Get refreshes it, or finds that its source is newer
		source, _ := q.mapping().sourceOf(k)
		if source != k || v.action == serveRefresh && !l.inFlight(k) {
			return Result{}, false
		}
	}
	return Result{Entry: e, Outcome: v.outcome, Tier: TierLocal, Age: v.age, TTL: v.remaining, lookedAt: now}, true
}

// Served counts what Lookup found of a key.
func (l *Lists) Served(k Key, r Result) {
	if i, ok := indexOf(k.Kind); ok {
		l.metrics.served(i, r)
		if o := l.opts.Observer; o != nil {
			o.Answered(r.Entry, r.Outcome, r.lookedAt)
		}
	}
}

// local is the entry of the in-process tier for a key, and what it is good for by the terms of
// the wanted list; nil: there is none. One that no look-up can use is removed.
func (l *Lists) local(q *query, k Key, now time.Time) (*Entry, verdict) {
	e, ok := l.tier.GetIfPresent(k)
	if !ok {
		return nil, verdict{}
	}
	reason, fingerprint := errPurged, q.mapping().Fingerprint
	if e.belongsTo(k, fingerprint) {
		v := l.decide(q, e, now)
		if v.state != purged {
			return e, v
		}
	} else if reason = errForeign; e.belongsTo(k, e.fingerprint) {
		reason = errMapping
	}
	l.metrics.refused.WithLabelValues(TierLocal, reason.Error()).Inc()
	l.tier.Invalidate(k)
	return nil, verdict{}
}

// Get answers from a tier or fills. What Redis has it reads itself, which takes no longer than
// redis.timeout, also where ctx ends before; for a fill it waits no longer than ctx, and that goes on for
// the others. Errors: ctx's, the fill's own, or one of this package's. The error of a fill is
// returned only when no stale entry may be served, and again to those who ask soon afterwards.
func (l *Lists) Get(ctx context.Context, k Key) (Result, error) {
	var q query
	if !l.start(&q, k) {
		return Result{}, ErrUnknownKind
	}
	var impossible bool
	if q.source, impossible = q.mapping().sourceOf(k); impossible {
		return l.impossible(&q), nil
	}
	ctx, span := l.startSpan(ctx, "cache.lookup", q.kind)
	defer span.End()
	began := l.opts.Now()
	r, err := l.load(ctx, &q, began)
	if err == nil && r.Entry.Key != k && !l.deriveFrom(&q, &r) {
		q.source = k // it cannot be selected from another one
		r, err = l.load(ctx, &q, l.opts.Now())
	}
	if err != nil {
		span.Fail(reasonOf(err))
		l.metrics.failed(q.kind)
		if o := l.opts.Observer; o != nil {
			o.Failed(k.Kind, k.Status, q.source.Hash(), began)
		}
		return Result{}, err
	}
	if o := l.opts.Observer; o != nil {
		o.Answered(r.Entry, r.Outcome, began)
	}
	if span.Recording() {
		span.Set(attribute.Float64("cache.age_seconds", r.Age.Seconds()), attribute.Float64("cache.ttl_seconds", r.TTL.Seconds()))
		setAnswer(span, r)
	}
	l.metrics.served(q.kind, r)
	return r, nil
}

// load answers with the newest list of the query's key or of its source: at once out
// of the process where the policy allows it, else by the one flight of the source,
// for which all its callers wait.
func (l *Lists) load(ctx context.Context, q *query, start time.Time) (Result, error) {
	source, v := l.peek(ctx, q, q.source, start)
	e := source
	if q.source != q.key {
		if derived, w := l.peek(ctx, q, q.key, start); w.state.servable() && !l.invalidations.newer(source, derived) {
			e, v = derived, w
		}
	}
	if v.action == serve || v.action == serveRefresh {
		if v.action == serveRefresh {
			l.refreshSoon(ctx, q, source)
		}
		return Result{Entry: e, Outcome: v.outcome, Tier: TierLocal, Age: v.age, TTL: v.remaining}, nil
	}
	switch err := ctx.Err(); {
	case errors.Is(err, context.Canceled):
		return Result{}, err
	case err != nil:
		return l.serveStale(q, e, nil, err)
	}
	f, runs, err := l.join(ctx, q, source, false)
	var newest *Entry
	if err == nil {
		defer l.leave(f)
		if err = l.wait(ctx, f, runs); err != nil {
			newest = f.newest.Load()
		}
	}
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled):
		return Result{}, err
	default:
		r, err := l.serveStale(q, e, newest, err)
		r.Wait = l.opts.Now().Sub(start)
		return r, err
	}
	r, now := f.result, l.opts.Now()
	v = l.decide(q, r.Entry, now)
	r.Age, r.TTL, r.Wait = v.age, v.remaining, now.Sub(start)
	switch {
	case r.Outcome == Miss && !runs:
		r.Outcome = Collapsed
	case r.TTL > 0 && (r.Outcome == StaleRevalidate || r.Outcome == StaleError):
		r.Outcome = Hit // stale for somebody else who waited
	}
	return r, nil
}

// peek is local in a span.
func (l *Lists) peek(ctx context.Context, q *query, k Key, now time.Time) (*Entry, verdict) {
	_, span := l.tracer.Start(ctx, "cache.local")
	defer span.End()
	e, v := l.local(q, k, now)
	if span.Recording() {
		span.Set(attribute.String("cache.result", [...]string{
			absent: "none", purged: "none", expired: "expired", ifError: "stale", revalidate: "stale", fresh: "fresh",
		}[v.state]))
	}
	return e, v
}

// serveStale answers a failed look-up with the newest entry that the policy still
// allows, or with the failure. b is what the flight has found.
func (l *Lists) serveStale(q *query, a, b *Entry, err error) (Result, error) {
	tier := TierLocal
	if l.invalidations.newer(b, a) {
		a, tier = b, TierRedis
	}
	v := l.decide(q, a, l.opts.Now())
	if !v.state.servable() {
		return Result{}, err
	}
	// It may be outdated however young it is.
	return Result{Entry: a, Outcome: StaleError, Tier: tier, Age: v.age, TTL: min(v.remaining, 0)}, nil
}

// startSpan starts a span that says of which kind the lists are.
func (l *Lists) startSpan(ctx context.Context, name string, i kindIndex) (context.Context, telemetry.Span) {
	ctx, s := l.tracer.Start(ctx, name)
	if s.Recording() {
		s.Set(attribute.String("inquiry.kind", kindNames[i]))
	}
	return ctx, s
}

// setAnswer says in a span how a look-up or a flight ended well; a fill has no
// tier.
func setAnswer(s telemetry.Span, r Result) {
	s.Set(attribute.String("cache.outcome", string(r.Outcome)))
	if r.Tier != "" {
		s.Set(attribute.String("cache.tier", r.Tier))
	}
}

// reasonOf is the word for a failure in a span.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, ErrFillPanicked):
		return fillPanic
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, ErrClosed):
		return "closed"
	}
	return "fill"
}
