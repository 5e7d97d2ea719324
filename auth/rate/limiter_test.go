package rate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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

// calls is how often Redis has been asked.
func calls(l *Limiter) (n float64) {
	for _, c := range l.metrics.charges {
		n += testutil.ToFloat64(c)
	}
	return n
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
		got := l.Allow(t.Context(), "account on "+plan, plan)
		if got.Reset = 0; got != want {
			t.Errorf("%q: %+v, want %+v", plan, got, want)
		}
	}
	if n := l.accounts.EstimatedSize(); n != 4 {
		t.Errorf("keeps state of %d accounts", n)
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
		if got := l.Allow(t.Context(), "acme", ""); got != step.want {
			t.Errorf("request %d: %+v, want %+v", i, got, step.want)
		}
	}
	if d := l.Allow(t.Context(), "other", ""); d.Remaining != 2 {
		t.Errorf("one account pays for another: %+v", d)
	}
	if n := testutil.ToFloat64(l.metrics.decisions[0][0]); n != 2 || testutil.ToFloat64(l.metrics.fallback) != 0 {
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
				if d := l.Allow(t.Context(), "acme", ""); !d.Allowed || d.Remaining != want {
					t.Errorf("%s, %v per second: %+v, want %d", name, perSecond, d, want)
				}
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
		if d := l.Allow(t.Context(), "acme", ""); d != (Decision{Allowed: true}) {
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
				if d := nodes[i%len(nodes)].Allow(t.Context(), "acme", plan); d.Allowed {
					got[plan]++
				} else if d.Policy != plan {
					t.Fatalf("%+v", d)
				}
			}
			if store == "none" {
				c.Add(10 * time.Millisecond) // 10 s in all
			}
		}
		gold, free := got["gold"], got["free"]+got["silver"]
		if store == "none" && (gold != 99 || free != 11) || store == "up" && (gold < 50 || gold > 50+2*5+5 || free < 2 || free > 3) {
			t.Errorf("%s: %v passed", store, got)
		}
	}
}

// Whatever the nodes do at the same time, the fleet passes the burst, and no more beyond it than what
// each node need not have charged. That it keeps the rate, too, internal/simulation shows in virtual time.
func TestFleetSharesOneBurst(t *testing.T) {
	const nodes, most = 3, 300
	opts := withRedis(t)
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range nodes {
		l := newLimiter(t, burst(most), opts)
		for range 4 {
			wg.Go(func() {
				for {
					d := l.Allow(t.Context(), "acme", "")
					if !d.Allowed {
						if d.RetryAfter <= 0 || d.Limit != most || d.Remaining != 0 {
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
	if n := allowed.Load(); n < most || n > most+nodes*most/10 {
		t.Errorf("%d requests passed a burst of %d", n, most)
	}
	if ttl := opts.Redis.(*redis.Client).PTTL(t.Context(), "iq:rate:0.001:300:acme").Val(); ttl < 299_000*time.Second || ttl > 300_001*time.Second {
		t.Errorf("the bucket is stored for %v", ttl)
	}
}

// A node has at most a tenth of the burst not charged yet: but for that the other nodes know what it
// has spent, and one node alone never passes more than the burst.
func TestANodeHasAtMostATenthUncharged(t *testing.T) {
	opts := withRedis(t)
	for spent := range 80 {
		opts.Prefix = fmt.Sprint(spent)
		one, other := newLimiter(t, burst(80), opts), newLimiter(t, burst(80), opts)
		if n := passed(one, spent); n != spent {
			t.Errorf("%d of %d passed", n, spent)
		}
		if n := passed(other, 100); n < 80-spent || n > min(80, 80-spent+2*8) {
			t.Errorf("one node spent %d of 80, the other got %d", spent, n)
		}
		if n := passed(one, 100); n > 8 {
			t.Errorf("one node spent %d of 80, the other all the rest, and %d more passed", spent, n)
		}
	}
}

// A node asks Redis seldom: while there are enough tokens, when there are none, and for many
// callers at once.
func TestMostRequestsAskNobody(t *testing.T) {
	opts := withRedis(t)
	l := newLimiter(t, burst(10_000), opts)
	if n := passed(l, 5000); n != 5000 || calls(l) > 6 {
		t.Errorf("%d of 5000 passed with %v calls", n, calls(l))
	}
	opts.Prefix = "none left"
	l = newLimiter(t, burst(1), opts)
	if n := passed(l, 1000); n != 1 || calls(l) != 1 {
		t.Errorf("%d of 1000 passed with %v calls", n, calls(l))
	}
	opts.Prefix = "many callers"
	l = newLimiter(t, burst(1000), opts)
	var wg sync.WaitGroup
	for range 500 {
		wg.Go(func() {
			if n := passed(l, 1); n != 1 {
				t.Error("refused")
			}
		})
	}
	wg.Wait()
	if calls(l) > 50 {
		t.Errorf("500 callers asked Redis %v times", calls(l))
	}
}

// A charge of accounts at rest is one command of Redis, and the buckets know of it.
func TestAccountsAtRestCostOneCommand(t *testing.T) {
	opts := withRedis(t)
	l := newLimiter(t, burst(50), opts)
	for i := range 5 * 20 {
		l.Allow(t.Context(), fmt.Sprint(i%20), "")
	}
	l.wg.Wait()
	rdb := opts.Redis.(*redis.Client)
	for _, script := range []string{"cmdstat_evalsha", "cmdstat_eval", "cmdstat_get"} {
		if calls := rdb.InfoMap(t.Context(), "commandstats").Item("Commandstats", script); calls != "" {
			t.Errorf("%s: %s", script, calls)
		}
	}
	if calls := rdb.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_set"); !strings.HasPrefix(calls, "calls=20,") {
		t.Errorf("100 requests of 20 accounts: SET %s", calls)
	}
	l = newLimiter(t, burst(50), opts)
	for n := 0; ; n++ {
		if d := l.Allow(t.Context(), "7", ""); !d.Allowed {
			if n < 45 || n > 50 {
				t.Errorf("after 5 requests on one node %d pass on another", n)
			}
			break
		}
	}
}

// While Redis is away each node has the whole limit, in which what passed before is counted. It
// asks again once a second, and then the fleet's tokens count.
func TestRedisAwayAndBack(t *testing.T) {
	server := redistest.Start(t)
	c := newClock()
	l := newLimiter(t, burst(10), Options{Redis: server.Client(), Now: c.Now})
	if n := passed(l, 1); n != 1 {
		t.Fatal("refused")
	}
	server.Kill()
	if n := passed(l, 20_000); n != 9 {
		t.Errorf("%d of 20,000 passed: the node's own bucket must know of what passed before", n)
	}
	if n := testutil.ToFloat64(l.metrics.charges[chargeFailed]); n != 1 || testutil.ToFloat64(l.metrics.fallback) != 1 {
		t.Errorf("%v failed calls, or no fallback", n)
	}
	server.Restart()
	redistest.Eventually(t, "the fleet's tokens count again", func() bool {
		c.Add(awayFor)
		l.Allow(t.Context(), "another", "")
		return testutil.ToFloat64(l.metrics.fallback) == 0
	})
	before := testutil.ToFloat64(l.metrics.decisions[1][1])
	if d := l.Allow(t.Context(), "third", ""); !d.Allowed || testutil.ToFloat64(l.metrics.decisions[1][1]) != before+1 {
		t.Errorf("%+v is not the fleet's decision", d)
	}
	l.Close()
	if n := passed(l, 20); n != 0 {
		t.Errorf("%d of 20 passed after the end beyond the node's own bucket", n)
	}
}

// A Redis that hangs costs one request of the node a short wait per second, and who leaves does
// not wait. One that takes its time is waited for as long as is allowed.
func TestRedisSlow(t *testing.T) {
	server := redistest.Start(t)
	l := newLimiter(t, burst(1000), Options{Redis: server.Client()})
	server.Pause()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if d := l.Allow(ctx, "acme", ""); !d.Allowed || d.Limit != 1000 {
		t.Errorf("%+v", d)
	}
	if n := passed(l, 500); n != 500 || calls(l) != 1 {
		t.Errorf("%d of 500 passed with %v calls", n, calls(l))
	}
	server.Resume()

	opts := withRedis(t)
	l = newLimiter(t, burst(9), opts)
	if err := opts.Redis.(*redis.Client).Do(t.Context(), "CLIENT", "PAUSE", (2 * callTimeout).Milliseconds()).Err(); err != nil {
		t.Fatal(err)
	}
	if d := l.Allow(t.Context(), "acme", ""); !d.Allowed || testutil.ToFloat64(l.metrics.charges[chargeFull]) != 1 {
		t.Errorf("%+v is not the fleet's decision", d)
	}
}

// slowly is a client of a Redis that takes its time, and gives what it is asked for.
type slowly time.Duration

func (slowly) DialHook(next redis.DialHook) redis.DialHook { return next }
func (slowly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d slowly) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		select {
		case <-time.After(time.Duration(d)):
		case <-ctx.Done():
			cmd.SetErr(ctx.Err())
			return ctx.Err()
		}
		switch cmd := cmd.(type) {
		case *redis.BoolCmd:
			cmd.SetVal(true)
		case *redis.Cmd:
			cmd.SetVal([]any{int64(cmd.Args()[7].(int)), int64(0)}) // as many as the script is asked for
		}
		return nil
	}
}

// Nobody waits for longer than one call of Redis may take: who comes while one is under way is not
// paid for by that, and needs the next one.
func TestWhoComesLateWaitsForOneCallAtMost(t *testing.T) {
	for _, took := range []time.Duration{callTimeout / 10, callTimeout * 9 / 10, 2 * callTimeout} {
		synctest.Test(t, func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: "192.0.2.1:6379"}) // nobody dials
			rdb.AddHook(slowly(took))
			defer rdb.Close()
			l := newLimiter(t, burst(9), Options{Redis: rdb, Now: time.Now})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					begun := time.Now()
					d := l.Allow(t.Context(), "acme", "")
					if waited := time.Since(begun); !d.Allowed || waited > min(2*took, callTimeout) {
						t.Errorf("calls of %v: %+v after %v", took, d, waited)
					}
				})
				time.Sleep(callTimeout / 100)
			}
			wg.Wait()
			if byNode := testutil.ToFloat64(l.metrics.decisions[1][0]); (byNode > 0) != (2*took > callTimeout) {
				t.Errorf("calls of %v: the node alone has decided %v times", took, byNode)
			}
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	l := newLimiter(t, burst(1), Options{})
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
	l := newLimiter(t, burst(1_000_000), Options{})
	if n := testing.AllocsPerRun(1000, func() { l.Allow(t.Context(), "acme", "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
