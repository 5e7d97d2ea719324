package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/testkit/redistest"
)

var otherKey = Key{Kind: KindBuyer, Account: "globex"}

// gone waits until the node serves k no longer from what it has, and returns
// how long that took.
func gone(t *testing.T, l *Lists, k Key) time.Duration {
	t.Helper()
	start := time.Now()
	redistest.Eventually(t, "the old list is not served", func() bool { _, ok := l.Lookup(k); return !ok })
	return time.Since(start)
}

// epochKey is where Redis has the epoch of a scope.
func epochKey(s Scope) string {
	if s.Kind != "" {
		return "iq:3:epoch:" + s.Kind
	}
	return "iq:3:{" + redistier.Hash(s.Account) + "}:epoch"
}

// changeOf is a scope as Redis knows it.
func changeOf(s Scope) redistier.Change {
	if s.Kind != "" {
		return redistier.Change{Kind: s.Kind}
	}
	return redistier.Change{Account: redistier.Hash(s.Account)}
}

// warm fills keys on every node.
func (f *fleet) warm(t *testing.T, keys ...Key) {
	t.Helper()
	// The first poll of each node makes all epochs suspect once.
	redistest.Eventually(t, "every node has polled", func() bool {
		for _, l := range f.nodes {
			if !l.changes.polledOnce() || !l.redis.Connected() {
				return false
			}
		}
		return true
	})
	for _, l := range f.nodes {
		for _, k := range keys {
			mustGet(t, l, k)
			settled(l)
			if _, ok := l.Lookup(k); !ok {
				t.Fatalf("%v is not warm", k)
			}
		}
	}
}

func TestAPurgeReachesEveryNodeAndSparesTheOthers(t *testing.T) {
	tests := []struct {
		name  string
		scope Scope
		gone  []Key
		kept  []Key
	}{
		{"account", Scope{Account: "acme"}, []Key{aKey, {Kind: KindSeller, Account: "acme"}}, []Key{otherKey}},
		{"kind", Scope{Kind: KindBuyer}, []Key{aKey, otherKey}, []Key{{Kind: KindSeller, Account: "acme"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t, 3)
			f.warm(t, append(tt.gone, tt.kept...)...)
			if _, err := f.nodes[0].Purge(t.Context(), tt.scope); err != nil {
				t.Fatal(err)
			}
			for i, l := range f.nodes {
				for _, k := range tt.gone {
					t.Logf("node %d: gone after %s", i, gone(t, l, k))
				}
				for _, k := range tt.kept {
					if _, ok := l.Lookup(k); !ok {
						t.Errorf("node %d dropped %v", i, k)
					}
				}
			}
			before := f.calls.Load()
			for _, l := range f.nodes {
				for _, k := range tt.gone {
					mustGet(t, l, k)
				}
				f.settled()
			}
			if n := f.calls.Load() - before; n != int64(len(tt.gone)) {
				t.Errorf("%d fills after the purge, want one for each list", n)
			}
		})
	}
}

// TestALostMessageHidesAPurgeForOnePoll raises the epoch and the number as a
// purge does, but tells nobody.
func TestALostMessageHidesAPurgeForOnePoll(t *testing.T) {
	for _, scope := range []Scope{{Account: "acme"}, {Kind: KindBuyer}} {
		f := newFleet(t, 2)
		f.warm(t, aKey, otherKey)
		s := f.nodes[0].redis
		if err := s.Raise(t.Context(), []redistier.Change{changeOf(scope)}, false); err != nil {
			t.Fatal(err)
		}
		f.srv.Do("SET", "iq:3:purges", "99", "PX", "60000")
		for i, l := range f.nodes {
			t.Logf("%+v, node %d: suspect after %s", scope, i, gone(t, l, aKey))
		}
		before := f.calls.Load()
		if r := mustGet(t, f.nodes[1], aKey); r.Outcome != Miss {
			t.Errorf("%+v: the old list was served as %s", scope, r.Outcome)
		}
		// Another account's list was suspect, too, and is confirmed by one read.
		if r := mustGet(t, f.nodes[1], otherKey); scope.Account != "" && (r.Outcome != Hit || f.calls.Load() != before+1) {
			t.Errorf("another account's list was %s", r.Outcome)
		}
		f.settled()
	}
}

func TestANodeThatWasCutOffLearnsOfAPurgeWhenItIsBack(t *testing.T) {
	f := newFleet(t, 1)
	cable := redistest.NewProxy(t, f.srv.Addr)
	cut := freshReader(t, openRedis(t, redisAt(cable.Addr)), f.legacy)
	f.nodes = append(f.nodes, cut)
	f.warm(t, aKey)
	cable.Cut()
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.nodes[0].Lookup(aKey); ok {
		t.Error("the purging node still serves the old list")
	}
	redistest.Eventually(t, "the node knows that it is cut off", func() bool { return cut.RedisState() == "down" })
	if r, ok := cut.Lookup(aKey); !ok || r.Outcome != Hit {
		t.Error("without Redis the policy alone decides, and it allows this list")
	}
	cable.Mend()
	t.Logf("gone %s after the cable was mended", gone(t, cut, aKey))
	if r := mustGet(t, cut, aKey); r.Outcome == StaleError || body(r) == "buyer/acme/pending/ #1" {
		t.Errorf("the old list came back as %s", r.Outcome)
	}
	f.settled()
}

// TestListsFilledWithoutRedisAreServedFromTheHotPath: nobody could confirm
// their account, and nothing says that a purge was missed.
func TestListsFilledWithoutRedisAreServedFromTheHotPath(t *testing.T) {
	f := newFleet(t, 1)
	f.warm(t, otherKey)
	f.srv.Kill()
	mustGet(t, f.nodes[0], aKey)
	for _, k := range []Key{aKey, otherKey} {
		if _, ok := f.nodes[0].Lookup(k); !ok {
			t.Errorf("%v is not served", k)
		}
	}
	f.settled()
}

func TestAFillThatBeganBeforeAPurgeCannotBringTheOldDataBack(t *testing.T) {
	f := newFleet(t, 2)
	hold := make(chan struct{})
	f.hold = hold
	old := make(chan Result, 1)
	go func() { old <- mustGet(t, f.nodes[0], aKey) }()
	redistest.Eventually(t, "the fill runs", func() bool { return f.calls.Load() == 1 })
	if _, err := f.nodes[1].Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "the first node has heard", func() bool {
		return f.nodes[0].changes.of(redistier.Hash("acme")).epoch.Load() > 0
	})
	later := make(chan Result, 1)
	go func() { later <- mustGet(t, f.nodes[0], aKey) }() // must not join the old flight
	redistest.Eventually(t, "the new flight has looked at the lease", func() bool { return f.waiting() >= 1 })
	close(hold)
	first, second := <-old, <-later
	if body(first) == body(second) {
		t.Errorf("who asked after the purge got %q, from a fill that began before", body(second))
	}
	f.settled()
	for i, l := range f.nodes {
		r := mustGet(t, l, aKey)
		if body(r) == body(first) {
			t.Errorf("node %d serves what was filled before the purge, as %s from %q", i, r.Outcome, r.Tier)
		}
	}
	f.settled()
}

func TestARedisThatLostAPurgeGetsItBack(t *testing.T) {
	for _, scope := range []Scope{{Account: "acme"}, {Kind: KindBuyer}} {
		f := newFleet(t, 1)
		f.warm(t, aKey)
		purged, err := f.nodes[0].Purge(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		mustGet(t, f.nodes[0], aKey)
		settled(f.nodes[0])
		f.srv.Do("FLUSHALL")
		key := epochKey(scope)
		redistest.Eventually(t, "Redis has the epoch again", func() bool {
			_, _ = f.nodes[0].Get(t.Context(), aKey)
			f.clock.Add(25 * time.Second) // each look-up has to ask Redis
			settled(f.nodes[0])
			return strings.Contains(f.srv.Do("GET", key), fmt.Sprint("\n", purged, " ", purged, " "))
		})
		if ttl := f.srv.Do("PTTL", key); ttl == ":-1" {
			t.Error("the epoch has no end")
		}
	}
}

// TestAListOfBeforeALostPurgeIsRefused: a replica that had not taken the purge
// became the master, and has the list of before.
func TestAListOfBeforeALostPurgeIsRefused(t *testing.T) {
	f := newFleet(t, 2)
	f.warm(t, aKey)
	rdb, n := f.nodes[0].opts.Redis, namesOf(f.nodes[0], aKey)
	before := rdb.Get(t.Context(), n.Entry).Val()
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.nodes[1], aKey)
	for i, l := range f.nodes {
		l.tier.InvalidateAll()
		runtime.GC() // of what nothing but the list held
		if err := errors.Join(rdb.Del(t.Context(), n.Epoch).Err(), rdb.Set(t.Context(), n.Entry, before, time.Minute).Err()); err != nil {
			t.Fatal(err)
		}
		if r := mustGet(t, l, aKey); r.Outcome != Miss {
			t.Errorf("node %d served the list of before as %s", i, r.Outcome)
		}
		f.settled()
	}
}

// What a node fetches while it takes its first look at Redis, which makes all that it knew before
// suspect, it knows afterwards. Numbers of purges that it never heard of make that look longer.
func TestAListOfTheFirstMomentStays(t *testing.T) {
	f := newFleet(t, 1)
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		l := freshReader(t, openRedis(t, relaxTimeouts(redisAt(f.srv.Addr))), f.legacy)
		mustGet(t, l, otherKey)
		settled(l)
		redistest.Eventually(t, "the first poll is over", l.changes.polledOnce)
		if _, ok := l.Lookup(otherKey); !ok {
			t.Fatal("the list is suspect")
		}
	}
}

func TestAPurgeWithoutRedisWorksInTheProcess(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	mustGet(t, l, aKey)
	mustGet(t, l, otherKey)
	purged, err := l.Purge(t.Context(), Scope{Account: "acme"})
	if err != nil || purged != 1 {
		t.Fatalf("%+v, %v", purged, err)
	}
	if _, ok := l.Lookup(aKey); ok {
		t.Error("still served")
	}
	if _, ok := l.Lookup(otherKey); !ok {
		t.Error("another account's list was dropped")
	}
	if r := mustGet(t, l, aKey); r.Outcome != Miss {
		t.Errorf("outcome %s", r.Outcome)
	}
}

func TestAPurgeDuringAFailingFillLeavesNothingToServe(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	mustGet(t, l, aKey)
	g.clock.Add(30 * time.Second) // good for stale_if_error only
	g.failWith(errLegacy)
	g.hold = make(chan struct{})
	failed := make(chan error, 1)
	go func() { _, err := l.Get(t.Context(), aKey); failed <- err }()
	redistest.Eventually(t, "the fill runs", func() bool { return g.calls.Load() == 2 })
	if _, err := l.Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	close(g.hold)
	if err := <-failed; !errors.Is(err, errLegacy) {
		t.Errorf("error %v; the purged list was served", err)
	}
}

func TestAPurgeThatRedisDidNotTakeIsAnErrorAndHoldsHere(t *testing.T) {
	f := newFleet(t, 1)
	f.warm(t, aKey)
	f.srv.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := f.nodes[0].Purge(ctx, Scope{Account: "acme"}); err == nil {
		t.Error("no error, and the fleet does not know")
	}
	if _, ok := f.nodes[0].Lookup(aKey); ok {
		t.Error("this node still serves the old list")
	}
	// Redis may come back with the old list when nothing else holds the epoch.
	f.nodes[0].changes.setLost()
	if own, _ := f.nodes[0].changes.polled(0, 0); len(own) != 1 || own[0].cell.epoch.Load() == 0 {
		t.Errorf("this node remembers %v", own)
	}
}

func TestAPurgeWantsExactlyOneScope(t *testing.T) {
	l := setup{fill: (&legacy{clock: newClock()}).fill}.start(t)
	for _, s := range []Scope{{}, {Kind: KindBuyer, Account: "acme"}, {Kind: "admin"}} {
		if _, err := l.Purge(t.Context(), s); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}

func TestEpochsOfAccountsThatNobodyHoldsAreForgotten(t *testing.T) {
	e := newChanges(time.Now())
	held := e.of("held")
	for i := range 1000 {
		e.of(fmt.Sprint("account-", i))
	}
	redistest.Eventually(t, "only the held cell is left", func() bool {
		runtime.GC()
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.accounts) == 1
	})
	if e.of("held") != held {
		t.Error("a held cell was replaced")
	}
}

// A purge or a hint on this node while it reads Redis is no loss of Redis'.
func TestAPurgeThatRacesAReadIsNoLoss(t *testing.T) {
	x := new(cell)
	before := x.known()
	x.raise(redistier.Epoch{Last: 7, Floor: 7}, 0)
	if x.learn(redistier.Epoch{Last: 3, Floor: 3}, before, 0, 1) {
		t.Error("a late answer counts as a loss")
	}
	if !x.learn(redistier.Epoch{Last: 3, Floor: 3}, x.known(), 0, 1) || x.known().Last != 7 {
		t.Error("a loss is not noticed")
	}
}

// A node that starts after a purge finds the old list in Redis, and explains it as what it
// is.
func TestExplainKnowsAPurgeOfBeforeTheNode(t *testing.T) {
	f := newFleet(t, 1)
	f.warm(t, aKey)
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	started := freshReader(t, openRedis(t, relaxTimeouts(redisAt(f.srv.Addr))), f.legacy)
	x, err := started.Explain(t.Context(), aKey)
	if err != nil || x.Outcome != Miss || x.Refused != "purged" || x.AccountEpoch == 0 {
		t.Errorf("%+v, %v", x, err)
	}
}

// What a purge has overtaken is served to who asked before, and kept nowhere.
func TestAFillThatAPurgeHasOvertakenIsStoredNowhere(t *testing.T) {
	f := newFleet(t, 1)
	f.warm(t, otherKey)
	f.hold = make(chan struct{})
	filled := make(chan Result)
	go func() { filled <- mustGet(t, f.nodes[0], aKey) }()
	redistest.Eventually(t, "the fill has begun", func() bool { return f.calls.Load() == 2 })
	if _, err := f.nodes[0].Purge(t.Context(), Scope{Account: "acme"}); err != nil {
		t.Fatal(err)
	}
	close(f.hold)
	if r := <-filled; r.Stored || r.Outcome != Miss {
		t.Errorf("%+v", r)
	}
	f.settled()
	if got := f.srv.Do("EXISTS", entryKey(f.nodes[0], aKey)); got != ":0" {
		t.Errorf("Redis has it: %s", got)
	}
}
