package ttllab

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
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
	// 100 KB at most for a kind. More are counted as lost.
	keptNotes = 128
	keptQueue = 64 * keptNotes
	// hotOfAll times as many keys are hot as a node finds by itself: with those of the
	// others, which are mostly the same, so that all nodes watch the same ones.
	hotOfAll    = 4
	nodeSilent  = 10 * time.Second
	tellEvery   = time.Second
	fleetFormat = 3
	// leaderSilent is after how long without a plan of the node that makes it another one does.
	leaderSilent = 3 * controlEvery
)

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

	// One node makes the plan of all: where each keeps its own, the load that one causes
	// is a reason for the others to ask less, and their plans drift apart.
	leader  uint64 // who made the newest one: of two the lower number
	planned int64  // when it was heard, Unix ns; 0: never
	plan    ttls   // what it said
	telling ttls   // this node's, not told yet
}

// agree takes the plan of the node that leads, or has this one lead with its own.
func (f *fleet) agree(now int64, own func() ttls) ttls {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared && f.planned != 0 && f.leader != f.self && now-f.planned <= int64(leaderSilent) {
		return f.plan
	}
	f.leader, f.planned, f.telling = f.self, now, own()
	return f.telling
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
func (s *shard) count(lookups, fills uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others[0] += float64(lookups)
	s.others[1] += float64(fills)
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
	b := binary.LittleEndian.AppendUint64([]byte{fleetFormat}, f.self)
	b = binary.LittleEndian.AppendUint64(b, e.layout())
	for _, lab := range e.kinds {
		b = lab.tell(b, now.UnixNano(), f)
	}
	b = binary.AppendUvarint(b, uint64(len(f.telling)))
	for id, ttl := range f.telling {
		b = binary.LittleEndian.AppendUint64(b, id)
		b = binary.AppendUvarint(b, uint64(ttl))
	}
	f.telling = nil
	return b
}

// layout tells whether two nodes mean the same by the number of a kind.
func (e *estimator) layout() uint64 {
	h := uint64(len(e.kinds))
	for _, lab := range e.kinds {
		h = mix(h ^ hashText(lab.name))
	}
	return h
}

func (lab *kindLab) tell(b []byte, now int64, f *fleet) []byte {
	var seen, filled uint64
	for i := range lab.shards {
		s := &lab.shards[i]
		seen, filled = seen+s.seen.Load(), filled+s.filled.Load()
	}
	checked := lab.checks.total().checked
	for i, total := range [...]uint64{seen, filled, checked, lab.waited.Load() + lab.failed.Load()} {
		b = binary.AppendUvarint(b, total-lab.told[i])
		lab.told[i] = total
	}
	b = binary.AppendUvarint(b, uint64(lab.rules.Load().policy.TTL))
	for i := range lab.shards {
		s := &lab.shards[i]
		b = binary.LittleEndian.AppendUint64(b, s.threshold.Load())
		notes, lost := s.takeNotes()
		f.lost += lost
		b = binary.AppendUvarint(b, uint64(len(notes)))
		for _, n := range notes {
			count := uint64(n.n) << 1
			if n.hot {
				count |= 1
			}
			b = binary.LittleEndian.AppendUint64(b, n.hash)
			b = binary.AppendUvarint(b, uint64(max(now-n.at, 0))/1e6)
			b = binary.AppendUvarint(b, count)
		}
		s.simulateUntil(now - int64(settleDelay))
	}
	return b
}

// errForeignMessage is returned for a message of another version or configuration.
var errForeignMessage = errors.New("ttllab: a message of a node with another version or other groups of lists")

// hear takes in another node's message; its own is ignored. The moments in it are
// counted back from now, so that clocks need not agree.
func (e *estimator) hear(message []byte, now time.Time) error {
	f := &e.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	r := reader{b: message}
	format, from, layout := r.byte(), r.uint64(), r.uint64()
	switch {
	case r.bad || format != fleetFormat || layout != e.layout():
		return errForeignMessage
	case from == f.self || !f.shared:
		return nil
	}
	f.nodes[from] = now.UnixNano()
	for _, lab := range e.kinds {
		lab.hear(&r, now.UnixNano(), f)
	}
	f.hear(&r, from, now.UnixNano())
	if r.bad || len(r.b) > 0 {
		return errForeignMessage
	}
	return nil
}

func (lab *kindLab) hear(r *reader, now int64, f *fleet) {
	lookups, fills, checked, unserved, ttl := r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
	if r.bad {
		return
	}
	lab.shards[0].count(lookups, fills)
	lab.checks.others(checked)
	for i, n := range [...]uint64{fills, checked, lookups, unserved} {
		lab.theirs[i].Add(n)
	}
	if ttl != uint64(lab.rules.Load().policy.TTL) {
		lab.differed.Store(now)
	}
	for i := range lab.shards {
		s := &lab.shards[i]
		if threshold := r.uint64(); !r.bad {
			s.lower(threshold)
		}
		for n := r.uvarint(); n > 0 && !r.bad; n-- {
			h, ago, count := r.uint64(), r.uvarint(), r.uvarint()
			if r.bad || h%shardCount != uint64(i) || ago > 60_000 || count>>1 > 1<<16 {
				r.bad = true
				return
			}
			if s.hear(note{h, now - int64(ago)*1e6, uint32(count >> 1), count&1 == 1}) {
				f.lost += count >> 1
			}
		}
	}
}

// hear takes in a plan, if there is one.
func (f *fleet) hear(r *reader, from uint64, now int64) {
	plan := ttls{}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		id := r.uint64()
		plan[id] = max(time.Duration(min(r.uvarint(), uint64(maxTTL))), minTTL)
	}
	if plan[0] > 0 && !r.bad && (f.planned == 0 || from <= f.leader || now-f.planned > int64(leaderSilent)) {
		f.leader, f.planned, f.plan = from, now, plan
	}
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

// reader reads a message; after the first mistake all it gives is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}
