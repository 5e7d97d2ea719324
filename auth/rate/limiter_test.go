package rate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Reconnecting()) }

// newLimiter makes a node; without a clock in opts its time stands still.
func newLimiter(t testing.TB, cfg Config, opts Options) *Limiter {
	if opts.Now == nil {
		opts.Now = newClock().Now
	}
	l := New(cfg, opts)
	t.Cleanup(l.Close)
	return l
}

// withRedis starts a Redis and gives its client and options that wait for it, however busy the machine is.
func withRedis(t *testing.T) Options {
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, ReadTimeout: time.Minute, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return Options{Redis: client, Timeout: time.Minute, Prefix: "iq"}
}

func newClock() *testkit.Clock {
	return testkit.NewClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
}

// burst is a limit whose tokens come back so slowly that a test cannot see it.
func burst(n int) Config { return Config{Plan: Plan{PerSecond: 0.001, Burst: n}} }

// passed is how many of n requests in a row are allowed, each of which Redis knows of before the next one if it is
// reported.
func passed(l *Limiter, n int) (allowed int) {
	for range n {
		if l.Allow("acme", "").Allowed {
			allowed++
		}
		l.wg.Wait()
	}
	return allowed
}

// A burst has no meaning without a rate.
func TestConfigValidate(t *testing.T) {
	c := Config{Plan: Plan{PerSecond: 0.5}, Plans: map[string]Plan{"off": {}, "pro": {1000, 2000}}}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Plans["b"] = Plan{Burst: 1}
	problems, ok := errors.AsType[setting.Problems](c.Validate())
	if !ok || len(problems) != 1 || problems[0].Key != "plans.b.burst" {
		t.Errorf("a burst without a rate: %+v", problems)
	}
}

// What a plan means: a second's worth at once unless it says otherwise. An account on a plan that
// has no entry has the default, and one without a limit costs nothing.
func TestPlans(t *testing.T) {
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 2.5}, Plans: map[string]Plan{
		"pro": {PerSecond: 1000, Burst: 10}, "slow": {PerSecond: 0.1, Burst: 5}, "free": {},
	}}, Options{})
	for plan, want := range map[string]Decision{
		"":      {Policy: DefaultPolicy, Limit: 3, Window: 1200 * time.Millisecond},
		"other": {Policy: DefaultPolicy, Limit: 3, Window: 1200 * time.Millisecond},
		"pro":   {Policy: "pro", Limit: 10, Window: 10 * time.Millisecond},
		"slow":  {Policy: "slow", Limit: 5, Window: 50 * time.Second},
		"free":  {},
	} {
		want.Allowed, want.Remaining = true, max(0, want.Limit-1)
		got := l.Allow("account on "+plan, plan)
		if got.Reset = 0; got != want {
			t.Errorf("%q: %+v, want %+v", plan, got, want)
		}
	}
	if n := l.buckets.EstimatedSize(); n != 4 {
		t.Errorf("keeps %d buckets", n)
	}
}

// What a decision says, on a node of its own.
func TestAlone(t *testing.T) {
	c := newClock()
	l := newLimiter(t, Config{Plan: Plan{PerSecond: 2, Burst: 3}}, Options{Now: c.Now})
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
		if got := l.Allow("acme", ""); got != step.want {
			t.Errorf("request %d: %+v, want %+v", i, got, step.want)
		}
	}
	if d := l.Allow("other", ""); d.Remaining != 2 {
		t.Errorf("one account pays for another: %+v", d)
	}
	if n := testutil.ToFloat64(l.metrics.decisions[0][1]); n != 2 || testutil.ToFloat64(l.metrics.fallback) != 0 {
		t.Errorf("%v limited decisions of the node, or a fallback without a Redis", n)
	}
}

// Remaining is exact, whatever fraction of a second one request takes to come back.
func TestRemaining(t *testing.T) {
	for name, opts := range map[string]Options{"alone": {}, "fleet": withRedis(t)} {
		for _, perSecond := range []float64{0.3, 1, 3, 6, 7, 15, 60, 700} {
			opts.Prefix = fmt.Sprint(perSecond)
			l := newLimiter(t, Config{Plan: Plan{PerSecond: perSecond, Burst: 5}}, opts)
			for want := 4; want >= 0; want-- {
				if d := l.Allow("acme", ""); !d.Allowed || d.Remaining != want {
					t.Errorf("%s, %v per second: %+v, want %d", name, perSecond, d, want)
				}
				l.wg.Wait()
			}
		}
	}
}

// A change of the limit counts at once, with a full bucket; an old one is remembered.
func TestSetConfig(t *testing.T) {
	for name, opts := range map[string]Options{"alone": {}, "fleet": withRedis(t)} {
		l := newLimiter(t, burst(1), opts)
		for _, step := range []struct{ burst, want int }{{1, 1}, {5, 5}, {1, 0}, {5, 0}} {
			l.SetConfig(burst(step.burst))
			if n := passed(l, 9); n != step.want {
				t.Errorf("%s: %d requests pass a burst of %d, want %d", name, n, step.burst, step.want)
			}
		}
		l.SetConfig(Config{})
		if d := l.Allow("acme", ""); d != (Decision{Allowed: true}) {
			t.Errorf("%s: after the limit was taken away: %+v", name, d)
		}
	}
}

// Keys of one account with different plans, as after an upgrade, have a bucket for each limit, on one node
// and in the fleet: none resets the other's. Equal limits share one.
func TestPlansOfOneAccount(t *testing.T) {
	for store, opts := range map[string]Options{"none": {}, "up": withRedis(t)} {
		c := newClock()
		opts.Now = c.Now
		cfg := Config{Plans: map[string]Plan{"gold": {5, 50}, "free": {1, 2}, "silver": {1, 2}}}
		nodes := []*Limiter{newLimiter(t, cfg, opts), newLimiter(t, cfg, opts)}
		if store == "none" {
			nodes = nodes[:1]
		}
		got, plans := map[string]int{}, []string{"gold", "free", "silver"}
		for i := range 1000 {
			for _, plan := range plans {
				if d := nodes[i%len(nodes)].Allow("acme", plan); d.Allowed {
					got[plan]++
				} else if d.Policy != plan {
					t.Fatalf("%+v", d)
				}
				nodes[i%len(nodes)].wg.Wait()
			}
			if store == "none" {
				c.Add(10 * time.Millisecond) // 10 s in all
			}
		}
		gold, free := got["gold"], got["free"]+got["silver"]
		if store == "none" && (gold != 99 || free != 11) || store == "up" && (gold < 50 || gold > 50+2*6 || free < 2 || free > 3) {
			t.Errorf("%s: %v passed", store, got)
		}
	}
}

// The fleet passes the burst, and no more beyond it than what each node need not have reported. What came to
// several nodes before they had reported passes once per node. That the fleet keeps the rate, and that it pays back,
// internal/simulation shows in virtual time.
func TestFleetSharesOneBurst(t *testing.T) {
	opts := withRedis(t)
	for _, tt := range []struct {
		burst, atOnce int // so many requests come to a node before the next node has any
		least, most   int
	}{
		{300, 1, 300, 300 + 3*31}, {300, 50, 300, 300 + 3*31}, {40, 1, 40, 40 + 3*5}, {9, 1, 9, 9 + 3}, {1, 1, 1, 3},
	} {
		opts.Prefix = fmt.Sprint(tt)
		var nodes []*Limiter
		for range 3 {
			nodes = append(nodes, newLimiter(t, burst(tt.burst), opts))
		}
		allowed := 0
		for range 400 / tt.atOnce {
			for _, l := range nodes {
				allowed += passed(l, tt.atOnce)
			}
		}
		if allowed < tt.least || allowed > tt.most {
			t.Errorf("burst %d, %d at a time: %d passed, want %d to %d", tt.burst, tt.atOnce, allowed, tt.least, tt.most)
		}
	}
	if ttl := opts.Redis.(*redis.Client).PTTL(t.Context(), "{300 1 300 393}:rate:0.001:300:acme").Val(); ttl < 299_000*time.Second || ttl > 400_000*time.Second {
		t.Errorf("the bucket is stored for %v", ttl)
	}
}

// A burst that comes to all nodes before the first report has been answered passes once per node. It is a debt: nothing more passes
// before it is paid back.
func TestOverspendIsDebt(t *testing.T) {
	opts, c := withRedis(t), newClock()
	opts.Now = c.Now
	cfg := Config{Plan: Plan{PerSecond: 10, Burst: 20}}
	begun := time.Now() // of Redis
	var nodes []*Limiter
	for range 5 {
		l := newLimiter(t, cfg, opts)
		b := new(bucket)
		l.buckets.Set(bucketName{"acme", 10, 20}, b)
		b.inFlight = true // a report that is not answered yet
		if n := passed(l, 50); n != 20 {
			t.Errorf("%d of a burst of 20 passed", n)
		}
		nodes = append(nodes, l)
	}
	for _, l := range nodes {
		b, _ := l.buckets.GetIfPresent(bucketName{"acme", 10, 20})
		b.mu.Lock()
		b.inFlight = false
		l.report(b, bucketName{"acme", 10, 20}, l.limitOf(""))
		b.mu.Unlock()
		l.wg.Wait()
	}
	// 100 have passed where 20 may: 8 s of debt, of which the last node knows all.
	took := time.Since(begun)
	d := nodes[4].Allow("acme", "")
	if least := 8*time.Second - took; d.Allowed || d.Remaining != 0 || d.RetryAfter < least || d.RetryAfter > 8100*time.Millisecond || d.Reset < least+2*time.Second-100*time.Millisecond {
		t.Errorf("%+v", d)
	}
	if c.Add(d.RetryAfter); passed(nodes[4], 3) != 1 {
		t.Error("not one passes after RetryAfter")
	}
}

// A node reports a tenth of the burst at once; what is refused, and what nobody limits, costs no call.
func TestReportsAreRare(t *testing.T) {
	opts := withRedis(t)
	calls := func() float64 {
		// calls=N,usec=...
		stat := opts.Redis.(*redis.Client).InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha")
		n, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		v, _ := strconv.ParseFloat(n, 64)
		return v
	}
	l := newLimiter(t, burst(10_000), opts)
	if n := passed(l, 5005); n != 5005 || calls() != 5 {
		t.Errorf("%d of 5005 passed with %v calls", n, calls())
	}
	opts.Prefix = "none left"
	l = newLimiter(t, burst(1), opts)
	if n := passed(l, 1000); n != 1 || calls() != 6 {
		t.Errorf("%d of 1000 passed with %v calls", n, calls())
	}
}

// While Redis is unavailable each node applies the whole limit, in which what passed before is counted. It
// tries again once a second, and then the fleet's level counts.
func TestRedisAwayAndBack(t *testing.T) {
	server := redistest.Start(t)
	c := newClock()
	l := newLimiter(t, burst(10), Options{Redis: server.Client(), Now: c.Now})
	if n := passed(l, 1); n != 1 {
		t.Fatal("refused")
	}
	server.Kill()
	if n := passed(l, 20_000); n != 9 {
		t.Errorf("%d of 20,000 passed: the node's own copy must know of what passed before", n)
	}
	if testutil.ToFloat64(l.metrics.fallback) != 1 || testutil.ToFloat64(l.metrics.decisions[0][1]) == 0 {
		t.Error("no fallback")
	}
	server.Restart() // it is empty
	redistest.Eventually(t, "the fleet's level counts again", func() bool {
		c.Add(backOff)
		l.Allow("another", "")
		l.Allow("another", "")
		l.wg.Wait()
		return testutil.ToFloat64(l.metrics.fallback) == 0
	})
	before := testutil.ToFloat64(l.metrics.decisions[1][0])
	if d := l.Allow("third", ""); !d.Allowed || testutil.ToFloat64(l.metrics.decisions[1][0]) != before+1 {
		t.Errorf("%+v is not the fleet's decision", d)
	}
	if n := passed(l, 20); n != 0 {
		t.Errorf("%d of 20 passed after Redis had lost its memory", n)
	}
	l.Close()
	if n := passed(l, 20); n != 0 {
		t.Errorf("%d of 20 passed after the end beyond the node's own copy", n)
	}
}

// hanging is a Redis that never answers.
type hanging struct{}

func (hanging) DialHook(next redis.DialHook) redis.DialHook { return next }
func (hanging) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (hanging) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-ctx.Done()
		cmd.SetErr(ctx.Err())
		return ctx.Err()
	}
}

// No request waits for Redis, and a stop waits for no report.
func TestNobodyWaitsForRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379"}) // nobody dials
		rdb.AddHook(hanging{})
		defer rdb.Close()
		l := newLimiter(t, Config{Plan: Plan{PerSecond: 10, Burst: 9}}, Options{Redis: rdb, Now: time.Now})
		begun, passed := time.Now(), 0
		for range 10_000 {
			if l.Allow("acme", "").Allowed {
				passed++
			}
			if passed == 9 {
				time.Sleep(time.Millisecond)
			}
		}
		slept := time.Since(begun)
		l.Allow("other", "")
		l.Close()
		if waited := time.Since(begun) - slept; waited != 0 || passed < 9 {
			t.Errorf("%d passed, and somebody waited for %v", passed, waited)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	l := newLimiter(t, burst(1), Options{})
	const most = 1000
	l.buckets.SetMaximum(most)
	for i := range 5 * most {
		l.Allow(fmt.Sprint(i), "")
	}
	l.buckets.CleanUp()
	if n := l.buckets.EstimatedSize(); n > most {
		t.Errorf("keeps %d buckets", n)
	}
}

func TestAHitAllocatesNothing(t *testing.T) {
	l := newLimiter(t, burst(1_000_000), Options{})
	if n := testing.AllocsPerRun(1000, func() { l.Allow("acme", "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A capacity whose debt does not fit into a duration has the longest one.
func TestDebtOfALargeCapacity(t *testing.T) {
	for capacity, want := range map[time.Duration]time.Duration{time.Second: maxDebt * time.Second, 1_000_000 * 1000 * time.Second: math.MaxInt64} {
		if got := maxDebtOf(capacity); got != want {
			t.Errorf("%v: %v, want %v", capacity, got, want)
		}
	}
}
