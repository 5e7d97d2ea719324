package ttllab

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/internal/testkit"
)

// In 95 % of the runs the truth lies in the interval of what the re-checks say, and within
// two standard errors of what is estimated for other ttls.
func TestIntervalsHoldTheTruth(t *testing.T) {
	testkit.Computes(t)
	const runs, lists, ttl = 60, 300, time.Minute
	held, within := 0, map[int]int{}
	var width, bias float64
	for seed := range uint64(runs) {
		s := traffic{seed: seed, lists: lists, lookups: 6000, span: 30 * time.Minute, skew: 1.2}
		trace, legacy := s.trace(), s.changing(1, 100)
		n := newNode(Group{Terms: cache.Terms{TTL: ttl}}, 256)
		n.SetConfig(groupsOf(Group{Terms: cache.Terms{TTL: ttl}}), cache.Config{RechecksPerSecond: 0.5})
		n.bodies = legacy.body
		run(trace, n)
		k, truth := n.Report().Groups[0], legacy.outdated(trace, ttl)
		if k.Served.Low <= truth && truth <= k.Served.High {
			held++
		}
		width += (k.Served.High - k.Served.Low) / runs
		bias += (k.Served.Outdated - truth) / runs
		for _, c := range []int{3, 7, 9, 13} { // 5 s to 5 min
			if o := k.Candidates[c].Outdated; math.Abs(o.Value-legacy.outdated(trace, candidates[c])) <= 1.96*o.StdErr {
				within[c]++
			}
		}
	}
	t.Logf("the re-checks' intervals held the truth in %d of %d runs; %.4f wide, off by %.4f on average", held, runs, width, bias)
	if held < runs*95/100 || width > 0.2 || math.Abs(bias) > 0.01 {
		t.Errorf("%d of %d intervals of re-checks hold the truth; they are %.3f wide on average, off by %.4f", held, runs, width, bias)
	}
	for c, n := range within {
		t.Logf("ttl %s: %d of %d", candidates[c], n, runs)
		if n < runs*95/100 {
			t.Errorf("ttl %s: the truth was within two standard errors in %d of %d runs", candidates[c], n, runs)
		}
	}
}

// Re-checks reach their budget where the legacy is slow, because four run at a time, and
// stay within it where it is fast. They follow the answers.
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
				l, lists := observed(t, c, "old")
				var checked, running, most, often atomic.Int64
				ctx, end := context.WithCancel(t.Context())
				var background sync.WaitGroup
				background.Go(func() { l.Run(ctx, telemetry.NewCatcher("test", nil, nil)) })
				background.Go(func() {
					compareWith(ctx, l, func(k cache.Key) string {
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
					asked(t, lists, account)
					time.Sleep(20 * time.Millisecond)
				}
				n := checked.Load()
				if n < tt.low || n > tt.high || most.Load() > rechecksAtOnce {
					t.Errorf("%d re-checks in a minute, want %d to %d; %d at a time", n, tt.low, tt.high, most.Load())
				}
				if share := float64(often.Load()) / float64(n); n > 100 && (share < 0.7 || share > 0.9) {
					t.Errorf("%.2f of the re-checks are of the list that got 80 %% of the look-ups", share)
				}
				s := l.Report().Groups[0].Served
				if tt.budget > 0 && (s.Outdated < 0.99 || s.Low > 0.9 || s.Low < 0.1) {
					t.Errorf("%+v: two lists, all outdated, which is two votes", s)
				}
				end()
				background.Wait()
			})
		})
	}
}
