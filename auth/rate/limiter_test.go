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
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newLimiter(t testing.TB, cfg Config, opts Options) *Limiter {
	l := New(cfg, opts)
	t.Cleanup(l.Close)
	return l
}

// calls is how often Redis has been asked.
func calls(l *Limiter) (n float64) {
	for _, c := range l.metrics.leases {
		n += testutil.ToFloat64(c)
	}
	return n
}

// patient is a client that waits for Redis, however slow the machine is.
func patient(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: addr, ReadTimeout: time.Minute, ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// passed is how many of n requests in a row are allowed.
func passed(l *Limiter, n int) (allowed int) {
	for range n {
		if l.Allow(context.Background(), "acme", "").Allowed {
			allowed++
		}
	}
	return allowed
}

func TestNoLimit(t *testing.T) {
	l := newLimiter(t, Config{Plans: map[string]Plan{"basic": {PerSecond: 1}}}, Options{Redis: patient(t, "127.0.0.1:1")})
	for range 1000 {
		if d := l.Allow(t.Context(), "acme", ""); d != (Decision{Allowed: true}) {
			t.Fatalf("%+v", d)
		}
	}
	if calls(l) != 0 || l.accounts.EstimatedSize() != 0 {
		t.Error("an account without a limit costs something")
	}
}

// What a decision says, on a node of its own.
func TestAlone(t *testing.T) {
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 2, Burst: 3}, Plans: map[string]Plan{"pro": {100, 200}}}, Options{Now: c.Now, Registerer: prometheus.NewPedanticRegistry()})
	half := 500 * time.Millisecond
	for i, step := range []struct {
		wait time.Duration
		want Decision
	}{
		{0, Decision{Allowed: true, Remaining: 2, Reset: half}},
		{0, Decision{Allowed: true, Remaining: 1, Reset: 2 * half}},
		{0, Decision{Allowed: true, Reset: 3 * half}},
		{0, Decision{Reset: 3 * half, RetryAfter: half}},
		{499 * time.Millisecond, Decision{Reset: 1001 * time.Millisecond, RetryAfter: time.Millisecond}},
		{time.Millisecond, Decision{Allowed: true, Reset: 3 * half}},
		{time.Hour, Decision{Allowed: true, Remaining: 2, Reset: half}},
	} {
		c.Add(step.wait)
		step.want.Policy, step.want.Limit, step.want.Window = DefaultPolicy, 3, 3*half
		if got := l.Allow(t.Context(), "acme", ""); got != step.want {
			t.Errorf("request %d: %+v, want %+v", i, got, step.want)
		}
	}
	if d := l.Allow(t.Context(), "other", ""); d.Remaining != 2 {
		t.Errorf("one account pays for another: %+v", d)
	}
	if d := l.Allow(t.Context(), "pro account", "pro"); !d.Allowed || d.Limit != 200 || d.Policy != "pro" {
		t.Errorf("%+v", d)
	}
	if n := testutil.ToFloat64(l.metrics.decisions[0][0]); n != 2 {
		t.Errorf("%v limited decisions of the node", n)
	}
	if testutil.ToFloat64(l.metrics.fallback) != 0 {
		t.Error("no Redis is no fallback")
	}
}

func TestSetConfig(t *testing.T) {
	for name, opts := range map[string]Options{"alone": {}, "fleet": {Redis: redistest.Start(t).Client()}} {
		l := newLimiter(t, Config{Plan: Plan{PerSecond: 1, Burst: 1}}, opts)
		if n := passed(l, 2); n != 1 {
			t.Fatalf("%s: %d requests pass a burst of 1", name, n)
		}
		l.SetConfig(Config{Plan: Plan{PerSecond: 0.001, Burst: 5}})
		if n := passed(l, 9); n < 3 || n > 5 { // what the second limit makes of the first one's request
			t.Errorf("%s: %d requests pass a burst of 5", name, n)
		}
		l.SetConfig(Config{})
		if d := l.Allow(t.Context(), "acme", ""); d != (Decision{Allowed: true}) {
			t.Errorf("%s: after the limit was taken away: %+v", name, d)
		}
	}
}

// Tokens that come back so slowly that the test cannot see it: whatever the nodes do at the
// same time, the fleet passes the burst and no more.
func TestFleetSharesOneBurst(t *testing.T) {
	const nodes, burst = 3, 300
	server := redistest.Start(t)
	c := testkit.NewClock(start) // stands still: no token lapses
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range nodes {
		l := newLimiter(t, Config{Plan: Plan{PerSecond: 0.001, Burst: burst}}, Options{Redis: server.Client(), Prefix: "iq", Now: c.Now})
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
	if n := allowed.Load(); n != burst {
		t.Errorf("%d requests passed a burst of %d", n, burst)
	}
}

// Three nodes, 50 per second for ten seconds: what passes in real time, and that nothing of the
// limit is lost where more is asked for.
func TestFleetKeepsTheRate(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const nodes, perSecond, burst, lasts = 3, 50, 50, 10 * time.Second
	client := patient(t, redistest.Start(t).Addr)
	var allowed atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range nodes {
		l := newLimiter(t, Config{Plan: Plan{PerSecond: perSecond, Burst: burst}}, Options{Redis: client, Prefix: "iq", Timeout: time.Minute})
		for range 2 {
			wg.Go(func() {
				for time.Since(begin) < lasts {
					if d := l.Allow(t.Context(), "acme", ""); d.Allowed {
						allowed.Add(1)
					} else {
						time.Sleep(min(d.RetryAfter, 5*time.Millisecond))
					}
				}
			})
		}
	}
	wg.Wait()
	most := burst + perSecond*time.Since(begin).Seconds() + nodes*5
	if n := float64(allowed.Load()); n > most || n < 400 { // a busy machine asks late
		t.Errorf("%v requests passed in %v, at most %.0f may", n, time.Since(begin), most)
	}
}

// Whatever happens, a node has at most a block at hand beyond the requests that wait.
func TestANodeHasAtMostABlock(t *testing.T) {
	client := redistest.Start(t).Client()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		id := fmt.Sprint("a", n)
		cfg := Config{Plan: Plan{PerSecond: rapid.SampledFrom([]float64{1, 3, 50, 1000}).Draw(t, "rate"), Burst: rapid.IntRange(1, 300).Draw(t, "burst")}}
		c := testkit.NewClock(start)
		l := New(cfg, Options{Redis: client, Prefix: "iq", Now: c.Now})
		defer l.Close()
		limit, allowed := l.limits.Load().of(""), 0
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
			a, _ := l.accounts.GetIfPresent(id)
			a.mu.Lock()
			held := a.tokens
			a.mu.Unlock()
			if held > limit.Block {
				t.Fatalf("has %d tokens of a block of %d", held, limit.Block)
			}
		}
		if allowed == 0 {
			t.Fatal("nothing passed")
		}
	})
}

// A node asks Redis seldom: while there are enough tokens, when there are none, and for many
// callers at once.
func TestMostRequestsAskNobody(t *testing.T) {
	client := redistest.Start(t).Client()
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 0.001, Burst: 10_000}}, Options{Redis: client, Now: c.Now})
	// Blocks of 1,250 after a start from 1, the next one at half use. The lower half of the
	// bucket is given as it is needed.
	if n := passed(l, 5000); n != 5000 || calls(l) > 30 {
		t.Errorf("%d of 5000 passed with %v calls", n, calls(l))
	}

	l = newLimiter(t, Config{Plan: Plan{PerSecond: 1, Burst: 1}}, Options{Redis: client, Now: c.Now, Prefix: "denied"})
	if n := passed(l, 1000); n != 1 || calls(l) != 2 {
		t.Errorf("%d of 1000 passed with %v calls", n, calls(l))
	}

	l = newLimiter(t, Config{Plan: Plan{PerSecond: 0.001, Burst: 1000}}, Options{Redis: client, Now: c.Now, Prefix: "cold"})
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			if n := passed(l, 1); n != 1 {
				t.Error("refused")
			}
		})
	}
	wg.Wait()
	if a, _ := l.accounts.GetIfPresent("acme"); calls(l) > 50 || a.waiting != 0 {
		t.Errorf("500 callers asked Redis %v times, %d still wait", calls(l), a.waiting)
	}
}

func TestRedisAwayAndBack(t *testing.T) {
	server := redistest.Start(t)
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 1, Burst: 10}}, Options{Redis: server.Client(), Now: c.Now})
	if n := passed(l, 1); n != 1 {
		t.Fatal("refused")
	}
	server.Kill()
	if n := passed(l, 20); n != 9 {
		t.Errorf("%d of 20 passed: the node's own bucket must know of what passed before", n)
	}
	if testutil.ToFloat64(l.metrics.fallback) != 1 || testutil.ToFloat64(l.metrics.leases[leaseFailed]) != 1 {
		t.Errorf("fallback %v, failed calls %v", testutil.ToFloat64(l.metrics.fallback), testutil.ToFloat64(l.metrics.leases[leaseFailed]))
	}
	server.Restart()
	for end := time.Now().Add(20 * time.Second); testutil.ToFloat64(l.metrics.fallback) != 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the fleet's tokens never count again")
		}
		c.Add(awayFor)
		l.Allow(t.Context(), "another", "")
	}
	if d := l.Allow(t.Context(), "third", ""); !d.Allowed || testutil.ToFloat64(l.metrics.decisions[1][1]) < 2 {
		t.Errorf("%+v is not the fleet's decision", d)
	}
}

// A Redis that hangs costs one request of the node a short wait per second, and who leaves
// does not wait.
func TestRedisSlow(t *testing.T) {
	server := redistest.Start(t)
	c := testkit.NewClock(start)
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 1000, Burst: 1000}}, Options{Redis: server.Client(), Now: c.Now})
	server.Pause()
	defer server.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d := l.Allow(ctx, "acme", ""); !d.Allowed || d.Limit != 1000 {
		t.Errorf("%+v", d)
	}
	if a, _ := l.accounts.GetIfPresent("acme"); a.waiting != 0 {
		t.Errorf("%d still wait", a.waiting)
	}
	if n := passed(l, 500); n != 500 || calls(l) != 1 {
		t.Errorf("%d of 500 passed with %v calls", n, calls(l))
	}
}

// A Redis that takes its time is waited for as long as is allowed.
func TestRedisFarAway(t *testing.T) {
	t.Parallel() // it waits
	server := redistest.Start(t)
	client := patient(t, server.Addr)
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 1, Burst: 10}}, Options{Redis: client, Timeout: time.Minute, Now: testkit.NewClock(start).Now})
	if err := client.Do(t.Context(), "CLIENT", "PAUSE", (3 * callTimeout).Milliseconds()).Err(); err != nil {
		t.Fatal(err)
	}
	if d := l.Allow(t.Context(), "acme", ""); !d.Allowed || testutil.ToFloat64(l.metrics.leases[leaseFull]) != 1 {
		t.Errorf("%+v is not the fleet's decision", d)
	}
}

// The key of an account in Redis: it is under the prefix, ends when the bucket is full, and
// what is no number is a full bucket, as is a key that is not there. It works in a Cluster.
func TestKeyInRedis(t *testing.T) {
	client := redistest.Start(t).Client()
	if err := client.Set(t.Context(), "iq:rate:acme", "garbage", 0).Err(); err != nil {
		t.Fatal(err)
	}
	now := testkit.NewClock(start).Now
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 0.1, Burst: 2}}, Options{Redis: client, Prefix: "iq", Now: now})
	if n := passed(l, 10); n != 2 {
		t.Errorf("%d passed a burst of 2", n)
	}
	if ttl := client.PTTL(t.Context(), "iq:rate:acme").Val(); ttl < 15*time.Second || ttl > 21*time.Second {
		t.Errorf("the key is stored for %v", ttl)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel() // it waits
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 0.001, Burst: 50}}, Options{Redis: redistest.StartCluster(t, 1).Client(t), Prefix: "iq", Now: testkit.NewClock(start).Now})
	if n := passed(l, 60); n != 50 || testutil.ToFloat64(l.metrics.leases[leaseFailed]) != 0 {
		t.Errorf("%d of 60 passed", n)
	}
}

func TestAfterClose(t *testing.T) {
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 1, Burst: 2}}, Options{Redis: redistest.Start(t).Client(), Now: testkit.NewClock(start).Now})
	l.Close()
	if n := passed(l, 3); n != 2 {
		t.Errorf("%d of 3 passed", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 1}}, Options{})
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

func TestAHitAllocatesNothing(t *testing.T) {
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 1e6, Burst: 1_000_000}}, Options{})
	if n := testing.AllocsPerRun(1000, func() { l.Allow(t.Context(), "acme", "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkAllow supports the decision to take blocks: a hit must not cost a round trip to
// Redis, which is some 60 us.
func BenchmarkAllow(b *testing.B) {
	for name, opts := range map[string]Options{"node": {}, "fleet": {Redis: redistest.Start(b).Client()}} {
		b.Run(name, func(b *testing.B) {
			l := newLimiter(b, Config{Plan: Plan{PerSecond: 1e6, Burst: 1_000_000}}, opts)
			ctx := context.Background()
			accounts := make([]string, 1000)
			for i := range accounts {
				accounts[i] = fmt.Sprint("account ", i)
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ { // none comes near its limit
				l.Allow(ctx, accounts[n/200_000%len(accounts)], "")
			}
		})
	}
}
