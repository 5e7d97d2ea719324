package ttllab

import (
	"inquiry-gateway/cache"

	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plain is one TTL of one key, written down as simply as possible: no jitter, no
// sampling, the legacy answers at once.
type plain struct {
	filled            bool
	fill              time.Duration
	waits, fetches, n float64
	age               float64
}

func (p *plain) lookup(now, ttl, swr time.Duration) {
	p.n++
	age := now - p.fill
	if p.filled && age < ttl {
		p.age += age.Seconds()
		return
	}
	p.fetches++
	if p.filled && age < ttl+swr {
		p.age += age.Seconds()
	} else {
		p.waits++
	}
	p.filled, p.fill = true, now
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(a), math.Abs(b)) }

func TestWithoutSamplingTheFiguresAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		swr := time.Duration(rapid.IntRange(0, 1000).Draw(t, "swr")) * time.Second
		e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: Policy{TTL: time.Minute, StaleWhileRevalidate: swr}}}})
		trace := drawTrace(t)
		models := [candidateCount]map[uint64]*plain{}
		for c := range models {
			models[c] = map[uint64]*plain{}
		}
		for _, ev := range trace {
			e.kinds[0].looked(ev.key, at(ev.at))
			for c, ttl := range candidates {
				if models[c][ev.key] == nil {
					models[c][ev.key] = &plain{}
				}
				models[c][ev.key].lookup(ev.at, ttl, swr)
			}
		}
		end := trace[len(trace)-1].at + time.Second
		k := e.report(at(end)).Kinds[0]
		for c, row := range k.Candidates {
			var sum plain
			for _, p := range models[c] {
				sum.n, sum.waits, sum.fetches, sum.age = sum.n+p.n, sum.waits+p.waits, sum.fetches+p.fetches, sum.age+p.age
			}
			observed := (end - trace[0].at).Seconds()
			if !near(row.HitRatio.Value, 1-sum.waits/sum.n) || !near(row.Upstream.Value*observed, sum.fetches) || !near(row.MeanAge.Value, sum.age/sum.n) {
				t.Fatalf("ttl %s: %+v, want %d waits, %d fetches, age %g of %d",
					candidates[c], row, int(sum.waits), int(sum.fetches), sum.age, int(sum.n))
			}
			if row.HitRatio.StdErr != 0 || row.Upstream.StdErr != 0 {
				t.Fatalf("ttl %s: a sampling error without sampling: %+v", candidates[c], row)
			}
		}
	})
}

// A longer TTL never asks the legacy more often: its n-th fetch is never earlier.
// The hit ratio rises with it too, but only where no list is served while it is
// refreshed: there a shorter TTL can refresh a list just before a pause.
func TestLongerTTLsAskLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{TTL: time.Minute, StaleWhileRevalidate: time.Duration(rapid.IntRange(0, 3).Draw(t, "swr")) * 20 * time.Second}
		e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: p}}})
		trace := drawTrace(t)
		for _, ev := range trace {
			e.kinds[0].looked(ev.key, at(ev.at))
		}
		rows := e.report(at(trace[len(trace)-1].at + time.Second)).Kinds[0].Candidates
		for c := 1; c < len(rows); c++ {
			if rows[c].Upstream.Value > rows[c-1].Upstream.Value+1e-9 {
				t.Fatalf("ttl %s asks more often than %s: %v, %v", candidates[c], candidates[c-1], rows[c].Upstream, rows[c-1].Upstream)
			}
			if p.StaleWhileRevalidate == 0 && rows[c].HitRatio.Value < rows[c-1].HitRatio.Value-1e-9 {
				t.Fatalf("ttl %s hits less than %s: %v, %v", candidates[c], candidates[c-1], rows[c].HitRatio, rows[c-1].HitRatio)
			}
		}
		for c, row := range rows {
			if most := float64(candidates[c]+p.StaleWhileRevalidate) * 1e-9; row.P99Age > most || row.MeanAge.Value > most || row.P99Age < 0 {
				t.Fatalf("ttl %s: ages %+v above %g", candidates[c], row, most)
			}
		}
	})
}

func TestJitterShortensTheTTL(t *testing.T) {
	r := newRules(Policy{Jitter: 0.5})
	low, high := int64(math.MaxInt64), int64(0)
	for fill := range int64(1000) {
		d := r.fresh(8, 42, fill)
		low, high = min(low, d), max(high, d)
	}
	ttl := int64(candidates[8])
	if low < ttl/2 || low > ttl*55/100 || high > ttl || high < ttl*95/100 {
		t.Errorf("fresh for %s to %s of %s", time.Duration(low), time.Duration(high), candidates[8])
	}
}

// While the legacy works on a miss everyone waits; while it works on a refresh
// nobody does. Neither asks it again.
func TestTheLegacysLatencyIsPartOfTheSimulation(t *testing.T) {
	e := newLab(t, 0, Policy{TTL: time.Minute, StaleWhileRevalidate: time.Minute})
	e.kinds[0].filled(fill{Answer: Answer{Hash: 99, At: start.UnixNano()}, took: 200 * time.Millisecond})
	for _, d := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 2100 * time.Millisecond} {
		e.kinds[0].looked(1, at(d))
	}
	row := e.report(at(4 * time.Second)).Kinds[0].Candidates[0] // 1 s
	if !near(row.HitRatio.Value, 3.0/5) || !near(row.Upstream.Value*4, 2) {
		t.Errorf("hit ratio %v, upstream %v/s, want 3 of 5 and 2 in 4 s", row.HitRatio, row.Upstream)
	}
}

func TestAClockThatIsSetBackMakesAMiss(t *testing.T) {
	e := newLab(t, 0, Policy{TTL: time.Minute})
	for _, d := range []time.Duration{2 * time.Hour, time.Hour, time.Hour + 500*time.Millisecond} {
		e.kinds[0].looked(1, at(d))
	}
	row := e.report(at(3 * time.Hour)).Kinds[0].Candidates[0]
	if !near(row.HitRatio.Value, 1.0/3) {
		t.Errorf("hit ratio %v, want a hit after two misses", row.HitRatio)
	}
}

func TestListsOfNoGroupAreIgnored(t *testing.T) {
	k, a, none := &cache.Key{Kind: "admin"}, &Answer{}, (*Lab)(nil)
	for _, l := range []*Lab{none, NewLab([]Kind{{Name: "buyer", Kind: "buyer"}}, Config{}, nil)} {
		l.Looked(k, 1, start)
		l.filled(k, a, 1, 1)
		l.Waited(k)
		l.Hit(k, a, sum(0), start)
		l.Served(k, a, sum(0), start)
		if l == none {
			continue
		}
		if got := l.Report().Kinds[0]; got.WatchedKeys != 0 || len(got.Candidates) != 0 || got.LookupsPerSecond != 0 {
			t.Errorf("%+v", got)
		}
	}
}

func TestFirstSlowFillIsForgotten(t *testing.T) {
	e := newLab(t, 8, Policy{TTL: time.Minute})
	for i, took := range []time.Duration{time.Second, 10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond} {
		e.kinds[0].filled(fill{Answer: Answer{Hash: uint64(i)}, took: took})
	}
	if got := time.Duration(e.kinds[0].latency.Load()); got != 208*time.Millisecond {
		t.Errorf("the legacy is taken to need %v, want the average of five", got)
	}
}
