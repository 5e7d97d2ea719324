package cache

import (
	"testing"
	"time"
)

// What is foretold of a list is what the next look-up gets.
func TestExplainPredictsWhatTheNextLookUpDoes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		age     time.Duration
		failing bool
	}{
		{"fresh", time.Second, false},
		{"stale", 5 * time.Second, false},
		{"stale and failing", 5 * time.Second, true},
		{"long stale", 30 * time.Second, false},
		{"long stale and failing", 30 * time.Second, true},
		{"too old", time.Hour, false},
	} {
		l, g := alone(t, func(s *setup) {
			ttl := 4 * time.Second
			s.Buyer.ByStatus = map[string]StatusConfig{"pending": {TTL: &ttl}}
		})
		mustGet(t, l, aKey)
		g.clock.Add(tt.age)
		if tt.failing {
			g.failWith(errLegacy)
			l.backoff.failed(aKey, failure{policy: l.policy.Load(), began: g.clock.Now(), err: errLegacy, fetch: l.tierEntry(t, aKey).fetch}, g.clock.Now(), never)
		}
		x, err := l.Explain(t.Context(), aKey)
		if err != nil || g.calls.Load() != 1 {
			t.Errorf("%s: %v; the legacy was asked %d times", tt.name, err, g.calls.Load())
		}
		r := mustGet(t, l, aKey)
		settled(l)
		if x.Outcome != r.Outcome || r.Outcome != Miss && (x.Age.Duration() != r.Age || x.Remaining.Duration() != r.TTL || x.Tier != r.Tier) {
			t.Errorf("%s: predicted %s from %q, age %s, ttl %s; got %s from %q, %s, %s",
				tt.name, x.Outcome, x.Tier, x.Age.Duration(), x.Remaining.Duration(), r.Outcome, r.Tier, r.Age, r.TTL)
		}
		if x.Policy != "cache.buyer.by_status.pending" || x.TTL != 4 || x.Failing != tt.failing || !tt.failing != x.RetryAt.IsZero() || x.Redis != "off" {
			t.Errorf("%s: %+v", tt.name, x)
		}
	}
}

// A purge that Redis knows of is explained, also on a node that was started after it.
func TestExplainSeesRedisAndItsPurges(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, otherKey)
	mustGet(t, f.nodes[0], aKey)
	settled(f.nodes...)
	x, err := f.nodes[1].Explain(t.Context(), aKey)
	if err != nil || x.Tier != TierRedis || x.Outcome != Hit || x.Policy != "cache.buyer" || x.Bytes == 0 {
		t.Errorf("%+v, %v", x, err)
	}
	purge(t, f.nodes[1], acme)
	for _, l := range []*Cache{f.nodes[1], f.add(t, f.srv.Addr, 4*time.Second)} {
		x, err = l.Explain(t.Context(), aKey)
		if err != nil || x.Refused != "purged" || x.Outcome != Miss || x.PurgedAt.IsZero() || x.Tier != "" {
			t.Errorf("after a purge: %+v, %v", x, err)
		}
	}
}
