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

// maxAge is the age that no answer of a candidate reaches.
func (g *Group) maxAge(c int) int64 { return int64(candidates[c] + g.StaleWhileRevalidate) }

// lifetime is how long after the legacy's answer an entry of a candidate stays in Redis.
func (g *Group) lifetime(c int) int64 {
	return int64(candidates[c] + max(g.StaleWhileRevalidate, g.StaleIfError))
}

// nearest is the candidate whose ttl is nearest to today's, by ratio.
func (g *Group) nearest() (nearest int) {
	off := func(c int) float64 { return math.Abs(math.Log(float64(candidates[c]) / float64(max(g.TTL, 1)))) }
	for c := range candidates {
		if off(c) < off(nearest) {
			nearest = c
		}
	}
	return nearest
}

// list is one watched list, with one cache for each candidate.
type list struct {
	hash    uint64
	last    int64   // look-up, Unix ns
	lookups float64 // aged
	fills   float64 // aged; of the real cache
	noted   uint32  // look-ups since the last step
	every   uint32  // as in thinned, of a hot list
	waiting uint32  // bit c: the fill of candidate c that runs has callers waiting
	size    uint32  // of the entry; 0: unknown
	newest  observation
	history history // of its changes
	cells   [candidateCount]cell
}

// observation is a body and when the legacy gave it.
type observation struct {
	at   int64 // Unix ns; 0: none yet
	body uint64
}

// cell is one candidate's cache of one list. The counts are aged.
type cell struct {
	filled  int64   // when the legacy answered, Unix ns; 0 (long ago) at first
	fresh   int64   // for how long from then on, ns
	waits   float32 // look-ups that waited for the legacy
	fetches float32 // requests to the legacy
	age     float64 // sum over all answers, seconds
	ageSq   float64
}

// histogram is of the ages of a candidate's answers, from 0 to its maxAge.
type histogram [candidateCount][ageBuckets]float64

// farAhead is how far in the future a fill may lie and still be taken for one
// that runs. Beyond, the clock was set back, and like the real cache no candidate
// uses what it holds.
const farAhead = int64(time.Minute)

// simulate runs one look-up through all candidates, by the rules of the real
// cache: fresh is served; stale within stale_while_revalidate is served while one
// refresh runs; else the caller waits, and so does everyone who comes before the
// legacy has answered. An answer that was waited for is of age 0. Unlike in the real cache
// there is no stale_if_error: the legacy is taken to be well.
func (k *list) simulate(p *Group, now, latency int64, ages *histogram) {
	k.lookups++
	k.last = max(k.last, now)
	for c := range k.cells {
		cell := &k.cells[c]
		age := now - cell.filled
		switch {
		case age < 0 && age > -farAhead && k.waiting&(1<<c) != 0:
			cell.waits++ // for a fill that another look-up began
			age = 0
		case age < 0 && age > -farAhead:
			age = cell.fresh // served while it is refreshed: it had just gone stale
		case age < 0 || age >= cell.fresh:
			stale := age >= 0 && age < cell.fresh+int64(p.StaleWhileRevalidate)
			cell.fetches++
			k.fill(p, c, now+latency)
			k.waiting &^= 1 << c
			if !stale {
				cell.waits++
				k.waiting |= 1 << c
				age = 0
			}
		}
		if age > 0 {
			seconds := float64(age) * 1e-9
			cell.age += seconds
			cell.ageSq += seconds * seconds
		}
		ages[c][min(age*ageBuckets/p.maxAge(c), ageBuckets-1)]++
	}
}

// fill has a candidate filled. Like the real cache's, the jitter of a ttl is fixed by the list
// and the moment of the fill, though not to the same value.
func (k *list) fill(p *Group, c int, at int64) {
	jitter := p.Jitter * float64(mix(k.hash^uint64(at))>>11) / (1 << 53)
	k.cells[c].filled, k.cells[c].fresh = at, int64(float64(candidates[c])*(1-jitter))
}

// guess makes up each candidate's cache of a list that has not been watched: at
// this many look-ups per nanosecond it is likely to hold the list, filled at any
// moment of the last ttl, or since the start.
func (k *list) guess(p *Group, now int64, rate float64, start int64) {
	for c, ttl := range candidates {
		expected := rate * float64(p.maxAge(c))
		dice := mix(k.hash + uint64(c))
		switch {
		case float64(dice>>32)/(1<<32) > expected/(1+expected): // it does not hold it
		case int64(ttl) > now-start:
			k.fill(p, c, start)
		default:
			k.fill(p, c, now-int64(float64(ttl)*float64(uint32(dice))/(1<<32)))
		}
	}
}

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

// observe takes in a body that was seen, if it is newer than what was known.
func (k *list) observe(o observation) {
	if o.at <= k.newest.at {
		return
	}
	if k.newest.at != 0 {
		changed := o.body != k.newest.body
		if !changed && o.at-k.newest.at < int64(shortestInterval) {
			return // the same answer, its moment taken from a log
		}
		k.history.add(float64(o.at-k.newest.at)*1e-9, changed)
	}
	k.newest = o
}
