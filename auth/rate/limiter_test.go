package rate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type tester interface {
	Helper()
	Fatal(...any)
	Cleanup(func())
}

func newLimiter(t tester, cfg Config, opts Options) *Limiter {
	t.Helper()
	l := New(cfg, opts)
	t.Cleanup(l.Close)
	return l
}

// leases is how often Redis has been asked.
func leases(l *Limiter) (n float64) {
	for _, c := range l.metrics.leases {
		n += testutil.ToFloat64(c)
	}
	return n
}

func TestNoLimit(t *testing.T) {
	l := newLimiter(t, Config{Plans: map[string]Plan{"basic": {PerSecond: 1}}}, Options{Redis: redistest.Start(t).Client()})
	for range 1000 {
		if d := l.Allow(t.Context(), "acme", ""); d != (Decision{Allowed: true}) {
			t.Fatalf("%+v", d)
		}
	}
	if leases(l) != 0 || l.accounts.EstimatedSize() != 0 {
		t.Error("an account without a limit costs something")
	}
}

func TestAlone(t *testing.T) {
	c := testkit.NewClock(start)
	reg := prometheus.NewPedanticRegistry()
	l := newLimiter(t, Config{PerSecond: 2, Burst: 3, Plans: map[string]Plan{"pro": {100, 200}}}, Options{Now: c.Now, Registerer: reg})
	ctx := t.Context()
	want := func(name string, got, want Decision) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	d := Decision{Allowed: true, Policy: DefaultPolicy, Limit: 3, Window: 1500 * time.Millisecond, Remaining: 2, Reset: 500 * time.Millisecond}
	want("first", l.Allow(ctx, "acme", ""), d)
	l.Allow(ctx, "acme", "")
	d.Remaining, d.Reset = 0, 1500*time.Millisecond
	want("third", l.Allow(ctx, "acme", ""), d)
	d.Allowed, d.RetryAfter = false, 500*time.Millisecond
	want("fourth", l.Allow(ctx, "acme", ""), d)
	if d := l.Allow(ctx, "other", ""); !d.Allowed {
		t.Error("one account pays for another")
	}
	if d := l.Allow(ctx, "pro account", "pro"); !d.Allowed || d.Limit != 200 || d.Policy != "pro" {
		t.Errorf("%+v", d)
	}
	c.Add(499 * time.Millisecond)
	if d := l.Allow(ctx, "acme", ""); d.Allowed || d.RetryAfter < time.Millisecond || d.RetryAfter > 2*time.Millisecond {
		t.Errorf("too early: %+v", d)
	}
	c.Add(time.Millisecond)
	if d := l.Allow(ctx, "acme", ""); !d.Allowed {
		t.Errorf("in time: %+v", d)
	}
	if n := testutil.ToFloat64(l.metrics.decisions[0][0]); n != 2 {
		t.Errorf("%v limited decisions of the node", n)
	}
	if testutil.ToFloat64(l.metrics.fallback) != 0 {
		t.Error("no Redis is no fallback")
	}
}

func TestSetConfig(t *testing.T) {
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{PerSecond: 1, Burst: 1}, Options{Now: c.Now})
	ctx := t.Context()
	if !l.Allow(ctx, "acme", "").Allowed || l.Allow(ctx, "acme", "").Allowed {
		t.Fatal("a burst of 1 is not 1")
	}
	l.SetConfig(Config{PerSecond: 10, Burst: 5})
	l.Allow(ctx, "acme", "") // the account takes the new limit over
	c.Add(200 * time.Millisecond)
	if d := l.Allow(ctx, "acme", ""); !d.Allowed || d.Limit != 5 || d.Remaining != 1 {
		t.Errorf("after a change: %+v", d)
	}
	l.SetConfig(Config{})
	if d := l.Allow(ctx, "acme", ""); d != (Decision{Allowed: true}) {
		t.Errorf("after the limit was taken away: %+v", d)
	}
}

// Tokens that come back so slowly that the test cannot see it: whatever the
// nodes do at the same time, the fleet passes the burst and no more.
func TestFleetSharesOneBurst(t *testing.T) {
	const nodes, burst = 3, 300
	server := redistest.Start(t)
	c := testkit.NewClock(start) // stands still: no lease lapses
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range nodes {
		l := newLimiter(t, Config{PerSecond: minPerSecond, Burst: burst}, Options{Redis: server.Client(), Prefix: "iq", Now: c.Now})
		for range 4 {
			wg.Go(func() {
				for {
					d := l.Allow(t.Context(), "acme", "")
					if !d.Allowed {
						if d.RetryAfter <= 0 || d.Limit != burst {
							t.Errorf("%+v", d)
						}
						return
					}
					allowed.Add(1)
				}
			})
		}
	}
	wg.Wait()
	// A node may be left with a fraction of a token.
	if n := allowed.Load(); n > burst || n < burst-nodes {
		t.Errorf("%d requests passed a burst of %d", n, burst)
	}
}

// What TestFleetSharesOneBurst cannot see: with tokens coming back, any window
// stays within what the package promises. The windows are measured on the
// clock of the test, so the bound holds however slow the machine is.
func TestOvershootIsBounded(t *testing.T) {
	server := redistest.Start(t)
	const nodes = 3
	cfg := Config{PerSecond: 2000, Burst: 400}
	limit := newLimits(cfg).of("")
	var mu sync.Mutex
	var passed []time.Time
	var wg sync.WaitGroup
	begin := time.Now()
	for range nodes {
		l := newLimiter(t, cfg, Options{Redis: server.Client(), Prefix: "iq"})
		for range 2 {
			wg.Go(func() {
				for range 4000 {
					before := time.Now()
					if l.Allow(t.Context(), "acme", "").Allowed {
						mu.Lock()
						passed = append(passed, before)
						mu.Unlock()
					}
				}
			})
		}
	}
	wg.Wait()
	whole := time.Since(begin).Seconds()
	most := float64(limit.Burst) + limit.PerSecond*whole + nodes*float64(limit.Batch)
	if float64(len(passed)) > most || len(passed) < limit.Burst/2 {
		t.Errorf("%d requests passed in %.3f s; the bound is %.0f", len(passed), whole, most)
	}
}

// One node's tokens at a time: leases never hold more than a batch beyond the
// requests that wait, whatever happens.
func TestLeasesHoldAtMostABatch(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	account := 0
	rapid.Check(t, func(t *rapid.T) {
		account++
		id := fmt.Sprint("a", account)
		cfg := Config{PerSecond: rapid.SampledFrom([]float64{1, 50, 1000}).Draw(t, "rate"), Burst: rapid.IntRange(1, 300).Draw(t, "burst")}
		c := testkit.NewClock(start)
		l := New(cfg, Options{Redis: client, Prefix: "iq", Now: c.Now})
		defer l.Close()
		limit := l.limits.Load().of("")
		allowed := 0
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "pause") == 0 {
				c.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
			}
			d := l.Allow(context.Background(), id, "")
			if d.Allowed {
				allowed++
			}
			if d.Remaining < 0 || d.Remaining > limit.Burst || d.Reset < 0 || d.Allowed != (d.RetryAfter == 0) {
				t.Fatalf("%+v", d)
			}
			a := l.account(id)
			a.mu.Lock()
			held := a.tokens
			a.mu.Unlock()
			if held > limit.Batch {
				t.Fatalf("holds %d tokens of a batch of %d", held, limit.Batch)
			}
		}
		if allowed == 0 {
			t.Fatal("nothing passed")
		}
	})
}

func TestMostRequestsAskNobody(t *testing.T) {
	l := newLimiter(t, Config{PerSecond: minPerSecond, Burst: 10_000}, Options{Redis: redistest.Start(t).Client(), Now: testkit.NewClock(start).Now})
	const n = 5000
	for i := range n {
		if d := l.Allow(t.Context(), "acme", ""); !d.Allowed {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	// Batches of 1,000 after a start from 1, renewed when half is spent.
	if asked := leases(l); asked > 30 {
		t.Errorf("%d requests asked Redis %v times", n, asked)
	}
}

func TestDeniedAccountsAskNobody(t *testing.T) {
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{PerSecond: 1, Burst: 1}, Options{Redis: redistest.Start(t).Client(), Now: c.Now})
	if !l.Allow(t.Context(), "acme", "").Allowed {
		t.Fatal("the first request is limited")
	}
	for range 1000 {
		if d := l.Allow(t.Context(), "acme", ""); d.Allowed || d.RetryAfter > time.Second {
			t.Fatalf("%+v", d)
		}
	}
	if asked := leases(l); asked != 2 {
		t.Errorf("asked Redis %v times", asked)
	}
}

func TestManyCallersOnAColdAccount(t *testing.T) {
	l := newLimiter(t, Config{PerSecond: minPerSecond, Burst: 1000}, Options{Redis: redistest.Start(t).Client(), Now: testkit.NewClock(start).Now})
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			if d := l.Allow(t.Context(), "acme", ""); !d.Allowed {
				t.Errorf("%+v", d)
			}
		})
	}
	wg.Wait()
	if asked := leases(l); asked > 50 {
		t.Errorf("500 callers asked Redis %v times", asked)
	}
	if a := l.account("acme"); a.waiting != 0 {
		t.Errorf("%d still wait", a.waiting)
	}
}

func TestRedisAwayAndBack(t *testing.T) {
	server := redistest.Start(t)
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{PerSecond: 1, Burst: 10}, Options{Redis: server.Client(), Now: c.Now})
	ctx := t.Context()
	if d := l.Allow(ctx, "acme", ""); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	server.Kill()
	allowed := 0
	for range 20 {
		if l.Allow(ctx, "acme", "").Allowed {
			allowed++
		}
	}
	if allowed != 9 {
		t.Errorf("%d of 20 passed: the node's own view must know of what passed before", allowed)
	}
	if testutil.ToFloat64(l.metrics.fallback) != 1 || testutil.ToFloat64(l.metrics.leases[leaseFailed]) != 1 {
		t.Errorf("fallback %v, failed leases %v", testutil.ToFloat64(l.metrics.fallback), testutil.ToFloat64(l.metrics.leases[leaseFailed]))
	}
	server.Restart()
	c.Add(awayFor)
	for end := time.Now().Add(20 * time.Second); testutil.ToFloat64(l.metrics.fallback) != 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the fleet's tokens never count again")
		}
		l.Allow(ctx, "another", "")
		c.Add(awayFor)
	}
	if d := l.Allow(ctx, "third", ""); !d.Allowed || testutil.ToFloat64(l.metrics.decisions[1][1]) < 2 {
		t.Errorf("%+v is not the fleet's decision", d)
	}
}

// A Redis that hangs costs one request of the node a short wait per second.
func TestRedisSlow(t *testing.T) {
	server := redistest.Start(t)
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{PerSecond: 1000, Burst: 1000}, Options{Redis: server.Client(), Now: c.Now})
	server.Pause()
	defer server.Resume()
	for range 500 {
		if d := l.Allow(t.Context(), "acme", ""); !d.Allowed {
			t.Fatalf("%+v", d)
		}
	}
	if n := leases(l); n != 1 {
		t.Errorf("asked %v times", n)
	}
}

// A Redis that takes its time is waited for as long as is allowed.
func TestRedisFarAway(t *testing.T) {
	t.Parallel() // it waits
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: time.Minute, ContextTimeoutEnabled: true, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	l := newLimiter(t, Config{PerSecond: 1, Burst: 10}, Options{Redis: client, Timeout: time.Minute, Now: testkit.NewClock(start).Now})
	if err := client.Do(t.Context(), "CLIENT", "PAUSE", (3 * leaseTimeout).Milliseconds()).Err(); err != nil {
		t.Fatal(err)
	}
	if d := l.Allow(t.Context(), "acme", ""); !d.Allowed || testutil.ToFloat64(l.metrics.leases[leaseFull]) != 1 {
		t.Errorf("%+v is not the fleet's decision", d)
	}
}

func TestCallerLeaves(t *testing.T) {
	server := redistest.Start(t)
	l := newLimiter(t, Config{PerSecond: 1, Burst: 10}, Options{Redis: server.Client(), Now: testkit.NewClock(start).Now})
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d := l.Allow(ctx, "acme", ""); d.Limit != 10 {
		t.Errorf("%+v", d)
	}
	a := l.account("acme")
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting != 0 {
		t.Errorf("%d still wait", a.waiting)
	}
}

func TestGarbageInRedis(t *testing.T) {
	client := redistest.Start(t).Client()
	if err := client.Set(t.Context(), "iq:rate:acme", "garbage", 0).Err(); err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, Config{PerSecond: 1, Burst: 2}, Options{Redis: client, Prefix: "iq", Now: testkit.NewClock(start).Now})
	allowed := 0
	for range 10 {
		if l.Allow(t.Context(), "acme", "").Allowed {
			allowed++
		}
	}
	if allowed != 2 {
		t.Errorf("%d passed a burst of 2", allowed)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel() // it waits
	l := newLimiter(t, Config{PerSecond: minPerSecond, Burst: 50}, Options{Redis: redistest.StartCluster(t, 1).Client(t), Prefix: "iq", Now: testkit.NewClock(start).Now})
	for i := range 60 {
		if d := l.Allow(t.Context(), "acme", ""); d.Allowed != (i < 50) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	if n := testutil.ToFloat64(l.metrics.leases[leaseFailed]); n != 0 {
		t.Errorf("%v leases failed", n)
	}
}

func TestAfterClose(t *testing.T) {
	l := newLimiter(t, Config{PerSecond: 1, Burst: 2}, Options{Redis: redistest.Start(t).Client(), Now: testkit.NewClock(start).Now})
	l.Close()
	if d := l.Allow(t.Context(), "acme", ""); !d.Allowed || d.Remaining != 1 {
		t.Errorf("%+v", d)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	l := newLimiter(t, Config{PerSecond: 1}, Options{})
	if most := l.accounts.GetMaximum(); most != maxAccounts {
		t.Errorf("keeps state of %d accounts", most)
	}
	const most = 1000
	l.accounts.SetMaximum(most)
	for i := range 5 * most {
		l.Allow(t.Context(), fmt.Sprint(i), "")
	}
	l.accounts.CleanUp()
	if n := l.accounts.EstimatedSize(); n > most {
		t.Errorf("keeps state of %d accounts", n)
	}
}

// BenchmarkAllow supports the decision to lease tokens: a hit must not cost a
// round trip to Redis, which is some 60 us.
func BenchmarkAllow(b *testing.B) {
	for name, opts := range map[string]Options{"node": {}, "fleet": {Redis: redistest.Start(b).Client()}} {
		b.Run(name, func(b *testing.B) {
			l := newLimiter(b, Config{PerSecond: maxPerSecond, Burst: maxBurst}, opts)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				l.Allow(ctx, "acme", "")
			}
		})
	}
}
