package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/testkit"
)

// near is the model of Redis without a network: a call takes 0.5 to 2 ms, half of it before the script
// runs.
type near struct {
	redis.Scripter // what is not called
	*redisServer

	// Guarded by turn:
	skew    time.Duration // of its clock
	late    time.Duration // before each reply
	stalled time.Time     // no reply before
	away    bool
}

func newNear(seed uint64) *near {
	m := &near{}
	m.redisServer = newRedisServer(func() time.Time { return time.Now().Add(m.skew) }, rngOf(seed, "redis"))
	return m
}

func (m *near) EvalSha(ctx context.Context, sum string, keys []string, args ...any) *redis.Cmd {
	return m.eval(ctx, false, sum, keys, args)
}

func (m *near) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	return m.eval(ctx, true, text, keys, args)
}

func (m *near) eval(ctx context.Context, byText bool, script string, keys []string, args []any) *redis.Cmd {
	words := append([]string{fmt.Sprint(len(keys))}, keys...)
	for _, arg := range args {
		words = append(words, fmt.Sprint(arg))
	}
	var half, late time.Duration
	m.with(func() { half = 250*time.Microsecond + time.Duration(m.rng.Int64N(int64(750*time.Microsecond))) })
	time.Sleep(half)
	var reply any = errors.New("refused")
	m.with(func() {
		if !m.away {
			reply, late = m.scripts.eval(byText, script, words), half+max(m.late, time.Until(m.stalled))
		}
	})
	cmd := redis.NewCmd(ctx)
	err, _ := reply.(error)
	select {
	case <-time.After(late):
	case <-ctx.Done():
		err = ctx.Err()
	}
	if cmd.SetVal(reply); err != nil {
		cmd.SetErr(replyError{err})
	}
	return cmd
}

// replyError is an error as Redis says it.
type replyError struct{ error }

func (replyError) RedisError() {}

// fleet is nodes that share a ceiling of n per second, and what they sent.
type fleet struct {
	redis *near
	nodes []*quota.Ceiling
	begin time.Time
	seed  uint64
	loads int            // that load was called
	wg    sync.WaitGroup // of all requests

	mu      sync.Mutex
	sent    []time.Time
	of      map[string]int // by account
	refused map[string]int
}

// withFleet gives a fleet something to do, in virtual time. Whatever that is, no second has
// more requests than the ceiling.
func withFleet(t *testing.T, nodes, n int, do func(t *testing.T, f *fleet)) {
	t.Helper()
	withCeilings(t, nodes, n, quota.CeilingOptions{}, do)
}

func withCeilings(t *testing.T, nodes, n int, o quota.CeilingOptions, do func(t *testing.T, f *fleet)) {
	t.Helper()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{redis: newNear(seed), seed: seed, begin: time.Now(), of: map[string]int{}, refused: map[string]int{}}
		for range nodes {
			o.Redis = f.redis
			c := quota.NewCeiling(o)
			c.Set(n, nodes)
			f.nodes = append(f.nodes, c)
		}
		do(t, f)
		f.wg.Wait()
		for _, c := range f.nodes {
			c.Close()
		}
		slices.SortFunc(f.sent, time.Time.Compare)
		first := 0
		for i, at := range f.sent {
			for at.Sub(f.sent[first]) >= time.Second {
				first++
			}
			if i-first+1 > n {
				t.Fatalf("more than %d requests in the second before %v", n, at.Sub(f.begin))
			}
		}
	})
}

// ask makes one request, which ends after a minute where nothing else ends it.
func (f *fleet) ask(t *testing.T, node int, account string, class quota.Class) (sent bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := f.nodes[node].Wait(ctx, account, class)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.refused[account]++
		return false
	}
	f.sent = append(f.sent, time.Now())
	f.of[account]++
	return true
}

// load makes each node ask perSecond/nodes times a second, at random moments, for as long.
func (f *fleet) load(t *testing.T, perSecond float64, lasts time.Duration, class quota.Class, account func(*rand.Rand) string) {
	f.loads++
	for node := range f.nodes {
		r := rand.New(rand.NewPCG(f.seed, uint64(100*f.loads+node)))
		f.wg.Go(func() {
			for end := time.Now().Add(lasts); time.Now().Before(end); {
				time.Sleep(time.Duration(r.ExpFloat64() * float64(time.Second) * float64(len(f.nodes)) / perSecond))
				of := account(r)
				f.wg.Go(func() { f.ask(t, node, of, class) })
			}
		})
	}
}

// got is how many requests of an account were sent until now.
func (f *fleet) got(account string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[account]
}

// refusedBeside is how many requests were refused but those of an account.
func (f *fleet) refusedBeside(account string) (n int) {
	f.wg.Wait()
	for of, refused := range f.refused {
		if of != account {
			n += refused
		}
	}
	return n
}

// between counts what was sent from one second to another after the begin.
func (f *fleet) between(from, to int) (n int) {
	f.wg.Wait()
	for _, at := range f.sent {
		if since := int(at.Sub(f.begin) / time.Second); since >= from && since < to {
			n++
		}
	}
	return n
}

func anyAccount(r *rand.Rand) string { return fmt.Sprintf("account-%d", r.IntN(200)) }

// Whatever happens to Redis, no second has more than the ceiling, and nearly all of it can be
// used.
func TestCeiling(t *testing.T) {
	type event struct {
		at     time.Duration
		happen func(*near)
	}
	forgets := func(m *near) {
		for i := range time.Duration(4) {
			time.AfterFunc(i*100*time.Millisecond, func() { m.with(m.store.clear) })
		}
	}
	backward, onward := func(m *near) { m.skew -= time.Hour }, func(m *near) { m.skew += time.Hour; m.store.clear() }
	slow, quick := func(m *near) { m.late = 95 * time.Millisecond }, func(m *near) { m.late = 0 }
	away, back := func(m *near) { m.away = true }, func(m *near) { m.away = false }
	for name, tc := range map[string]struct {
		nodes, n, lasts  int
		events           []event
		from, to, usable int // in these seconds, so many per second
	}{
		"one node, small":      {1, 10, 5, nil, 1, 5, 8},
		"one node, large":      {1, 300, 5, nil, 1, 5, 255},
		"three nodes":          {3, 100, 5, nil, 1, 5, 85},
		"ten nodes, small":     {10, 10, 5, nil, 1, 5, 8},
		"ten nodes, large":     {10, 300, 5, nil, 1, 5, 255},
		"Redis forgets":        {3, 100, 7, []event{{2, forgets}, {3, forgets}, {4, forgets}}, 5, 7, 80},
		"its clock goes back":  {3, 100, 7, []event{{2, backward}, {4, backward}}, 5, 7, 80},
		"its clock goes on":    {3, 100, 7, []event{{2, onward}, {4, onward}}, 5, 7, 80},
		"slow by turns":        {10, 100, 7, []event{{1, slow}, {2, quick}, {3, slow}, {4, quick}, {5, slow}, {6, quick}}, 1, 7, 50},
		"Redis is away":        {3, 60, 11, []event{{4, away}}, 6, 11, 45},
		"Redis is there again": {3, 60, 14, []event{{2, away}, {6, back}}, 10, 14, 48},
	} {
		t.Run(name, func(t *testing.T) {
			withFleet(t, tc.nodes, tc.n, func(t *testing.T, f *fleet) {
				f.load(t, 3*float64(tc.n), time.Duration(tc.lasts)*time.Second, quota.Asked, anyAccount)
				for _, e := range tc.events {
					time.Sleep(time.Until(f.begin.Add(e.at * time.Second)))
					f.redis.with(func() { e.happen(f.redis) })
				}
				if used := f.between(tc.from, tc.to); used < tc.usable*(tc.to-tc.from) {
					t.Errorf("%d requests in %d s", used, tc.to-tc.from)
				}
			})
		})
	}
}

// An account alone may use all. One that wants everything leaves others what they want, on
// its own node as on another.
func TestCeilingWithAGreedyAccount(t *testing.T) {
	withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
		f.load(t, 300, 12*time.Second, quota.Asked, func(*rand.Rand) string { return "greedy" })
		time.Sleep(3 * time.Second)
		if alone := f.got("greedy"); alone < 150 {
			t.Errorf("alone it got %d requests in 3 s", alone)
		}
		for i := range 64 { // cold lists of others, some per second
			f.wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / 8)
				f.ask(t, i%3, fmt.Sprint("small-", i), quota.Asked)
			})
		}
		if n := f.refusedBeside("greedy"); n > 0 {
			t.Errorf("%d requests of others were refused", n)
		}
	})
	withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
		r := rand.New(rand.NewPCG(f.seed, 1))
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			for range 5 {
				f.wg.Go(func() { f.ask(t, 0, "greedy", quota.Asked) })
			}
			if r.IntN(10) < 7 {
				node, of := 1+r.IntN(2), anyAccount(r)
				f.wg.Go(func() { f.ask(t, node, of, quota.Asked) })
			}
		}
		if n := f.refusedBeside("greedy"); n > 10 {
			t.Errorf("%d of about 420 requests of others were refused", n)
		}
	})
}

func TestCeilingServesBackgroundLast(t *testing.T) {
	withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
		f.load(t, 300, 6*time.Second, quota.Background, func(*rand.Rand) string { return "background" })
		time.Sleep(3 * time.Second)
		alone := f.got("background")
		f.load(t, 300, 4*time.Second, quota.Asked, anyAccount)
		time.Sleep(time.Second)
		before := f.got("background")
		time.Sleep(2 * time.Second)
		if beside := f.got("background") - before; alone < 120 || beside > 10 {
			t.Errorf("in 3 s alone %d requests, in 2 s beside callers who want all %d", alone, beside)
		}
	})
}

// A Redis that answers within its timeout is there for the ceiling, however slow it is, with more
// nodes than would share the ceiling without it. One that does not is away.
func TestCeilingWithASlowRedis(t *testing.T) {
	const n = 100
	for _, timeout := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
		for _, takes := range []struct {
			part float64 // of the timeout
			used float64 // of the ceiling, at least; a node takes no more than a twentieth in a round trip
		}{{0, 0.9 * quota.Usable(timeout)}, {0.6, 0.5 * float64(100*time.Millisecond) / float64(timeout)}, {0.95, 0.05}, {1.2, 0.2}} {
			for _, nodes := range []int{1, 3, 10} {
				if takes.part > 1 && nodes > nodeCount {
					continue // then the ceiling holds only while Redis is there
				}
				t.Run(fmt.Sprintf("%v of %v, %d nodes", takes.part, timeout, nodes), func(t *testing.T) {
					withCeilings(t, nodes, n, quota.CeilingOptions{Timeout: timeout}, func(t *testing.T, f *fleet) {
						for _, c := range f.nodes {
							c.Set(n, nodeCount)
						}
						f.redis.with(func() { f.redis.late = time.Duration(takes.part * float64(timeout)) })
						f.load(t, 3*n, 6*time.Second, quota.Asked, anyAccount)
						time.Sleep(3 * time.Second) // none is ever alone, not for a moment
						for range 300 {
							time.Sleep(10 * time.Millisecond)
							for i, c := range f.nodes {
								if alone := c.State().Alone; alone != (takes.part > 1) {
									t.Errorf("node %d is alone: %t", i, alone)
									return
								}
							}
						}
						if used, want := f.between(2, 6), int(takes.used*n*4); used < want {
							t.Errorf("%d requests in 4 s, want %d", used, want)
						}
					})
				})
			}
		}
	}
}

// A stall of once is no outage: no part of the ceiling is lost for seconds.
func TestCeilingThroughOneStall(t *testing.T) {
	for _, stall := range []time.Duration{60 * time.Millisecond, 150 * time.Millisecond} {
		withFleet(t, 1, 200, func(t *testing.T, f *fleet) {
			f.load(t, 600, 6*time.Second, quota.Asked, anyAccount)
			f.load(t, 100, 6*time.Second, quota.Background, anyAccount)
			time.Sleep(3 * time.Second)
			f.redis.with(func() { f.redis.stalled = time.Now().Add(stall) })
			for range 300 {
				time.Sleep(10 * time.Millisecond)
				if f.nodes[0].State().Alone {
					t.Errorf("alone after a stall of %v", stall)
					return
				}
			}
			if used := f.between(3, 6); used < 3*150 {
				t.Errorf("%d requests in the 3 s after a stall of %v", used, stall)
			}
		})
	}
}

// What is left of a slow reply serves nobody who comes 10 ms later: tokens live from the ask on.
func TestCeilingTokensLiveFromTheAsk(t *testing.T) {
	withFleet(t, 1, 100, func(t *testing.T, f *fleet) {
		f.redis.late = 95 * time.Millisecond
		f.ask(t, 0, "first", quota.Started)
		time.Sleep(2 * time.Second) // the bucket is full
		for range 3 {
			f.wg.Go(func() { f.ask(t, 0, "three", quota.Started) })
		}
		f.wg.Wait()
		f.ask(t, 0, "one", quota.Started) // gets as much as was sent lately
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		f.ask(t, 0, "late", quota.Started)
		if took := time.Since(begin); took < 90*time.Millisecond {
			t.Errorf("a request got an old token after %v", took)
		}
	})
}

// Who comes first does not go first: accounts are served in turn.
func TestCeilingServesAccountsInTurn(t *testing.T) {
	withFleet(t, 1, 100, func(t *testing.T, f *fleet) {
		for range 200 {
			f.wg.Go(func() { f.ask(t, 0, "greedy", quota.Started) })
		}
		time.Sleep(20 * time.Millisecond)
		if !f.ask(t, 0, "small", quota.Asked) {
			t.Error("refused behind another account's requests")
		}
	})
}
