package ttllab

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What becomes of rates, the share of outdated answers and its error, is held by
// TestIntervalsHoldTheTruth and by what the real cache does.

func TestTheRateOfChangeIsNotBiasedByWhenOneLooks(t *testing.T) {
	const rate = 1.0 / 600
	for name, tt := range map[string]struct {
		lists, looks int
		gap          func(r *rand.Rand) float64
	}{
		"often":       {200, 200, func(*rand.Rand) float64 { return 30 }},
		"seldom":      {500, 20, func(*rand.Rand) float64 { return 900 }},
		"irregularly": {500, 30, func(r *rand.Rand) float64 { return 5 + 1200*r.Float64()*r.Float64() }},
		"few looks":   {3000, 2, func(r *rand.Rand) float64 { return 300 * r.ExpFloat64() }},
	} {
		r, lists := rand.New(rand.NewPCG(1, 1)), make([]history, tt.lists)
		for i := range lists {
			for range tt.looks {
				gap := tt.gap(r)
				lists[i].add(gap, r.Float64() < -math.Expm1(-rate*gap))
			}
		}
		p := pool(lists)
		if math.Abs(p.rate/rate-1) > 0.05 || math.Abs(p.rate-rate) > 4*p.stdErr {
			t.Errorf("%s: rate %.6f +- %.6f, is %.6f", name, p.rate, p.stdErr, rate)
		}
	}
}

// For looks at even intervals the estimate is the one in closed form.
func TestEvenLooksGiveTheClosedForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, keptChanges).Draw(t, "looks")
		x := rapid.IntRange(1, n).Draw(t, "changes")
		gap := rapid.Float64Range(1, 1e5).Draw(t, "gap")
		var h history
		for i := range n {
			h.add(gap, i < x)
		}
		want := -math.Log((float64(n-x)+0.5)/(float64(n)+0.5)) / gap
		if p := pool([]history{h}); math.Abs(p.rate/want-1) > 1e-5 || p.intervals != n || p.changes != x {
			t.Fatalf("%+v, want a rate of %g", p, want)
		}
	})
}

func TestBodiesAreComparedOnlyForwards(t *testing.T) {
	var l list
	for i, step := range []struct {
		at             time.Duration
		body           uint64
		looks, changes uint32
	}{
		{0, 1, 0, 0},
		{time.Minute, 1, 1, 0},
		{time.Minute, 2, 1, 0},                      // the same moment
		{30 * time.Second, 2, 1, 0},                 // older
		{time.Minute + time.Millisecond, 1, 1, 0},   // the same answer again
		{time.Minute + 2*time.Millisecond, 2, 2, 1}, // soon, but another body
		{time.Hour, 1, 3, 2},
	} {
		l.observe(observation{at(step.at).UnixNano(), step.body})
		if n := l.history.quiet().intervals + l.history.count; n != step.looks || l.history.count != step.changes {
			t.Errorf("step %d: %d looks, %d changes, want %+v", i, n, l.history.count, step)
		}
	}
}
