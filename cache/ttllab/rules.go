package ttllab

import (
	"math"
	"time"
)

const (
	candidateCount = 24
	ageBuckets     = 64
)

// candidates are the TTLs that are simulated, ascending. They are round numbers,
// so that today's TTL is likely to be among them.
var candidates = [candidateCount]time.Duration{
	1 * time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second, 45 * time.Second, 1 * time.Minute, 90 * time.Second, 2 * time.Minute,
	3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Policy is what the real cache does today with one kind of list. The
// candidates take the place of TTL; the rest holds for all of them.
type Policy struct {
	TTL                  time.Duration // today's
	StaleWhileRevalidate time.Duration // how long after its ttl a list is served while one refresh runs
	StaleIfError         time.Duration // only decides how long an entry stays in Redis
	Jitter               float64       // the share, 0 to 1, by which a ttl is shortened at most
}

// rules are a Policy compiled for the simulation: nanoseconds, and per candidate
// what would otherwise be computed on each look-up. They are immutable.
type rules struct {
	policy Policy
	today  int // the candidate nearest to the policy's TTL
	ttl    [candidateCount]int64
	surely [candidateCount]int64   // the ttl with all of the jitter taken off
	jitter [candidateCount]float64 // most that is taken off, nanoseconds
	bucket [candidateCount]float64 // age buckets per nanosecond
	swr    int64
}

// newRules works out what each look-up needs for each candidate. Values that no
// configuration can have are moved to the nearest that makes sense.
func newRules(p Policy) *rules {
	p.TTL, p.StaleWhileRevalidate, p.StaleIfError = max(p.TTL, 0), max(p.StaleWhileRevalidate, 0), max(p.StaleIfError, 0)
	p.Jitter = min(max(p.Jitter, 0), 1)
	r := &rules{policy: p, swr: int64(p.StaleWhileRevalidate)}
	off := func(c int) float64 { return math.Abs(math.Log(float64(candidates[c]) / float64(max(p.TTL, 1)))) } // by ratio
	for c, ttl := range candidates {
		r.ttl[c] = int64(ttl)
		r.jitter[c] = p.Jitter * float64(ttl)
		r.surely[c] = int64(ttl) - int64(r.jitter[c])
		r.bucket[c] = ageBuckets / float64(r.maxAge(c))
		if off(c) < off(r.today) {
			r.today = c
		}
	}
	return r
}

// maxAge is the age that no answer reaches.
func (r *rules) maxAge(c int) int64 { return r.ttl[c] + r.swr }

// fresh is how long a list filled at this moment is fresh. Like the real cache's
// its jitter is fixed by the key and the fill, though not to the same value.
func (r *rules) fresh(c int, key uint64, fill int64) int64 {
	spread := float64(mix(key^uint64(fill))>>11) / (1 << 53)
	return r.ttl[c] - int64(r.jitter[c]*spread)
}

// state is what may be done with a list of an age. Unlike in the real cache there is no
// stale_if_error here: the legacy is taken to be well.
type state int

const (
	fresh state = iota
	stale       // to be served while it is refreshed
	unusable
)

// judge works out the jitter only for the ages that it decides about.
func (r *rules) judge(c int, age int64, key uint64, fill int64) state {
	switch {
	case age < 0 || age >= r.ttl[c]+r.swr:
		return unusable
	case age < r.surely[c]:
		return fresh
	case age >= r.ttl[c] && age < r.surely[c]+r.swr:
		return stale
	}
	switch ttl := r.fresh(c, key, fill); {
	case age < ttl:
		return fresh
	case age < ttl+r.swr:
		return stale
	}
	return unusable
}

// lifetime is how long after the legacy's answer an entry stays in Redis.
func (r *rules) lifetime(c int) int64 {
	return r.ttl[c] + int64(max(r.policy.StaleWhileRevalidate, r.policy.StaleIfError))
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

// farAhead is how far in the future a fill may lie and still be taken for one
// that runs. Beyond, the clock was set back, and like the real cache no candidate
// uses what it holds.
const farAhead = int64(time.Minute)

// simulate runs one look-up through all candidates, by the rules of the real
// cache: fresh is served; stale within stale_while_revalidate is served while one
// refresh runs; else the caller waits, and so does everyone who comes before the
// legacy has answered. An answer that was waited for is of age 0.
func (k *watched) simulate(r *rules, now, latency int64, set *stratum) {
	for c := range k.cells {
		cell := &k.cells[c]
		age := now - cell.fill
		if age < 0 && age > -farAhead {
			age = k.inFlight(r, c)
		} else if s := r.judge(c, age, k.hash, cell.fill); s != fresh {
			cell.fetches++
			cell.fill = now + latency
			k.waiting &^= 1 << c
			if s == unusable {
				k.waiting |= 1 << c
				cell.waits++
				age = 0
			}
		}
		if age > 0 {
			seconds := float64(age) * 1e-9
			cell.age += seconds
			cell.ageSq += seconds * seconds
		}
		set.ages[c][min(uint(float64(age)*r.bucket[c]), ageBuckets-1)]++
	}
}

// inFlight is the age of an answer given while the legacy works on the next.
func (k *watched) inFlight(r *rules, c int) int64 {
	if k.waiting&(1<<c) != 0 {
		k.cells[c].waits++ // collapsed
		return 0
	}
	return r.fresh(c, k.hash, k.cells[c].fill) // served while it is refreshed: it had just gone stale
}
