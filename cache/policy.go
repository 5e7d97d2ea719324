package cache

import (
	"time"

	"inquiry-gateway/cache/redistier"
)

// maxSkew is how far ahead of this node's clock another node's answer may seem
// to be. An entry from further in the future is refused: its age is unknown.
const maxSkew = 2 * time.Second

// terms are the three times that govern one list.
type terms struct {
	ttl, swr, sie time.Duration
}

// lifetime is how long after the legacy's answer an entry can be of any use.
func (t terms) lifetime() time.Duration { return t.ttl + max(t.swr, t.sie) }

func (c KindConfig) terms() terms {
	return terms{ttl: c.TTL, swr: c.StaleWhileRevalidate, sie: c.StaleIfError}
}

// stricter takes the shorter of each time: what is fresh, or may be served stale,
// by the result is so by both.
func (t terms) stricter(o terms) terms {
	t.ttl, t.swr, t.sie = min(t.ttl, o.ttl), min(t.swr, o.swr), min(t.sie, o.sie)
	return t
}

// over returns base with what c overrides.
func (c StatusConfig) over(base terms) terms {
	override(&base.ttl, c.TTL)
	override(&base.swr, c.StaleWhileRevalidate)
	override(&base.sie, c.StaleIfError)
	return base
}

// override sets d, unless there is nothing to set it to.
func override(d *time.Duration, by *time.Duration) {
	if by != nil {
		*d = *by
	}
}

// Fills is what a cache is told of the fills to come.
type Fills struct {
	Timeout  time.Duration      // the deadline of a detached fill; 0: 5 s
	Mappings map[string]Mapping // by kind
}

const defaultFillTimeout = 5 * time.Second

// compile validates a Config and reads its files.
func compile(c Config, fills Fills) (*policy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r, err := c.ring()
	if err != nil {
		return nil, err
	}
	p := newPolicy(c, r)
	if fills.Timeout <= 0 {
		fills.Timeout = defaultFillTimeout
	}
	p.fills = fills
	for i, kind := range kindNames {
		p.kinds[i].mapping = fills.Mappings[kind]
	}
	return p, nil
}

// fingerprint is that of the mapping in force.
func (l *Lists) fingerprint(i kindIndex) string { return l.policy.Load().kinds[i].mapping.Fingerprint }

// policy is a Config compiled for look-ups. It is immutable.
type policy struct {
	kinds       [kindCount]kindPolicy
	jitter      float64
	compressMin int
	maxEntry    int
	ring        *redistier.Ring // nil: entries are not sealed
	fills       Fills
	hints       HintsConfig
}

// kindPolicy is what holds for the lists of one kind.
type kindPolicy struct {
	terms    terms
	byStatus map[string]terms
	mapping  Mapping
}

// newPolicy compiles a valid Config. What fills must know is set by compile.
func newPolicy(c Config, r *redistier.Ring) *policy {
	return &policy{
		ring:   r,
		kinds:  [kindCount]kindPolicy{newKindPolicy(c.Buyer), newKindPolicy(c.Seller)},
		jitter: c.Jitter, compressMin: int(c.CompressMinBytes), maxEntry: int(c.MaxEntryBytes),
		hints: c.Hints,
	}
}

// newKindPolicy puts the overrides of each status over the kind's times once, so that a
// look-up finds them ready.
func newKindPolicy(c KindConfig) kindPolicy {
	p := kindPolicy{terms: c.terms()}
	if len(c.ByStatus) > 0 {
		p.byStatus = make(map[string]terms, len(c.ByStatus))
	}
	for status, s := range c.ByStatus {
		p.byStatus[status] = s.over(c.terms())
	}
	return p
}

// mostRead is how many bytes an entry of Redis may have.
func (p *policy) mostRead() int { return p.maxEntry + redistier.SealOverhead }

// kindIndex is an array index; kinds other than the two have none.
type kindIndex int

const kindCount = 2

var kindNames = [kindCount]string{KindBuyer, KindSeller}

// indexOf is the index of a kind; false: it is unknown.
func indexOf(kind string) (kindIndex, bool) {
	switch kind {
	case KindBuyer:
		return 0, true
	case KindSeller:
		return 1, true
	}
	return 0, false
}

// of returns the terms of a list with this status filter.
func (p *policy) of(i kindIndex, status string) terms {
	k := &p.kinds[i]
	if status != "" && k.byStatus != nil {
		if t, ok := k.byStatus[status]; ok {
			return t
		}
	}
	return k.terms
}

// verdict is what a policy says about an entry at one moment.
type verdict struct {
	age, ttl time.Duration // ttl: what is left of it, negative when stale
	state    freshness
}

// freshness is what may be done with an entry.
type freshness int

const (
	unusable   freshness = iota
	ifError              // stale, to be served only when the fill fails
	revalidate           // stale, to be served while it is refreshed
	fresh
)

// judge compares an entry's age with the terms of the wanted list. Jitter only ever
// shortens a ttl, and its share is fixed by the key and the fill, so all nodes
// agree.
func (p *policy) judge(t terms, e *Entry, now time.Time) verdict {
	age := now.Sub(e.AnsweredAt)
	if age < -maxSkew {
		return verdict{}
	}
	age = max(age, 0)
	ttl := t.ttl - time.Duration(float64(t.ttl)*p.jitter*e.spread)
	v := verdict{age: age, ttl: ttl - age}
	switch {
	case v.ttl > 0:
		v.state = fresh
	case age < ttl+t.swr:
		v.state = revalidate
	case age < ttl+t.sie:
		v.state = ifError
	}
	return v
}

// judge is the policy's verdict on an entry of that kind, and what is known of changes.
func (l *Lists) judge(p *policy, i kindIndex, t terms, e *Entry, now time.Time) verdict {
	v := p.judge(t, e, now)
	at, changed := l.epochs.changed(i, e)
	if !changed || v.state == unusable {
		return v
	}
	since := max(l.age(now, at), 0)
	switch {
	case v.state > ifError && since < min(p.hints.StaleFor, t.swr):
		v.state = revalidate
	case t.sie > 0 && v.ttl+t.sie > 0:
		v.state = ifError
	default:
		v.state = unusable
	}
	v.ttl = min(v.ttl, -since)
	return v
}

// age is how long ago a moment on the clock of Redis was.
func (l *Lists) age(now time.Time, stamp int64) time.Duration {
	if l.redis == nil {
		return now.Sub(time.Unix(0, stamp))
	}
	return l.redis.Age(now, stamp)
}
