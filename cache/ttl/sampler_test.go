package ttl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/internal/testkit"
)

// A full sample drops lists whole while it covers too little time, and its oldest look-ups where that
// would leave too few lists. What it says of its size and age is true.
func TestASampleIsWholeForItsLists(t *testing.T) {
	const size = 4096
	for name, tt := range map[string]struct {
		lists  int
		least  int
		halved bool
	}{"many lists": {4000, 100, true}, "few lists": {4000, 4000, false}} {
		s := sample{size: size, least: tt.least, span: int64(time.Hour), below: math.MaxUint64, since: start.UnixNano()}
		var all []Lookup
		for i := range 5 * size {
			l := Lookup{At: at(time.Duration(i) * 100 * time.Millisecond).UnixNano(), List: uint64(i % tt.lists), Number: uint64(i + 1)}
			all = append(all, l)
			if s.has(l.List) {
				s.add(l)
			}
		}
		var want []Lookup
		for _, l := range all {
			if s.has(l.List) && l.At >= s.since {
				want = append(want, l)
			}
		}
		if got := s.ordered(); !reflect.DeepEqual(got, want) || len(got) > size {
			t.Errorf("%s: %d look-ups are kept, want %d", name, len(got), len(want))
		}
		if halved := s.below < math.MaxUint64; halved != tt.halved || (s.since > start.UnixNano()) == tt.halved {
			t.Errorf("%s: half of the lists are left out: %t; since %s", name, halved, time.Unix(0, s.since))
		}
	}
}

// Nodes that share Redis are one cache, whatever part of the lists each has kept: what three of them
// have seen says nearly what one would say that had seen it all.
func TestNodesAreReplayedTogether(t *testing.T) {
	testkit.SkipUnderRace(t)
	s := traffic{seed: 5, lists: 4000, lookups: 30000, span: time.Hour, skew: 1.1}
	trace := s.trace()
	seen, _ := s.changing(1, 10).served(trace, time.Minute, 0)
	groups := []Group{{Name: "buyer", TTL: 60}}
	whole := Sample{Groups: groups, Below: math.MaxUint64, Since: start.UnixNano(), Lookups: seen}
	nodes := [3]sample{}
	numbers := [3]uint64{}
	for i := range nodes {
		nodes[i] = sample{size: 6000, least: 100, span: math.MaxInt64, below: math.MaxUint64, since: start.UnixNano()}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range seen {
		i := r.IntN(3)
		numbers[i]++
		if l.Number = numbers[i]; nodes[i].has(l.List) {
			nodes[i].add(l)
		}
	}
	var samples []Sample
	for i := range nodes {
		samples = append(samples, Sample{groups, nodes[i].below, nodes[i].since, nodes[i].ordered()})
	}
	all, parts := Replay(whole).Groups[0], Replay(samples...).Groups[0]
	if parts.SampledLists >= all.SampledLists || math.Abs(parts.LookupsPerSecond/all.LookupsPerSecond-1) > 0.001 || math.Abs(parts.Lists/all.Lists-1) > 0.1 {
		t.Errorf("%d of %.0f lists, %.3f look-ups/s; want a part of %.0f, and %.3f", parts.SampledLists, parts.Lists, parts.LookupsPerSecond, all.Lists, all.LookupsPerSecond)
	}
	for i, c := range parts.Candidates {
		is := all.Candidates[i]
		if math.Abs(c.HitRatio.Value-is.HitRatio.Value) > 0.01+3*c.HitRatio.StdErr || math.Abs(c.Upstream.Value-is.Upstream.Value) > 3*c.Upstream.StdErr+0.03*is.Upstream.Value {
			t.Errorf("ttl %gs: %+v of %+v", c.TTL, c, is)
		}
	}
}

// A list that is asked for while it is filled waits for that fill, and no other begins.
func TestLookupsDuringAFillWait(t *testing.T) {
	l := list{}
	for _, moment := range []time.Duration{0, 999 * time.Millisecond, time.Second, 11 * time.Second, 11500 * time.Millisecond} {
		l.lookups = append(l.lookups, Lookup{At: at(moment).UnixNano()})
	}
	g := replayed{latency: second}
	if got := g.replay(&l, 10*time.Second, 0); got.waits != 4 || got.fetches != 2 || got.lookups != 5 {
		t.Errorf("%+v, want 4 of 5 look-ups that wait for 2 fetches", got)
	}
}

func sampler(t *testing.T, c cache.Config, body string) (*Sampler, *cache.Cache) {
	t.Helper()
	s := NewSampler(GroupsOf(c, true, cache.KindBuyer, cache.KindSeller), c.RechecksPerSecond, nil)
	lists, err := cache.New(c, cache.Options{Observer: s, Fill: func(_ context.Context, k cache.Key, _ cache.FillInfo) (cache.Content, error) {
		if k.Account == "fails" {
			return cache.Content{}, errors.New("failed")
		}
		return cache.Content{Body: []byte(body)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lists.Close(context.Background()) })
	return s, lists
}

// look has a buyer's list looked up.
func look(t *testing.T, lists *cache.Cache, account string) {
	k := cache.Key{Kind: cache.KindBuyer, Account: account}
	if found, ok := lists.Lookup(k); ok {
		lists.RecordHit(k, found)
	} else if _, err := lists.Get(t.Context(), k); err != nil {
		t.Error(err)
	}
}

// compare runs the re-checks against a legacy that says this of a list.
func compare(ctx context.Context, s *Sampler, says func(cache.Key) string) {
	s.Recheck(ctx, func(_ context.Context, k cache.Key) (uint64, time.Time, error) {
		return cache.BodySum(k.Kind, []byte(says(k))), time.Now(), nil
	}, func() time.Duration { return 10 * time.Second }, func() bool { return true }, telemetry.NewCatcher("test", nil, nil))
}

// A Sampler takes look-ups, re-checks, reports and reloads at the same time, and loses none.
func TestConcurrentUse(t *testing.T) {
	c := cache.DefaultConfig()
	c.Buyer.TTL, c.RechecksPerSecond = time.Second, 1000
	s, lists := sampler(t, c, "{}")
	ctx, end := context.WithCancel(t.Context())
	var background, workers sync.WaitGroup
	background.Go(func() { compare(ctx, s, func(cache.Key) string { return "{}" }) })
	const each = 2000
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range each {
				look(t, lists, string(rune('a'+r.IntN(20))))
			}
		})
	}
	workers.Go(func() {
		for range 20 {
			s.SetGroups(GroupsOf(c, true, cache.KindBuyer, cache.KindSeller))
			_ = s.Sample().Write(io.Discard)
		}
	})
	workers.Wait()
	if _, err := lists.Get(ctx, cache.Key{Kind: cache.KindBuyer, Account: "fails"}); err == nil {
		t.Error("a fill that fails has worked")
	}
	end()
	background.Wait()
	if g := Replay(s.Sample()).Groups[0]; math.Abs(g.LookupsPerSecond*g.Observed-(4*each+1)) > each/20 {
		t.Errorf("%.0f look-ups, want %d", g.LookupsPerSecond*g.Observed, 4*each+1)
	}
	c.Buyer.ByStatus = map[string]cache.StatusConfig{"pending": {}}
	s.SetGroups(GroupsOf(c, true, cache.KindBuyer, cache.KindSeller))
	if left := s.Sample(); len(left.Groups) != 3 || len(left.Lookups) != 0 {
		t.Errorf("with another group %d look-ups are kept", len(left.Lookups))
	}
}

// The sampler sits on the hit path, where a look-up must not allocate once its ring is full.
func TestLookupsDoNotAllocate(t *testing.T) {
	testkit.SkipUnderRace(t)
	s := NewSampler([]Group{{Name: "buyer", kind: cache.KindBuyer}}, 0, nil)
	s.sample.size = 1000
	i := 0
	look := func() {
		s.Failed(cache.KindBuyer, "", uint64(i%700), start.Add(time.Duration(i)*time.Second))
		i++
	}
	for range 2000 {
		look()
	}
	if n := testing.AllocsPerRun(10_000, look); n != 0 {
		t.Errorf("%g allocations per look-up", n)
	}
}

// BenchmarkAnswered is what the sampler costs a hit, while it keeps all look-ups and a few.
func BenchmarkAnswered(b *testing.B) {
	for name, below := range map[string]uint64{"all": math.MaxUint64, "few": math.MaxUint64 >> 8} {
		b.Run(name, func(b *testing.B) {
			s := NewSampler([]Group{{Name: "buyer", kind: cache.KindBuyer}}, 0, nil)
			s.sample.below, s.sample.span = below, 0
			s.policy.Load().below.Store(below)
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				s.Failed(cache.KindBuyer, "", i, start)
			}
		})
	}
}

// Re-checks reach their budget where the legacy is slow, because four run at a time, and
// stay within it where it is fast. They follow the answers, and what they stand for is all of them.
func TestRechecksKeepToTheirBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		budget    float64
		takes     time.Duration
		low, high int64
	}{
		"fast":          {5, time.Millisecond, 180, 310},
		"slow":          {5, 600 * time.Millisecond, 180, 310},
		"much too slow": {5, 4 * time.Second, 50, 62},
		"off":           {0, time.Millisecond, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := cache.DefaultConfig()
				c.Buyer.TTL, c.RechecksPerSecond = time.Hour, tt.budget
				s, lists := sampler(t, c, "old")
				var checked, running, most, often atomic.Int64
				ctx, end := context.WithCancel(t.Context())
				var background sync.WaitGroup
				background.Go(func() {
					compare(ctx, s, func(k cache.Key) string {
						most.Store(max(most.Load(), running.Add(1)))
						defer running.Add(-1)
						time.Sleep(tt.takes)
						if checked.Add(1); k.Account == "often" {
							often.Add(1)
						}
						return "new"
					})
				})
				for i := range 60 * 50 {
					account := "often"
					if i%5 == 0 {
						account = "seldom"
					}
					look(t, lists, account)
					time.Sleep(20 * time.Millisecond)
				}
				n := checked.Load()
				end()
				background.Wait()
				if n < tt.low || n > tt.high || most.Load() > rechecksAtOnce {
					t.Errorf("%d re-checks in a minute, want %d to %d; %d at a time", n, tt.low, tt.high, most.Load())
				}
				if share := float64(often.Load()) / float64(n); n > 100 && (share < 0.7 || share > 0.9) {
					t.Errorf("%.2f of the re-checks are of the list that got 80 %% of the look-ups", share)
				}
				if c := s.checked[recheckLabels{cache.KindBuyer, "outdated"}]; n > 100 && math.Abs(c.answers/3000-1) > 0.25 {
					t.Errorf("%.0f re-checks stand for %.0f answers, want 3000", c.checks, c.answers)
				}
			})
		})
	}
}

// What a node writes is read as it was.
func TestWriteAndRead(t *testing.T) {
	groups := []Group{{Name: "buyer", TTL: 30, StaleWhileRevalidate: 10, Jitter: 0.1}, {Name: "buyer status=pending", TTL: 5}}
	wrote := Sample{Groups: groups, Below: math.MaxUint64 >> 3, Since: start.UnixNano(), Lookups: []Lookup{
		{At: at(time.Second).UnixNano(), List: 3 << 60, Body: 7, Answered: start.UnixNano(), Number: 11},
		{At: at(2 * time.Second).UnixNano(), List: 5, Number: 12, Group: 1},
		{At: at(3 * time.Second).UnixNano(), List: 9, Body: 8, Answered: at(4 * time.Second).UnixNano(), Took: second, Number: 13},
	}}
	wrote.Lookups = append([]Lookup{}, wrote.Lookups...)
	for i := range wrote.Lookups { // a list that is in the sample
		for l := &wrote.Lookups[i]; mix(l.List) > wrote.Below; l.List++ {
		}
	}
	var reply bytes.Buffer
	if err := wrote.Write(&reply); err != nil {
		t.Fatal(err)
	}
	read, summary, err := Read(&reply, nil)
	if err != nil || summary.Lookups != 3 || !reflect.DeepEqual(read, wrote) {
		t.Errorf("%+v, %v\nread  %+v\nwrote %+v", summary, err, read, wrote)
	}
}
