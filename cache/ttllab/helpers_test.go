package ttllab

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"inquiry-gateway/cache"
)

// Candidates returns the ttls that are simulated, ascending.
func Candidates() []time.Duration { return append([]time.Duration(nil), candidates[:]...) }

// NewSized makes a Lab that watches so many lists and forgets nothing.
func NewSized(p Policy, lists int, now func() time.Time) *Lab {
	l := NewLab([]Kind{{Name: "buyer", Kind: "buyer", Policy: p}, {Name: "seller", Kind: "seller", Policy: p}}, Config{}, now, nil)
	l.resize(lists)
	return l
}

// Step is a second of Run.
func (l *Lab) Step() { l.step(context.Background()) }

func (l *Lab) resize(lists int) {
	l.state = newState(l.state.kinds, l.state.goals, lists, 0)
	l.state.gap = math.MaxInt64
}

var start = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

// at is a moment of a test.
func at(d time.Duration) time.Time { return start.Add(d) }

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

// node is a Lab that is told what a cache does, beside a cache whose rules are written
// down as simply as possible.
type node struct {
	*Lab
	clock  time.Duration
	filled map[uint64]time.Duration // the cache; nodes may share it
	bodies func(list uint64, at time.Duration) uint64
}

func newNode(t testing.TB, p Policy, lists int, c Config, shared Exchange) *node {
	t.Helper()
	n := &node{filled: map[uint64]time.Duration{}, bodies: func(uint64, time.Duration) uint64 { return 1 }}
	n.Lab = NewLab([]Kind{{Name: "buyer", Kind: "buyer", Policy: p}, {Name: "seller", Kind: "seller", Policy: p}}, c, func() time.Time { return at(n.clock) }, shared)
	n.resize(lists)
	return n
}

// ask is a look-up of a buyer's list at a moment; it returns the age of the answer.
func (n *node) ask(list uint64, now time.Duration) time.Duration {
	n.clock = now
	g, p := (*n.live.Load())[0], n.state.groups[0].rules.policy
	number := g.look(n.rings.current.Load(), list, at(now).UnixNano())
	last, ok := n.filled[list]
	age := now - last
	usable := ok && age < p.TTL+p.StaleWhileRevalidate
	if !usable {
		g.waited.Add(1)
		age = 0
	} else if share, ok := n.rechecks.drawn(number); ok {
		p := pick{group: g, key: cache.Key{Kind: "buyer"}, list: list, body: n.bodies(list, last), answered: at(last).UnixNano(), share: share}
		if n.rechecks.budget.AllowN(at(now), 1) {
			n.rechecks.compared(p, n.bodies(list, now), at(now), float64(1+n.rechecks.missed.Swap(0))/share)
		} else {
			n.rechecks.missed.Add(1)
		}
	}
	if !usable || age >= p.TTL {
		n.filled[list] = now
		g.fills.Add(1)
		n.fills = append(n.fills, groupedFill{0, fill{Hash: list, Body: n.bodies(list, now), At: at(now).UnixNano(), Answered: at(now).UnixNano(), Size: 100}})
	}
	return age
}

// run has the nodes asked at random for a trace, with a step each second.
func run(t testing.TB, trace []asked, nodes ...*node) {
	t.Helper()
	r, second := rand.New(rand.NewPCG(4, 4)), time.Duration(0)
	for _, ev := range trace {
		for ; second <= ev.at; second += time.Second {
			steps(second, nodes...)
		}
		if n := nodes[r.IntN(len(nodes))]; n.shared != nil {
			n.askedOf(mix(ev.key+1), ev.at)
		} else {
			n.ask(mix(ev.key+1), ev.at)
		}
	}
	if nodes[0].shared != nil {
		for range 8 {
			second += time.Second
			steps(second, nodes...)
		}
	}
}

func steps(now time.Duration, nodes ...*node) {
	for _, n := range nodes {
		n.clock = now
		n.Step()
	}
}

// asked is a look-up of a random trace.
type asked struct {
	key uint64
	at  time.Duration
}

// skewed is a trace of Zipf keys with exponential gaps of the given mean.
func skewed(seed uint64, keys, n int, gap time.Duration) []asked {
	r := rand.New(rand.NewPCG(seed, 7))
	zipf := rand.NewZipf(r, 1.2, 5, uint64(keys-1))
	out := make([]asked, n)
	var now time.Duration
	for i := range out {
		now += time.Duration(r.ExpFloat64() * float64(gap))
		out[i] = asked{zipf.Uint64(), now}
	}
	return out
}

// changing is a legacy system whose lists change at random, each at its own rate.
type legacy [][]time.Duration

func newLegacy(r *rand.Rand, lists int, slow, fast float64, span time.Duration) legacy {
	l := make(legacy, lists)
	for k := range l {
		mean := float64(time.Hour) / (slow * math.Pow(fast/slow, r.Float64()))
		for at := r.ExpFloat64() * mean; at < float64(span); at += r.ExpFloat64() * mean {
			l[k] = append(l[k], time.Duration(at))
		}
	}
	return l
}

func (l legacy) body(list uint64, at time.Duration) uint64 {
	n := 0
	for n < len(l[list]) && l[list][n] <= at {
		n++
	}
	return uint64(n)
}

// outdated is the share of answers that a cache with a ttl really serves outdated.
func (l legacy) outdated(trace []asked, ttl time.Duration) float64 {
	filled, n := map[uint64]time.Duration{}, 0
	for _, ev := range trace {
		if last, ok := filled[ev.key]; !ok || ev.at-last >= ttl {
			filled[ev.key] = ev.at
		}
		if l.body(ev.key, filled[ev.key]) != l.body(ev.key, ev.at) {
			n++
		}
	}
	return float64(n) / float64(len(trace))
}
