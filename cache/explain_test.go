package cache

import (
	"slices"
	"sync"
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
			if x.Outcome != r.Outcome || (r.Outcome != Miss && (x.Age != r.Age || x.TTL != r.TTL || x.Tier != r.Tier)) {
				t.Errorf("predicted %s from %q, age %s, ttl %s; got %s from %q, %s, %s",
					x.Outcome, x.Tier, x.Age, x.TTL, r.Outcome, r.Tier, r.Age, r.TTL)
			}
			if x.Policy != "cache.buyer.by_status.pending" || x.PolicyTTL != short || x.Failing != tt.failing || x.Redis != "off" {
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
	if err != nil || x.Tier != TierRedis || x.Outcome != Hit || x.Policy != "cache.buyer" || x.Bytes == 0 || x.Stored["identity"] == 0 {
		t.Errorf("%+v, %v", x, err)
	}
	purged, err := f.nodes[1].Purge(t.Context(), Scope{Kind: KindBuyer})
	if err != nil {
		t.Fatal(err)
	}
	x, err = f.nodes[1].Explain(t.Context(), aKey)
	if err != nil || x.Refused != "purged" || x.Outcome != Miss || x.KindEpoch != purged.Epoch || x.Tier != "" {
		t.Errorf("after a purge: %+v, %v", x, err)
	}
	if _, err := f.nodes[0].Explain(t.Context(), Key{Kind: "admin"}); err != ErrUnknownKind {
		t.Errorf("error %v", err)
	}
}

// recorder keeps what an observer is told.
type recorder struct {
	mu     sync.Mutex
	told   []string // in order
	filled []error
}

func (o *recorder) Name(k Key) uint64 { return uint64(len(k.Account)) }

func (o *recorder) Looked(k Key, name uint64, _ time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if name != o.Name(k) {
		k.Account += " by another name"
	}
	o.told = append(o.told, "looked "+k.Account)
}

func (o *recorder) Filled(_ Key, e *Entry, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if (e == nil) != (err != nil) {
		err = ErrFillPanicked // neither or both: never
	}
	o.told = append(o.told, "filled")
	o.filled = append(o.filled, err)
}

func TestTheObserverSeesLookUpsAndFills(t *testing.T) {
	g := &legacy{clock: newClock()}
	o := &recorder{}
	l, err := New(testConfig(), Options{Fill: g.fill, Now: g.clock.Now, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, l, aKey)
	l.Lookup(aKey)
	g.failWith(errLegacy)
	g.clock.Add(15 * time.Second)
	mustGet(t, l, aKey)
	closeLists(t, l)
	looked := "looked " + aKey.Account
	if want := []string{looked, "filled", looked, looked, "filled"}; !slices.Equal(o.told, want) {
		t.Errorf("told %q, want %q", o.told, want)
	}
	if len(o.filled) != 2 || o.filled[0] != nil || o.filled[1] != errLegacy {
		t.Errorf("fills %v", o.filled)
	}
}
