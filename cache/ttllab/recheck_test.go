package ttllab

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/internal/testkit"
)

const watchedTTL = time.Minute

// watchedLegacy runs a cache with watchedTTL in front of a legacy system, and returns what
// the lab says in the end.
func watchedLegacy(t *testing.T, seed uint64, c Config) (l legacy, trace []asked, k KindReport) {
	const lists = 300
	trace = skewed(seed, lists, 6000, 300*time.Millisecond)
	l = newLegacy(rand.New(rand.NewPCG(seed, 5)), lists, 1, 100, trace[len(trace)-1].at)
	numbers := map[uint64]uint64{}
	for key := range uint64(lists) {
		numbers[mix(key+1)] = key
	}
	n := newNode(t, Policy{TTL: watchedTTL}, 256, c, nil)
	n.bodies = func(list uint64, at time.Duration) uint64 { return l.body(numbers[list], at) }
	run(t, trace, n)
	return l, trace, n.Report().Kinds[0]
}

// In 95 of 100 runs the truth lies in the interval of what the re-checks say, and within
// two standard errors of what is estimated for other ttls.
func TestIntervalsHoldTheTruth(t *testing.T) {
	testkit.Computes(t)
	const runs = 100
	others := map[int]time.Duration{}
	for _, c := range []int{3, 7, 9, 13} { // 5 s to 5 min
		others[c] = candidates[c]
	}
	held, within := 0, map[int]int{}
	var width, bias float64
	for seed := range uint64(runs) {
		l, trace, k := watchedLegacy(t, seed, Config{RechecksPerSecond: 0.5})
		truth := l.outdated(trace, watchedTTL)
		if k.Served.Low <= truth && truth <= k.Served.High {
			held++
		}
		width += (k.Served.High - k.Served.Low) / runs
		bias += (k.Served.Outdated - truth) / runs
		for c, other := range others {
			truth := l.outdated(trace, other)
			if o := k.Candidates[c].Outdated; o.Value-1.96*o.StdErr <= truth && truth <= o.Value+1.96*o.StdErr {
				within[c]++
			}
		}
	}
	t.Logf("the re-checks' intervals held the truth in %d of %d runs; %.4f wide, off by %.4f on average", held, runs, width, bias)
	if held < 95 || width > 0.2 || bias > 0.01 || bias < -0.01 {
		t.Errorf("%d of %d intervals of re-checks hold the truth; they are %.3f wide on average, off by %.4f", held, runs, width, bias)
	}
	for c, n := range within {
		t.Logf("ttl %s: %d of %d", candidates[c], n, runs)
		if n < 95 {
			t.Errorf("ttl %s: the truth was within two standard errors in %d of %d runs", candidates[c], n, runs)
		}
	}
}

// Re-checks reach their budget where the legacy is slow, because four run at a time, and
// stay within it where it is fast. They follow the answers.
func TestRechecksKeepToTheirBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		budget float64
		takes  time.Duration
		low    int64
		high   int64
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
				l := NewLab(KindsOf(c), ConfigOf(c), nil, nil)
				lists, err := cache.New(c, cache.Options{Observer: l, Fill: func(context.Context, cache.Key) (cache.Content, error) {
					return cache.Content{Body: []byte("old")}, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				var checked, running, most, often atomic.Int64
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				p := telemetry.NewCatcher("test", nil, nil)
				all.Go(func() { l.Run(ctx, p) })
				all.Go(func() {
					l.Recheck(ctx, func(_ context.Context, k cache.Key) (uint64, time.Time, error) {
						most.Store(max(most.Load(), running.Add(1)))
						defer running.Add(-1)
						time.Sleep(tt.takes)
						if checked.Add(1); k.Account == "often" {
							often.Add(1)
						}
						return cache.BodySum(k.Kind, []byte("new")), time.Now(), nil
					}, func() time.Duration { return 10 * time.Second }, func() bool { return true }, p)
				})
				for i := range 60 * 50 {
					k := cache.Key{Kind: cache.KindBuyer, Account: "often"}
					if i%5 == 0 {
						k.Account = "seldom"
					}
					if r, ok := lists.Lookup(k); ok {
						lists.Served(k, r)
					} else if _, err := lists.Get(ctx, k); err != nil {
						t.Error(err)
					}
					time.Sleep(20 * time.Millisecond)
				}
				if n := checked.Load(); n < tt.low || n > tt.high || most.Load() > rechecksAtOnce {
					t.Errorf("%d re-checks in a minute, want %d to %d; %d at a time", n, tt.low, tt.high, most.Load())
				}
				if n, m := checked.Load(), often.Load(); n > 100 && (float64(m)/float64(n) < 0.7 || float64(m)/float64(n) > 0.9) {
					t.Errorf("%d of %d re-checks are of the list that got 80 %% of the look-ups", m, n)
				}
				s := l.Report().Kinds[0].Served
				if tt.budget > 0 && (s.Outdated < 0.99 || s.Low > 0.9 || s.Low < 0.1) {
					t.Errorf("%+v: two lists, all outdated, which is two votes", s)
				}
				end()
				all.Wait()
				lists.Close(context.Background())
			})
		})
	}
}
