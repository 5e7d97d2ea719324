package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redisfake"
	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(1600) // each script gets a new Lua state
	goleak.VerifyTestMain(m, redistest.Reconnecting())
}

// slowRedis is a fake Redis that takes its time. TestScriptOnRedis compares the script on it with
// a real server.
type slowRedis struct {
	redis.Scripter // what is not called

	mu    sync.Mutex
	fake  *redisfake.Server
	rand  *rand.Rand
	skew  time.Duration // of its clock
	slow  time.Duration // before each reply
	stall time.Time     // no reply before
	away  bool
}

func newRedis(seed uint64) *slowRedis {
	m := &slowRedis{rand: rand.New(rand.NewPCG(seed, 0))}
	m.fake = redisfake.New(func() time.Time { return time.Now().Add(m.skew) }, m.rand)
	return m
}

// EvalSha takes 0.5 to 2 ms, half of it before the script runs.
func (m *slowRedis) EvalSha(ctx context.Context, _ string, keys []string, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	m.mu.Lock()
	half := 250*time.Microsecond + time.Duration(m.rand.Int64N(int64(750*time.Microsecond)))
	m.mu.Unlock()
	time.Sleep(half)
	m.mu.Lock()
	if m.away {
		m.mu.Unlock()
		cmd.SetErr(errors.New("refused"))
		return cmd
	}
	command := append([]string{takeSource, strconv.Itoa(len(keys))}, keys...)
	for _, arg := range args {
		command = append(command, fmt.Sprint(arg))
	}
	reply := m.fake.Do("EVAL", command...)
	if numbers, ok := reply.([]any); ok { // as go-redis has them
		for i, n := range numbers {
			numbers[i] = int64(n.(int))
		}
	}
	late := max(m.slow, time.Until(m.stall))
	m.mu.Unlock()
	err, _ := reply.(error)
	select {
	case <-time.After(half + late):
	case <-ctx.Done():
		err = ctx.Err()
	}
	cmd.SetErr(err)
	cmd.SetVal(reply)
	return cmd
}

// fleet is nodes that share a ceiling of n per second, and what they sent.
type fleet struct {
	redis *slowRedis
	nodes []*Ceiling
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
	withCeilings(t, nodes, n, CeilingOptions{}, do)
}

func withCeilings(t *testing.T, nodes, n int, o CeilingOptions, do func(t *testing.T, f *fleet)) {
	t.Helper()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{redis: newRedis(seed), seed: seed, begin: time.Now(), of: map[string]int{}, refused: map[string]int{}}
		for range nodes {
			o.Redis = f.redis
			c := NewCeiling(o)
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
func (f *fleet) ask(t *testing.T, node int, account string, class Class) (sent bool) {
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
func (f *fleet) load(t *testing.T, perSecond float64, lasts time.Duration, class Class, account func(*rand.Rand) string) {
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
func TestTheCeiling(t *testing.T) {
	type event struct {
		at     time.Duration
		happen func(*slowRedis)
	}
	forgets := func(m *slowRedis) { m.fake.Clear() }
	backward, onward := func(m *slowRedis) { m.skew -= time.Hour }, func(m *slowRedis) { m.skew += time.Hour; m.fake.Clear() }
	slow, quick := func(m *slowRedis) { m.slow = 95 * time.Millisecond }, func(m *slowRedis) { m.slow = 0 }
	away, back := func(m *slowRedis) { m.away = true }, func(m *slowRedis) { m.away = false }
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
				f.load(t, 3*float64(tc.n), time.Duration(tc.lasts)*time.Second, Asked, anyAccount)
				for _, e := range tc.events {
					time.Sleep(time.Until(f.begin.Add(e.at * time.Second)))
					f.redis.mu.Lock()
					e.happen(f.redis)
					f.redis.mu.Unlock()
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
func TestOneGreedyAccount(t *testing.T) {
	withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
		f.load(t, 300, 12*time.Second, Asked, func(*rand.Rand) string { return "greedy" })
		time.Sleep(3 * time.Second)
		if alone := f.got("greedy"); alone < 150 {
			t.Errorf("alone it got %d requests in 3 s", alone)
		}
		for i := range 64 { // cold lists of others, some per second
			f.wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second / 8)
				f.ask(t, i%3, fmt.Sprint("small-", i), Asked)
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
				f.wg.Go(func() { f.ask(t, 0, "greedy", Asked) })
			}
			if r.IntN(10) < 7 {
				node, of := 1+r.IntN(2), anyAccount(r)
				f.wg.Go(func() { f.ask(t, node, of, Asked) })
			}
		}
		if n := f.refusedBeside("greedy"); n > 10 {
			t.Errorf("%d of about 420 requests of others were refused", n)
		}
	})
}

func TestBackgroundComesLast(t *testing.T) {
	withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
		f.load(t, 300, 6*time.Second, Background, func(*rand.Rand) string { return "background" })
		time.Sleep(3 * time.Second)
		alone := f.got("background")
		f.load(t, 300, 4*time.Second, Asked, anyAccount)
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
func TestASlowRedis(t *testing.T) {
	const n = 100
	for _, timeout := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
		for _, takes := range []struct {
			part float64 // of the timeout
			used float64 // of the ceiling, at least; a node takes no more than a twentieth in a round trip
		}{{0, 0.9 * Usable(timeout)}, {0.6, 0.5 * float64(callTimeout) / float64(timeout)}, {0.95, 0.05}, {1.2, 0.2}} {
			for _, nodes := range []int{1, 3, 10} {
				if takes.part > 1 && nodes > defaultNodes {
					continue // then the ceiling holds only while Redis is there
				}
				t.Run(fmt.Sprintf("%v of %v, %d nodes", takes.part, timeout, nodes), func(t *testing.T) {
					withCeilings(t, nodes, n, CeilingOptions{Timeout: timeout}, func(t *testing.T, f *fleet) {
						for _, c := range f.nodes {
							c.Set(n, defaultNodes)
						}
						f.redis.mu.Lock()
						f.redis.slow = time.Duration(takes.part * float64(timeout))
						f.redis.mu.Unlock()
						f.load(t, 3*n, 6*time.Second, Asked, anyAccount)
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
func TestOneStall(t *testing.T) {
	for _, stall := range []time.Duration{60 * time.Millisecond, 150 * time.Millisecond} {
		withFleet(t, 1, 200, func(t *testing.T, f *fleet) {
			f.load(t, 600, 6*time.Second, Asked, anyAccount)
			f.load(t, 100, 6*time.Second, Background, anyAccount)
			time.Sleep(3 * time.Second)
			f.redis.mu.Lock()
			f.redis.stall = time.Now().Add(stall)
			f.redis.mu.Unlock()
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
func TestTokensLiveFromTheAsk(t *testing.T) {
	withFleet(t, 1, 100, func(t *testing.T, f *fleet) {
		f.redis.slow = 95 * time.Millisecond
		f.ask(t, 0, "first", Started)
		time.Sleep(2 * time.Second) // the bucket is full
		for range 3 {
			f.wg.Go(func() { f.ask(t, 0, "three", Started) })
		}
		f.wg.Wait()
		f.ask(t, 0, "one", Started) // gets as much as was sent lately
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		f.ask(t, 0, "late", Started)
		if took := time.Since(begin); took < 90*time.Millisecond {
			t.Errorf("a request got an old token after %v", took)
		}
	})
}

// Who comes first does not go first: accounts are served in turn.
func TestAccountsInTurn(t *testing.T) {
	withFleet(t, 1, 100, func(t *testing.T, f *fleet) {
		for range 200 {
			f.wg.Go(func() { f.ask(t, 0, "greedy", Started) })
		}
		time.Sleep(20 * time.Millisecond)
		if !f.ask(t, 0, "small", Asked) {
			t.Error("refused behind another account's requests")
		}
	})
}

func TestHowLongARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		c := NewCeiling(CeilingOptions{Registerer: reg}) // without Redis
		c.Set(1, 0)
		defer c.Close()
		wait := func(class Class, ctx context.Context) (time.Duration, error) {
			begin := time.Now()
			err := c.Wait(ctx, "acme", class)
			return time.Since(begin), err
		}
		if took, err := wait(Asked, t.Context()); took != 0 || err != nil {
			t.Errorf("the first one: %v %v", took, err)
		}
		var wg sync.WaitGroup
		for range 3 { // who comes first is served after 1.1 s, the next after 2.2
			wg.Go(func() { _ = c.Wait(t.Context(), "other", Started) })
		}
		synctest.Wait()
		if took, err := wait(Asked, t.Context()); took != 1500*time.Millisecond || !errors.Is(err, ErrCeiling) {
			t.Errorf("asked: %v %v", took, err)
		}
		if took, err := wait(Background, t.Context()); took != 2*time.Second || !errors.Is(err, ErrCeiling) {
			t.Errorf("background: %v %v", took, err)
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if took, err := wait(Started, ctx); took != 10*time.Millisecond || !errors.Is(err, ErrCeiling) {
			t.Errorf("started: %v %v", took, err)
		}
		left, leave := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		if took, err := wait(Started, left); took != 10*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who leaves: %v %v", took, err)
		}
		refused, err := testkit.Values(reg, "inquiry_gateway_ceiling_requests_total")
		if err != nil || refused["askedrefused"] != 1 || refused["backgroundrefused"] != 1 || refused["startedrefused"] != 1 {
			t.Errorf("counted %v, %v", refused, err)
		}
		c.Set(0, 0)
		if took, err := wait(Background, t.Context()); took != 0 || err != nil {
			t.Errorf("without a ceiling: %v %v", took, err)
		}
	})
}

// The fake and a real server give the same replies to the same calls, one moment each.
func TestScriptOnRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer rdb.Close()
	b := Bucket{Key: "{c}:level", Every: time.Second, Burst: 5 * time.Second, Low: 2 * time.Second}
	s := Spenders{Keys: []string{"{c}:a", "{c}:b"}, Spent: []int{3, 0}, Every: time.Second, Allow: 2 * time.Second, Memory: 10 * time.Second}
	taken := func(from redis.Scripter, need int) Taken {
		got, err := Take(t.Context(), from, b, need, 3, s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Over { // the clocks are not quite the same
			got.Over[i] = got.Over[i].Round(time.Second)
		}
		got.Level = got.Level.Round(time.Second)
		return got
	}
	for _, level := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 5 * time.Second, time.Hour} {
		for _, need := range []int{0, 1, 4} {
			fake, full := newRedis(1), strconv.FormatInt(time.Now().Add(level).UnixMicro(), 10)
			fake.fake.Do("SET", b.Key, full)
			if err := errors.Join(rdb.Del(t.Context(), s.Keys...).Err(), rdb.Set(t.Context(), b.Key, full, 0).Err()); err != nil {
				t.Fatal(err)
			}
			for range 2 { // of the second call the level is what the first has written
				if got, want := taken(fake, need), taken(rdb, need); !reflect.DeepEqual(got, want) {
					t.Errorf("level %v, need %d: the fake gives %+v, Redis %+v", level, need, got, want)
				}
			}
		}
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got := taken(rdb, 1); got.Tokens != 0 {
		t.Errorf("a key that is not there gives %+v", got)
	}
}

// Without Redis nothing is kept of what was sent: nobody would ever ask for it.
func TestAloneNothingIsKeptOfWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCeiling(CeilingOptions{})
		defer c.Close()
		c.Set(1000, 1)
		for range 100 {
			if err := c.Wait(t.Context(), "acme", Asked); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(c.sent); n > 0 {
			t.Errorf("%d moments are kept", n)
		}
	})
}
