package ttllab

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/internal/testkit"
)

// plain is one ttl of one list, written down as simply as possible: no jitter, no
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

// drawTrace makes gaps from milliseconds to days.
func drawTrace(t *rapid.T) []lookup {
	out := make([]lookup, rapid.IntRange(1, 120).Draw(t, "lookups"))
	var now time.Duration
	for i := range out {
		gap := time.Millisecond
		for range rapid.IntRange(0, 8).Draw(t, "magnitude") {
			gap *= 10
		}
		now += gap * time.Duration(rapid.IntRange(0, 9).Draw(t, "gap"))
		out[i] = lookup{rapid.IntRange(1, 4).Draw(t, "list"), now}
	}
	return out
}

// Where every list is watched the figures are exact, and a longer ttl never asks the
// legacy more often.
func TestWithoutSamplingTheFiguresAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		swr := time.Duration(rapid.IntRange(0, 1000).Draw(t, "swr")) * time.Second
		lab, trace := newNode(Group{Terms: cache.Terms{TTL: time.Minute, StaleWhileRevalidate: swr}}, 64), drawTrace(t)
		lab.clock = trace[0].at
		lab.Report() // from here on it observes
		for _, ev := range trace {
			lab.ask(ev.list, ev.at)
		}
		lab.clock += time.Second
		rows := lab.Report().Groups[0].Candidates
		if len(rows) != candidateCount {
			t.Fatalf("%d rows", len(rows))
		}
		observed, before := (lab.clock - trace[0].at).Seconds(), math.Inf(1)
		for c, row := range rows {
			ttl, models, sum := candidates[c], [5]plain{}, plain{}
			for _, ev := range trace {
				models[ev.list].lookup(ev.at, ttl, swr)
			}
			for _, p := range models {
				sum.n, sum.waits, sum.fetches, sum.age = sum.n+p.n, sum.waits+p.waits, sum.fetches+p.fetches, sum.age+p.age
			}
			if !near(row.HitRatio.Value, 1-sum.waits/sum.n) || !near(row.Upstream.Value*observed, sum.fetches) ||
				!near(row.MeanAge.Value, sum.age/sum.n) || row.HitRatio.StdErr != 0 {
				t.Fatalf("ttl %s: %+v, want %+v", ttl, row, sum)
			}
			if row.Upstream.Value > before+1e-9 {
				t.Fatalf("ttl %s asks more often than a shorter one", ttl)
			}
			before = row.Upstream.Value
			if most := (ttl + swr).Seconds(); row.P99Age > most || row.P99Age < 0 {
				t.Fatalf("ttl %s: 99 %% of the ages up to %g, above %g", ttl, row.P99Age, most)
			}
		}
	})
}

// While a fill runs whoever comes waits for it, too, and no other begins.
func TestWhoComesDuringAFillWaits(t *testing.T) {
	var k list
	var ages histogram
	for _, now := range []time.Duration{0, 999 * time.Millisecond, time.Second, 11 * time.Second, 11500 * time.Millisecond} {
		k.simulate(&Group{Terms: cache.Terms{TTL: 10 * time.Second}}, at(now).UnixNano(), int64(time.Second), &ages)
	}
	if c := k.cells[slices.Index(candidates[:], 10*time.Second)]; c.waits != 4 || c.fetches != 2 {
		t.Errorf("%v of 5 look-ups waited for %v fetches, want 4 for 2", c.waits, c.fetches)
	}
}

// Over many samples of one trace the estimates scatter around the truth by what their
// standard errors say: within a factor of two in a trace as short and as skewed as this one,
// where the hot lists are found late and the rest is a tenth.
func TestStandardErrorsAreHonest(t *testing.T) {
	testkit.Computes(t)
	const salts, lists, slack = 25, 2000, 0.01
	trace := traffic{seed: 1, lists: lists, lookups: 15000, span: 12000 * time.Second, skew: 1.2}.trace()
	sampled := func(watched int, salt uint64) (figures [candidateCount][4]Estimate) {
		n := newNode(Group{Terms: cache.Terms{TTL: time.Minute, StaleWhileRevalidate: 10 * time.Second}}, watched)
		n.hash = func(list int) uint64 { return mix(uint64(list)*2 + 1 + salt<<32) }
		run(trace, n)
		for c, row := range n.Report().Groups[0].Candidates {
			figures[c] = [4]Estimate{row.HitRatio, row.Upstream, row.MeanAge, row.RedisBytes}
		}
		return figures
	}
	truth := sampled(2*lists, 0)
	var bias, square, claims [candidateCount][4]float64
	for salt := range uint64(salts) {
		for c, row := range sampled(256, salt+1) {
			for i, e := range row {
				d := e.Value - truth[c][i].Value
				bias[c][i] += d / salts
				square[c][i] += d * d / salts
				claims[c][i] += e.StdErr * e.StdErr / salts
			}
		}
	}
	for c := range candidates {
		for i, name := range []string{"hits", "requests", "age", "Redis"} {
			scatter, claimed, floor := math.Sqrt(square[c][i]), math.Sqrt(claims[c][i]), slack*truth[c][i].Value
			if scatter > 2*claimed+floor || claimed > 2*scatter+floor {
				t.Errorf("%s at %s: scatter %.4g, claimed %.4g", name, candidates[c], scatter, claimed)
			}
			if math.Abs(bias[c][i]) > 4*scatter/math.Sqrt(salts)+floor {
				t.Errorf("%s at %s: biased by %.4g, scatter %.4g", name, candidates[c], bias[c][i], scatter)
			}
		}
	}
}

// Of any number of lists those with the lowest hashes are watched, with all of their look-ups,
// in bounded memory.
func TestTheSampleIsBounded(t *testing.T) {
	testkit.Computes(t)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const lists, most = 50_000, defaultLists
	before := heap()
	n := newNode(Group{Terms: cache.Terms{TTL: time.Minute}}, most)
	for round := range 2 {
		for list := range lists {
			n.ask(list, time.Duration(round)*time.Hour+time.Duration(list)*time.Millisecond)
			if list%1000 == 0 {
				steps(n.clock, n)
			}
		}
	}
	k := n.Report().Groups[0]
	if k.WatchedLists < most*7/10 || k.WatchedLists > most || math.Abs(k.Lists/lists-1) > 0.2 {
		t.Errorf("%d lists watched, want up to %d; %.0f lists estimated, are %d", k.WatchedLists, most, k.Lists, lists)
	}
	g := n.state.groups[0]
	for i, w := range g.sample.lists {
		if w.hash >= g.below || w.lookups != 2 || g.sample.index[w.hash] != int32(i) {
			t.Fatalf("list %d: %v look-ups", i, w.lookups)
		}
	}
	clear(n.filled)
	n.filled = nil
	if used := heap() - before; used > 12<<20 {
		t.Errorf("the lab takes %d bytes, want at most 12 MiB", used)
	}
	runtime.KeepAlive(n)
}

// A list that is asked for all the time is noted for many look-ups at once, and none is
// lost: one goroutine can carry any number of look-ups.
func TestVeryHotListsAreThinned(t *testing.T) {
	testkit.Computes(t)
	n := newNode(Group{Terms: cache.Terms{TTL: 10 * time.Second}}, 256)
	const perSecond, seconds = 20_000, 35
	r := rand.New(rand.NewPCG(1, 1))
	for i := range perSecond * seconds {
		n.ask(r.IntN(7), time.Duration(i)*time.Second/perSecond)
		if i%perSecond == perSecond-1 {
			steps(n.clock, n)
		}
	}
	report := n.Report()
	k := report.Groups[0]
	if math.Abs(k.LookupsPerSecond/perSecond-1) > 0.03 || report.LostLookups > perSecond {
		t.Errorf("%g look-ups/s, %d lost", k.LookupsPerSecond, report.LostLookups)
	}
	if got := k.Candidates[4].Upstream.Value * k.Observed; math.Abs(got-28) > 2 { // each list at 0, 10, 20 and 30 s
		t.Errorf("%g requests at 10s, want 28", got)
	}
	if got := k.Candidates[4].MeanAge.Value; math.Abs(got-4.64) > 0.3 { // three times from 0 to 10 s, and from 0 to 5 s
		t.Errorf("mean age of %g s at 10s, want 4.64", got)
	}
}

func TestCountsAgeAndIdleListsLeave(t *testing.T) {
	n := newNode(Group{Terms: cache.Terms{TTL: time.Minute}}, 256)
	n.state.halfLife = int64(12 * time.Hour)
	for i := range 100 {
		n.ask(1, time.Duration(i)*time.Minute)
	}
	n.Report()
	n.clock = 13*time.Hour - time.Minute
	n.Report()
	for i := range 10 {
		n.ask(2, 13*time.Hour+time.Duration(i)*time.Minute)
	}
	n.clock = 18 * time.Hour
	k := n.Report().Groups[0]
	if got := k.LookupsPerSecond * k.Observed; math.Abs(got-60) > 0.5 { // 100 halved, and 10
		t.Errorf("%g look-ups, want 60", got)
	}
	n.ask(2, 60*time.Hour)
	if k := n.Report().Groups[0]; k.WatchedLists != 1 {
		t.Errorf("%d lists watched after the other was idle for 58 h", k.WatchedLists)
	}
	n.clock = 1000 * time.Hour
	if k := n.Report().Groups[0]; k.WatchedLists != 0 || k.LookupsPerSecond > 1e-6 {
		t.Errorf("after 1000 idle hours: %+v", k)
	}
}

// A Lab takes look-ups, fills, reports and reloads at the same time, and loses none.
func TestConcurrentUse(t *testing.T) {
	c := cache.DefaultConfig()
	c.Buyer.TTL, c.RechecksPerSecond = time.Second, 1000
	l, lists := observed(t, c, "{}")
	ctx, end := context.WithCancel(t.Context())
	var background, workers sync.WaitGroup
	background.Go(func() { l.Run(ctx, telemetry.NewCatcher("test", nil, nil)) })
	background.Go(func() {
		compareWith(ctx, l, func(k cache.Key) string { return "{}" })
	})
	const each = 3000
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range each {
				asked(t, lists, string(rune('a'+r.IntN(20))))
				if i%500 == 0 {
					c := c
					c.Buyer.TTL += time.Duration(i) * time.Millisecond
					l.SetConfig(GroupsOf(c), c)
					l.Report()
				}
			}
		})
	}
	workers.Wait()
	if _, err := lists.Get(ctx, cache.Key{Kind: cache.KindBuyer, Account: "fails"}); err == nil {
		t.Error("a fill that fails has worked")
	}
	l.Report()
	if got := l.state.groups[0].sums; got.lookups != 4*each+1 || got.fills == 0 || got.failed != 1 {
		t.Errorf("%+v, want %d look-ups, one of them failed", got, 4*each+1)
	}
	end()
	background.Wait()
}

// observed is a Lab and the cache that it observes, whose lists all have this body; those of
// the account "fails" cannot be fetched.
func observed(t *testing.T, c cache.Config, body string) (*Lab, *cache.Lists) {
	t.Helper()
	l := NewLab(GroupsOf(c), c, nil, nil)
	lists, err := cache.New(c, cache.Options{Observer: l, Fill: func(_ context.Context, k cache.Key, _ cache.FillInfo) (cache.Content, error) {
		if k.Account == "fails" {
			return cache.Content{}, errors.New("failed")
		}
		return cache.Content{Body: []byte(body)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lists.Close(context.Background()) })
	return l, lists
}

// asked has a buyer's list looked up.
func asked(t *testing.T, lists *cache.Lists, account string) {
	k := cache.Key{Kind: cache.KindBuyer, Account: account}
	if found, ok := lists.Lookup(k); ok {
		lists.Served(k, found)
	} else if _, err := lists.Get(t.Context(), k); err != nil {
		t.Error(err)
	}
}

// compareWith runs the re-checks against a legacy that says this of a list.
func compareWith(ctx context.Context, l *Lab, says func(cache.Key) string) {
	l.Recheck(ctx, func(_ context.Context, k cache.Key) (uint64, time.Time, error) {
		return cache.BodySum(k.Kind, []byte(says(k))), time.Now(), nil
	}, func() time.Duration { return 10 * time.Second }, func() bool { return true }, telemetry.NewCatcher("test", nil, nil))
}

// The lab sits on the hit path, where a look-up must not allocate.
func TestLookupsDoNotAllocate(t *testing.T) {
	testkit.Computes(t)
	look := looking(20_000)
	if n := testing.AllocsPerRun(20_000, look); n != 0 {
		t.Errorf("%g allocations per look-up", n)
	}
}

// BenchmarkLook is what the lab costs a hit, by the share of lists that are watched.
func BenchmarkLook(b *testing.B) {
	for name, lists := range map[string]int{"most": 5000, "few": 100_000} {
		b.Run(name, func(b *testing.B) {
			look := looking(lists)
			b.ReportAllocs()
			for b.Loop() {
				look()
			}
		})
	}
}

// looking is a look-up of one of so many lists, at a node that watches as many as it may.
func looking(lists int) (look func()) {
	n := newNode(Group{Terms: cache.Terms{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second}, Jitter: 0.1}, defaultLists)
	for i := range 2 * lists {
		n.ask(i%lists, time.Duration(i)*time.Millisecond)
		if i%1000 == 0 {
			steps(n.clock, n)
		}
	}
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, uint64(lists-1))
	trace := make([]uint64, 1<<16)
	for i := range trace {
		trace[i] = n.hash(int(zipf.Uint64()))
	}
	in, i := n.intake.Load(), 0
	return func() {
		if in.groups[0].lookup(in.ring.Load(), trace[i&(1<<16-1)], int64(i)); i&(1<<13-1) == 0 {
			in.drain(func(uint8, note) {})
		}
		i++
	}
}
