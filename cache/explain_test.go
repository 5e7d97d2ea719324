package cache

import (
	"context"
	"testing"
	"time"

	"inquiry-gateway/cache/ttllab"
)

func TestExplainPredictsWhatTheNextLookUpDoes(t *testing.T) {
	short := 4 * time.Second
	cfg := testConfig()
	cfg.Buyer.ByStatus = map[string]StatusConfig{"pending": {TTL: &short}}
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
		t.Run(tt.name, func(t *testing.T) {
			g := &legacy{clock: newClock()}
			l := setup{cfg: cfg, fill: g.fill, now: g.clock.Now}.start(t)
			mustGet(t, l, aKey)
			g.clock.Add(tt.age)
			if tt.failing {
				g.failWith(errLegacy)
				l.backoff.failed(0, aKey, errLegacy, g.clock.Now())
			}
			calls := g.calls.Load()
			x, err := l.Explain(t.Context(), aKey)
			if err != nil {
				t.Fatal(err)
			}
			if g.calls.Load() != calls {
				t.Error("Explain asked the legacy")
			}
			r := mustGet(t, l, aKey)
			settled(l)
			if x.Outcome != r.Outcome || (r.Outcome != Miss && (x.Age.Duration() != r.Age || x.Left.Duration() != r.TTL || x.Tier != r.Tier)) {
				t.Errorf("predicted %s from %q, age %s, ttl %s; got %s from %q, %s, %s",
					x.Outcome, x.Tier, x.Age.Duration(), x.Left.Duration(), r.Outcome, r.Tier, r.Age, r.TTL)
			}
			if x.Policy != "cache.buyer.by_status.pending" || x.TTL.Duration() != short || x.Failing != tt.failing || x.Redis != "off" {
				t.Errorf("%+v", x)
			}
		})
	}
}

func TestExplainSeesRedisAndTheEpochs(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, otherKey)
	mustGet(t, f.nodes[0], aKey)
	f.settled()
	x, err := f.nodes[1].Explain(t.Context(), aKey)
	if err != nil || x.Tier != TierRedis || x.Outcome != Hit || x.Policy != "cache.buyer" || x.Bytes == 0 {
		t.Errorf("%+v, %v", x, err)
	}
	purged, err := f.nodes[1].Purge(t.Context(), Scope{Kind: KindBuyer})
	if err != nil {
		t.Fatal(err)
	}
	x, err = f.nodes[1].Explain(t.Context(), aKey)
	if err != nil || x.Refused != "purged" || x.Outcome != Miss || x.KindEpoch != purged || x.Tier != "" {
		t.Errorf("after a purge: %+v, %v", x, err)
	}
	if _, err := f.nodes[0].Explain(t.Context(), Key{Kind: "admin"}); err != ErrUnknownKind {
		t.Errorf("error %v", err)
	}
}

func TestTheLabIsToldOfLookUpsAndFills(t *testing.T) {
	g := &legacy{clock: newClock()}
	lab := ttllab.NewLab(testConfig().LabKinds(), ttllab.Config{}, nil)
	filled := 0
	fill := func(ctx context.Context, k Key) (Content, error) {
		c, err := g.fill(ctx, k)
		c.AnsweredAt = time.Time{} // now
		return c, err
	}
	l, err := New(testConfig(), Options{Fill: fill, Lab: lab, Filled: func(k Key) {
		if filled++; k.Account != "acme" {
			t.Errorf("filled %v", k)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, l, aKey)
	r, _ := l.Lookup(aKey)
	l.Served(aKey, r)
	g.failWith(errLegacy)
	if _, err := l.Get(t.Context(), Key{Kind: KindSeller, Account: "acme"}); err != errLegacy {
		t.Errorf("error %v", err)
	}
	closeLists(t, l)
	if filled != 2 {
		t.Errorf("told of %d fills, one of them failed", filled)
	}
	kinds := lab.Report().Kinds
	if buyers := kinds[0]; buyers.WatchedKeys != 1 || buyers.LookupsPerSecond != 2*buyers.FillsPerSecond || buyers.FillsPerSecond == 0 {
		t.Errorf("%v look-ups/s, %v fills/s of %d buyers' lists", buyers.LookupsPerSecond, buyers.FillsPerSecond, buyers.WatchedKeys)
	}
	if sellers := kinds[1]; sellers.LookupsPerSecond == 0 || sellers.FillsPerSecond != 0 {
		t.Errorf("%v look-ups/s, %v fills/s of sellers' lists", sellers.LookupsPerSecond, sellers.FillsPerSecond)
	}
}
