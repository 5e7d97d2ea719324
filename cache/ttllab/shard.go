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
	seen      atomic.Uint64 // look-ups since the start, watched or not
	filled    atomic.Uint64 // fills since then
	threshold atomic.Uint64 // keys of this rank and above are not in the sample
	hotBits   [hotWords]atomic.Uint64

	mu      sync.Mutex
	lab     *kindLab
	quota   [2]int // of the sample and of the hot keys
	aging   aging
	lookups float64 // aged count of seen, up to the last aging
	fills   float64
	counted [2]uint64 // seen and filled at the last aging
	sample  stratum
	hot     stratum
	drawn   [drawnKept]draw // newest at draws-1 modulo drawnKept
	draws   uint64

	// Of a fleet:
	shared bool
	notes  []note // this node's look-ups since the last message
	queue  []note // of all nodes, to be simulated
	lost   uint64
	others [2]float64 // look-ups and fills of the other nodes, aged
}

// aging halves counts at the end of each half-life, counted from 1970.
type aging struct {
	halfLife int64 // ns; 0: nothing is ever forgotten
	epoch    int64 // number of half-lives since 1970; 0: nothing counted yet
	next     int64 // when the next begins, Unix ns
}

// steps is how many half-lives have ended since the last call.
func (a *aging) steps(now int64) int {
	if a.halfLife == 0 || now < a.next {
		return 0
	}
	epoch := now / a.halfLife
	a.next = (epoch + 1) * a.halfLife
	if a.epoch == 0 {
		a.epoch = epoch
	}
	steps := int(min(max(epoch-a.epoch, 0), 64))
	a.epoch = max(a.epoch, epoch)
	return steps
}

// stratum is a set of watched keys that all stand for the same number of keys. The sums
// beside the keys are of all look-ups that were simulated, also of keys that have left.
type stratum struct {
	keys  []watched
	index map[uint64]int32 // by hash
	ages  [candidateCount][ageBuckets]uint32
}

// watched is one key of the sample, with one cache for each candidate and what is known of
// the real one. Most of its 1,750 bytes are these and the newest changes of the list.
type watched struct {
	hash    uint64
	pending burst
	last    int64   // look-up, Unix ns
	lookups float64 // aged
	fills   float64 // aged; of the real cache
	noted   uint32  // place of its last note, from 1
	waiting uint32  // bit c: the fill of candidate c that runs has callers waiting

	known  sighting // the newest body seen, re-checks included
	bytes  int
	filled int64 // Unix ns, by the real cache
	looks  looks
	cells  [candidateCount]cell
}

// settleAfter bounds how long look-ups wait to be simulated.
const settleAfter = int64(time.Second)

// burst is the look-ups of one key that have not been run through the
// candidates yet. To run several at once costs little more than to run one:
// what a look-up costs is to get the key's cells from memory. With the hash it
// fills a cache line.
type burst struct {
	n  int
	at [6]int64 // Unix ns
}

// add keeps a look-up for later and tells whether it is time to settle.
func (b *burst) add(now int64) bool {
	b.at[b.n] = now
	b.n++
	return b.n == len(b.at) || now-b.at[0] > settleAfter
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

// init gives a quarter of the places to hot keys. Until the sample is full every key is in
// it.
func (s *shard) init(lab *kindLab, quota int, halfLife int64) {
	hot := quota / 4
	s.lab = lab
	s.quota, s.aging.halfLife = [2]int{quota - hot, hot}, halfLife
	s.sample.index, s.hot.index = map[uint64]int32{}, map[uint64]int32{}
	s.threshold.Store(everyRank)
}

// rate is the share of keys that is in the sample. It needs the lock.
func (s *shard) rate() float64 { return float64(s.threshold.Load()) / float64(everyRank) }

// wants tells, without the lock, whether a key may be watched.
func (s *shard) wants(h uint64) bool {
	return h>>shardBits < s.threshold.Load() || s.maybeHot(h)
}

// find returns a watched key and its stratum, or nil.
func (s *shard) find(h uint64) (*watched, *stratum) {
	if s.maybeHot(h) {
		if i, ok := s.hot.index[h]; ok {
			return &s.hot.keys[i], &s.hot
		}
	}
	if i, ok := s.sample.index[h]; ok {
		return &s.sample.keys[i], &s.sample
	}
	return nil, nil
}

// lookup takes in a look-up; of one that was answered out of the cache it learns whether
// the list has changed.
func (s *shard) lookup(h uint64, drawn bool, now int64, answer sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	s.lab.begin(now)
	if drawn {
		if last, twice := s.draw(draw{h, now}); twice {
			s.promote(draw{h, now}, last)
		}
	}
	k, set := s.find(h)
	if k == nil {
		if k = s.admit(h); k == nil {
			return
		}
		set = &s.sample
	}
	if answer.at != 0 {
		k.observe(answer)
		k.filled = max(k.filled, answer.at)
	}
	if s.shared {
		s.enqueue(k, set == &s.hot, now)
	} else if k.pending.add(now) {
		s.settle(k, set)
	}
}

// begin notes when the first look-up was.
func (lab *kindLab) begin(now int64) {
	if lab.first.Load() == 0 {
		lab.first.CompareAndSwap(0, now)
	}
}

// served learns of an answer to a look-up that it was told of before.
func (s *shard) served(h uint64, answer sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, _ := s.find(h); k != nil {
		k.observe(answer)
		k.filled = max(k.filled, answer.at)
	}
}

// settle simulates the look-ups that wait. Whatever reads or changes a key settles it
// first, so that the order of events is kept. It needs the lock.
func (s *shard) settle(k *watched, set *stratum) {
	r, latency := s.lab.rules.Load(), s.lab.latency.Load()
	for _, now := range k.pending.at[:k.pending.n] {
		k.lookups++
		k.last = max(k.last, now)
		k.simulate(r, now, latency, set)
	}
	k.pending.n = 0
}

// settleAll settles every key. It needs the lock.
func (s *shard) settleAll() {
	for _, set := range [...]*stratum{&s.sample, &s.hot} {
		for i := range set.keys {
			s.settle(&set.keys[i], set)
		}
	}
}

// admit takes a key into the sample if it belongs there. When the sample is full
// the key of the highest rank leaves, and the threshold falls to that rank, so
// that it cannot come back half counted.
func (s *shard) admit(h uint64) *watched {
	rank := h >> shardBits
	if rank >= s.threshold.Load() {
		return nil
	}
	set := &s.sample
	if len(set.keys) < s.quota[0] {
		return set.add(watched{hash: h})
	}
	top := 0
	for i := range set.keys {
		if set.keys[i].hash > set.keys[top].hash {
			top = i
		}
	}
	highest := set.keys[top].hash >> shardBits
	if rank >= highest {
		s.threshold.Store(rank)
		return nil
	}
	s.threshold.Store(highest)
	s.settle(&set.keys[top], set)
	set.drop(top)
	return set.add(watched{hash: h})
}

// fill takes in a body of a watched key. The look-ups before it are simulated first, so
// that the order of events is kept.
func (s *shard) fill(h uint64, f fill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, set := s.find(h)
	if k == nil { // the look-up that waits for it is told of when it ends
		if k = s.admit(h); k == nil {
			return
		}
		set = &s.sample
	}
	s.settle(k, set)
	if !f.shared {
		k.fills++
	}
	at := sighting{f.At, f.Source}
	k.observe(at)
	if at.at >= k.filled {
		k.filled = at.at
		if f.bytes > 0 {
			k.bytes = f.bytes
		}
	}
}

// advance ages all counts when a half-life has ended. It needs the lock.
func (s *shard) advance(now int64) {
	if steps := s.aging.steps(now); steps > 0 {
		s.age(steps, now)
	}
}

// age halves all counts so many times. It needs the lock.
func (s *shard) age(steps int, now int64) {
	s.settleAll()
	f := math.Ldexp(1, -steps)
	lookups, fills := s.totals()
	s.lookups, s.fills = lookups*f, fills*f
	s.others = [2]float64{s.others[0] * f, s.others[1] * f}
	s.counted = [2]uint64{s.seen.Load(), s.filled.Load()}
	idle := max(int64(candidates[candidateCount-1])+s.aging.halfLife, forgetAfter*s.aging.halfLife)
	s.sample.age(steps, now-idle)
	s.hot.age(steps, now-idle)
	s.markHot()
}

// totals counts this node's look-ups and fills of all keys, aged.
func (s *shard) totals() (lookups, fills float64) {
	return s.lookups + float64(s.seen.Load()-s.counted[0]), s.fills + float64(s.filled.Load()-s.counted[1])
}

func (set *stratum) has(hash uint64) bool {
	_, ok := set.index[hash]
	return ok
}

// add returns the key's place, which holds until the next add or drop.
func (set *stratum) add(k watched) *watched {
	set.keys = append(set.keys, k)
	set.index[k.hash] = int32(len(set.keys) - 1)
	return &set.keys[len(set.keys)-1]
}

// drop takes the last key into the place of key i.
func (set *stratum) drop(i int) {
	delete(set.index, set.keys[i].hash)
	last := len(set.keys) - 1
	if i != last {
		set.keys[i] = set.keys[last]
		set.index[set.keys[i].hash] = int32(i)
	}
	set.keys[last] = watched{}
	set.keys = set.keys[:last]
}

// age halves all counts so many times, and drops the keys that nobody looked up
// since then.
func (set *stratum) age(steps int, since int64) {
	f := math.Ldexp(1, -steps)
	for c := range set.ages {
		for b := range set.ages[c] {
			set.ages[c][b] >>= min(steps, 31)
		}
	}
	for i := 0; i < len(set.keys); {
		if set.keys[i].last < since {
			set.drop(i)
			continue
		}
		set.keys[i].scale(f)
		i++
	}
}

// scale multiplies what was counted. What each candidate holds stays.
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

// forget drops the ages of another policy, whose buckets meant other ages.
func (s *shard) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll()
	s.sample.ages, s.hot.ages = [candidateCount][ageBuckets]uint32{}, [candidateCount][ageBuckets]uint32{}
}
