package cache

import (
	"context"
	"errors"
	"fmt"
	"inquiry-gateway/internal/redisclient"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/testkit/redistest"
)

// fleet is some nodes, each with its own client, over one Redis and one legacy.
type fleet struct {
	*legacy
	srv   *redistest.Server
	nodes []*Lists
}

func newFleet(t testing.TB, size int) *fleet {
	t.Helper()
	f := &fleet{legacy: &legacy{clock: newClock()}, srv: redistest.Start(t)}
	for range size {
		f.nodes = append(f.nodes, freshReader(t, openRedis(t, relaxTimeouts(redisAt(f.srv.Addr))), f.legacy))
	}
	return f
}

// relaxTimeouts gives a busy machine the time that production would not.
func relaxTimeouts(c redisclient.Config) redisclient.Config {
	c.Timeout = 4 * time.Second
	return c
}

// waiting counts the flights that wait for another node.
func (f *fleet) waiting() (n int) {
	for _, l := range f.nodes {
		l.mu.Lock()
		for _, x := range l.flights {
			if x.waited.Load() {
				n++
			}
		}
		l.mu.Unlock()
	}
	return n
}

func (f *fleet) settled() {
	for _, l := range f.nodes {
		settled(l)
	}
}

func TestThreeNodesMakeOneFill(t *testing.T) {
	f := newFleet(t, 3)
	f.hold = make(chan struct{})
	var mu sync.Mutex
	outcomes := map[Outcome]int{}
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			r := mustGet(t, f.nodes[i%3], aKey)
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.Outcome]++
			if body(r) != "buyer/acme/pending/ #1" {
				t.Errorf("body %q", body(r))
			}
		})
	}
	redistest.Eventually(t, "two nodes wait for the third", func() bool { return f.waiting() == 2 && f.calls.Load() == 1 })
	close(f.hold)
	wg.Wait()
	if n := f.calls.Load(); n != 1 || outcomes[Miss] != 1 || outcomes[Miss]+outcomes[Collapsed]+outcomes[Hit] != 300 {
		t.Errorf("%d fills, outcomes %v", n, outcomes)
	}
	f.settled()
	if keys := f.srv.Do("KEYS", "*:lease"); keys != "*0" {
		t.Errorf("leases left behind: %q", keys)
	}
}

func TestALeaseWhoseNodeDiedIsWaitedForAndThenTaken(t *testing.T) {
	f := newFleet(t, 1)
	l := f.nodes[0]
	lease := namesOf(l, aKey).Lease
	f.srv.Do("SET", lease, "a dead node", "PX", "300")
	r := mustGet(t, l, aKey)
	if r.Outcome != Miss || f.calls.Load() != 1 {
		t.Errorf("%s after %d fills", r.Outcome, f.calls.Load())
	}
}

func TestALeaseThatNeverEndsIsNotWaitedForForEver(t *testing.T) {
	srv := redistest.Start(t)
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now, redis: openRedis(t, redisAt(srv.Addr)), limit: 400 * time.Millisecond}.start(t)
	lease := namesOf(l, aKey).Lease
	srv.Do("SET", lease, "a stuck node")
	if r := mustGet(t, l, aKey); r.Outcome != Miss {
		t.Errorf("outcome %s", r.Outcome)
	}
	settled(l)
	if got := srv.Do("GET", lease); got != "$12\r\na stuck node" {
		t.Errorf("another node's lease was touched: %q", got)
	}
}

// fillsWithin changes how long a fill may take.
func fillsWithin(l *Lists, limit time.Duration) {
	p := *l.policy.Load()
	p.fills.Timeout = limit
	l.policy.Store(&p)
}

// TestNodesThatNobodyAsksDoNotFill: the legacy hangs, and all callers have left
// when the first fill ends.
func TestNodesThatNobodyAsksDoNotFill(t *testing.T) {
	f := newFleet(t, 3)
	f.hold = make(chan struct{}) // never closed
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, l := range f.nodes {
		fillsWithin(l, 600*time.Millisecond)
		wg.Go(func() { _, _ = l.Get(ctx, aKey) })
	}
	redistest.Eventually(t, "two nodes wait for the third", func() bool { return f.waiting() == 2 && f.calls.Load() == 1 })
	leave()
	wg.Wait()
	f.settled()
	if n := f.calls.Load(); n != 1 {
		t.Errorf("%d fills", n)
	}
}

func TestALeaseThatPassedToAnotherNodeIsNotEnded(t *testing.T) {
	f := newFleet(t, 1)
	f.hold = make(chan struct{})
	done := make(chan Result, 1)
	go func() { done <- mustGet(t, f.nodes[0], aKey) }()
	redistest.Eventually(t, "the fill runs", func() bool { return f.calls.Load() == 1 })
	lease := namesOf(f.nodes[0], aKey).Lease
	f.srv.Do("SET", lease, "another node", "PX", "60000")
	close(f.hold)
	<-done
	f.settled()
	if got := f.srv.Do("GET", lease); got != "$12\r\nanother node" {
		t.Errorf("the lease is now %q", got)
	}
}

func TestASlowFillKeepsItsLease(t *testing.T) {
	f := newFleet(t, 2)
	f.hold = make(chan struct{})
	results := make(chan Result, 2)
	for _, l := range f.nodes {
		go func() { results <- mustGet(t, l, aKey) }()
	}
	redistest.Eventually(t, "one node waits", func() bool { return f.waiting() == 1 })
	lease := namesOf(f.nodes[0], aKey).Lease
	start := time.Now()
	redistest.Eventually(t, "the lease outlives its life", func() bool {
		if got := f.srv.Do("EXISTS", lease); got != ":1" {
			t.Fatalf("the lease is gone after %s", time.Since(start))
		}
		return time.Since(start) > redistier.LeaseLife+redistier.LeaseLife/4
	})
	close(f.hold)
	<-results
	<-results
	if n := f.calls.Load(); n != 1 {
		t.Errorf("%d fills", n)
	}
}

func TestAFailedFillFreesTheOthersAtOnce(t *testing.T) {
	f := newFleet(t, 3)
	f.hold = make(chan struct{})
	f.failWith(errLegacy)
	errs := make(chan error, 3)
	for _, l := range f.nodes {
		go func() { _, err := l.Get(t.Context(), aKey); errs <- err }()
	}
	redistest.Eventually(t, "two nodes wait for the third", func() bool { return f.waiting() == 2 })
	close(f.hold)
	for range 3 {
		if err := <-errs; !errors.Is(err, errLegacy) {
			t.Errorf("error %v", err)
		}
	}
	if n := f.calls.Load(); n != 3 {
		t.Errorf("%d fills, want one failure per node", n)
	}
	f.settled()
}

func TestListsThatAreNeverStoredAreNotWaitedFor(t *testing.T) {
	f := newFleet(t, 2)
	f.hold = make(chan struct{})
	cfg := testConfig()
	cfg.Buyer = KindConfig{}
	done := make(chan Result, 2)
	for _, l := range f.nodes {
		if err := l.SetConfig(cfg); err != nil {
			t.Fatal(err)
		}
		go func() { done <- mustGet(t, l, aKey) }()
	}
	redistest.Eventually(t, "both nodes fill", func() bool { return f.calls.Load() == 2 })
	close(f.hold)
	for range 2 {
		if r := <-done; r.Stored || r.Outcome != Miss {
			t.Errorf("%s, stored %t", r.Outcome, r.Stored)
		}
	}
}

// BenchmarkStampede prints what a fleet of three nodes costs the legacy when
// 500 callers on each ask for one key at once, at a legacy that takes 20 ms. It
// supports waking the waiters by a message instead of letting them poll.
func BenchmarkStampede(b *testing.B) {
	for _, state := range []string{"cold", "expired"} {
		b.Run(state, func(b *testing.B) {
			f := newFleet(b, 3)
			f.hold = nil
			var waits []time.Duration
			var calls int64
			for n := 0; b.Loop(); n++ {
				k := Key{Kind: KindBuyer, Account: fmt.Sprint("account-", n)}
				if state == "expired" {
					mustGet(b, f.nodes[n%3], k)
					f.settled()
					f.clock.Add(time.Minute)
					shift(b, f.nodes[0].opts.Redis, time.Minute)
				}
				before := f.calls.Load()
				f.hold = make(chan struct{})
				time.AfterFunc(20*time.Millisecond, func() { close(f.hold) })
				waits = append(waits, f.stampede(b, k)...)
				f.settled()
				f.hold = nil
				calls += f.calls.Load() - before
			}
			report(b, calls, waits)
		})
	}
}

// BenchmarkTiers is what a look-up costs by where it ends: in the process, in
// Redis, and at a legacy that costs nothing. It supports the in-process tier in
// front of Redis.
func BenchmarkTiers(b *testing.B) {
	f := newFleet(b, 1)
	l := f.nodes[0]
	page := strings.Repeat(`{"title":"Order 4711","status":"pending","created_at":"2026-06-01T09:30:00.000Z"},`, 125) // 10 KB
	l.opts.Fill = func(context.Context, Key) (Content, error) {
		return Content{Body: []byte(page), AnsweredAt: f.clock.Now()}, nil
	}
	b.Run("local", func(b *testing.B) {
		mustGet(b, l, aKey)
		b.ReportAllocs()
		for b.Loop() {
			mustGet(b, l, aKey)
		}
	})
	f.settled()
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
		f.settled()
	})
}
