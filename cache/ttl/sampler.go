// Package ttl tells what another ttl would do.
//
// A [Sampler] keeps the newest look-ups of a node's cache, as the request log has them. [Read] reads
// look-ups from nodes or logs, and [Replay] runs them through 24 ttls by the rules of the real cache.
//
// # Sampling
//
// While there are too many look-ups to keep, those of half of the lists are dropped: a list is in the
// sample when its hash is below a threshold (SHARDS: Waldspurger, Park, Garthwaite, Ahmad: "Efficient
// MRC Construction with SHARDS", FAST 2015). So the history of each list in it is whole. Every look-up
// has its number among all of its group, which corrects for hot lists in or outside of the sample.
//
// # Limits
//
// A replay does not know purges, outages or evictions: it takes the legacy system to be healthy.
// Nodes that share Redis are one cache in it, so it does not see that a node may serve an older copy than
// the newest one while it revalidates. Changes of a list between two answers show as one.
package ttl

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache"
)

// Group is the lists that have a ttl of their own: those of a kind, or those of one status where
// that overrides the kind's times. Its JSON is part of /ops/lookups.
type Group struct {
	Name                 string        `json:"kind"` // as in the lines of a log; unique
	TTL                  cache.Seconds `json:"ttl_seconds"`
	StaleWhileRevalidate cache.Seconds `json:"stale_while_revalidate_seconds"`
	Jitter               float64       `json:"jitter"` // the share, 0 to 1, by which a ttl is shortened at most

	kind, status string
}

// GroupsOf returns the groups of a configuration, sorted by name, for some of its kinds. Without
// statuses each kind is one group, as in a log.
func GroupsOf(c cache.Config, statuses bool, kinds ...string) (groups []Group) {
	for kind, of := range map[string]cache.KindConfig{cache.KindBuyer: c.Buyer, cache.KindSeller: c.Seller} {
		if !slices.Contains(kinds, kind) {
			continue
		}
		add := func(name, status string) {
			times := of.For(status)
			groups = append(groups, Group{
				Name: name, kind: kind, status: status, Jitter: c.Jitter,
				TTL: cache.Seconds(times.TTL.Seconds()), StaleWhileRevalidate: cache.Seconds(times.StaleWhileRevalidate.Seconds()),
			})
		}
		add(kind, "")
		for status := range of.ByStatus {
			if statuses {
				add(kind+" status="+status, status)
			}
		}
	}
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

// Lookup is one look-up. Moments are Unix ns.
type Lookup struct {
	At       int64  // when it began
	List     uint64 // hash of the list that the legacy is asked for
	Body     uint64 // hash of that list's body; 0: there was no answer
	Answered int64  // when the legacy gave the body
	Took     int64  // ns that its caller waited for a fill of its own; 0: no fill, or one of others
	Group    int    // index
	Number   uint64 // among all of the group at this node or in this log, from 1
}

const (
	sampleSize = 1 << 18       // look-ups that a node keeps: 15 MB
	sampleSpan = 6 * time.Hour // lists are dropped until the look-ups of this time fit
	leastLists = 2000          // but not below this number
)

// sample is the newest look-ups of the lists whose hash is below a threshold.
type sample struct {
	size    int
	least   int // lists, about
	span    int64
	below   uint64
	lookups []Lookup // a ring once it is full
	oldest  int
	since   int64 // Unix ns; from then on it is complete
	retry   int   // look-ups until it is worth trying again to drop lists
}

// has tells whether a list is in the sample.
func (s *sample) has(list uint64) bool { return mix(list) <= s.below }

// add takes a look-up of a list in the sample.
func (s *sample) add(l Lookup) {
	if len(s.lookups) < s.size {
		s.lookups = append(s.lookups, l)
		return
	}
	if s.retry--; s.retry <= 0 && l.At-s.lookups[s.oldest].At < s.span {
		if s.dropLists() {
			if s.has(l.List) {
				s.lookups = append(s.lookups, l)
			}
			return
		}
		s.retry = s.size
	}
	s.lookups[s.oldest] = l
	s.oldest = (s.oldest + 1) % s.size
	s.since = s.lookups[s.oldest].At
}

// dropLists halves the threshold, unless fewer than the least would remain: they are counted
// by their places in a bitmap (linear counting).
func (s *sample) dropLists() bool {
	const places = 1 << 14
	var seen [places / 64]uint64
	half := s.below / 2
	for i := range s.lookups {
		if h := mix(s.lookups[i].List); h <= half {
			seen[h%places/64] |= 1 << (h % 64)
		}
	}
	lists := 0
	for _, word := range seen {
		lists += bits.OnesCount64(word)
	}
	if lists < s.least {
		return false
	}
	s.lookups, s.below = s.ordered(), half
	s.lookups, s.oldest = slices.DeleteFunc(s.lookups, func(l Lookup) bool { return !s.has(l.List) }), 0
	return true
}

// ordered returns a copy of the look-ups, oldest first.
func (s *sample) ordered() []Lookup {
	return append(append(make([]Lookup, 0, max(len(s.lookups), 1)), s.lookups[s.oldest:]...), s.lookups[:s.oldest]...)
}

// Sampler observes a cache. It is safe for concurrent use.
type Sampler struct {
	*Rechecker
	policy atomic.Pointer[policy]

	mu     sync.Mutex
	sample sample
}

// policy is the groups, with what is counted of each.
type policy struct {
	groups  []Group
	lookups []atomic.Uint64
	below   atomic.Uint64
}

// NewSampler makes a Sampler for groups of lists. now is the clock of the cache; nil: the system's.
func NewSampler(groups []Group, rechecksPerSecond float64, now func() time.Time) *Sampler {
	if now == nil {
		now = time.Now
	}
	s := &Sampler{Rechecker: newRechecker(rechecksPerSecond, now)}
	s.begin(groups)
	return s
}

// begin forgets all look-ups. s.mu is held, or s is not shared yet.
func (s *Sampler) begin(groups []Group) {
	p := &policy{groups: groups, lookups: make([]atomic.Uint64, len(groups))}
	p.below.Store(math.MaxUint64)
	s.sample = sample{size: sampleSize, least: leastLists, span: int64(sampleSpan), below: math.MaxUint64, since: s.now().UnixNano()}
	s.policy.Store(p)
}

// SetGroups follows a new configuration. Look-ups are forgotten where the groups are others.
func (s *Sampler) SetGroups(groups []Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.policy.Load()
	if !slices.EqualFunc(old.groups, groups, func(a, b Group) bool { return a.Name == b.Name }) {
		s.begin(groups)
		return
	}
	p := &policy{groups: groups, lookups: old.lookups}
	p.below.Store(s.sample.below)
	s.policy.Store(p)
}

// group returns the index of the group of a list; -1: none.
func (p *policy) group(kind, status string) int {
	found := -1
	for i := range p.groups {
		g := &p.groups[i]
		switch {
		case g.kind != kind:
		case g.status == status:
			return i
		case g.status == "":
			found = i
		}
	}
	return found
}

// Answered takes a look-up that got a list.
func (s *Sampler) Answered(e *cache.Entry, o cache.Outcome, at time.Time) {
	if o != cache.Miss && o != cache.Collapsed {
		s.offer(e)
	}
	list, body := e.Source()
	s.add(e.Kind, e.Status, Lookup{List: list, Body: body, At: at.UnixNano(), Answered: e.AnsweredAt.UnixNano()}, o == cache.Miss)
}

// Failed takes a look-up that got none.
func (s *Sampler) Failed(kind, status string, list uint64, at time.Time) {
	s.add(kind, status, Lookup{List: list, At: at.UnixNano()}, false)
}

// add counts a look-up, and keeps it if its list is in the sample.
func (s *Sampler) add(kind, status string, l Lookup, filled bool) {
	p := s.policy.Load()
	if l.Group = p.group(kind, status); l.Group < 0 {
		return
	}
	l.Number = p.lookups[l.Group].Add(1)
	if mix(l.List) > p.below.Load() {
		return
	}
	if filled {
		l.Took = max(s.now().UnixNano()-l.At, 1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != s.policy.Load() || !s.sample.has(l.List) { // meanwhile there are other groups, or fewer lists
		return
	}
	s.sample.add(l)
	p.below.Store(s.sample.below)
}

// Sample returns what the node has seen.
func (s *Sampler) Sample() Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Sample{Groups: s.policy.Load().groups, Below: s.sample.below, Since: s.sample.since, Lookups: s.sample.ordered()}
}

// Sample is look-ups of one node or log, oldest first.
type Sample struct {
	Groups  []Group
	Below   uint64 // lists with a hash above are left out
	Since   int64  // Unix ns; nothing of these lists is missing from then on
	Lookups []Lookup
}

// mix is the finalizer of MurmurHash3: it spreads a hash of any quality over all bits.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
