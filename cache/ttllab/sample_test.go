package ttllab

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
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
func drawTrace(t *rapid.T) []asked {
	out := make([]asked, rapid.IntRange(1, 120).Draw(t, "lookups"))
	var now time.Duration
	for i := range out {
		gap := time.Millisecond
		for range rapid.IntRange(0, 8).Draw(t, "magnitude") {
			gap *= 10
		}
		now += gap * time.Duration(rapid.IntRange(0, 9).Draw(t, "gap"))
		out[i] = asked{uint64(rapid.IntRange(1, 4).Draw(t, "key")), now}
	}
	return out
}

// Where every list is watched the figures are exact, and a longer ttl never asks the
// legacy more often.
func TestWithoutSamplingTheFiguresAreExact(t *testing.T) {
	lab := newNode(t, Policy{TTL: time.Minute}, 64, Config{}, nil)
	rapid.Check(t, func(t *rapid.T) {
		swr := time.Duration(rapid.IntRange(0, 1000).Draw(t, "swr")) * time.Second
		p := Policy{TTL: time.Minute, StaleWhileRevalidate: swr}
		lab.state.kinds[0].Policy = p
		lab.resize(64)
		trace := drawTrace(t)
		models := [candidateCount]map[uint64]*plain{}
		for c := range models {
			models[c] = map[uint64]*plain{}
		}
		for _, ev := range trace {
			lab.ask(ev.key, ev.at)
			for c, ttl := range candidates {
				if models[c][ev.key] == nil {
					models[c][ev.key] = &plain{}
				}
				models[c][ev.key].lookup(ev.at, ttl, swr)
			}
		}
		lab.clock = trace[len(trace)-1].at + time.Second
		rows, before := lab.Report().Kinds[0].Candidates, math.Inf(1)
		for c, row := range rows {
			var sum plain
			for _, p := range models[c] {
				sum.n, sum.waits, sum.fetches, sum.age = sum.n+p.n, sum.waits+p.waits, sum.fetches+p.fetches, sum.age+p.age
			}
			observed := (lab.clock - trace[0].at).Seconds()
			if !near(row.HitRatio.Value, 1-sum.waits/sum.n) || !near(row.Upstream.Value*observed, sum.fetches) || !near(row.MeanAge.Value, sum.age/sum.n) || row.HitRatio.StdErr != 0 {
				t.Fatalf("ttl %s: %+v, want %d waits, %d fetches, age %g of %d", candidates[c], row, int(sum.waits), int(sum.fetches), sum.age, int(sum.n))
			}
			if row.Upstream.Value > before+1e-9 {
				t.Fatalf("ttl %s asks more often than a shorter one", candidates[c])
			}
			before = row.Upstream.Value
			if most := float64(candidates[c]+swr) * 1e-9; row.P99Age > most || row.P99Age < 0 {
				t.Fatalf("ttl %s: 99 %% of the ages up to %g, above %g", candidates[c], row.P99Age, most)
			}
		}
	})
}

// Over many samples of one trace the estimates scatter around the truth by what
// their standard errors say: within a factor of two in a trace as short and as
// skewed as this one, where the hot lists are found late and the rest is a tenth.
func TestStandardErrorsAreHonest(t *testing.T) {
	testkit.Computes(t)
	const salts, lists, slack = 25, 2000, 0.01
	trace := skewed(1, lists, 15000, 800*time.Millisecond)
	p := Policy{TTL: time.Minute, StaleWhileRevalidate: 10 * time.Second}
	figures := func(c Candidate) map[string]Estimate {
		return map[string]Estimate{"hits": c.HitRatio, "upstream": c.Upstream, "age": c.MeanAge, "Redis": c.RedisBytes}
	}
	sampled := func(lists int, salt uint64) []Candidate {
		n, second := newNode(t, p, lists, Config{}, nil), time.Duration(0)
		for _, ev := range trace {
			for ; second <= ev.at; second += 10 * time.Second {
				steps(second, n)
			}
			n.ask(mix(ev.key*2+1+salt<<32), ev.at)
		}
		return n.Report().Kinds[0].Candidates
	}
	truth := sampled(2*lists, 0)
	type tally struct{ bias, square, claimed float64 }
	var tallies [candidateCount]map[string]tally
	for salt := range uint64(salts) {
		for c, row := range sampled(256, salt+1) {
			if tallies[c] == nil {
				tallies[c] = map[string]tally{}
			}
			for name, e := range figures(row) {
				d := e.Value - figures(truth[c])[name].Value
				s := tallies[c][name]
				tallies[c][name] = tally{s.bias + d/salts, s.square + d*d/salts, s.claimed + e.StdErr*e.StdErr/salts}
			}
		}
	}
	for c, byName := range tallies {
		for name, s := range byName {
			scatter, claimed := math.Sqrt(s.square), math.Sqrt(s.claimed)
			floor := slack * figures(truth[c])[name].Value
			if scatter > 2*claimed+floor || claimed > 2*scatter+floor {
				t.Errorf("%s at %s: scatter %.4g, claimed %.4g", name, candidates[c], scatter, claimed)
			}
			if math.Abs(s.bias) > 4*scatter/math.Sqrt(salts)+floor {
				t.Errorf("%s at %s: biased by %.4g, scatter %.4g", name, candidates[c], s.bias, scatter)
			}
		}
	}
}

func TestTheSampleIsBoundedAndKeepsTheLowestHashes(t *testing.T) {
	n := newNode(t, Policy{TTL: time.Minute}, 256, Config{}, nil)
	const lists = 20000
	for round := range 2 {
		for key := range uint64(lists) {
			n.ask(mix(key), time.Duration(round)*time.Hour+time.Duration(key)*time.Millisecond)
			if key%1000 == 0 {
				n.Step()
			}
		}
	}
	k := n.Report().Kinds[0]
	if k.WatchedKeys < 180 || k.WatchedKeys > 256 || math.Abs(k.Keys/lists-1) > 0.2 {
		t.Errorf("%d lists watched, want 192 to 256; %.0f lists estimated, are %d", k.WatchedKeys, k.Keys, lists)
	}
	for i, w := range n.state.groups[0].sample.lists {
		if w.hash >= n.state.groups[0].below || w.lookups != 2 || n.state.groups[0].sample.index[w.hash] != int32(i) {
			t.Fatalf("list %d: %v look-ups", i, w.lookups)
		}
	}
}

// A list that is asked for all the time is noted for many look-ups at once, and none is
// lost: one goroutine can carry any number of look-ups.
func TestVeryHotListsAreThinned(t *testing.T) {
	n := newNode(t, Policy{TTL: 10 * time.Second}, 256, Config{}, nil)
	const perSecond, seconds = 20_000, 65
	r := rand.New(rand.NewPCG(1, 1))
	for i := range perSecond * seconds {
		n.ask(mix(r.Uint64N(7)), time.Duration(i)*time.Second/perSecond)
		if i%perSecond == perSecond-1 {
			n.Step()
		}
	}
	report := n.Report()
	k := report.Kinds[0]
	if math.Abs(k.LookupsPerSecond/perSecond-1) > 0.02 || report.LostLookups > perSecond {
		t.Errorf("%g look-ups/s, %d lost", k.LookupsPerSecond, report.LostLookups)
	}
	if got := k.Candidates[4].Upstream.Value * k.Observed; math.Abs(got-49) > 2 {
		t.Errorf("%g requests at 10s, want 49", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	n := newNode(t, Policy{TTL: time.Minute}, defaultLists, Config{}, nil)
	for key := range uint64(100_000) {
		n.ask(mix(key), time.Duration(key)*time.Millisecond)
		if key%1000 == 0 {
			n.Step()
		}
	}
	clear(n.filled)
	n.filled = nil
	if used := int64(heap()) - int64(before); used > 12<<20 {
		t.Errorf("the lab takes %d bytes, want at most 12 MiB", used)
	}
	runtime.KeepAlive(n)
}

func TestCountsAgeAndIdleListsLeave(t *testing.T) {
	n := newNode(t, Policy{TTL: time.Minute}, 256, Config{}, nil)
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
	k := n.Report().Kinds[0]
	if got := k.LookupsPerSecond * k.Observed; math.Abs(got-60) > 0.5 { // 100 halved, and 10
		t.Errorf("%g look-ups, want 60", got)
	}
	n.ask(2, 60*time.Hour)
	if k := n.Report().Kinds[0]; k.WatchedKeys != 1 {
		t.Errorf("%d lists watched after the other was idle for 58 h", k.WatchedKeys)
	}
	n.clock = 1000 * time.Hour
	if k := n.Report().Kinds[0]; k.WatchedKeys != 0 || k.LookupsPerSecond > 1e-6 {
		t.Errorf("after 1000 idle hours: %+v", k)
	}
}

// A Lab takes look-ups, fills, reports and reloads at the same time, and loses none.
func TestConcurrentUse(t *testing.T) {
	c := cache.DefaultConfig()
	c.Buyer.TTL, c.RechecksPerSecond = time.Second, 1000
	l := NewLab(KindsOf(c), ConfigOf(c), nil, nil)
	ctx, end := context.WithCancel(t.Context())
	lists, err := cache.New(c, cache.Options{Observer: l, Fill: func(context.Context, cache.Key) (cache.Content, error) {
		return cache.Content{Body: []byte("{}")}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer lists.Close(context.Background())
	var background, workers sync.WaitGroup
	p := telemetry.NewCatcher("test", nil, nil)
	background.Go(func() { l.Run(ctx, p) })
	background.Go(func() {
		l.Recheck(ctx, func(context.Context, cache.Key) (uint64, time.Time, error) {
			return cache.BodySum(cache.KindBuyer, []byte("{}")), time.Now(), nil
		}, func() time.Duration { return time.Second }, func() bool { return true }, p)
	})
	const each = 3000
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range each {
				k := cache.Key{Kind: cache.KindBuyer, Account: string(rune('a' + r.IntN(20)))}
				if found, ok := lists.Lookup(k); ok {
					lists.Served(k, found)
				} else if _, err := lists.Get(ctx, k); err != nil {
					t.Error(err)
				}
				if i%500 == 0 {
					c := c
					c.Buyer.TTL += time.Duration(i) * time.Millisecond
					l.SetConfig(KindsOf(c), ConfigOf(c))
					l.Report()
				}
			}
		})
	}
	workers.Wait()
	k := l.Report().Kinds[0]
	if got := l.state.groups[0].ever; got.Lookups != 4*each || got.Fills == 0 {
		t.Errorf("%+v, want %d look-ups; %+v", got, 4*each, k)
	}
	end()
	background.Wait()
}
