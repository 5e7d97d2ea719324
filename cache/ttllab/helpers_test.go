package ttllab

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"inquiry-gateway/cache"
)

// start is a midnight, so that a day of a trace is a day.
var start = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

// at is a moment of a test.
func at(d time.Duration) time.Time { return start.Add(d) }

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// lookup is one look-up of a trace.
type lookup struct {
	list int
	at   time.Duration
}

// traffic describes a random trace.
type traffic struct {
	seed    uint64
	lists   int           // different ones at most
	lookups int           // about
	span    time.Duration // of the whole trace
	skew    float64       // Zipf exponent, above 1
	wave    float64       // 0 even, 1 silent at night
	bursts  float64       // share of look-ups that start a burst of the same list
}

func (s traffic) trace() (out []lookup) {
	r := rand.New(rand.NewPCG(s.seed, 1))
	zipf := rand.NewZipf(r, s.skew, 8, uint64(s.lists-1))
	for len(out) < s.lookups {
		when := time.Duration(r.Float64() * float64(s.span))
		hour := when.Hours() / 24 * 2 * math.Pi
		if r.Float64() > (1-s.wave*math.Cos(hour))/(1+s.wave) {
			continue
		}
		list := int(zipf.Uint64())
		out = append(out, lookup{list, when})
		if r.Float64() < s.bursts {
			for range 2 + r.IntN(10) {
				when += time.Duration(r.ExpFloat64() * float64(800*time.Millisecond))
				out = append(out, lookup{list, when})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b lookup) int { return cmp.Compare(a.at, b.at) })
	return out
}

// changing is a legacy system whose lists change at random, each at its own rate: these are
// the moments by list.
type changing [][]time.Duration

// changing draws rates between slow and fast changes per hour, evenly on a logarithmic scale.
func (s traffic) changing(slow, fast float64) changing {
	r := rand.New(rand.NewPCG(s.seed, 2))
	all := make(changing, s.lists)
	for list := range all {
		mean := float64(time.Hour) / (slow * math.Pow(fast/slow, r.Float64()))
		for at := r.ExpFloat64() * mean; at < float64(s.span+time.Hour); at += r.ExpFloat64() * mean {
			all[list] = append(all[list], time.Duration(at))
		}
	}
	return all
}

// body numbers the states of a list.
func (l changing) body(list int, at time.Duration) uint64 {
	return uint64(sort.Search(len(l[list]), func(i int) bool { return l[list][i] > at }))
}

// outdated is the share of answers that a cache with a ttl really serves outdated.
func (l changing) outdated(trace []lookup, ttl time.Duration) float64 {
	filled, n := map[int]time.Duration{}, 0
	for _, ev := range trace {
		if last, ok := filled[ev.list]; !ok || ev.at-last >= ttl {
			filled[ev.list] = ev.at
		}
		if l.body(ev.list, filled[ev.list]) != l.body(ev.list, ev.at) {
			n++
		}
	}
	return float64(n) / float64(len(trace))
}

// watching is a Lab of buyers' lists and sellers' that watches so many and forgets nothing.
func watching(p Group, lists int, now func() time.Time) *Lab {
	l := NewLab(groupsOf(p), cache.Config{}, now, nil)
	l.state = newState(groupsOf(p), lists, 0)
	l.state.gap = math.MaxInt64
	return l
}

func groupsOf(p Group) []Group {
	buyer, seller := p, p
	buyer.Name, buyer.Kind, seller.Name, seller.Kind = "buyer", "buyer", "seller", "seller"
	return []Group{buyer, seller}
}

// node is a Lab that is told what a cache does, beside a cache whose rules are written
// down as simply as possible.
type node struct {
	*Lab
	clock  time.Duration         // of all nodes
	ahead  time.Duration         // of this one
	filled map[int]time.Duration // the cache; nodes may share it
	hash   func(list int) uint64
	bodies func(list int, at time.Duration) uint64
}

func newNode(p Group, lists int) *node {
	n := &node{
		filled: map[int]time.Duration{},
		hash:   func(list int) uint64 { return mix(uint64(list) + 1) },
		bodies: func(int, time.Duration) uint64 { return 1 },
	}
	n.Lab = watching(p, lists, func() time.Time { return at(n.clock + n.ahead) })
	return n
}

// ask is a look-up of a buyer's list at a moment.
func (n *node) ask(list int, now time.Duration) {
	n.clock = now
	moment := func(t time.Duration) int64 { return at(t + n.ahead).UnixNano() }
	in, p, hash := n.intake.Load(), n.state.groups[0].policy, n.hash(list)
	g := in.groups[0]
	number := g.lookup(in.ring.Load(), hash, moment(now))
	last, ok := n.filled[list]
	age := now - last
	usable := ok && age < p.TTL+p.StaleWhileRevalidate
	if !usable {
		g.waited.Add(1)
	} else if share, ok := n.rechecks.drawn(number); ok {
		p := pick{group: g, key: cache.Key{Kind: "buyer"}, list: hash, body: n.bodies(list, last), answered: moment(last), share: share}
		if weight, ok := n.rechecks.allow(n.now()); ok {
			n.rechecks.compared(p, n.bodies(list, now), n.now(), weight/share)
		}
	}
	if !usable || age >= p.TTL {
		n.filled[list] = now
		g.filled.Add(1)
		g.fills.add(fill{Hash: hash, Body: n.bodies(list, now), At: moment(now), Answered: moment(now), Size: 100})
	}
}

// run has the nodes asked at random for a trace, with a step each second, and in a fleet
// until all batches are applied.
func run(trace []lookup, nodes ...*node) {
	r, second := rand.New(rand.NewPCG(4, 4)), time.Duration(0)
	for _, ev := range trace {
		for ; second <= ev.at; second += time.Second {
			steps(second, nodes...)
		}
		nodes[r.IntN(len(nodes))].ask(ev.list, ev.at)
	}
	for i := 0; i < 8 && nodes[0].exchange != nil; i++ {
		second += time.Second
		steps(second, nodes...)
	}
}

func steps(now time.Duration, nodes ...*node) {
	for _, n := range nodes {
		n.clock = now
		n.step(context.Background())
	}
}
