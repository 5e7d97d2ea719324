package cache

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/internal/span"
)

// query is one look-up. It sees one policy from its begin to its end.
type query struct {
	policy *policy
	kind   kindIndex
	key    Key   // of the list that is wanted
	base   Key   // that the legacy is asked by; the same unless the list is derived
	terms  terms // of the wanted list, whatever its base's are
}

// start makes q the look-up of a key; false: its kind is unknown. It fills q in
// place: to copy one would cost a tenth of Lookup.
func (l *Lists) start(q *query, k Key) bool {
	i, ok := indexOf(k.Kind)
	if !ok {
		return false
	}
	q.policy, q.kind, q.key, q.base = l.policy.Load(), i, k, k
	q.terms = q.policy.of(i, k.Status)
	return true
}

func (q *query) mapping() *Mapping { return &q.policy.kinds[q.kind].mapping }

// found is an entry and what the policy says of it now. The zero value is no
// entry.
type found struct {
	entry *Entry
	verdict
	confirmed bool // no purge of it may have been missed
}

// Lookup is the hot path: a list of the in-process tier that is fresh, or that is
// stale while no refresh may begin. It allocates nothing, never waits, counts
// no look-up, and leaves everything else to Get. Who serves the list calls Served.
func (l *Lists) Lookup(k Key) (Result, bool) {
	var q query
	if !l.start(&q, k) {
		return Result{}, false
	}
	now := l.opts.Now()
	have := l.peek(&q, k, now)
	if !have.confirmed {
		return Result{}, false
	}
	outcome := Hit
	if have.state != fresh {
		var ok bool
		if outcome, ok = l.staleAtOnce(&q, have.state, now); !ok {
			return Result{}, false
		}
	}
	return Result{Entry: have.entry, Outcome: outcome, Tier: TierLocal, Age: have.age, TTL: have.ttl, lookedAt: now}, true
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

// staleAtOnce tells how a stale list is served without a look at another list and
// without a refresh; false: Get must decide.
func (l *Lists) staleAtOnce(q *query, state freshness, now time.Time) (Outcome, bool) {
	if base, _ := q.mapping().base(q.key); base != q.key {
		return "", false // the base may be newer
	}
	outcome, ok := l.outcomeOf(q.kind, q.base, state)
	return outcome, ok && (!l.backoff.due(q.kind, q.base, now, false) || l.inFlight(q.base))
}

// outcomeOf tells how an entry in that state is served without waiting for the
// legacy; false: not at all.
func (l *Lists) outcomeOf(i kindIndex, base Key, state freshness) (Outcome, bool) {
	switch {
	case state == fresh:
		return Hit, true
	case state == unusable:
		return "", false
	case l.backoff.failing(i, base):
		return StaleError, true
	}
	return StaleRevalidate, state == revalidate
}

// Get answers from a tier or fills. It waits no longer than ctx; a fill that it
// started goes on for the others. Errors: ctx's, the fill's own, or one of this
// package's. The error of a fill is returned only when no stale entry may be served.
func (l *Lists) Get(ctx context.Context, k Key) (Result, error) {
	var q query
	if !l.start(&q, k) {
		return Result{}, ErrUnknownKind
	}
	var impossible bool
	if q.base, impossible = q.mapping().base(k); impossible {
		return l.impossible(&q), nil
	}
	start := l.opts.Now()
	ctx, span := l.startSpan(ctx, "cache.lookup", q.kind)
	defer span.End()
	r, err := l.load(ctx, &q)
	if err == nil && r.Entry.key() != k && !l.deriveFrom(&q, &r) {
		q.base = k
		r, err = l.load(ctx, &q)
	}
	if err != nil {
		span.Fail(reasonOf(err))
		l.metrics.failed(q.kind)
		if o := l.opts.Observer; o != nil {
			o.Failed(k.Kind, k.Status, q.base.Hash(), start)
		}
		return Result{}, err
	}
	if o := l.opts.Observer; o != nil {
		o.Answered(r.Entry, r.Outcome, start)
	}
	if span.Recording() {
		span.Set(attribute.Float64("cache.age_seconds", r.Age.Seconds()), attribute.Float64("cache.ttl_seconds", r.TTL.Seconds()))
		setAnswer(span, r)
	}
	l.metrics.served(q.kind, r)
	return r, nil
}

// load answers with the newest list of the query's key or of its base: at once out
// of the process where the policy allows it, else by the one flight of the base,
// for which all its callers wait.
func (l *Lists) load(ctx context.Context, q *query) (Result, error) {
	start := l.opts.Now()
	have, base := l.newest(ctx, q, start)
	if have.confirmed {
		if outcome, ok := l.outcomeOf(q.kind, q.base, have.state); ok {
			if have.state != fresh && l.backoff.due(q.kind, q.base, start, true) {
				l.refresh(ctx, &flight{key: q.base, kind: q.kind, have: base, terms: q.terms})
			}
			return Result{Entry: have.entry, Outcome: outcome, Tier: TierLocal, Age: have.age, TTL: have.ttl}, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	f, leader, err := l.join(ctx, &flight{key: q.base, kind: q.kind, have: base, terms: q.terms})
	if err != nil {
		return l.serveStale(q, have.entry, nil, err)
	}
	defer l.leave(f)
	if err := l.wait(ctx, f, leader); err != nil {
		if errors.Is(err, context.Canceled) {
			return Result{}, err
		}
		return l.serveStale(q, have.entry, f.stale.Load(), err)
	}
	var r Result
	if f.err != nil {
		r, err = l.serveStale(q, have.entry, f.stale.Load(), f.err)
	} else {
		r = l.resultOf(q, f.result, leader)
	}
	r.Wait = l.opts.Now().Sub(start)
	return r, err
}

// newest looks into the in-process tier for the query's key and its base, and
// returns the newer one of use, and the base's.
func (l *Lists) newest(ctx context.Context, q *query, now time.Time) (have found, base *Entry) {
	have = l.tracedPeek(ctx, q, q.base, now)
	base = have.entry
	if q.base == q.key {
		return have, base
	}
	if own := l.tracedPeek(ctx, q, q.key, now); own.entry != nil && own.state != unusable && !base.newerThan(own.entry) {
		have = own
	}
	return have, base
}

// peek looks for a key in the in-process tier, once, and judges what is there by
// the terms of the wanted list.
func (l *Lists) peek(q *query, k Key, now time.Time) found {
	e := l.local(q.kind, k, q.mapping().Fingerprint)
	if e == nil {
		return found{}
	}
	return found{e, l.judge(q.policy, q.kind, q.terms, e, now), l.epochs.confirmed(e)}
}

// tracedPeek is peek in a span that says of what use the entry is.
func (l *Lists) tracedPeek(ctx context.Context, q *query, k Key, now time.Time) found {
	_, span := l.tracer.Start(ctx, "cache.local")
	defer span.End()
	have := l.peek(q, k, now)
	if span.Recording() {
		span.Set(attribute.String("cache.result", have.use()))
	}
	return have
}

// use is the word for it in a span.
func (f found) use() string {
	switch {
	case f.entry == nil:
		return "none"
	case !f.confirmed:
		return "doubtful" // it may have been purged
	case f.state == fresh:
		return "fresh"
	case f.state == unusable:
		return "expired"
	}
	return "stale"
}

// local is the entry of the in-process tier that answers a key under a mapping and
// that no purge hides; nil: none. Any other one is removed.
func (l *Lists) local(i kindIndex, k Key, fingerprint string) *Entry {
	e, ok := l.tier.GetIfPresent(k)
	if !ok {
		return nil
	}
	reason := errForeign
	switch {
	case e.belongsTo(k, fingerprint) && l.epochs.current(i, e):
		return e
	case e.belongsTo(k, fingerprint):
		reason = errPurged
	case e.belongsTo(k, e.fingerprint):
		reason = errMapping
	}
	l.metrics.refused.WithLabelValues(TierLocal, reason.Error()).Inc()
	l.tier.Invalidate(k)
	return nil
}

// serveStale answers a failed look-up with the newest entry that the policy still
// allows, or with the failure. b is out of Redis.
func (l *Lists) serveStale(q *query, a, b *Entry, err error) (Result, error) {
	tier := TierLocal
	if b.newerThan(a) {
		a, tier = b, TierRedis
	}
	if a == nil || !l.epochs.current(q.kind, a) {
		return Result{}, err
	}
	v := l.judge(q.policy, q.kind, q.terms, a, l.opts.Now())
	if v.state == unusable {
		return Result{}, err
	}
	// It may be outdated however young it is.
	return Result{Entry: a, Outcome: StaleError, Tier: tier, Age: v.age, TTL: min(v.ttl, 0)}, nil
}

// resultOf is what a flight's result is to one of its callers.
func (l *Lists) resultOf(q *query, r Result, leader bool) Result {
	v := l.judge(q.policy, q.kind, q.terms, r.Entry, l.opts.Now())
	r.Age, r.TTL = v.age, v.ttl
	switch {
	case r.Outcome == Miss && !leader:
		r.Outcome = Collapsed
	case r.TTL > 0 && (r.Outcome == StaleRevalidate || r.Outcome == StaleError):
		r.Outcome = Hit // stale for somebody else who waited
	}
	return r
}

// startSpan starts a span that says of which kind the lists are.
func (l *Lists) startSpan(ctx context.Context, name string, i kindIndex) (context.Context, span.Span) {
	ctx, s := l.tracer.Start(ctx, name)
	if s.Recording() {
		s.Set(attribute.String("inquiry.kind", kindNames[i]))
	}
	return ctx, s
}

// setAnswer says in a span how a look-up or a flight ended well; a fill has no
// tier.
func setAnswer(s span.Span, r Result) {
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
