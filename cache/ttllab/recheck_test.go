package ttllab

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func recheckLab(t *testing.T, perSecond float64) *Estimator {
	t.Helper()
	p := Policy{TTL: 100 * time.Second}
	e, err := New(Options{Kinds: []Kind{{Name: "buyer", Policy: p}, {Name: "seller", Policy: p}}, HalfLife: -1, Config: Config{Recheck: RecheckConfig{perSecond}}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRechecksKeepToTheirBudget(t *testing.T) {
	e := recheckLab(t, 2)
	e.Filled(0, Fill{Key: 1, AnsweredAt: start, Body: 1, Ref: "one"})
	if _, ok := e.Next(start); ok {
		t.Error("a key that was never looked up was proposed")
	}
	e.Lookup(0, 1, start)
	e.Filled(0, Fill{Key: 1, AnsweredAt: start, Body: 1, Ref: "one"})
	got := 0
	for i := range 1000 { // 10 s
		now := at(time.Duration(i) * 10 * time.Millisecond)
		e.Lookup(0, 1, now)
		if r, ok := e.Next(now); ok {
			got++
			if r.Ref != "one" || r.Kind != 0 || !r.AnsweredAt.Equal(start) {
				t.Fatalf("%+v", r)
			}
		}
	}
	if got < 20 || got > 22 {
		t.Errorf("%d re-checks in 10 s at 2 per second", got)
	}
	off := recheckLab(t, 0)
	off.Filled(0, Fill{Key: 1, AnsweredAt: start, Ref: 1})
	off.Lookup(0, 1, at(time.Second))
	if _, ok := off.Next(at(time.Second)); ok {
		t.Error("a re-check without a budget")
	}
}

func TestOnlyAnswersFromTheCacheAreProposed(t *testing.T) {
	e := recheckLab(t, 1000)
	for key := range uint64(3) {
		e.Lookup(0, key, start)
	}
	e.Filled(0, Fill{Key: 1, AnsweredAt: start, Body: 1, Ref: "fresh"})
	e.Filled(0, Fill{Key: 2, AnsweredAt: start, Body: 1}) // no Ref
	if _, ok := e.Next(at(time.Second)); ok {
		t.Error("proposed, though nothing was answered from the cache")
	}
	for key := range uint64(3) {
		e.Lookup(0, key, at(2*time.Second))
	}
	if r, ok := e.Next(at(2 * time.Second)); !ok || r.Ref != "fresh" {
		t.Errorf("%+v, %t", r, ok)
	}
	e.Lookup(0, 1, at(101*time.Second)) // past its ttl: filled for this caller
	if r, ok := e.Next(at(101 * time.Second)); ok {
		t.Errorf("proposed %+v", r)
	}
}

// Lists are proposed as often as they are served, whatever their kind.
func TestProposalsFollowTheAnswers(t *testing.T) {
	e := recheckLab(t, 1000)
	shares := []int{1, 3, 6}
	for i := range shares {
		e.Lookup(i%2, uint64(i), start)
		e.Filled(i%2, Fill{Key: uint64(i), AnsweredAt: start, Body: 1, Ref: i})
	}
	var got [3]float64
	r := rand.New(rand.NewPCG(1, 1))
	const n = 4000
	for i := range n {
		now := at(time.Duration(i+1) * 10 * time.Millisecond)
		for key, share := range shares {
			for range share {
				e.Lookup(key%2, uint64(key), now.Add(time.Duration(r.IntN(1e6))))
			}
		}
		if c, ok := e.Next(now); ok {
			got[c.Ref.(int)]++
		}
	}
	sum := got[0] + got[1] + got[2]
	for key, share := range shares {
		if math.Abs(got[key]/sum-float64(share)/10) > 0.03 {
			t.Errorf("key %d got %.3f of %g proposals, want %.1f", key, got[key]/sum, sum, float64(share)/10)
		}
	}
	if sum < n/2 {
		t.Errorf("%g proposals", sum)
	}
}

func TestServedOutdated(t *testing.T) {
	e := recheckLab(t, 1)
	e.Lookup(0, 1, start)
	e.Filled(0, Fill{Key: 1, AnsweredAt: start, Body: 7, Ref: 1})
	for i := range 40 { // answers from the cache: 40 of 41
		now := at(time.Duration(i+1) * 2 * time.Second)
		e.Lookup(0, 1, now)
		r, ok := e.Next(now)
		if !ok {
			t.Fatalf("no proposal at %s", now)
		}
		body := uint64(7)
		if i%4 == 3 {
			body = 8
		}
		e.Rechecked(r, now, body)
	}
	s := e.Report(at(90 * time.Second)).Kinds[0].Served
	if want := 0.25 * 40 / 41; s.Checks != 40 || !near(s.Outdated, want) || s.Low >= want || s.High <= want || s.Low < 0.1 || s.High > 0.45 {
		t.Errorf("%+v, want %.4f of 40", s, want)
	}
	checked, outdated, seconds := e.Rechecks(0)
	if checked != 40 || outdated != 10 || seconds <= 0 || seconds > 10*80 {
		t.Errorf("%d checked, %d outdated, for %g s", checked, outdated, seconds)
	}
	if s.OutdatedFor != seconds/10 {
		t.Errorf("for %g s each, of %g", s.OutdatedFor, seconds)
	}
	if c := e.Report(at(90 * time.Second)).Kinds[0].Changes; c.Changes != keptChanges || c.Looks < 2*keptChanges-1 {
		t.Errorf("re-checks taught %+v", c)
	}
	e.Rechecked(Recheck{AnsweredAt: at(time.Hour)}, at(time.Minute), 1) // an answer older than the entry
	if n, _, _ := e.Rechecks(0); n != 40 {
		t.Error("an answer from before the fill counts as a re-check")
	}
}

func TestSinceTheChange(t *testing.T) {
	for _, tt := range []struct{ age, rate, want float64 }{
		{100, 0, 50}, {100, 1e-12, 50}, {100, 10, 99.9}, {100, 0.01, 58.1977},
	} {
		if got := sinceChange(tt.age, tt.rate); math.Abs(got-tt.want) > 1e-3 {
			t.Errorf("sinceChange(%g, %g) = %g, want %g", tt.age, tt.rate, got, tt.want)
		}
	}
}
