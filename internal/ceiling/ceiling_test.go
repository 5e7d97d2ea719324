package ceiling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

	mu   sync.Mutex
	fake *redisfake.Server
	rand *rand.Rand
	skew time.Duration // of its clock
	slow time.Duration // before each reply
	away bool
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
	command := append([]string{reserveSource, strconv.Itoa(len(keys))}, keys...)
	for _, arg := range args {
		command = append(command, fmt.Sprint(arg))
	}
	reply := m.fake.Do("EVAL", command...)
	if n, ok := reply.(int); ok { // as go-redis has it
		reply = int64(n)
	}
	late := m.slow
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
	nodes []*Limiter
	begin time.Time
	seed  uint64
	loads int            // that load was called
	wg    sync.WaitGroup // of all requests

	mu      sync.Mutex
	sent    []time.Time
	of      map[string]int // by account
	refused map[string]int
}

// withFleet gives a fleet something to do, in virtual time.
func withFleet(t *testing.T, nodes, n int, do func(t *testing.T, f *fleet)) {
	t.Helper()
	seed := testkit.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{redis: newRedis(seed), seed: seed, begin: time.Now(), of: map[string]int{}, refused: map[string]int{}}
		for range nodes {
			l := New(Options{Redis: f.redis, Timeout: 100 * time.Millisecond})
			l.Set(n, nodes)
			f.nodes = append(f.nodes, l)
		}
		do(t, f)
		f.wg.Wait()
	})
}

// ask makes one request, which ends after a minute where nothing else ends it.
func (f *fleet) ask(t *testing.T, node int, account string, p Priority) (sent bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := f.nodes[node].Wait(ctx, account, p)
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
func (f *fleet) load(t *testing.T, perSecond float64, lasts time.Duration, p Priority, account func(*rand.Rand) string) {
	f.loads++
	for node := range f.nodes {
		r := rand.New(rand.NewPCG(f.seed, uint64(100*f.loads+node)))
		f.wg.Go(func() {
			for end := time.Now().Add(lasts); time.Now().Before(end); {
				time.Sleep(time.Duration(r.ExpFloat64() * float64(time.Second) * float64(len(f.nodes)) / perSecond))
				of := account(r)
				f.wg.Go(func() { f.ask(t, node, of, p) })
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
	f.mu.Lock()
	defer f.mu.Unlock()
	for of, refused := range f.refused {
		if of != account {
			n += refused
		}
	}
	return n
}

// sentAt returns how long after the begin each request was sent, in order.
func (f *fleet) sentAt() (all []time.Duration) {
	f.wg.Wait()
	for _, at := range f.sent {
		all = append(all, at.Sub(f.begin))
	}
	slices.Sort(all)
	return all
}

// most returns the most requests in any second that begins within [from, to).
func most(sent []time.Duration, from, to time.Duration) (n int) {
	first := 0
	for i, at := range sent {
		for at-sent[first] >= time.Second {
			first++
		}
		if begin := sent[first]; begin >= from && begin < to {
			n = max(n, i-first+1)
		}
	}
	return n
}

func between(sent []time.Duration, from, to time.Duration) (n int) {
	for _, at := range sent {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

func anyAccount(r *rand.Rand) string { return fmt.Sprintf("account-%d", r.IntN(200)) }

// No second has more than the ceiling while Redis answers, and nearly all of it can be used. The
// second in which Redis is lost, comes back, forgets or becomes slow or quick has a fifth more at most.
func TestTheCeiling(t *testing.T) {
	type event struct {
		at     int // s
		happen func(*slowRedis)
	}
	forgets := func(m *slowRedis) { m.fake.Clear() }
	backward, onward := func(m *slowRedis) { m.skew -= time.Hour }, func(m *slowRedis) { m.skew += time.Hour }
	slow, quick := func(m *slowRedis) { m.slow = 95 * time.Millisecond }, func(m *slowRedis) { m.slow = 0 }
	away, back := func(m *slowRedis) { m.away = true }, func(m *slowRedis) { m.away = false }
	for name, tc := range map[string]struct {
		nodes, n, lasts int
		events          []event
		from, to        int     // in these seconds
		usable          float64 // part of the ceiling is used
	}{
		"one node, small":      {1, 10, 6, nil, 1, 6, 0.93},
		"one node, large":      {1, 300, 5, nil, 1, 5, 0.93},
		"three nodes":          {3, 100, 5, nil, 1, 5, 0.93},
		"ten nodes, small":     {10, 10, 6, nil, 1, 6, 0.93},
		"ten nodes, large":     {10, 300, 5, nil, 1, 5, 0.93},
		"Redis forgets":        {3, 100, 7, []event{{2, forgets}, {4, forgets}}, 5, 7, 0.93},
		"its clock goes back":  {3, 100, 7, []event{{2, backward}, {4, backward}}, 5, 7, 0.93},
		"its clock goes on":    {3, 100, 7, []event{{2, onward}, {4, onward}}, 5, 7, 0.93},
		"slow":                 {10, 100, 7, []event{{0, slow}}, 1, 7, 0.93},
		"slow by turns":        {10, 100, 7, []event{{1, slow}, {3, quick}, {5, slow}}, 1, 7, 0.9},
		"Redis is away":        {3, 60, 11, []event{{4, away}}, 6, 11, 0.8},
		"Redis is there again": {3, 60, 14, []event{{2, away}, {6, back}}, 9, 14, 0.93},
		"away and back, ten":   {10, 300, 14, []event{{2, away}, {6, back}}, 9, 14, 0.93},
		"four accounts":        {4, 40, 6, nil, 1, 6, 0.9},
	} {
		t.Run(name, func(t *testing.T) {
			withFleet(t, tc.nodes, tc.n, func(t *testing.T, f *fleet) {
				lasts := time.Duration(tc.lasts) * time.Second
				account := anyAccount
				if name == "four accounts" { // each has its part, and no more
					account = func(r *rand.Rand) string { return fmt.Sprint(r.IntN(4)) }
				}
				f.load(t, 2.25*float64(tc.n), lasts, Interactive, account)
				f.load(t, 0.75*float64(tc.n), lasts, Continuation, account)
				for _, e := range tc.events {
					time.Sleep(time.Until(f.begin.Add(time.Duration(e.at) * time.Second)))
					f.redis.mu.Lock()
					e.happen(f.redis)
					f.redis.mu.Unlock()
				}
				sent := f.sentAt()
				calm := time.Duration(0)
				for _, e := range tc.events {
					at := time.Duration(e.at) * time.Second
					if n := most(sent, calm, at-time.Second); n > tc.n {
						t.Errorf("%d requests in a second before %d s", n, e.at)
					}
					if n := most(sent, at-time.Second, at+3*time.Second); float64(n) > 1.2*float64(tc.n) {
						t.Errorf("%d requests in a second about %d s", n, e.at)
					}
					calm = at + 3*time.Second
				}
				if n := most(sent, calm, lasts); n > tc.n {
					t.Errorf("%d requests in a second", n)
				}
				used := float64(between(sent, time.Duration(tc.from)*time.Second, time.Duration(tc.to)*time.Second)) / float64((tc.to-tc.from)*tc.n)
				if used < tc.usable {
					t.Errorf("%.3f of the ceiling is used", used)
				}
			})
		})
	}
}

// An account with 48 requests in flight takes nothing that others need.
func TestOneGreedyAccount(t *testing.T) {
	for _, tt := range []struct {
		others float64 // per second
		least  int     // of the greedy account in 8 s
		most   float64 // part of the others' requests that is refused
	}{{10, 180, 0.01}, {40, 180, 0.01}, {60, 180, 0.03}} {
		withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
			for node := range f.nodes {
				for i := range 16 {
					p := Continuation
					if i < 8 {
						p = Interactive
					}
					f.wg.Go(func() {
						for time.Since(f.begin) < 8*time.Second {
							f.ask(t, node, "greedy", p)
							time.Sleep(50 * time.Millisecond)
						}
					})
				}
			}
			f.load(t, tt.others, 8*time.Second, Interactive, anyAccount)
			sent, greedy, refused := len(f.sentAt()), f.got("greedy"), f.refusedBeside("greedy")
			if greedy < tt.least || float64(refused) > tt.most*float64(sent-greedy) {
				t.Errorf("beside %v/s: the greedy account got %d requests, others %d and %d were refused", tt.others, greedy, sent-greedy, refused)
			}
		})
	}
}

// A list in progress gets its pages, however many lists want to begin.
func TestContinuationsGoFirst(t *testing.T) {
	withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
		f.load(t, 300, 6*time.Second, Interactive, anyAccount)
		time.Sleep(time.Second)
		for i := range 40 {
			f.wg.Go(func() {
				began := time.Now()
				if !f.ask(t, i%3, fmt.Sprint("list-", i), Continuation) || time.Since(began) > time.Second {
					t.Errorf("a page waited for %v", time.Since(began))
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func TestBackgroundComesLast(t *testing.T) {
	withFleet(t, 3, 100, func(t *testing.T, f *fleet) {
		f.load(t, 300, 6*time.Second, Background, func(r *rand.Rand) string { return "background-" + anyAccount(r) })
		time.Sleep(3 * time.Second)
		background := func() (n int) {
			for i := range 200 {
				n += f.got(fmt.Sprintf("background-account-%d", i))
			}
			return n
		}
		alone := background()
		f.load(t, 300, 4*time.Second, Interactive, anyAccount)
		time.Sleep(time.Second)
		before := background()
		time.Sleep(2 * time.Second)
		if beside := background() - before; alone < 200 || beside > 10 {
			t.Errorf("in 3 s alone %d requests, in 2 s beside callers who want all %d", alone, beside)
		}
	})
}

func TestHowLongARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		l := New(Options{Registerer: reg}) // without Redis
		l.Set(1, 0)
		wait := func(p Priority, ctx context.Context) (time.Duration, error) {
			begin := time.Now()
			err := l.Wait(ctx, "acme", p)
			return time.Since(begin).Round(time.Millisecond), err
		}
		if took, err := wait(Interactive, t.Context()); took != 0 || err != nil {
			t.Errorf("the first one: %v %v", took, err)
		}
		if took, err := wait(Interactive, t.Context()); took != 1111*time.Millisecond || err != nil {
			t.Errorf("the second one: %v %v", took, err)
		}
		if took, err := wait(Background, t.Context()); took != 0 || !errors.Is(err, ErrReached) {
			t.Errorf("background: %v %v", took, err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = l.Wait(t.Context(), "other", Continuation) })
		synctest.Wait() // the next slot is in 2.2 s
		if took, err := wait(Interactive, t.Context()); took != 0 || !errors.Is(err, ErrReached) {
			t.Errorf("interactive: %v %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if took, err := wait(Continuation, ctx); took != 10*time.Millisecond || !errors.Is(err, ErrReached) {
			t.Errorf("continuation: %v %v", took, err)
		}
		left, leave := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		if took, err := wait(Continuation, left); took != 10*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who leaves: %v %v", took, err)
		}
		wg.Wait()
		refused, err := testkit.Values(reg, "inquiry_gateway_ceiling_requests_total")
		if err != nil || refused["interactiverefused"] != 1 || refused["backgroundrefused"] != 1 || refused["continuationrefused"] != 1 || refused["interactivesent"] != 2 {
			t.Errorf("counted %v, %v", refused, err)
		}
		l.Set(0, 0)
		if took, err := wait(Background, t.Context()); took != 0 || err != nil {
			t.Errorf("without a ceiling: %v %v", took, err)
		}
		if err := (*Limiter)(nil).Wait(t.Context(), "acme", Interactive); err != nil {
			t.Errorf("without a limiter: %v", err)
		}
	})
}

// The fake and a real server give the same replies to the same calls, one moment each.
func TestScriptOnRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer rdb.Close()
	keys := []string{"{c}", "{c}:account:a"}
	reserve := func(from redis.Scripter, most time.Duration) time.Duration {
		wait, err := reserveScript.Run(t.Context(), from, keys,
			micros(most), micros(20*time.Second), micros(5*time.Second), micros(10*time.Second), micros(10*time.Second), micros(40*time.Second), micros(0)).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return (time.Duration(wait) * time.Microsecond).Round(time.Second) // the clocks are not quite the same
	}
	if got := reserve(rdb, time.Minute); got != 5*time.Second {
		t.Errorf("a schedule that is not there begins after %v", got)
	}
	for _, next := range []time.Duration{-time.Hour, -5 * time.Second, 0, 5 * time.Second, time.Hour} {
		for _, account := range []time.Duration{-time.Hour, 10 * time.Second, time.Hour} {
			for _, most := range []time.Duration{-2 * time.Second, 2 * time.Second, 20 * time.Second} {
				fake := newRedis(1)
				for i, at := range []time.Duration{next, account} {
					value := strconv.FormatInt(time.Now().Add(at).UnixMicro(), 10)
					fake.fake.Do("SET", keys[i], value)
					if err := rdb.Set(t.Context(), keys[i], value, 0).Err(); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 { // what the second call reads is what the first has written
					if got, want := reserve(fake, most), reserve(rdb, most); got != want {
						t.Errorf("next %v, of the account %v, most %v: the fake gives %v, Redis %v", next, account, most, got, want)
					}
				}
			}
		}
	}
}
