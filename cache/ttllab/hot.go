package ttllab

// A sample of keys alone is a poor judge of traffic that hangs on a few hot
// keys: each of them is either in it, and counts for many, or is not. So each
// shard also watches, for sure, the keys that its look-ups keep turning up. From
// that moment on such a key stands for itself alone, and the sample for the
// others; what it counted in the sample before stays there.
const (
	drawEvery = 16 // look-ups of a shard per draw, a power of two
	drawnKept = 16 // a key that is drawn twice within so many draws is hot
	hotWords  = 5  // fills the cache line of the counters
	hotBit    = hotWords * 64
)

// maybeHot tells, without the lock, whether a key may be a hot one. One in ten
// keys that are not may seem so too, and costs a look under the lock.
func (s *shard) maybeHot(h uint64) bool {
	bit := (h >> 32) % hotBit
	return s.hotBits[bit/64].Load()&(1<<(bit%64)) != 0
}

// markHot renews what maybeHot reads, after keys have left.
func (s *shard) markHot() {
	var words [hotWords]uint64
	for i := range s.hot.keys {
		bit := (s.hot.keys[i].hash >> 32) % hotBit
		words[bit/64] |= 1 << (bit % 64)
	}
	for i := range words {
		s.hotBits[i].Store(words[i])
	}
}

// drawnTwice takes a draw and tells whether it makes the key hot. Which keys are
// drawn does not depend on their ranks, so the sample stays one of all others.
func (s *shard) drawnTwice(h uint64) bool {
	if len(s.hot.keys) >= s.quota[1] {
		return false
	}
	twice := false
	for i := range min(s.draws, drawnKept) {
		twice = twice || s.drawn[i] == h
	}
	s.drawn[s.draws%drawnKept] = h
	s.draws++
	return twice
}

// promote makes a key a hot one. If it was in the sample it brings its state
// along. Else that is not known. The key being hot, each candidate's cache is
// likely to hold it: filled at any moment of the last TTL, or since the start.
func (s *shard) promote(h uint64, now int64, r *rules) {
	if _, ok := s.hot.index[h]; ok {
		return
	}
	k := watched{hash: h}
	if i, ok := s.sample.index[h]; ok {
		was := &s.sample.keys[i]
		k = *was
		k.scale(0)
		was.looks = looks{} // what was learnt, and each candidate's entry, are the hot key's now
		for c := range was.cells {
			was.cells[c].fill = 0
		}
	} else {
		for c := range k.cells {
			k.cells[c].fill = s.first
			if r.ttl[c] <= now-s.first {
				phase := float64(mix(h+uint64(c))>>11) / (1 << 53)
				k.cells[c].fill = now - int64(float64(r.ttl[c])*phase)
			}
		}
	}
	s.hot.add(k)
	s.markHot()
}
