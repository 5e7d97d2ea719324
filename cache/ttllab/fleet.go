package ttllab

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
)

// A fleet with one Redis is one cache: who finds its list stale reads the newest of all
// nodes before it asks the legacy. So its nodes tell each other the look-ups of the
// lists that they watch, and each simulates those of all, in their order.
const (
	// settleDelay is for how long look-ups wait for those of other nodes.
	settleDelay = 2500 * time.Millisecond
	// noteMerged look-ups of one list in so short a time are told as one with a count.
	noteMerged = 50 * time.Millisecond
	// keptNotes bounds what a shard tells in a second: 64 of them make a message of
	// 110 KB at most for a kind. More are counted as lost.
	keptNotes = 128
	keptQueue = 64 * keptNotes
	// hotOfAll times as many keys are hot as a node finds by itself: with those of the
	// others, which are mostly the same, so that all nodes watch the same ones.
	hotOfAll    = 4
	nodeSilent  = 10 * time.Second
	tellEvery   = time.Second
	fleetFormat = 5
)

// counts are look-ups and what became of them, since the start.
type counts struct {
	Lookups, Fills, Rechecks uint64
	Unserved                 uint64 // look-ups that waited for the legacy or got nothing
}

func (c counts) plus(o counts) counts {
	return counts{c.Lookups + o.Lookups, c.Fills + o.Fills, c.Rechecks + o.Rechecks, c.Unserved + o.Unserved}
}

func (c counts) minus(o counts) counts {
	return counts{c.Lookups - o.Lookups, c.Fills - o.Fills, c.Rechecks - o.Rechecks, c.Unserved - o.Unserved}
}

// own are the counts of this node.
func (lab *kindLab) own() counts {
	c := counts{Rechecks: lab.checks.total().checked, Unserved: lab.waited.Load() + lab.failed.Load()}
	for i := range lab.shards {
		c.Lookups += lab.shards[i].seen.Load()
		c.Fills += lab.shards[i].filled.Load()
	}
	return c
}

// all are the counts of all nodes.
func (lab *kindLab) all() counts { return lab.own().plus(*lab.theirs.Load()) }

// note is a look-up of a watched key, or some at nearly the same time.
type note struct {
	hash uint64
	at   int64 // Unix ns, on this node's clock
	n    uint32
	hot  bool
}

// fleet is what an estimator knows of the other nodes.
type fleet struct {
	mu     sync.Mutex
	shared bool
	self   uint64
	nodes  map[uint64]int64 // when they were heard last, Unix ns
	lost   uint64           // look-ups that were not told or not taken in
}

// share has the estimator tell of its look-ups, and wait for those of other nodes. It
// is to be called before the first look-up.
func (e *estimator) share() {
	e.fleet.mu.Lock()
	defer e.fleet.mu.Unlock()
	e.fleet.shared, e.fleet.self, e.fleet.nodes = true, rand.Uint64(), map[uint64]int64{}
	for _, lab := range e.kinds {
		for i := range lab.shards {
			lab.shards[i].shared = true
		}
	}
}

// enqueue keeps a look-up of a watched key until those of other nodes are here, and
// notes it for them. It needs the lock.
func (s *shard) enqueue(k *watched, hot bool, now int64) {
	if i := int(k.noted) - 1; i >= 0 && i < len(s.notes) && s.notes[i].hash == k.hash && now-s.notes[i].at < int64(noteMerged) {
		s.notes[i].n++
		return
	}
	if len(s.notes) >= keptNotes {
		s.lost++
		return
	}
	s.notes = append(s.notes, note{k.hash, now, 1, hot})
	k.noted = uint32(len(s.notes))
}

// takeNotes moves what was noted into the queue and returns it, and how many look-ups
// were not.
func (s *shard) takeNotes() (notes []note, lost uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes, lost = s.notes, s.lost
	s.notes, s.lost = nil, 0
	s.queue = append(s.queue, notes...)
	return notes, lost
}

// simulateUntil runs the look-ups until then through the candidates, in their order.
func (s *shard) simulateUntil(until int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.queue, func(a, b note) int { return cmp.Compare(a.at, b.at) })
	i := 0
	for ; i < len(s.queue) && s.queue[i].at <= until; i++ {
		q := s.queue[i]
		for range q.n {
			if k, set := s.find(q.hash); k != nil && k.pending.add(q.at) {
				s.settle(k, set)
			}
		}
	}
	s.queue = append(s.queue[:0], s.queue[i:]...)
}

// lower drops the keys of this rank and above: another node does not watch them.
func (s *shard) lower(threshold uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if threshold == 0 || threshold >= s.threshold.Load() {
		return
	}
	s.threshold.Store(threshold)
	for i := 0; i < len(s.sample.keys); {
		if s.sample.keys[i].hash>>shardBits < threshold {
			i++
			continue
		}
		s.settle(&s.sample.keys[i], &s.sample)
		s.sample.drop(i)
	}
}

// hear takes in another node's look-up.
func (s *shard) hear(n note) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(n.at)
	s.lab.begin(n.at)
	if n.hot && !s.hot.has(n.hash) && len(s.hot.keys) < hotOfAll*s.quota[1] {
		s.promote(draw{n.hash, n.at}, n.at-int64(time.Second))
	}
	if k, _ := s.find(n.hash); k == nil && s.admit(n.hash) == nil {
		return false // not of the sample
	}
	if len(s.queue) >= keptQueue {
		return true
	}
	s.queue = append(s.queue, n)
	return false
}

// count adds another node's look-ups and fills, watched or not.
func (s *shard) count(c counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others[0] += float64(c.Lookups)
	s.others[1] += float64(c.Fills)
}

// A message is a header, for each kind a kindHeader and so many told look-ups. All are written as they stand here.
type (
	header struct {
		Format       uint8
		From, Layout uint64
	}
	kindHeader struct {
		Counts     counts // since the last message
		TTL        time.Duration
		Thresholds [shardCount]uint64
		Told       uint32
	}
	told struct {
		Hash  uint64
		Ago   uint16 // ms before the message, so that clocks need not agree
		Count uint16
		Hot   bool
	}
)

// appendFixed appends data of a fixed size, which cannot fail.
func appendFixed(b []byte, data any) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, data)
	return b
}

// readFixed reads n values of a fixed size. false: there are not as many.
func readFixed[T any](in *bytes.Reader, n uint32) ([]T, bool) {
	var one T
	if uint64(n)*uint64(binary.Size(one)) > uint64(in.Len()) {
		return nil, false
	}
	all := make([]T, n)
	return all, binary.Read(in, binary.LittleEndian, all) == nil
}

// tell makes the message to the other nodes about the look-ups since the last one, and
// simulates those that have waited long enough. It is to be called once a second; nil:
// nothing is shared.
func (e *estimator) tell(now time.Time) []byte {
	f := &e.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.shared {
		return nil
	}
	b := appendFixed(nil, header{fleetFormat, f.self, e.layout()})
	for _, lab := range e.kinds {
		b = lab.tell(b, now.UnixNano(), f)
	}
	return b
}

// layout tells whether two nodes mean the same by the number of a kind.
func (e *estimator) layout() uint64 {
	h := uint64(len(e.kinds))
	for _, lab := range e.kinds {
		h = mix(h ^ xxh3.HashString(lab.name))
	}
	return h
}

// tell appends what this node has counted and noted of a kind since the last message, and
// simulates the look-ups that have waited for those of other nodes.
func (lab *kindLab) tell(b []byte, now int64, f *fleet) []byte {
	own := lab.own()
	h := kindHeader{Counts: own.minus(lab.told), TTL: lab.rules.Load().policy.TTL}
	lab.told = own
	var all []told
	for i := range lab.shards {
		s := &lab.shards[i]
		h.Thresholds[i] = s.threshold.Load()
		notes, lost := s.takeNotes()
		f.lost += lost
		for _, n := range notes {
			ago := min(max(now-n.at, 0)/1e6, math.MaxUint16)
			all = append(all, told{n.hash, uint16(ago), uint16(min(n.n, math.MaxUint16)), n.hot})
		}
		s.simulateUntil(now - int64(settleDelay))
	}
	h.Told = uint32(len(all))
	return appendFixed(appendFixed(b, h), all)
}

// errForeignMessage is returned for a message of another version or configuration.
var errForeignMessage = errors.New("ttllab: a message of a node with another version or other groups of lists")

// hear takes in another node's message; its own is ignored.
func (e *estimator) hear(message []byte, now time.Time) error {
	f := &e.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	in := bytes.NewReader(message)
	h, ok := readFixed[header](in, 1)
	switch {
	case !ok || h[0].Format != fleetFormat || h[0].Layout != e.layout():
		return errForeignMessage
	case h[0].From == f.self || !f.shared:
		return nil
	}
	f.nodes[h[0].From] = now.UnixNano()
	for _, lab := range e.kinds {
		if !lab.hear(in, now.UnixNano(), f) {
			return errForeignMessage
		}
	}
	if in.Len() > 0 {
		return errForeignMessage
	}
	return nil
}

// hear takes in one kind of another node's message; false: it is cut off, and nothing of
// this kind was taken in.
func (lab *kindLab) hear(in *bytes.Reader, now int64, f *fleet) bool {
	h, ok := readFixed[kindHeader](in, 1)
	if !ok {
		return false
	}
	all, ok := readFixed[told](in, h[0].Told)
	if !ok {
		return false
	}
	theirs := lab.theirs.Load().plus(h[0].Counts)
	lab.theirs.Store(&theirs)
	lab.shards[0].count(h[0].Counts)
	lab.checks.others(h[0].Counts.Rechecks)
	if h[0].TTL != lab.rules.Load().policy.TTL {
		lab.differed.Store(now)
	}
	for i, threshold := range h[0].Thresholds {
		lab.shards[i].lower(threshold)
	}
	for _, n := range all {
		if lab.shards[n.Hash%shardCount].hear(note{n.Hash, now - int64(n.Ago)*1e6, uint32(n.Count), n.Hot}) {
			f.lost += uint64(n.Count)
		}
	}
	return true
}

// coverage is how many nodes the report is about, this one included, and how many
// look-ups it lacks.
func (e *estimator) coverage(now int64) (nodes int, lost uint64) {
	f := &e.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, at := range f.nodes {
		if now-at > int64(nodeSilent) {
			delete(f.nodes, id)
		}
	}
	return len(f.nodes) + 1, f.lost
}
