package cache

import (
	"testing"
	"time"
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
				l.backoff.failed(aKey, errLegacy, g.clock.Now())
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

// told is an observer that counts.
type told struct {
	answered map[Outcome]int
	failed   int
	filled   int
	lists    map[uint64]int // look-ups and fills by source
}

func (o *told) Answered(e *Entry, outcome Outcome, _ time.Time) {
	o.answered[outcome]++
	list, _ := e.Source()
	o.lists[list]++
}

func (o *told) Failed(_, _ string, list uint64, _ time.Time) { o.failed++; o.lists[list]++ }

func (o *told) Filled(e *Entry, _ time.Duration) {
	o.filled++
	list, _ := e.Source()
	o.lists[list]++
}

func TestTheObserverIsToldOfLookUpsAndFills(t *testing.T) {
	g := &legacy{clock: newClock()}
	o := &told{answered: map[Outcome]int{}, lists: map[uint64]int{}}
	filled := 0
	l, err := New(testConfig(), Options{Fill: g.fill, Now: g.clock.Now, Observer: o, Filled: func(k Key) {
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
	sellers := Key{Kind: KindSeller, Account: "acme"}
	if _, err := l.Get(t.Context(), sellers); err != errLegacy {
		t.Errorf("error %v", err)
	}
	closeLists(t, l)
	if filled != 2 || o.filled != 1 || o.failed != 1 || o.answered[Hit] != 1 || o.answered[Miss] != 1 {
		t.Errorf("%d fills and failures, told %+v", filled, o)
	}
	if o.lists[aKey.Hash()] != 3 || o.lists[sellers.Hash()] != 1 {
		t.Errorf("by list: %v", o.lists)
	}
}
