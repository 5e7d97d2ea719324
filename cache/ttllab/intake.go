package ttllab

import (
	"math"
	"sync"
	"sync/atomic"
)

// A look-up only counts and notes: a counter goes up, and where the list is watched, and each
// 16th time, a note goes to a ring that the lab empties once a second. No look-up takes a
// lock, allocates or simulates anything.

const (
	stripes   = 64      // of a counter, so that processors do not share a cache line
	drawEvery = 16      // look-ups of a stripe per draw
	ringSlots = 1 << 14 // notes of a second; more are lost
)

// Why a look-up is noted.
const (
	ofSample uint8 = 1 << iota // all look-ups of the list are
	ofHot                      // likewise; the list stands for itself alone
	ofDraw                     // it is one of 16 of any list
)

// note is one look-up, or N of a list at nearly the same time.
type note struct {
	Hash  uint64 // of the list
	At    int64  // Unix ns, on the clock of the node
	N     uint32
	Flags uint8
}

// intake is the part of a Lab that look-ups and fills use. A configuration with other groups
// gets another one.
type intake struct {
	groups []*groupIntake
	ring   atomic.Pointer[ring]
	spare  *ring // an empty one
}

func newIntake(groups []Group) *intake {
	in := &intake{spare: new(ring)}
	in.ring.Store(new(ring))
	for i, g := range groups {
		in.groups = append(in.groups, &groupIntake{index: uint8(i), kind: g.Kind, status: g.Status})
		in.groups[i].watched.Store(&watched{below: math.MaxUint64})
	}
	return in
}

// group is that of a list; nil: none.
func (in *intake) group(kind, status string) (found *groupIntake) {
	for _, g := range in.groups {
		switch {
		case g.kind != kind:
		case g.status == status:
			return g
		case g.status == "":
			found = g
		}
	}
	return found
}

// drain hands out what was noted since the last time. It is for one goroutine. A look-up that
// is being noted at that moment may be lost.
func (in *intake) drain(take func(group uint8, n note)) (lost uint64) {
	full := in.ring.Swap(in.spare)
	in.spare = full
	return full.drain(take)
}

// groupIntake is that of one group.
type groupIntake struct {
	index        uint8
	kind, status string
	lookups      [stripes]stripe
	waited       atomic.Uint64 // look-ups that a fill answered
	failed       atomic.Uint64 // look-ups without an answer
	filled       atomic.Uint64
	took         atomic.Int64 // all fills, ns
	watched      atomic.Pointer[watched]
	fills        queue[fill] // of watched lists
	rechecks     queue[recheck]
}

// stripe fills a cache line.
type stripe struct {
	n atomic.Uint64
	_ [56]byte
}

// queue holds what came since the last batch, at most ringSlots of it.
type queue[T any] struct {
	mu  sync.Mutex
	all []T
}

func (q *queue[T]) add(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) < ringSlots {
		q.all = append(q.all, v)
	}
}

func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.all
	q.all = nil
	return all
}

// watched says which look-ups are noted. It is immutable but for the counters of hot lists.
type watched struct {
	below uint64 // lists with a smaller hash are the sample
	hot   map[uint64]*thinned
}

// thinned is a hot list of which one in every look-ups is noted, for all of them.
type thinned struct {
	every uint32 // a power of two
	n     atomic.Uint32
}

// has tells whether a list is watched.
func (w *watched) has(hash uint64) bool { return hash < w.below || w.hot[hash] != nil }

// lookup counts and notes a look-up of a list, and returns a number that no other look-up of
// the group has.
func (g *groupIntake) lookup(r *ring, hash uint64, at int64) (number uint64) {
	stripe := hash % stripes
	n := g.lookups[stripe].n.Add(1)
	w := g.watched.Load()
	flags, count := uint8(0), uint32(1)
	if hash < w.below {
		flags = ofSample
	}
	if t := w.hot[hash]; t != nil {
		flags, count = flags|ofHot, t.every
		if count > 1 && t.n.Add(1)&(count-1) != 0 {
			flags = 0
		}
	}
	if n%drawEvery == 0 {
		if flags == 0 {
			count = 1
		}
		flags |= ofDraw
	}
	if flags != 0 {
		r.add(g.index, note{hash, at, count, flags})
	}
	return n*stripes + stripe
}

// counts is what was counted since the start. The ends of look-ups are read before their
// number, so that there are not more of them.
func (g *groupIntake) counts() counts {
	c := counts{Waited: g.waited.Load(), Failed: g.failed.Load(), Fills: g.filled.Load(), Took: g.took.Load()}
	for i := range g.lookups {
		c.Lookups += g.lookups[i].n.Load()
	}
	return c
}

// ring takes notes from many goroutines. Who writes takes a slot and fills it; a slot that
// is being filled while the ring is read is lost.
type ring struct {
	n     atomic.Uint32
	slots [ringSlots]slot
}

// slot holds a note once meta, which is written last, is not 0.
type slot struct{ hash, at, meta atomic.Uint64 }

func (r *ring) add(group uint8, n note) {
	i := r.n.Add(1) - 1
	if i >= ringSlots {
		return
	}
	s := &r.slots[i]
	s.hash.Store(n.Hash)
	s.at.Store(uint64(n.At))
	s.meta.Store(1<<63 | uint64(group)<<40 | uint64(n.Flags)<<32 | uint64(n.N))
}

// drain hands out all notes and makes the ring ready for others. lost counts those that
// found no slot.
func (r *ring) drain(take func(group uint8, n note)) (lost uint64) {
	n := r.n.Load()
	for i := range min(n, ringSlots) {
		s := &r.slots[i]
		if meta := s.meta.Swap(0); meta != 0 {
			take(uint8(meta>>40), note{s.hash.Load(), int64(s.at.Load()), uint32(meta), uint8(meta >> 32)})
		} else {
			lost++
		}
	}
	r.n.Store(0)
	return lost + uint64(n-min(n, ringSlots))
}

// mix is the finalizer of MurmurHash3: it spreads a hash of any quality over all
// bits, without collisions.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
