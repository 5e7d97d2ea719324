package ttllab

import (
	"sync/atomic"
)

// A look-up only notes: a counter goes up, and where the list is watched, or each 16th
// time, a note is written to a ring that the lab's goroutine empties once a second. No
// look-up takes a lock, allocates or simulates anything.

const (
	stripes   = 64      // of a counter, so that processors do not share a cache line
	drawEvery = 16      // look-ups of a stripe per draw
	ringSlots = 1 << 14 // notes of a second; more are lost
	bloomBits = 1 << 14 // 1,024 hot lists set 6 % of them
)

// Why a look-up is noted.
const (
	ofSample uint8 = 1 << iota // all look-ups of the list are
	ofHot                      // likewise; the list stands for itself alone
	ofDraw                     // it is one of 16 of any list
)

// group is what look-ups see of the lists that share a ttl.
type group struct {
	index        uint8
	kind, status string
	looks        [stripes]stripe
	waited       atomic.Uint64 // look-ups that a fill answered
	failed       atomic.Uint64 // look-ups without an answer
	fills        atomic.Uint64
	took         atomic.Int64 // all of them, ns
	watch        atomic.Pointer[watch]
}

// stripe fills a cache line.
type stripe struct {
	n atomic.Uint64
	_ [56]byte
}

// watch says which look-ups are noted. It is immutable but for the counters of hot lists.
type watch struct {
	below uint64 // lists with a smaller hash are the sample
	bits  [bloomBits / 64]uint64
	hot   map[uint64]*thinned
}

// thinned is a hot list of which one in every look-ups is noted, for all of them.
type thinned struct {
	every uint32 // a power of two
	n     atomic.Uint32
}

// note is one look-up, or n at nearly the same time.
type note struct {
	Hash  uint64
	At    int64 // Unix ns, on the clock of the node
	N     uint32
	Flags uint8
}

func bloom(h uint64) (word, bit uint64) { return h >> 6 % bloomBits / 64, 1 << (h >> 6 % 64) }

// look counts and notes a look-up of a list, and returns a number that no other look-up of
// the group has.
func (g *group) look(r *ring, h uint64, at int64) uint64 {
	stripe := h % stripes
	n := g.looks[stripe].n.Add(1)
	w := g.watch.Load()
	flags, count := uint8(0), uint32(1)
	if h < w.below {
		flags = ofSample
	}
	if word, bit := bloom(h); w.bits[word]&bit != 0 {
		if k := w.hot[h]; k != nil {
			flags, count = flags|ofHot, k.every
			if count > 1 && k.n.Add(1)&(count-1) != 0 {
				flags = 0
			}
		}
	}
	if n%drawEvery == 0 {
		if flags == 0 {
			count = 1
		}
		flags |= ofDraw
	}
	if flags != 0 {
		r.add(g.index, note{h, at, count, flags})
	}
	return n*stripes + stripe
}

// lookups is how many there were since the start.
func (g *group) lookups() (sum uint64) {
	for i := range g.looks {
		sum += g.looks[i].n.Load()
	}
	return sum
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

// empty hands out all notes and makes the ring ready for others. lost counts those that
// found no slot.
func (r *ring) empty(take func(group uint8, n note)) (lost uint64) {
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

// rings are the one that is written, the one that was until the last turn, whose slots are
// filled by now, and an empty one.
type rings struct {
	current atomic.Pointer[ring]
	cooling *ring
	spare   *ring
}

func newRings() *rings {
	r := &rings{cooling: new(ring), spare: new(ring)}
	r.current.Store(new(ring))
	return r
}

// turn hands out what was noted before the last turn. It is for one goroutine.
func (r *rings) turn(take func(group uint8, n note)) (lost uint64) {
	lost = r.cooling.empty(take)
	was := r.current.Swap(r.spare)
	r.spare, r.cooling = r.cooling, was
	return lost
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
