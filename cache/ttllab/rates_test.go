package ttllab

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// observed looks at a list that changes at a rate, at irregular moments.
func observed(r *rand.Rand, rate float64, n int, gap func() float64) looks {
	var l looks
	for range n {
		t := gap()
		l.add(t, r.Float64() < -math.Expm1(-rate*t))
	}
	return l
}

func TestTheRateOfChangeIsNotBiasedByWhenOneLooks(t *testing.T) {
	const rate = 1.0 / 600
	tests := []struct {
		name string
		keys int
		n    int
		gap  func(r *rand.Rand) float64
	}{
		{"often", 200, 200, func(*rand.Rand) float64 { return 30 }},
		{"seldom", 500, 20, func(*rand.Rand) float64 { return 900 }},
		{"irregularly", 500, 30, func(r *rand.Rand) float64 { return 5 + 1200*r.Float64()*r.Float64() }},
		{"few looks per key", 3000, 2, func(r *rand.Rand) float64 { return 300 * r.ExpFloat64() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			keys := make([]looks, tt.keys)
			var counted, seconds float64
			for i := range keys {
				keys[i] = observed(r, rate, tt.n, func() float64 {
					gap := tt.gap(r)
					seconds += gap
					return gap
				})
				counted += float64(keys[i].count)
			}
			p := pool(keys)
			if math.Abs(p.rate/rate-1) > 0.05 || math.Abs(p.rate-rate) > 4*p.stdErr {
				t.Errorf("rate %.6f +- %.6f, is %.6f; counting changes gives %.6f", p.rate, p.stdErr, rate, counted/seconds)
			}
		})
	}
}

// For looks at even intervals the estimate is the one in closed form.
func TestEvenLooksGiveTheClosedForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, keptChanges).Draw(t, "looks")
		x := rapid.IntRange(1, n).Draw(t, "changes")
		gap := rapid.Float64Range(1, 1e5).Draw(t, "gap")
		var l looks
		for i := range n {
			l.add(gap, i < x)
		}
		want := -math.Log((float64(n-x)+0.5)/(float64(n)+0.5)) / gap
		if p := pool([]looks{l}); math.Abs(p.rate/want-1) > 1e-5 || p.looks != n || p.changes != x {
			t.Fatalf("%+v, want a rate of %g", p, want)
		}
	})
}

func TestOneKeysRateIsDrawnTowardsItsKinds(t *testing.T) {
	const kind = 0.01
	var none, quiet, busy looks
	for range 1000 {
		quiet.add(100, false)
		busy.add(1, true)
	}
	if got := none.rateOf(kind); got != kind {
		t.Errorf("without a look %g, want the kind's %g", got, kind)
	}
	if got := quiet.rateOf(kind); got <= 0 || got > 1e-5 {
		t.Errorf("after 100,000 quiet seconds %g", got)
	}
	if got := busy.rateOf(kind); got < 10*kind {
		t.Errorf("with a change each second %g", got)
	}
	if got := busy.rateOf(0); got != 0 {
		t.Errorf("of a kind that never changes %g", got)
	}
}

func TestOldChangesAreForgotten(t *testing.T) {
	var l looks
	for range 100 {
		l.add(1, false)
		l.add(1, true)
	}
	for range keptChanges {
		l.add(500, false)
		l.add(500, true)
	}
	if q := l.quiet(); q.seconds != keptChanges*500 || q.looks != keptChanges || len(l.all()) != keptChanges {
		t.Errorf("%+v, %d changes", q, len(l.all()))
	}
}

// exact is the share of outdated answers by summing over the ages.
func exact(ages []float64, rate float64) float64 {
	sum := 0.0
	for _, a := range ages {
		sum -= math.Expm1(-rate * a)
	}
	return sum / float64(len(ages))
}

func TestTheChanceOfAnOutdatedAnswer(t *testing.T) {
	shapes := map[string]func(i int) float64{
		"spread evenly":    func(i int) float64 { return float64(i) / 10 },
		"mostly new":       func(i int) float64 { return 100 * math.Pow(float64(i)/1000, 3) },
		"all the same":     func(int) float64 { return 50 },
		"half of them new": func(i int) float64 { return float64(i%2*i) / 10 },
	}
	for name, shape := range shapes {
		for _, rate := range []float64{1e-5, 1e-3, 0.01, 0.05, 0.5} {
			var c cell
			ages := make([]float64, 1000)
			for i := range ages {
				ages[i] = shape(i)
				c.age += ages[i]
				c.ageSq += ages[i] * ages[i]
			}
			tolerance := 1e-3
			if name == "mostly new" && rate > 0.01 {
				tolerance = 0.2 // no cache's ages, and all the answers there are
			} else if name == "mostly new" {
				tolerance = 0.03
			}
			got, spread := c.outdated(1000, guess{rate, 1e9}) // a rate that is certain
			want := exact(ages, rate)
			if got /= 1000; spread > 1 {
				t.Errorf("%s, rate %g: variance %g", name, rate, spread)
			}
			if math.Abs(got-want) > tolerance {
				t.Errorf("%s, rate %g: %.4f, want %.4f", name, rate, got, want)
			}
		}
	}
}

func TestBodiesAreComparedOnlyForwards(t *testing.T) {
	var k list
	s := func(d time.Duration, body uint64) sighting { return sighting{at(d).UnixNano(), body} }
	for _, step := range []struct {
		seen    sighting
		changed bool
		looks   uint32
	}{
		{s(0, 1), false, 0},
		{s(time.Minute, 1), false, 1},
		{s(time.Minute, 2), false, 1},                   // the same moment
		{s(30*time.Second, 2), false, 1},                // older
		{s(time.Minute+time.Millisecond, 1), false, 1},  // the same answer again
		{s(time.Minute+2*time.Millisecond, 2), true, 2}, // soon, but another body
		{s(time.Hour, 1), true, 3},
	} {
		before := k.looks.count
		if k.observe(step.seen); k.looks.count != before != step.changed {
			t.Errorf("%+v: changed %t", step.seen, !step.changed)
		}
		if n := k.looks.quiet().looks + k.looks.count; n != step.looks {
			t.Errorf("%+v: %d looks, want %d", step.seen, n, step.looks)
		}
	}
}

// Lists that differ a hundredfold: one rate for all looks is far too low, the
// mean of the keys' own is not.
func TestRestlessListsAreNotLostInTheMean(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	keys := make([]looks, 2000)
	var truth float64
	for i := range keys {
		rate := 1e-5 * math.Pow(100, r.Float64())
		truth += rate / float64(len(keys))
		keys[i] = observed(r, rate, 10, func() float64 { return 8000 * r.ExpFloat64() })
	}
	one := pool(keys).rate
	if got, _ := typical(keys, one); one > 0.8*truth || math.Abs(got/truth-1) > 0.15 {
		t.Errorf("mean rate %.3g from keys, %.3g from all looks together, is %.3g", got, one, truth)
	}
}
