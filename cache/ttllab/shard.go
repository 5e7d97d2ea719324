package ttllab

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	shardBits  = 6
	shardCount = 1 << shardBits
	rankBits   = 64 - shardBits
	everyRank  = uint64(1) << rankBits
	// forgetAfter half-lives without a look-up a watched key makes room. What it
	// still counts for is less than a sixteenth by then.
	forgetAfter = 4
)

// shard holds the watched keys of one slice of the hashes. Its own threshold
// makes it a sample by itself: the keys of the lowest ranks (a bottom-k sample).
type shard struct {
	// Written on every look-up, so kept off the line of the rest.
	seen      atomic.Uint64 // look-ups since the last aging, watched or not
	filled    atomic.Uint64 // fills since then
	threshold atomic.Uint64 // keys of this rank and above are not watched
	_         [40]byte

	mu       sync.Mutex
	quota    int
	halfLife int64
	epoch    int64 // number of half-lives since 1970; 0: no look-up yet
	first    int64 // the first look-up, Unix ns
	keys     []watched
	index    map[uint64]int32 // by hash
	lookups  float64          // aged counts of seen and filled
	fills    float64
	answers  float64 // look-ups of watched keys, aged
	cached   float64 // of these: answered by an entry of the real cache
	pick     pick
	ages     [candidateCount][ageBuckets]uint32
}

// watched is one key of the sample.
type watched struct {
	hash    uint64
	last    int64   // look-up, Unix ns
	lookups float64 // aged
	fills   float64 // aged; of the real cache
	waiting uint32  // bit c: the fill of candidate c that runs has callers waiting

	served sighting // what the real cache answers with
	known  sighting // the newest body seen, re-checks included
	bytes  int
	ref    any
	looks  looks
	cells  [candidateCount]cell
}

// sighting is a body and when the legacy gave it.
type sighting struct {
	at   int64 // Unix ns; 0: none yet
	body uint64
}

// cell is one candidate's cache of one key. The counts are aged.
type cell struct {
	fill    int64   // when the legacy answered, Unix ns; 0 (long ago) at first
	waits   float32 // look-ups that waited for the legacy
	fetches float32 // requests to the legacy
	age     float64 // sum over all answers, seconds
	ageSq   float64
}

func (s *shard) init(quota int, halfLife time.Duration) {
	s.quota, s.halfLife = quota, int64(halfLife)
	s.index = make(map[uint64]int32)
	s.threshold.Store(everyRank)
}

// rate is the share of keys that is watched. It needs the lock.
func (s *shard) rate() float64 { return float64(s.threshold.Load()) / float64(everyRank) }

func (s *shard) lookup(h uint64, now int64, lab *kindLab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	k := s.admit(h)
	if k == nil {
		return
	}
	if s.first == 0 {
		s.first = now
	}
	r := lab.rules.Load()
	k.lookups++
	k.last = max(k.last, now)
	s.answers++
	if k.served.at != 0 && now-k.served.at < int64(r.policy.TTL)+r.swr {
		s.cached++
		s.consider(k, now)
	}
	k.simulate(r, now, lab.latency.Load(), &s.ages)
}

// admit returns the state of a key, taking it into the sample if it belongs
// there. When the sample is full the key of the highest rank leaves, and the
// threshold falls to that rank, so that it cannot come back half counted.
func (s *shard) admit(h uint64) *watched {
	if i, ok := s.index[h]; ok {
		return &s.keys[i]
	}
	rank := h >> shardBits
	if rank >= s.threshold.Load() {
		return nil // it fell between the caller's look and the lock
	}
	if len(s.keys) < s.quota {
		s.keys = append(s.keys, watched{hash: h})
		s.index[h] = int32(len(s.keys) - 1)
		return &s.keys[len(s.keys)-1]
	}
	top := 0
	for i := range s.keys {
		if s.keys[i].hash>>shardBits > s.keys[top].hash>>shardBits {
			top = i
		}
	}
	if highest := s.keys[top].hash >> shardBits; rank < highest {
		s.threshold.Store(highest)
		delete(s.index, s.keys[top].hash)
		s.keys[top] = watched{hash: h}
		s.index[h] = int32(top)
		return &s.keys[top]
	}
	s.threshold.Store(rank)
	return nil
}

func (s *shard) fill(h uint64, f Fill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.index[h]
	if !ok {
		return
	}
	k := &s.keys[i]
	if !f.Shared {
		k.fills++
	}
	at := sighting{f.AnsweredAt.UnixNano(), f.Body}
	k.observe(at)
	if at.at >= k.served.at {
		k.served, k.ref = at, f.Ref
		if f.Bytes > 0 {
			k.bytes = f.Bytes
		}
	}
}

// advance ages all counts when a half-life has ended. It needs the lock.
func (s *shard) advance(now int64) {
	if s.halfLife == 0 {
		return
	}
	epoch := now / s.halfLife
	if s.epoch == 0 {
		s.epoch = epoch
	}
	if epoch <= s.epoch {
		return
	}
	steps := int(min(epoch-s.epoch, 64))
	s.epoch = epoch
	s.age(steps)
	idle := max(int64(candidates[candidateCount-1])+s.halfLife, forgetAfter*s.halfLife)
	for i := 0; i < len(s.keys); {
		if now-s.keys[i].last > idle {
			s.drop(i)
			continue
		}
		s.keys[i].scale(math.Ldexp(1, -steps))
		i++
	}
}

// age halves the counts of the shard, not those of its keys.
func (s *shard) age(steps int) {
	f := math.Ldexp(1, -steps)
	s.lookups = (s.lookups + float64(s.seen.Swap(0))) * f
	s.fills = (s.fills + float64(s.filled.Swap(0))) * f
	s.answers *= f
	s.cached *= f
	for c := range s.ages {
		for b := range s.ages[c] {
			s.ages[c][b] >>= min(steps, 31)
		}
	}
}

func (k *watched) scale(f float64) {
	k.lookups *= f
	k.fills *= f
	for c := range k.cells {
		cell := &k.cells[c]
		cell.waits *= float32(f)
		cell.fetches *= float32(f)
		cell.age *= f
		cell.ageSq *= f
	}
}

// drop takes the last key into the place of key i.
func (s *shard) drop(i int) {
	delete(s.index, s.keys[i].hash)
	last := len(s.keys) - 1
	if i != last {
		s.keys[i] = s.keys[last]
		s.index[s.keys[i].hash] = int32(i)
	}
	s.keys[last] = watched{} // lets go of its Ref
	s.keys = s.keys[:last]
}

func (s *shard) forgetAges() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ages = [candidateCount][ageBuckets]uint32{}
}
