package ttllab

import (
	"math"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

func TestWindowOfTheFirstChange(t *testing.T) {
	s := func(seconds float64) int64 { return int64(seconds * 1e9) }
	for _, tt := range []struct {
		known  sighting
		rate   float64
		moment float64
		want   float64
	}{
		{sighting{}, 0, 50, 0.5},         // any moment of 100 s is as likely
		{sighting{}, 0, 0, 0},            // as long ago as the fill
		{sighting{}, 0.01, 50, 0.6225},   // the first of several changes is early
		{sighting{s(80), 7}, 0, 90, 0.5}, // it was still the same at 80 s
		{sighting{s(80), 7}, 0, 70, 0},
		{sighting{s(40), 8}, 0, 50, 1}, // it was another one at 40 s
		{sighting{s(40), 8}, 0, 10, 0.25},
	} {
		w := window{to: s(100), rate: tt.rate}
		w.known(tt.known, 7)
		if got := w.until(s(tt.moment)); math.Abs(got-tt.want) > 1e-3 {
			t.Errorf("%+v: %g", tt, got)
		}
	}
}

// What the re-checks of one fill have seen is not forgotten by those that follow.
func TestReChecksOfOneFillNarrowTheWindow(t *testing.T) {
	e := recheckLab(t, 1)
	e.setConfig(Config{Recheck: RecheckConfig{1}, Goals: GoalsConfig{LateAfter: 10 * time.Second, MaxLatePerMillion: 1}})
	for i := range 40 { // the list changes at 50 s
		now, body := at(time.Duration(i+1)*2*time.Second), uint64(7)
		if i >= 25 {
			body = 8
		}
		e.kinds[0].hit(&List{}, answer(1, 7, start), sum(7), now)
		r, ok := picked(e)
		if !ok {
			t.Fatalf("no re-check at %s", now)
		}
		r.compared(sighting{now.UnixNano(), body})
	}
	if c := e.kinds[0].checks.total(); c.outdatedAnswers != 15 || c.lateAnswers != 10 { // from 62 s to 80 s
		t.Errorf("%+v", c)
	}
}

// late is the share of answers that a cache with watchedTTL really served that long after
// a change.
func (l legacy) late(trace []event, after time.Duration) float64 {
	n := 0
	l.outdated(trace, watchedTTL, func(ev event, filled time.Duration, _ bool) {
		if before := ev.at - after; before > filled && l.body(ev.key, filled) != l.body(ev.key, before) {
			n++
		}
	})
	return float64(n) / float64(len(trace))
}

// With a known legacy system the estimate is right in the mean, and its interval holds
// the truth in 28 of 30 runs.
func TestLateAnswersAreEstimated(t *testing.T) {
	testkit.Computes(t)
	const runs, after = 30, 30 * time.Second
	held := 0
	var truths, estimates, width float64
	for run := range uint64(runs) {
		l, trace, k := watchedLegacy(run, 6, Config{Recheck: RecheckConfig{0.5}, Goals: GoalsConfig{LateAfter: after, MaxLatePerMillion: 1000}})
		truth, got := l.late(trace, after), k.Served.Late
		if got.Low <= truth*1e6 && truth*1e6 <= got.High {
			held++
		}
		truths, estimates, width = truths+truth/runs, estimates+got.PerMillion/1e6/runs, width+(got.High-got.Low)/1e6/runs
	}
	t.Logf("%d of %d intervals hold the truth, %.4f wide; truth %.5f, estimate %.5f", held, runs, width, truths, estimates)
	if held < 28 || math.Abs(estimates-truths) > 0.1*truths || width > 0.2 {
		t.Error("the estimate is not the truth")
	}
}
