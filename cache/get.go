package cache

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/internal/telemetry"
)

// Lookup is the hot path: it returns a list of the in-process tier that is fresh, or that is stale while no
// refresh may begin or one is in flight. It allocates nothing and never waits. It counts nothing: call
// RecordHit with what it returns. If it returns false, call Get.
func (c *Cache) Lookup(k Key) (Result, bool) {
	var q query
	if !c.start(&q, k) {
		return Result{}, false
	}
	now := c.opts.Now()
	e, d := c.local(&q, now)
	if d.action != serve && (d.action != serveRefresh || !c.inFlight(q.source)) {
		return Result{}, false
	}
	if q.selects {
		if e = e.view(k); e == nil {
			return Result{}, false
		}
	}
	return Result{Entry: e, Outcome: d.outcome, Tier: TierLocal, Age: d.age, TTL: d.remaining, lookedAt: now}, true
}

// RecordHit counts what Lookup has returned for a key.
func (c *Cache) RecordHit(k Key, r Result) {
	if i, ok := indexOf(k.Kind); ok {
		c.metrics.served(i, r)
		if o := c.opts.Observer; o != nil {
			o.Answered(r.Entry, r.Outcome, r.lookedAt)
		}
	}
}

// local is the source of a query in the in-process tier, and how it may be used; nil: there is none.
// Unusable entries are evicted.
func (c *Cache) local(q *query, now time.Time) (*Entry, decision) {
	e, ok := c.tier.GetIfPresent(q.source)
	if !ok {
		return nil, decision{}
	}
	if e.belongsTo(q.source, q.mapping().Fingerprint) {
		d := c.decide(q, e, now)
		if d.state != purged {
			return e, d
		}
		c.metrics.refused.WithLabelValues(TierLocal, errPurged.Error()).Inc()
	} else if e.Key != q.source {
		c.metrics.refused.WithLabelValues(TierLocal, errForeign.Error()).Inc()
	} // else a reload has changed the mapping
	c.tier.Invalidate(q.source)
	return nil, decision{}
}

// Get answers from a tier or has the list fetched. It reads Redis itself, which takes no longer than
// redis.timeout, even if ctx ends before that; it waits for a fetch no longer than ctx, and the fetch
// continues for the others. Errors: ctx's, the fetch's own, or one of this package's. The error of a fetch
// is returned only if no stale list may be served, and again to those who ask soon afterwards.
func (c *Cache) Get(ctx context.Context, k Key) (Result, error) {
	var q query
	if !c.start(&q, k) {
		return Result{}, ErrUnknownKind
	}
	if q.impossible {
		return c.impossible(&q), nil
	}
	ctx, span := c.startSpan(ctx, "cache.lookup", q.kind)
	defer span.End()
	began := c.opts.Now()
	r, err := c.load(ctx, &q, began)
	if err == nil {
		r.Entry, err = c.selectFrom(r.Entry, k)
	}
	if err != nil {
		span.Fail(reasonOf(err))
		c.metrics.failed(q.kind)
		if o := c.opts.Observer; o != nil {
			o.Failed(k.Kind, k.Status, q.source.Hash(), began)
		}
		return Result{}, err
	}
	if o := c.opts.Observer; o != nil {
		o.Answered(r.Entry, r.Outcome, began)
	}
	if span.Recording() {
		span.Set(attribute.String("cache.outcome", string(r.Outcome)),
			attribute.Float64("cache.age_seconds", r.Age.Seconds()), attribute.Float64("cache.ttl_seconds", r.TTL.Seconds()))
		if r.Tier != "" { // a fetch has none
			span.Set(attribute.String("cache.tier", r.Tier))
		}
	}
	c.metrics.served(q.kind, r)
	return r, nil
}

// load returns the source of a query: from the process if the policy lets it be served at once, otherwise
// from the one flight of the source, which all its callers share. The flight may bring a list that another
// node has fetched; a caller that needs a newer one begins again.
func (c *Cache) load(ctx context.Context, q *query, start time.Time) (r Result, err error) {
	for again := true; again; {
		e, d := c.peek(ctx, q)
		switch err = ctx.Err(); {
		case d.serves():
			r, again, err = served(e, TierLocal, d), false, nil
		case err != nil:
			r, again, err = c.orStale(ctx, q, e, TierLocal, err)
		default:
			r, again, err = c.await(ctx, q, e)
			r.Wait = c.opts.Now().Sub(start)
		}
	}
	if r.refresh {
		c.refresh(ctx, *q)
	}
	return r, err
}

// await takes part in the flight of a query's source. e is what the process has.
func (c *Cache) await(ctx context.Context, q *query, e *Entry) (r Result, again bool, err error) {
	f, leads, err := c.join(ctx, q, false)
	switch {
	case err != nil:
		return c.orStale(ctx, q, e, TierLocal, err)
	case f == nil: // a list has come meanwhile
		return Result{}, true, nil
	}
	defer c.leave(f)
	var span telemetry.Span
	if leads {
		c.look(f)
	} else { // the flight belongs to the trace of another request
		_, span = c.tracer.Start(ctx, "cache.wait", f.span.Link())
		defer span.End()
		select {
		case <-f.looked:
		case <-ctx.Done():
			span.Fail(reasonOf(ctx.Err()))
			return c.orStale(ctx, q, e, TierLocal, ctx.Err())
		}
	}
	switch d := c.decide(q, f.found, c.opts.Now()); {
	case d.serves():
		return served(f.found, f.tier, d), false, nil
	case d.action == fail:
		return Result{}, false, d.err
	}
	begins := ctx.Err() == nil && c.beginFetch(f)
	if begins {
		go c.runFetch(f)
	}
	select {
	case <-f.done:
		err = f.err
	case <-ctx.Done():
		err = ctx.Err()
		span.Fail(reasonOf(err))
	}
	if err != nil {
		return c.orStale(ctx, q, f.found, f.tier, err)
	}
	r = f.result
	d := c.decide(q, r.Entry, c.opts.Now())
	switch {
	case r.Tier == "": // this node has fetched it, for all who have asked since
		r.Outcome, r.Age, r.TTL, r.TooOld = Miss, d.age, d.remaining, f.found != nil
		if !begins {
			r.Outcome = Collapsed
		}
	case !d.serves():
		return Result{}, true, nil
	default:
		if r = served(r.Entry, r.Tier, d); r.Outcome == Hit {
			r.Outcome, r.TooOld = Collapsed, f.found != nil
		}
	}
	return r, false, nil
}

// peek is local in a span.
func (c *Cache) peek(ctx context.Context, q *query) (*Entry, decision) {
	_, span := c.tracer.Start(ctx, "cache.local")
	defer span.End()
	e, d := c.local(q, c.opts.Now())
	if span.Recording() {
		span.Set(attribute.String("cache.result", [...]string{
			absent: "none", purged: "none", expired: "expired", ifError: "stale", revalidate: "stale", fresh: "fresh",
		}[d.state]))
	}
	return e, d
}

// served is the result of a list that may be served at once.
func served(e *Entry, tier string, d decision) Result {
	return Result{Entry: e, Outcome: d.outcome, Tier: tier, Age: d.age, TTL: d.remaining, refresh: d.action == serveRefresh}
}

// orStale answers a failed look-up with a list that may still be served, or with the failure. A caller
// that has left gets the failure.
func (c *Cache) orStale(ctx context.Context, q *query, e *Entry, tier string, err error) (Result, bool, error) {
	d := c.decide(q, e, c.opts.Now())
	if !d.state.servable() || errors.Is(ctx.Err(), context.Canceled) {
		return Result{}, false, err
	}
	// It may be outdated however young it is.
	return Result{Entry: e, Outcome: StaleError, Tier: tier, Age: d.age, TTL: min(d.remaining, 0)}, false, nil
}

// startSpan starts a span that says of which kind the lists are.
func (c *Cache) startSpan(ctx context.Context, name string, i kindIndex) (context.Context, telemetry.Span) {
	ctx, s := c.tracer.Start(ctx, name)
	if s.Recording() {
		s.Set(attribute.String("inquiry.kind", kindNames[i]))
	}
	return ctx, s
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
