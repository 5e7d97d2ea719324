package ttllab

import (
	"math"
	"testing"
	"time"
)

// steady sends look-ups of so many lists in turn, so many a second.
func steady(e *estimator, from, to time.Duration, perSecond, lists int, first uint64) {
	for now := from; now < to; now += time.Second {
		e.tune(at(now))
		for i := range perSecond {
			n := int(now/time.Second)*perSecond + i
			e.kinds[0].looked(mix(first+uint64(n%lists)), at(now+time.Duration(i)*time.Second/time.Duration(perSecond)))
		}
	}
}

// When the traffic becomes another one the report follows within minutes and says so; a
// slow wave is none.
func TestTheReportFollowsAChangeOfTheTraffic(t *testing.T) {
	for name, tt := range map[string]struct {
		perSecond, lists int
		changed          bool
	}{
		"more of the same": {30, 50, true},
		"other lists":      {10, 3000, true},
		"a little more":    {15, 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: Policy{TTL: time.Minute}}}, halfLife: defaultHalfLife})
			const before, after = 2 * time.Hour, 5 * time.Minute
			steady(e, 0, before, 10, 50, 0)
			steady(e, before, before+after, tt.perSecond, tt.lists, 1000)
			k := e.report(at(before + after)).Kinds[0]
			if (k.Regime != nil) != tt.changed {
				t.Fatalf("%+v", k.Regime)
			}
			if !tt.changed {
				return
			}
			if since := at(before); k.Regime.Since.Before(since.Add(-2*time.Minute)) || k.Regime.Since.After(since.Add(2*time.Minute)) {
				t.Errorf("%+v, want since %s", k.Regime, since)
			}
			if k.Observed > 12*60 {
				t.Errorf("%g s are averaged", k.Observed)
			}
			if want := float64(tt.perSecond); math.Abs(k.LookupsPerSecond/want-1) > 0.25 {
				t.Errorf("%.3g look-ups/s, want about %.3g", k.LookupsPerSecond, want)
			}
		})
	}
}

// Another TTL is no other traffic, however many misses it saves.
func TestAnotherTTLIsNoOtherTraffic(t *testing.T) {
	e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: Policy{TTL: time.Second}}}, halfLife: defaultHalfLife})
	const before, after = 20 * time.Minute, 10 * time.Minute
	steady(e, 0, before, 10, 50, 0)
	e.kinds[0].setPolicy(Policy{TTL: 5 * time.Minute})
	steady(e, before, before+after, 10, 50, 0)
	if k := e.report(at(before + after)).Kinds[0]; k.Regime != nil || k.Observed < before.Seconds() {
		t.Errorf("%g s observed, %+v", k.Observed, k.Regime)
	}
}
