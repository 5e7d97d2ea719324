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

// draw is a look-up that was drawn.
type draw struct {
	hash uint64
	at   int64 // Unix ns
}

// draw takes a draw and tells whether it makes the key hot, and when the key was
// drawn before. Which keys are drawn does not depend on their ranks, so the
// sample stays one of all others.
func (s *shard) draw(d draw) (last int64, twice bool) {
	if len(s.hot.keys) >= s.quota[1] {
		return 0, false
	}
	for i := range min(s.draws, drawnKept) {
		if s.drawn[i].hash == d.hash {
			last, twice = max(last, s.drawn[i].at), true
		}
	}
	s.drawn[s.draws%drawnKept] = d
	s.draws++
	return last, twice
}

// promote makes a key a hot one. If it was in the sample it brings its state
// along.
func (s *shard) promote(d draw, last int64) {
	if s.hot.has(d.hash) {
		return
	}
	k := watched{hash: d.hash}
	if i, ok := s.sample.index[d.hash]; ok {
		was := &s.sample.keys[i]
		s.settle(was, &s.sample)
		k = *was
		k.scale(0)
		was.looks = looks{} // what was learnt, and each candidate's entry, are the hot key's now
		for c := range was.cells {
			was.cells[c].fill = 0
		}
	} else {
		k.guess(s.lab.rules.Load(), d.at, drawEvery/float64(max(d.at-last, 1)), s.lab.first.Load())
	}
	s.hot.add(k)
	s.markHot()
}

// guess makes up each candidate's cache of a key that has not been watched: at
// this many look-ups per nanosecond it is likely to hold the list, filled at any
// moment of the last TTL, or since the start.
func (k *watched) guess(r *rules, now int64, rate float64, first int64) {
	for c := range k.cells {
		expected := rate * float64(r.maxAge(c))
		dice := mix(k.hash + uint64(c))
		switch {
		case float64(dice>>32)/(1<<32) > expected/(1+expected): // not held
		case r.ttl[c] > now-first:
			k.cells[c].fill = first
		default:
			k.cells[c].fill = now - int64(float64(r.ttl[c])*float64(uint32(dice))/(1<<32))
		}
	}
}
