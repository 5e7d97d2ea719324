package ttllab

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

// at is a moment of a test.
func at(d time.Duration) time.Time { return start.Add(d) }

func newLab(t testing.TB, keys int, p Policy) *estimator {
	t.Helper()
	e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: p}, {Name: "seller", Policy: p}}, keys: keys})
	return e
}

// event is a look-up of a random trace.
type event struct {
	key uint64
	at  time.Duration
}

// drawTrace makes gaps from milliseconds to days.
func drawTrace(t *rapid.T) []event {
	n := rapid.IntRange(1, 120).Draw(t, "lookups")
	out := make([]event, n)
	var now time.Duration
	for i := range out {
		magnitude := rapid.IntRange(0, 8).Draw(t, "magnitude")
		gap := time.Millisecond
		for range magnitude {
			gap *= 10
		}
		now += gap * time.Duration(rapid.IntRange(0, 9).Draw(t, "gap"))
		out[i] = event{uint64(rapid.IntRange(1, 4).Draw(t, "key")), now}
	}
	return out
}

// skewed is a trace of Zipf keys with exponential gaps of the given mean.
func skewed(seed uint64, keys, n int, gap time.Duration) []event {
	r := rand.New(rand.NewPCG(seed, 7))
	zipf := rand.NewZipf(r, 1.2, 5, uint64(keys-1))
	out := make([]event, n)
	var now time.Duration
	for i := range out {
		now += time.Duration(r.ExpFloat64() * float64(gap))
		out[i] = event{zipf.Uint64(), now}
	}
	return out
}
