package cache

import "time"

// maxSkew is how far in the future an answer may seem to be. An entry from further
// ahead is refused: its age is unknown.
const maxSkew = 2 * time.Second

// state is how an entry may be used, by its age and by purges.
type state int

const (
	absent     state = iota
	purged           // it is from before a purge
	expired          // or from the future
	ifError          // stale, to be served only when the fill fails
	revalidate       // stale, to be served while it is refreshed
	fresh
)

// servable tells whether there is a case in which the entry is served.
func (s state) servable() bool { return s >= ifError }

// serves tells whether the entry is served at once.
func (d decision) serves() bool { return d.action == serve || d.action == serveRefresh }

// action is what a look-up does now.
type action int

const (
	fetch        action = iota // wait for Redis or the legacy; serve the entry only if that fails
	serve                      // serve the entry
	serveRefresh               // serve the entry, and have it refreshed in the background
	fail                       // return the error of the last fill, unless Redis has the list
)

// health is how the fetches of a list go.
type health struct {
	failed       bool      // the last one failed that was not refused
	failing      bool      // it did, or the breaker is not closed for the account
	refreshAt    time.Time // no refresh may begin before
	inBackoff    bool      // that is not over
	redisChecked bool      // and Redis had nothing newer a moment ago
	err          error     // of the last one, for callers; nil: they may have the list fetched
}

// decision is how a look-up uses an entry.
type decision struct {
	action    action
	outcome   Outcome // of a look-up now, as far as it is known before a fetch: that can fail
	err       error   // with fail
	state     state
	age       time.Duration // never negative
	remaining time.Duration // of the ttl, negative when stale
}

// decide is the only freshness decision: look-ups, flights, fetches and explain all use it. Jitter only ever
// shortens a ttl, and its share is fixed by the key and the fetch, so all nodes agree.
func (q *query) decide(e *Entry, now time.Time, i invalidation, h health) (d decision) {
	t := &q.freshness
	if e != nil {
		age := now.Sub(e.AnsweredAt)
		d.age = max(age, 0)
		d.remaining = t.TTL - q.jitter(e) - d.age
		if !i.soft.IsZero() {
			d.remaining = min(d.remaining, i.soft.Sub(now), 0)
		}
		switch {
		case i.hard:
			d.state, d.remaining = purged, min(d.remaining, 0)
		case age < -maxSkew:
			d = decision{state: expired}
		case d.remaining > 0:
			d.state = fresh
		case d.remaining+t.StaleWhileRevalidate > 0:
			d.state = revalidate
		case d.remaining+t.StaleIfError > 0:
			d.state = ifError
		default:
			d.state = expired
		}
	}
	switch {
	case d.state == fresh:
		d.action, d.outcome = serve, Hit
	case d.state.servable() && h.failing:
		d.action, d.outcome = serveRefresh, StaleError
	case d.state == revalidate:
		d.action, d.outcome = serveRefresh, StaleRevalidate
	case !d.state.servable() && h.err != nil:
		d.action, d.outcome, d.err = fail, outcomeFailed, h.err
	default:
		d.outcome = Miss
	}
	if d.action == serveRefresh && h.inBackoff && h.redisChecked {
		d.action = serve
	}
	return d
}

// lifetime is how long the source can be of use, for lists that are selected from it, too.
func (q *query) lifetime() time.Duration {
	if q.source.Status == "" {
		return q.policy.kinds[q.kind].longest
	}
	return q.policy.of(q.kind, q.source.Status).lifetime()
}

// jitter is what is taken off the ttl of an entry.
func (q *query) jitter(e *Entry) time.Duration {
	return time.Duration(float64(q.freshness.TTL) * q.policy.jitter * e.jitterShare)
}

// decide is the decision by all that this node knows now. The health is looked up only if it counts.
func (c *Cache) decide(q *query, e *Entry, now time.Time) decision {
	var i invalidation
	if e != nil {
		i = c.invalidations.sinceFetch(e)
	}
	d := q.decide(e, now, i, health{})
	if d.state == fresh {
		return d
	}
	return q.decide(e, now, i, c.healthOf(q, e, now))
}

// healthOf is the health of a query's source, of which there is an entry, or nil.
func (c *Cache) healthOf(q *query, e *Entry, now time.Time) health {
	var answered time.Time
	if e != nil {
		answered = e.AnsweredAt
	}
	r := c.backoff.lookup(q.source, answered)
	notClosed := c.opts.Failing(kindNames[q.kind], q.source.Account)
	h := health{failed: r != nil && r.count > 0, failing: r != nil && r.count > 0 || notClosed}
	if r != nil && !c.ended(q.source, r, q.policy) {
		h.refreshAt, h.redisChecked = r.refreshAt, c.redis == nil || now.Before(r.checked)
		h.inBackoff = now.Before(h.refreshAt)
		if now.Before(r.until) {
			h.err = &BackoffError{r.err, r.until.Sub(now)}
		}
	}
	return h
}

// ended tells whether a purge of the list or a reload has ended the back-off of a failure.
func (c *Cache) ended(source Key, r *failure, p *policy) bool {
	return r.policy != p || c.invalidations.since(source.Kind, r.fetch) != (invalidation{})
}

// query is one look-up. It sees one policy from its begin to its end.
type query struct {
	policy     *policy
	kind       kindIndex
	key        Key       // of the list that is wanted
	source     Key       // of the list that the legacy system is asked for
	selects    bool      // the wanted list is selected from the source, which is another one
	impossible bool      // no record can be in the list
	freshness  Freshness // of the wanted list, whatever its source's are
}

// start makes q the look-up of a key; false: its kind is unknown. It fills q in
// place: to copy one would cost a tenth of Lookup.
func (c *Cache) start(q *query, k Key) bool {
	i, ok := indexOf(k.Kind)
	if !ok {
		return false
	}
	q.policy, q.kind, q.key = c.policy.Load(), i, k
	q.mapping().setSource(q)
	q.freshness = q.policy.of(i, k.Status)
	return true
}

// queryOf is the query of a flight's own list, by the policy of now. Its kind is known.
func (c *Cache) queryOf(source Key) (q query) {
	c.start(&q, source)
	q.source = source
	return q
}

func (q *query) mapping() *Mapping { return &q.policy.kinds[q.kind].mapping }
