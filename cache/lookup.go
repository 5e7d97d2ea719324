package cache

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/internal/telemetry"
)

// maxSkew is how far in the future an answer may seem to be. An entry from further
// ahead is refused: its age is unknown.
const maxSkew = 2 * time.Second

// freshness is what may be done with an entry, by its age, purges and hints.
type freshness int

const (
	unusable   freshness = iota
	ifError              // stale, to be served only when the fill fails
	revalidate           // stale, to be served while it is refreshed
	fresh
)

// action is what a look-up does now.
type action int

const (
	fetch        action = iota // wait for Redis or the legacy; serve the entry only if that fails
	serve                      // serve the entry
	serveRefresh               // serve the entry, and have it refreshed in the background
)

// marks are what is known of purges and hints that concern an entry.
type marks struct {
	purged  bool // it is from before a purge
	suspect bool // it may be: Redis has to be asked
	hinted  bool // it is from before a hint
	since   time.Duration
}

// health is how well the list's endpoint is.
type health struct {
	failing bool // its last fill failed, or the breaker is not closed for its account
	resting bool // no refresh may begin yet, nor a look into Redis
}

// verdict is what decide says.
type verdict struct {
	action  action
	outcome Outcome // where the action serves the entry
	state   freshness
	age     time.Duration // never negative
	left    time.Duration // of the ttl, negative when stale
}

// decide is the one judge of an entry: for a look-up in the process, for a flight after
// each read and after a fill, and for explain. Jitter only ever shortens a ttl, and its
// share is fixed by the key and the fill, so all nodes agree.
func decide(p *policy, t terms, e *Entry, now time.Time, m marks, h health) verdict {
	if e == nil || m.purged {
		return verdict{}
	}
	age := now.Sub(e.AnsweredAt)
	if age < -maxSkew {
		return verdict{}
	}
	v := verdict{age: max(age, 0)}
	ttl := t.ttl - time.Duration(float64(t.ttl)*p.jitter*e.spread)
	v.left = ttl - v.age
	switch {
	case v.left > 0:
		v.state = fresh
	case v.age < ttl+t.swr:
		v.state = revalidate
	case v.age < ttl+t.sie:
		v.state = ifError
	}
	if m.hinted && v.state != unusable {
		switch {
		case v.state > ifError && m.since < min(hintStaleFor, t.swr):
			v.state = revalidate
		case t.sie > 0 && v.left+t.sie > 0:
			v.state = ifError
		default:
			v.state = unusable
		}
		v.left = min(v.left, -m.since)
	}
	switch {
	case m.suspect || v.state == unusable:
		v.action = fetch
	case v.state == fresh:
		v.action, v.outcome = serve, Hit
	case h.failing:
		v.action, v.outcome = serveRefresh, StaleError
	case v.state == revalidate:
		v.action, v.outcome = serveRefresh, StaleRevalidate
	}
	if v.action == serveRefresh && h.resting {
		v.action = serve
	}
	return v
}

// decide is the verdict by all that this node knows now. The endpoint's health is asked for
// only where it counts.
func (l *Lists) decide(q *query, e *Entry, now time.Time) verdict {
	if e == nil {
		return verdict{}
	}
	m := l.changes.marksOf(q.kind, e, now)
	v := decide(q.policy, q.terms, e, now, m, health{})
	if v.state == unusable || v.state == fresh || m.suspect {
		return v
	}
	return decide(q.policy, q.terms, e, now, m, l.healthOf(q.kind, q.base, e.AnsweredAt, now))
}

// healthOf is that of a key's endpoint, and of the key, of which there is a list answered at a
// moment.
func (l *Lists) healthOf(i kindIndex, base Key, answered, now time.Time) health {
	a := l.backoff.of(base, answered, now)
	return health{
		failing: a != nil || l.opts.Failing(kindNames[i], base.Account),
		resting: a != nil && now.Before(a.next) && (l.redis == nil || now.Before(a.look)),
	}
}

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

// Lookup is the hot path: a list of the in-process tier that is fresh, or that is
// stale while no refresh may begin. It allocates nothing, never waits, counts
// no look-up, and leaves everything else to Get. After sending the list, call Served.
func (l *Lists) Lookup(k Key) (Result, bool) {
	var q query
	if !l.start(&q, k) {
		return Result{}, false
	}
	now := l.opts.Now()
	e := l.local(q.kind, k, q.mapping().Fingerprint)
	if e == nil {
		return Result{}, false
	}
	v := l.decide(&q, e, now)
	if v.action == fetch {
		return Result{}, false
	}
	if v.state != fresh { // Get refreshes it, or finds that its base is newer
		base, _ := q.mapping().base(k)
		if base != k || v.action == serveRefresh && !l.inFlight(k) {
			return Result{}, false
		}
	}
	return Result{Entry: e, Outcome: v.outcome, Tier: TierLocal, Age: v.age, TTL: v.left, lookedAt: now}, true
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

// local is the entry of the in-process tier that answers a key under a mapping and
// that no purge hides; nil: none. Any other one is removed.
func (l *Lists) local(i kindIndex, k Key, fingerprint string) *Entry {
	e, ok := l.tier.GetIfPresent(k)
	if !ok {
		return nil
	}
	reason := errForeign
	switch {
	case e.belongsTo(k, fingerprint) && !l.changes.purged(i, e):
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
	ctx, span := l.startSpan(ctx, "cache.lookup", q.kind)
	defer span.End()
	began := l.opts.Now()
	r, err := l.load(ctx, &q, began)
	if err == nil && r.Entry.Key != k && !l.deriveFrom(&q, &r) {
		q.base = k // it cannot be selected from its base
		r, err = l.load(ctx, &q, l.opts.Now())
	}
	if err != nil {
		span.Fail(reasonOf(err))
		l.metrics.failed(q.kind)
		if o := l.opts.Observer; o != nil {
			o.Failed(k.Kind, k.Status, q.base.Hash(), began)
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

// load answers with the newest list of the query's key or of its base: at once out
// of the process where the policy allows it, else by the one flight of the base,
// for which all its callers wait.
func (l *Lists) load(ctx context.Context, q *query, start time.Time) (Result, error) {
	have, v := l.peek(ctx, q, q.base, start)
	base := have
	if q.base != q.key {
		if own, w := l.peek(ctx, q, q.key, start); w.state != unusable && !base.newerThan(own) {
			have, v = own, w
		}
	}
	if v.action != fetch {
		if v.action == serveRefresh {
			l.refresh(ctx, q, base)
		}
		return Result{Entry: have, Outcome: v.outcome, Tier: TierLocal, Age: v.age, TTL: v.left}, nil
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	f, leader, err := l.join(ctx, q, base, false)
	if err != nil {
		return l.serveStale(q, have, nil, err)
	}
	defer l.leave(f)
	var r Result
	switch err := l.wait(ctx, f, leader); {
	case errors.Is(err, context.Canceled):
		return Result{}, err
	case err != nil:
		return l.serveStale(q, have, f.stale.Load(), err)
	case f.err != nil:
		r, err = l.serveStale(q, have, f.stale.Load(), f.err)
		r.Wait = l.opts.Now().Sub(start)
		return r, err
	}
	r = f.result
	now := l.opts.Now()
	v = l.decide(q, r.Entry, now)
	r.Age, r.TTL, r.Wait = v.age, v.left, now.Sub(start)
	switch {
	case r.Outcome == Miss && !leader:
		r.Outcome = Collapsed
	case r.TTL > 0 && (r.Outcome == StaleRevalidate || r.Outcome == StaleError):
		r.Outcome = Hit // stale for somebody else who waited
	}
	return r, nil
}

// peek looks for a key in the in-process tier, once, and judges what is there by the terms
// of the wanted list.
func (l *Lists) peek(ctx context.Context, q *query, k Key, now time.Time) (*Entry, verdict) {
	_, span := l.tracer.Start(ctx, "cache.local")
	defer span.End()
	e := l.local(q.kind, k, q.mapping().Fingerprint)
	v := l.decide(q, e, now)
	if span.Recording() {
		use := "none"
		switch {
		case e == nil:
		case l.changes.suspect(e):
			use = "suspect" // it may have been purged
		default:
			use = [...]string{unusable: "expired", ifError: "stale", revalidate: "stale", fresh: "fresh"}[v.state]
		}
		span.Set(attribute.String("cache.result", use))
	}
	return e, v
}

// serveStale answers a failed look-up with the newest entry that the policy still
// allows, or with the failure. b is out of Redis.
func (l *Lists) serveStale(q *query, a, b *Entry, err error) (Result, error) {
	tier := TierLocal
	if b.newerThan(a) {
		a, tier = b, TierRedis
	}
	v := l.decide(q, a, l.opts.Now())
	if v.state == unusable {
		return Result{}, err
	}
	// It may be outdated however young it is.
	return Result{Entry: a, Outcome: StaleError, Tier: tier, Age: v.age, TTL: min(v.left, 0)}, nil
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
