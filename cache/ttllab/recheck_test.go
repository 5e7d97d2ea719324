package ttllab

import (
	"inquiry-gateway/cache"

	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

func recheckLab(t *testing.T, perSecond float64) *estimator {
	t.Helper()
	p := Policy{TTL: 100 * time.Second}
	e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: p}, {Name: "seller", Policy: p}}, config: Config{Recheck: cache.RecheckConfig{BudgetPerSecond: perSecond}}})
	return e
}

// answer is a list as the cache holds it.
func answer(key, body uint64, at time.Time) *Answer {
	return &Answer{Hash: key, Source: body, At: at.UnixNano()}
}

func sum(body uint64) *Sum {
	var s Sum
	binary.LittleEndian.PutUint64(s[:], body)
	return &s
}

// picked is the next re-check, if there is one.
func picked(e *estimator) (recheck, bool) {
	select {
	case r := <-e.picker.picked:
		return r, true
	default:
		return recheck{}, false
	}
}

func TestRechecksKeepToTheirBudget(t *testing.T) {
	e, got := recheckLab(t, 2), 0
	e.kinds[0].looked(1, start) // no answer out of the cache
	for i := range 1000 {       // 10 s
		now := at(time.Duration(i) * 10 * time.Millisecond)
		e.kinds[0].hit(&cache.Key{Account: "one"}, answer(1, 1, start), sum(1), now)
		if i%100 == 99 {
			e.tune(now)
		}
		if r, ok := picked(e); ok {
			got++
			if r.list.Account != "one" || r.lab != e.kinds[0] || r.answeredAt != start.UnixNano() {
				t.Fatalf("%+v", r)
			}
		}
	}
	if got < 12 || got > 22 {
		t.Errorf("%d re-checks in 10 s at 2 per second", got)
	}
	off := recheckLab(t, 0)
	off.kinds[0].hit(&cache.Key{}, answer(1, 1, start), sum(1), at(time.Second))
	if _, ok := picked(off); ok {
		t.Error("a re-check without a budget")
	}
}

// Answers are re-checked as often as they are given, whatever their kind.
func TestRechecksFollowTheAnswers(t *testing.T) {
	e := recheckLab(t, 100)
	shares := []int{1, 3, 6}
	var got [3]float64
	for i := range 40 * 1000 {
		now := at(time.Duration(i) * time.Millisecond)
		for key, share := range shares {
			for range share {
				e.kinds[key%2].hit(&cache.Key{Account: string(rune('0' + key))}, answer(uint64(key), 1, start), sum(1), now)
			}
		}
		if i%1000 == 0 {
			e.tune(now)
		}
		for r, ok := picked(e); ok; r, ok = picked(e) {
			got[r.list.Account[0]-'0']++
		}
	}
	sum := got[0] + got[1] + got[2]
	for key, share := range shares {
		if math.Abs(got[key]/sum-float64(share)/10) > 0.03 {
			t.Errorf("key %d got %.3f of %g re-checks, want %.1f", key, got[key]/sum, sum, float64(share)/10)
		}
	}
	if sum < 2000 {
		t.Errorf("%g re-checks", sum)
	}
}

func TestServedOutdated(t *testing.T) {
	e := recheckLab(t, 1)
	e.kinds[0].looked(1, start)
	e.kinds[0].waited.Add(1)
	e.kinds[0].looked(2, start)
	e.kinds[0].failed.Add(1)
	for i := range 40 { // answers out of the cache: 40 of 41
		now := at(time.Duration(i+1) * 2 * time.Second)
		e.kinds[0].hit(&cache.Key{}, answer(1, 7, start), sum(7), now)
		r, ok := picked(e)
		if !ok {
			t.Fatalf("no re-check at %s", now)
		}
		body := uint64(7)
		if i%4 == 3 {
			body = 8
		}
		r.compared(sighting{now.UnixNano(), body})
	}
	s := e.report(at(90 * time.Second)).Kinds[0].Served
	if want := 0.25 * 40 / 41; s.Checks != 40 || !near(s.Outdated, want) || s.Low >= want || s.High <= want {
		t.Errorf("%+v, want %.4f of 40", s, want)
	}
	if s.Low > 0.01 || s.High < 0.9 {
		t.Errorf("%+v: 40 re-checks of one list say little", s)
	}
	c := e.kinds[0].checks.total()
	if c.checked != 40 || c.outdated != 10 || c.answers != 40 || c.outdatedAnswers != 10 || c.seconds <= 0 || c.seconds > 10*80 {
		t.Errorf("%+v", c)
	}
	if s.OutdatedFor != c.seconds/10 {
		t.Errorf("for %g s each, of %g", s.OutdatedFor, c.seconds)
	}
	if c := e.report(at(90 * time.Second)).Kinds[0].Changes; c.Changes != keptChanges || c.Looks < 2*keptChanges-1 {
		t.Errorf("re-checks taught %+v", c)
	}
	recheck{lab: e.kinds[0], answeredAt: at(time.Hour).UnixNano()}.compared(sighting{at(time.Minute).UnixNano(), 1}) // an answer older than the entry
	if c := e.kinds[0].checks.total(); c.checked != 40 {
		t.Error("an answer from before the fill counts as a re-check")
	}
}

// legacy is a system whose lists change at random, each at its own rate.
type legacy [][]time.Duration

func newLegacy(r *rand.Rand, keys int, slow, fast float64, span time.Duration) legacy {
	l := make(legacy, keys)
	for k := range l {
		mean := float64(time.Hour) / (slow * math.Pow(fast/slow, r.Float64()))
		for at := r.ExpFloat64() * mean; at < float64(span); at += r.ExpFloat64() * mean {
			l[k] = append(l[k], time.Duration(at))
		}
	}
	return l
}

func (l legacy) body(key uint64, at time.Duration) uint64 {
	n := 0
	for n < len(l[key]) && l[key][n] <= at {
		n++
	}
	return uint64(n)
}

// outdated is the share of answers that a cache with a ttl really served outdated. Who
// watches is told of all.
func (l legacy) outdated(trace []event, ttl time.Duration, watch func(ev event, filled time.Duration, hit bool)) float64 {
	filled, n := map[uint64]time.Duration{}, 0
	for _, ev := range trace {
		last, ok := filled[ev.key]
		hit := ok && ev.at-last < ttl
		if !hit {
			filled[ev.key], last = ev.at, ev.at
		}
		if l.body(ev.key, last) != l.body(ev.key, ev.at) {
			n++
		}
		watch(ev, last, hit)
	}
	return float64(n) / float64(len(trace))
}

const watchedTTL = time.Minute

// watchedLegacy runs a cache with watchedTTL in front of a legacy system, and returns what
// the lab says in the end.
func watchedLegacy(run, seed uint64, c Config) (l legacy, trace []event, k KindReport) {
	const keys = 300
	trace = skewed(run, keys, 6000, 300*time.Millisecond)
	end := trace[len(trace)-1].at
	l = newLegacy(rand.New(rand.NewPCG(run, seed)), keys, 1, 100, end)
	e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: Policy{TTL: watchedTTL}}}, keys: 256, config: c})
	tuned := time.Duration(0)
	l.outdated(trace, watchedTTL, func(ev event, filled time.Duration, hit bool) {
		l.tell(e, ev, filled, hit)
		for ; tuned < ev.at; tuned += time.Second {
			e.tune(at(tuned))
		}
	})
	return l, trace, e.report(at(end)).Kinds[0]
}

// In 95 of 100 runs the truth lies in the interval of what the re-checks say, and within
// two standard errors of what is estimated for other TTLs.
func TestIntervalsHoldTheTruth(t *testing.T) {
	testkit.Computes(t)
	const runs = 100
	others := map[int]time.Duration{}
	for _, c := range []int{3, 7, 9, 13} { // 5 s to 5 min
		others[c] = candidates[c]
	}
	held, within := 0, map[int]int{}
	var width, bias float64
	for run := range uint64(runs) {
		l, trace, k := watchedLegacy(run, 5, Config{Recheck: cache.RecheckConfig{BudgetPerSecond: 0.5}})
		shareAt := func(ttl time.Duration) float64 { return l.outdated(trace, ttl, func(event, time.Duration, bool) {}) }
		truth := shareAt(watchedTTL)
		if k.Served.Low <= truth && truth <= k.Served.High {
			held++
		}
		width += (k.Served.High - k.Served.Low) / runs
		bias += (k.Served.Outdated - truth) / runs
		for c, other := range others {
			truth := shareAt(other)
			if o := k.Candidates[c].Outdated; math.Abs(o.Value-truth) <= 1.96*o.StdErr {
				within[c]++
			}
			if o := k.Candidates[c].Outdated; c == 3 && math.Abs(o.Value-truth) > 1.96*o.StdErr {
				t.Logf("run %d, ttl %s: %.4f +- %.4f, truth %.4f", run, other, k.Candidates[c].Outdated.Value, k.Candidates[c].Outdated.StdErr, truth)
			}
		}
	}
	t.Logf("the re-checks' intervals held the truth in %d of %d runs; %.4f wide, off by %.4f on average", held, runs, width, bias)
	if held < 95 || width > 0.2 {
		t.Errorf("%d of %d intervals of re-checks hold the truth; they are %.3f wide on average", held, runs, width)
	}
	for c, n := range within {
		t.Logf("ttl %s: %d of %d", candidates[c], n, runs)
		if n < 95 {
			t.Errorf("ttl %s: the truth was within two standard errors in %d of %d runs", candidates[c], n, runs)
		}
	}
}

// tell tells the lab what a cache would.
func (l legacy) tell(e *estimator, ev event, filled time.Duration, hit bool) {
	key, body := mix(ev.key+1), l.body(ev.key, filled)
	if !hit {
		e.kinds[0].looked(key, at(ev.at))
		e.kinds[0].waited.Add(1)
		e.kinds[0].filled(fill{Answer: Answer{Hash: key, At: at(filled).UnixNano(), Source: body}, bytes: 100})
		return
	}
	e.kinds[0].hit(&cache.Key{}, answer(key, body, at(filled)), sum(body), at(ev.at))
	if r, ok := picked(e); ok {
		r.compared(sighting{at(ev.at).UnixNano(), l.body(ev.key, ev.at)})
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
