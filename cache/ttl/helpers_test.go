package ttl

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// start is a midnight, so that a day of a trace is a day.
var start = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

// at is a moment of a test.
func at(d time.Duration) time.Time { return start.Add(d) }

// lookup is one look-up of a trace.
type lookup struct {
	list int
	at   time.Duration
}

// traffic describes a random trace.
type traffic struct {
	seed    uint64
	lists   int           // different ones at most
	lookups int           // about
	span    time.Duration // of the whole trace
	skew    float64       // Zipf exponent, above 1
	wave    float64       // 0 even, 1 silent at night
	bursts  float64       // share of look-ups that start a burst of the same list
}

func (s traffic) trace() (out []lookup) {
	r := rand.New(rand.NewPCG(s.seed, 1))
	zipf := rand.NewZipf(r, s.skew, 8, uint64(s.lists-1))
	for len(out) < s.lookups {
		when := time.Duration(r.Float64() * float64(s.span))
		hour := when.Hours() / 24 * 2 * math.Pi
		if r.Float64() > (1-s.wave*math.Cos(hour))/(1+s.wave) {
			continue
		}
		list := int(zipf.Uint64())
		out = append(out, lookup{list, when})
		if r.Float64() < s.bursts {
			for range 2 + r.IntN(10) {
				when += time.Duration(r.ExpFloat64() * float64(800*time.Millisecond))
				out = append(out, lookup{list, when})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b lookup) int { return cmp.Compare(a.at, b.at) })
	return out
}

// changing is a legacy system whose lists change at random, each at its own rate: these are
// the moments by list.
type changing [][]time.Duration

// changing draws rates between slow and fast changes per hour, evenly on a logarithmic scale.
func (s traffic) changing(slow, fast float64) changing {
	r := rand.New(rand.NewPCG(s.seed, 2))
	all := make(changing, s.lists)
	for list := range all {
		mean := float64(time.Hour) / (slow * math.Pow(fast/slow, r.Float64()))
		for at := r.ExpFloat64() * mean; at < float64(s.span+time.Hour); at += r.ExpFloat64() * mean {
			all[list] = append(all[list], time.Duration(at))
		}
	}
	return all
}

// body numbers the states of a list, from 1.
func (l changing) body(list int, at time.Duration) uint64 {
	return 1 + uint64(sort.Search(len(l[list]), func(i int) bool { return l[list][i] > at }))
}

// served is what a cache with a ttl and no stale window does with a trace: what its look-ups saw,
// and the share of outdated answers from a moment on.
func (l changing) served(trace []lookup, ttl, from time.Duration) (seen []Lookup, outdated float64) {
	filled, n, bad := map[int]time.Duration{}, 0.0, 0.0
	for i, ev := range trace {
		took := int64(0)
		if last, ok := filled[ev.list]; !ok || ev.at-last >= ttl {
			filled[ev.list], took = ev.at, 1
		}
		body := l.body(ev.list, filled[ev.list])
		seen = append(seen, Lookup{
			At: at(ev.at).UnixNano(), List: mix(uint64(ev.list) + 1), Body: body, Answered: at(filled[ev.list]).UnixNano(), Took: took, Number: uint64(i + 1),
		})
		if ev.at < from {
			continue
		}
		if n++; body != l.body(ev.list, ev.at) {
			bad++
		}
	}
	return seen, bad / n
}
