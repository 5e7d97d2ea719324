package ttllab_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttllab"
	"inquiry-gateway/internal/testkit"
)

// outageOf runs the real cache through the trace with the legacy system away from a
// moment on, and counts the look-ups until its return, and those that got a list.
func outageOf(t *testing.T, trace []lookup, policy ttllab.Policy, from time.Time, length time.Duration) (asked, answered int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := testkit.NewClock(begin)
		cfg := cache.DefaultConfig()
		cfg.Jitter = policy.Jitter
		cfg.Buyer = cache.KindConfig{TTL: policy.TTL, StaleWhileRevalidate: policy.StaleWhileRevalidate, StaleIfError: policy.StaleIfError}
		lists, err := cache.New(cfg, cache.Options{Now: clock.Now, Fill: func(_ context.Context, k cache.Key) (cache.Content, error) {
			if !clock.Now().Before(from) {
				return cache.Content{}, errors.New("away")
			}
			return cache.Content{Body: []byte(k.Account), AnsweredAt: clock.Now()}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		// Not the same number of ttls each time, so that the lists of all outages have other ages.
		warm := 5*policy.TTL + policy.TTL*time.Duration(from.Unix()/60%11)/11 + max(policy.StaleIfError, policy.StaleWhileRevalidate)
		for _, l := range trace {
			if l.at.Before(from.Add(-warm)) || l.at.After(from.Add(length)) {
				continue // what was filled before is of no use any more
			}
			clock.Set(l.at)
			r, ok := lists.Lookup(keyOf(l.key))
			if !ok {
				r, err = lists.Get(t.Context(), keyOf(l.key))
				ok = err == nil
			}
			if r.Outcome == cache.StaleRevalidate {
				synctest.Wait() // until the refresh is in
			}
			if l.at.Before(from) {
				continue
			}
			if asked++; ok {
				answered++
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := lists.Close(ctx); err != nil {
			t.Fatal(err)
		}
	})
	return asked, answered
}

// What the curve says is what the real cache does when the legacy system goes away, on
// average over the moments at which it may: within one point, and within two where a
// third of the lists is watched.
func TestTheOutageCurveIsWhatAnOutageDoes(t *testing.T) {
	testkit.Slow(t)
	testkit.Computes(t)
	const m, h = time.Minute, time.Hour
	for _, tt := range []struct {
		shape  shape
		policy ttllab.Policy
		keys   int
	}{
		{shape{seed: 1, keys: 2500, lookups: 30000, span: 12 * h, skew: 1.1}, ttllab.Policy{TTL: 40 * time.Second, StaleWhileRevalidate: 30 * time.Second, StaleIfError: 10 * m, Jitter: 0.1}, 4096},
		{shape{seed: 2, keys: 2500, lookups: 30000, span: 12 * h, skew: 1.3, bursts: 0.05}, ttllab.Policy{TTL: 5 * m, StaleIfError: h}, 4096},
		{shape{seed: 3, keys: 6000, lookups: 40000, span: 12 * h, skew: 1.1}, ttllab.Policy{TTL: m, StaleIfError: 15 * m, Jitter: 0.1}, 2048},
	} {
		t.Run(fmt.Sprint(tt.policy.StaleIfError), func(t *testing.T) {
			t.Parallel()
			trace := tt.shape.trace()
			lab := ttllab.NewWatcher(tt.policy, tt.keys)
			for _, l := range trace {
				lab.Looked(hashOf(keyOf(l.key).Account), l.at)
			}
			k := lab.Report(trace[len(trace)-1].at)
			for _, o := range [...]struct{ grace, length time.Duration }{{0, 15 * m}, {tt.policy.StaleIfError, 15 * m}, {tt.policy.StaleIfError, h}, {6 * h, 3 * h}} {
				i := slices.IndexFunc(k.Outage.Rows, func(r ttllab.OutageRow) bool { return r.StaleIfError == o.grace.Seconds() })
				policy := tt.policy
				policy.StaleIfError = o.grace
				asked, answered := 0, 0
				for from := begin.Add(o.grace + 10*m); !from.Add(o.length).After(begin.Add(tt.shape.span)); from = from.Add(o.length) {
					n, ok := outageOf(t, trace, policy, from, o.length)
					asked, answered = asked+n, answered+ok
				}
				predicted, real := *k.Outage.Rows[i].Answered[slices.Index(k.Outage.Lengths, o.length.Seconds())], float64(answered)/float64(asked)
				t.Logf("stale_if_error %s, away for %s: %.4f predicted, %.4f of %d", o.grace, o.length, predicted, real, asked)
				tolerance := 0.01
				if k.Keys > float64(k.WatchedKeys) {
					tolerance = 0.02
				}
				if math.Abs(predicted-real) > tolerance {
					t.Errorf("stale_if_error %s, away for %s: %.4f predicted, %.4f of %d look-ups were answered", o.grace, o.length, predicted, real, asked)
				}
			}
		})
	}
}
