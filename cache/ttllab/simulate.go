package ttllab

import (
	"math"
	"time"
)

const (
	candidateCount = 24
	ageBuckets     = 64
)

// candidates are the ttls that are simulated, ascending. They are round numbers,
// so that today's ttl is likely to be among them.
var candidates = [candidateCount]time.Duration{
	1 * time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second, 45 * time.Second, 1 * time.Minute, 90 * time.Second, 2 * time.Minute,
	3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// rules are a Policy compiled for the simulation: nanoseconds, and per candidate
// what would otherwise be computed on each look-up. They are immutable.
type rules struct {
	policy Policy
	today  int // the candidate nearest to the policy's ttl
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

// lifetime is how long after the legacy's answer an entry stays in Redis.
func (r *rules) lifetime(c int) int64 {
	return r.ttl[c] + int64(max(r.policy.StaleWhileRevalidate, r.policy.StaleIfError))
}

// fresh is how long a list filled at this moment is fresh. Like the real cache's
// its jitter is fixed by the key and the fill, though not to the same value.
func (r *rules) fresh(c int, key uint64, fill int64) int64 {
	spread := float64(mix(key^uint64(fill))>>11) / (1 << 53)
	return r.ttl[c] - int64(r.jitter[c]*spread)
}

// freshness is what may be done with a list of an age. Unlike in the real cache there is
// no stale_if_error here: the legacy is taken to be well.
type freshness int

const (
	fresh freshness = iota
	stale           // to be served while it is refreshed
	unusable
)

// judge works out the jitter only for the ages that it decides about.
func (r *rules) judge(c int, age int64, key uint64, fill int64) freshness {
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

// list is one watched list, with one cache for each candidate.
type list struct {
	hash    uint64
	last    int64   // look-up, Unix ns
	lookups float64 // aged
	fills   float64 // aged; of the real cache
	came    uint32  // look-ups since the watch was renewed
	waiting uint32  // bit c: the fill of candidate c that runs has callers waiting
	size    uint32  // of the entry; 0: unknown
	known   sighting
	looks   looks
	cells   [candidateCount]cell
}

// sighting is a body and when the legacy gave it.
type sighting struct {
	at   int64 // Unix ns; 0: none yet
	body uint64
}

// cell is one candidate's cache of one list. The counts are aged.
type cell struct {
	fill    int64   // when the legacy answered, Unix ns; 0 (long ago) at first
	waits   float32 // look-ups that waited for the legacy
	fetches float32 // requests to the legacy
	age     float64 // sum over all answers, seconds
	ageSq   float64
}

// farAhead is how far in the future a fill may lie and still be taken for one
// that runs. Beyond, the clock was set back, and like the real cache no candidate
// uses what it holds.
const farAhead = int64(time.Minute)

// simulate runs one look-up through all candidates, by the rules of the real
// cache: fresh is served; stale within stale_while_revalidate is served while one
// refresh runs; else the caller waits, and so does everyone who comes before the
// legacy has answered. An answer that was waited for is of age 0.
func (k *list) simulate(r *rules, now, latency int64, ages *histogram) {
	k.lookups++
	k.last = max(k.last, now)
	for c := range k.cells {
		cell := &k.cells[c]
		age := now - cell.fill
		if age < 0 && age > -farAhead {
			age = 0
			if k.waiting&(1<<c) != 0 {
				cell.waits++ // for a fill that another look-up began
			} else {
				age = r.fresh(c, k.hash, cell.fill) // served while it is refreshed: it had just gone stale
			}
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
		ages[c][min(uint(float64(age)*r.bucket[c]), ageBuckets-1)]++
	}
}

// histogram is of the ages of a candidate's answers, from 0 to its maxAge.
type histogram [candidateCount][ageBuckets]float64

// scale multiplies what was counted. What each candidate holds stays.
func (k *list) scale(f float64) {
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

// guess makes up each candidate's cache of a list that has not been watched: at
// this many look-ups per nanosecond it is likely to hold the list, filled at any
// moment of the last ttl, or since the start.
func (k *list) guess(r *rules, now int64, rate float64, first int64) {
	for c := range k.cells {
		expected := rate * float64(r.maxAge(c))
		dice := mix(k.hash + uint64(c))
		switch {
		case float64(dice>>32)/(1<<32) > expected/(1+expected): // it does not hold it
		case r.ttl[c] > now-first:
			k.cells[c].fill = first
		default:
			k.cells[c].fill = now - int64(float64(r.ttl[c])*float64(uint32(dice))/(1<<32))
		}
	}
}

// observe takes in a body that was seen, if it is newer than what was known.
func (k *list) observe(s sighting) {
	if s.at <= k.known.at {
		return
	}
	if k.known.at != 0 {
		changed := s.body != k.known.body
		if !changed && s.at-k.known.at < int64(shortestLook) {
			return // the same answer, its moment taken from a log
		}
		k.looks.add(float64(s.at-k.known.at)*1e-9, changed)
	}
	k.known = s
}
