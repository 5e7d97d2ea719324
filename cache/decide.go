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

// action is what a look-up does now.
type action int

const (
	fetch        action = iota // wait for Redis or the legacy; serve the entry only if that fails
	serve                      // serve the entry
	serveRefresh               // serve the entry, and have it refreshed in the background
	fail                       // return the error of the last fill, unless Redis has the list
)

// health is how well the fills of a list are.
type health struct {
	failing      bool  // the last one failed that was not refused, or the breaker is not closed for the account
	resting      bool  // no refresh may begin yet
	redisChecked bool  // and Redis had nothing newer a moment ago
	err          error // of the last one, for who waits; nil: he may have the list fetched
}

// verdict is what decide says.
type verdict struct {
	action    action
	outcome   Outcome // of a look-up now, as far as it is known before a fetch: that can fail
	err       error   // with fail
	state     state
	age       time.Duration // never negative
	remaining time.Duration // of the ttl, negative when stale
	keep      time.Duration // how long it is worth keeping; without an entry: one that was answered now
}

// decide is the one judge: of what an entry is good for, whether it is kept, and what the next
// look-up gets. Look-ups, flights, fills and explain all ask it. Jitter only ever shortens a ttl,
// and its share is fixed by the key and the fill, so all nodes agree.
func (q *query) decide(e *Entry, now time.Time, i invalidation, h health) (v verdict) {
	t := &q.terms
	v.keep = t.lifetime()
	if e != nil {
		age := now.Sub(e.AnsweredAt)
		v.age = max(age, 0)
		v.remaining = t.TTL - time.Duration(float64(t.TTL)*q.policy.jitter*e.spread) - v.age
		v.keep -= v.age
		if !i.soft.IsZero() {
			v.remaining = min(v.remaining, i.soft.Sub(now), 0)
		}
		switch {
		case i.hard:
			v.state, v.keep, v.remaining = purged, 0, min(v.remaining, 0)
		case age < -maxSkew:
			v = verdict{state: expired}
		case v.remaining > 0:
			v.state = fresh
		case v.remaining+t.StaleWhileRevalidate > 0:
			v.state = revalidate
		case v.remaining+t.StaleIfError > 0:
			v.state = ifError
		default:
			v.state = expired
		}
	}
	switch {
	case v.state == fresh:
		v.action, v.outcome = serve, Hit
	case v.state.servable() && h.failing:
		v.action, v.outcome = serveRefresh, StaleError
	case v.state == revalidate:
		v.action, v.outcome = serveRefresh, StaleRevalidate
	case !v.state.servable() && h.err != nil:
		v.action, v.outcome, v.err = fail, outcomeFailed, h.err
	default:
		v.outcome = Miss
	}
	if v.action == serveRefresh && h.resting && h.redisChecked {
		v.action = serve
	}
	return v
}

// decide is the verdict by all that this node knows now. How well the fills are is asked for
// only where it counts.
func (l *Lists) decide(q *query, e *Entry, now time.Time) verdict {
	var i invalidation
	if e != nil {
		i = l.invalidations.sinceFetch(e)
	}
	v := q.decide(e, now, i, health{})
	if v.state == fresh {
		return v
	}
	return q.decide(e, now, i, l.healthOf(q, e, now))
}

// healthOf is how well the fills of a query's source are, of which there is an entry, or nil.
func (l *Lists) healthOf(q *query, e *Entry, now time.Time) health {
	var answered time.Time
	if e != nil {
		answered = e.AnsweredAt
	}
	r := l.backoff.lookup(q.source, answered)
	notClosed := l.opts.Failing(kindNames[q.kind], q.source.Account)
	h := health{failing: r != nil && r.count > 0 || notClosed}
	if r != nil && r.policy == q.policy && l.invalidations.since(q.source.Kind, r.fetch) == (invalidation{}) {
		h.resting, h.redisChecked = now.Before(r.until), l.redis == nil || now.Before(r.checked)
		if h.resting && r.count > 0 {
			h.err = &RestError{r.err, r.until.Sub(now)}
		}
	}
	return h
}

// query is one look-up. It sees one policy from its begin to its end.
type query struct {
	policy *policy
	kind   kindIndex
	key    Key   // of the list that is wanted
	source Key   // of the list that the legacy is asked for; the same unless the list is derived
	terms  Terms // of the wanted list, whatever its source's are
}

// start makes q the look-up of a key; false: its kind is unknown. It fills q in
// place: to copy one would cost a tenth of Lookup.
func (l *Lists) start(q *query, k Key) bool {
	i, ok := indexOf(k.Kind)
	if !ok {
		return false
	}
	q.policy, q.kind, q.key, q.source = l.policy.Load(), i, k, k
	q.terms = q.policy.of(i, k.Status)
	return true
}

// queryOf is the query of a list that a flight is for, by the policy of now. Its kind is known.
func (l *Lists) queryOf(k Key) (q query) {
	l.start(&q, k)
	return q
}

func (q *query) mapping() *Mapping { return &q.policy.kinds[q.kind].mapping }
