package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

// The lease lives for as long as a fill may take.
func TestOneNodeFillsForTheFleet(t *testing.T) {
	f := newFleet(t, 3, func(s *setup) { s.Fills.Timeout = time.Hour })
	f.hold = make(chan struct{})
	outcomes := make(chan Outcome, 500)
	var callers sync.WaitGroup
	for i := range cap(outcomes) {
		callers.Go(func() {
			r := <-asking(t, f.nodes[i%3], aKey)
			want(t, r, r.Outcome, "#1")
			outcomes <- r.Outcome
		})
	}
	f.filling(t, 1, 2)
	if got := f.rdb.PTTL(t.Context(), f.namesOf(aKey).Entry+":lease:"+strconv.FormatUint(f.nodes[0].invalidations.last(KindBuyer, redistier.Hash("acme"), false), 36)).Val(); got < 50*time.Minute {
		t.Errorf("the lease ends in %v, before the fill", got)
	}
	if n := f.leases(t); n != 1 {
		t.Errorf("%d leases during the fill", n)
	}
	close(f.hold)
	callers.Wait()
	settled(f.nodes...)
	close(outcomes)
	count := map[Outcome]int{}
	for o := range outcomes {
		count[o]++
	}
	if n := f.calls.Load(); n != 1 || count[Miss] != 1 || count[Miss]+count[Collapsed]+count[Hit] != 500 {
		t.Errorf("%d fills, outcomes %v", n, count)
	}
	if n := f.leases(t); n != 0 {
		t.Errorf("%d leases left behind", n)
	}
}

// A legacy system that takes 4 s is asked once for each list, of which 500 callers ask three nodes.
func TestASlowListIsFetchedOnceForTheFleet(t *testing.T) {
	f := newFleet(t, 3, func(s *setup) {
		fill := s.Fill
		s.Fill = func(ctx context.Context, k Key, about FillInfo) (Content, error) {
			time.Sleep(4 * time.Second) // by which the leases would end if they were short
			return fill(ctx, k, about)
		}
		s.Fills.Timeout = time.Minute
	})
	f.warm(t)
	const lists = 5
	var callers sync.WaitGroup
	for i := range lists * 500 {
		callers.Go(func() {
			k := Key{Kind: KindBuyer, Account: fmt.Sprint("account-", i%lists)}
			if r, err := f.nodes[i%3].Get(t.Context(), k); err != nil || r.Entry.Key != k {
				t.Errorf("%v: %v", k, err)
			}
		})
	}
	callers.Wait()
	if n := f.calls.Load(); n != lists {
		t.Errorf("%d requests for %d lists", n, lists)
	}
}

// A purge that Redis has not taken, and which therefore holds on one node only, gives that node no lease of its
// own: the fleet still makes one request.
func TestAPurgeOfOneNodeSplitsNoLease(t *testing.T) {
	f := newFleet(t, 1)
	cable := redistest.NewProxy(t, f.srv.Addr)
	l := f.add(t, cable.Addr, 4*time.Second)
	f.warm(t, sellers)
	purge(t, f.nodes[0], acme)
	redistest.Eventually(t, "the other node knows the purge", func() bool { return l.invalidations.last("", redistier.Hash("acme"), false) > 0 })
	cable.Cut()
	if _, err := l.Purge(t.Context(), acme); err == nil {
		t.Fatal("Redis has taken the purge")
	}
	cable.Mend()
	redistest.Eventually(t, "the node uses Redis again", func() bool { return l.poll(t.Context()) == nil && l.RedisState() == "ok" })
	f.hold = make(chan struct{})
	before := f.calls.Load()
	one, two := asking(t, f.nodes[0], aKey), asking(t, l, aKey)
	f.filling(t, int(before)+1, 1)
	close(f.hold)
	<-one
	<-two
	settled(f.nodes...)
	if n := f.calls.Load() - before; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// leases counts the leases in Redis.
func (f *fleet) leases(t *testing.T) int {
	keys, err := f.srv.Client().Keys(t.Context(), "*:lease:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(keys)
}

// A lease whose node has died is taken when it ends, and one that never ends is not waited
// for longer than a fill may take.
func TestALeaseOfANodeThatIsNotThere(t *testing.T) {
	f := newFleet(t, 1, func(s *setup) { s.Fills.Timeout = 200 * time.Millisecond })
	for i, life := range [][]string{{"PX", "100"}, {"PX", "60000"}} {
		k := Key{Kind: KindBuyer, Account: fmt.Sprint(i)}
		f.srv.Do(append([]string{"SET", f.namesOf(k).Entry + ":lease:" + strconv.FormatUint(f.nodes[0].invalidations.last(KindBuyer, redistier.Hash("acme"), false), 36), "another node"}, life...)...)
		if r := mustGet(t, f.nodes[0], k); r.Outcome != Miss {
			t.Errorf("%v: %s", life, r.Outcome)
		}
	}
}

// All callers have left when the fill that their nodes wait for ends.
func TestNodesThatNobodyAsksDoNotFill(t *testing.T) {
	f := newFleet(t, 3)
	f.hold = make(chan struct{})
	f.failWith(errLegacy)
	ctx, leave := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, l := range f.nodes {
		callers.Go(func() { _, _ = l.Get(ctx, aKey) })
	}
	f.filling(t, 1, 2)
	leave()
	callers.Wait()
	close(f.hold)
	settled(f.nodes...)
	if n := f.calls.Load(); n != 1 {
		t.Errorf("%d fills", n)
	}
}

// With callers each node tries for itself, and none waits for the end of a lease.
func TestAFailedFillFreesTheOthers(t *testing.T) {
	f := newFleet(t, 3)
	f.hold = make(chan struct{})
	f.failWith(errLegacy)
	errs := make(chan error, 3)
	for _, l := range f.nodes {
		go func() { _, err := l.Get(t.Context(), aKey); errs <- err }()
	}
	f.filling(t, 1, 2)
	close(f.hold)
	for range 3 {
		if err := <-errs; !errors.Is(err, errLegacy) {
			t.Errorf("error %v", err)
		}
	}
	settled(f.nodes...)
	if n, left := f.calls.Load(), f.leases(t); n != 3 || left != 0 {
		t.Errorf("%d fills, want one failure per node; %d leases left behind", n, left)
	}
}

func TestListsThatAreNeverStoredAreNotWaitedFor(t *testing.T) {
	f := newFleet(t, 2, func(s *setup) { s.Buyer = KindConfig{} })
	f.hold = make(chan struct{})
	one, two := asking(t, f.nodes[0], aKey), asking(t, f.nodes[1], aKey)
	redistest.Eventually(t, "both nodes fill", func() bool { return f.calls.Load() == 2 })
	close(f.hold)
	for _, r := range []Result{<-one, <-two} {
		if r.Stored || r.Outcome != Miss {
			t.Errorf("%s, stored %t", r.Outcome, r.Stored)
		}
	}
}

// about allows for what round trips add to an age; none is ever taken off.
func about(got, want time.Duration) bool { return got >= want && got < want+time.Second }

// A caller whose time is up while the legacy is waited for gets the stale list that Redis
// had, although this node has never served it.
func TestOutOfTimeWithAStaleListInRedis(t *testing.T) {
	f := newFleet(t, 2)
	mustGet(t, f.nodes[0], aKey)
	settled(f.nodes...)
	f.grow(t, 30*time.Second) // past ttl and stale_while_revalidate
	f.hold = make(chan struct{})
	ctx, outOfTime := context.WithCancel(t.Context())
	answers := make(chan Result, 1)
	go func() {
		r, err := f.nodes[1].Get(deadline{ctx}, aKey)
		if err != nil {
			t.Error(err)
		}
		answers <- r
	}()
	redistest.Eventually(t, "the legacy is asked", func() bool { return f.calls.Load() == 2 })
	outOfTime()
	r := <-answers
	close(f.hold)
	settled(f.nodes...)
	if want(t, r, StaleError, "#1"); r.Tier != TierRedis {
		t.Errorf("from %q", r.Tier)
	}
}

// deadline is a context whose end is that of its time.
type deadline struct{ context.Context }

func (c deadline) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// A cold miss is three calls of Redis: one that reads, a pipeline that takes the lease, and a script
// that stores. A list that is there is one call. Where one call takes so long that the next could exceed
// the time that Redis may add to a miss, there is no next one.
func TestHowOftenRedisIsCalled(t *testing.T) {
	f := newFleet(t, 1)
	f.warm(t) // a look-up before the first poll reads the purges itself
	l := f.nodes[0]
	calls := func(k Key, tier string, reads, writes int) {
		t.Helper()
		f.srv.Do("CONFIG", "RESETSTAT")
		if r := mustGet(t, l, k); r.Tier != tier {
			t.Errorf("%v is from %q", k, r.Tier)
		}
		settled(l)
		stats := f.srv.Do("INFO", "commandstats") // scripts included
		for command, n := range map[string]int{"getrange": reads, "set": writes} {
			if want := fmt.Sprintf("cmdstat_%s:calls=%d,", command, n); n > 0 != strings.Contains(stats, want[:len("cmdstat_:")+len(command)]) || n > 0 && !strings.Contains(stats, want) {
				t.Errorf("%v from %q is not %d of %s:\n%s", k, tier, n, command, stats)
			}
		}
	}
	calls(aKey, "", 2, 2)
	l.tier.InvalidateAll()
	calls(aKey, TierRedis, 1, 0)

	cable := redistest.NewProxy(t, f.srv.Addr)
	slow := f.add(t, cable.Addr, redisclient.DefaultConfig().Timeout)
	f.warm(t, sellers)
	f.grow(t, 30*time.Second) // what is there is too old, and would give the lease to a second call
	f.srv.Do("CONFIG", "RESETSTAT")
	cable.Delay(redisclient.DefaultConfig().Timeout * 5 / 8)
	want(t, mustGet(t, slow, aKey), Miss, "")
	settled(slow)
	if stats := f.srv.Do("INFO", "commandstats"); !strings.Contains(stats, "cmdstat_getrange:calls=1,") {
		t.Errorf("a slow Redis was not read once for a miss:\n%s", stats)
	}
}

// However many ask for a list at once, Redis is read once for it, and the legacy asked once.
func TestOneReadForACrowd(t *testing.T) {
	f := newFleet(t, 1)
	l := f.nodes[0]
	for tier, fills := range map[string]int64{"": 1, TierRedis: 0} {
		if tier == "" {
			f.srv.Do("FLUSHALL")
		} else {
			mustGet(t, l, aKey)
			settled(l)
		}
		l.tier.InvalidateAll()
		before, calls := f.called(t, 0, "getrange"), f.calls.Load()
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() { mustGet(t, l, aKey) })
		}
		callers.Wait()
		settled(l)
		if r, n := f.called(t, 0, "getrange")-before, f.calls.Load()-calls; r != 1 || n != fills {
			t.Errorf("%q: %v reads, %d fills", tier, r, n)
		}
	}
}

func TestKeysInRedisHaveAnEndAndHoldNoNames(t *testing.T) {
	f := newFleet(t, 1)
	mustGet(t, f.nodes[0], Key{KindSeller, "acme-ltd", "pending", "delivery"})
	purge(t, f.nodes[0], Purge{Kinds: []string{KindSeller}, Accounts: []string{"acme-ltd"}})
	settled(f.nodes...)
	keys := f.rdb.Keys(t.Context(), "*").Val()
	if len(keys) != 2 {
		t.Errorf("keys %v", keys)
	}
	for _, k := range keys {
		if ttl := f.rdb.PTTL(t.Context(), k).Val(); (ttl <= 0 || ttl > time.Hour) && k != "iq:6:purges" { // which are removed one by one
			t.Errorf("%s lives for %s", k, ttl)
		}
		if !strings.HasPrefix(k, "iq:6:") {
			t.Errorf("%s is outside of the prefix", k)
		}
		for _, secret := range []string{"acme", "pending", "delivery"} {
			if strings.Contains(k, secret) {
				t.Errorf("%s holds %q", k, secret)
			}
		}
	}
}

func TestGarbageInRedisIsRefusedAndFilledAgain(t *testing.T) {
	var log testkit.Log
	f := newFleet(t, 1, func(s *setup) { s.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	purged := Key{Kind: KindBuyer, Account: "initech"}
	f.warm(t, aKey, otherKey, purged)
	purge(t, f.nodes[0], Purge{Accounts: []string{"initech"}})
	want(t, mustGet(t, f.nodes[0], purged), Miss, "#4")
	settled(f.nodes...)
	if n := refused(t, f.nodes[0])["purged"+TierRedis]; n != 1 || log.Take() != "" {
		t.Errorf("%v lists of before a purge are refused, and the log tells of it", n)
	}
	key := f.namesOf(aKey).Entry
	good := f.rdb.Get(t.Context(), key).Val()
	early := newEntry(origin{key: aKey, answeredAt: time.Now().Add(time.Hour), fetch: fetchVersion{began: micros(time.Now())}}, []byte("x"), 1)
	for _, tt := range []struct{ reason, value string }{
		{"foreign", f.rdb.Get(t.Context(), f.namesOf(otherKey).Entry).Val()},
		{"corrupt", good[:len(good)-1]},
		{"corrupt", "hello"},
		{"corrupt", string(stored(early))},
		{"too_big", strings.Repeat("x", int(testConfig().MaxEntryBytes)+100)},
		{"", "no string, but a list of Redis"},
	} {
		reason, value := tt.reason, tt.value
		f.srv.Do("DEL", key)
		if reason == "" {
			f.srv.Do("LPUSH", key, value)
		} else if err := f.rdb.Set(t.Context(), key, value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		l := f.nodes[0]
		l.tier.InvalidateAll()
		before := refused(t, l)
		r := mustGet(t, l, aKey)
		settled(l)
		if r.Outcome != Miss || r.Entry.Account != "acme" || l.RedisState() != "ok" {
			t.Errorf("%q: %s of %s, Redis is %s", value[:5], r.Outcome, r.Entry.Account, l.RedisState())
		}
		if reason != "" && !strings.Contains(log.Take(), "reason="+reason) {
			t.Errorf("%q: the log does not tell of it", value[:5])
		}
		for name, n := range refused(t, l) {
			if grown := n - before[name]; grown != 0 && name != reason+TierRedis || name == reason+TierRedis && grown != 1 {
				t.Errorf("%q: %v more refused as %s", value[:5], grown, name)
			}
		}
	}
}

// refused counts the entries that a node has refused, by reason and tier. Each has its
// series from the start: a rate sees the first event only then.
func refused(t testing.TB, l *Cache) map[string]float64 {
	t.Helper()
	n, err := testkit.Values(registryOf(l), "inquiry_gateway_cache_refused_entries_total")
	if err != nil || len(n) != len(refusals())+2 {
		t.Fatalf("%v, %v", n, err)
	}
	return n
}

// BenchmarkTiers is what a look-up costs that does not end in the process: in Redis, and at
// a legacy that costs nothing. It supports the in-process tier in front of Redis.
func BenchmarkTiers(b *testing.B) {
	page := strings.Repeat(`{"title":"Order 4711","status":"pending","created_at":"2026-06-01T09:30:00.000Z"},`, 125) // 10 KB
	l := newFleet(b, 1, filledBy(page)).nodes[0]
	mustGet(b, l, aKey)
	settled(l)
	b.Run("redis", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.tier.Invalidate(aKey)
			if r := mustGet(b, l, aKey); r.Tier != TierRedis {
				b.Fatalf("%s from %q", r.Outcome, r.Tier)
			}
		}
	})
	b.Run("fill", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			mustGet(b, l, Key{Kind: KindBuyer, Account: fmt.Sprint("account-", n)})
		}
		settled(l)
	})
}
