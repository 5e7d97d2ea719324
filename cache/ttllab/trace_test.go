package ttllab_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// begin is a midnight, so that a day of a trace is a day.
var begin = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

// lookup is one look-up of a trace.
type lookup struct {
	key int
	at  time.Time
}

// shape describes the traffic of a trace.
type shape struct {
	seed    uint64
	keys    int           // distinct keys at most
	lookups int           // about
	span    time.Duration // of the whole trace
	skew    float64       // Zipf exponent, above 1
	wave    float64       // 0 even, 1 silent at night
	bursts  float64       // share of look-ups that start a burst of the same key
}

func (s shape) trace() []lookup {
	r := rand.New(rand.NewPCG(s.seed, 1))
	zipf := rand.NewZipf(r, s.skew, 8, uint64(s.keys-1))
	var out []lookup
	for len(out) < s.lookups {
		at := time.Duration(r.Float64() * float64(s.span))
		hour := at.Hours() / 24 * 2 * math.Pi
		if r.Float64() > (1-s.wave*math.Cos(hour))/(1+s.wave) {
			continue
		}
		k := int(zipf.Uint64())
		out = append(out, lookup{k, begin.Add(at)})
		if r.Float64() < s.bursts {
			for range 2 + r.IntN(10) {
				at += time.Duration(r.ExpFloat64() * float64(800*time.Millisecond))
				out = append(out, lookup{k, begin.Add(at)})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b lookup) int { return a.at.Compare(b.at) })
	return out
}

// changing is a legacy system whose lists change at random, each at its own rate.
type changing struct{ changes [][]time.Time }

// newWorld draws rates between slow and fast changes per hour, evenly on a
// logarithmic scale.
func newChanging(s shape, slow, fast float64) *changing {
	r := rand.New(rand.NewPCG(s.seed, 2))
	w := &changing{changes: make([][]time.Time, s.keys)}
	end := begin.Add(s.span + time.Hour)
	for k := range w.changes {
		perHour := slow * math.Pow(fast/slow, r.Float64())
		for at := begin; ; {
			at = at.Add(time.Duration(r.ExpFloat64() / perHour * float64(time.Hour)))
			if at.After(end) {
				break
			}
			w.changes[k] = append(w.changes[k], at)
		}
	}
	return w
}

// version numbers the states of a list.
func (w *changing) version(key int, at time.Time) int {
	n, _ := slices.BinarySearchFunc(w.changes[key], at, func(c, at time.Time) int {
		if c.After(at) {
			return 1
		}
		return -1
	})
	return n
}
