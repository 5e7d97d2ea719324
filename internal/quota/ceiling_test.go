package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	lua "github.com/yuin/gopher-lua"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modelRedis runs scripts in virtual time, with GET, SET and TIME. TestScriptOnRedis compares
// it with a real server.
type modelRedis struct {
	redis.Scripter // what is not called

	mu     sync.Mutex
	values map[string]string
	lua    *lua.LState
	script *lua.LFunction
	skew   time.Duration // of its clock
	slow   time.Duration // before each reply
	away   bool
}

func newModel() *modelRedis {
	m := &modelRedis{values: map[string]string{}, lua: lua.NewState()}
	module := m.lua.NewTable()
	m.lua.SetGlobal("redis", module)
	module.RawSetString("call", m.lua.NewFunction(m.call))
	script, err := m.lua.LoadString(takeSource)
	if err != nil {
		panic(err)
	}
	m.script = script
	return m
}

// EvalSha takes 0.5 to 2 ms, half of it before the script runs.
func (m *modelRedis) EvalSha(ctx context.Context, _ string, keys []string, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	half := 250*time.Microsecond + rand.N(750*time.Microsecond)
	time.Sleep(half)
	m.mu.Lock()
	if m.away {
		m.mu.Unlock()
		cmd.SetErr(errors.New("refused"))
		return cmd
	}
	reply, err := m.run(keys, args)
	m.mu.Unlock()
	time.Sleep(half + m.slow)
	if err == nil {
		err = ctx.Err()
	}
	cmd.SetErr(err)
	cmd.SetVal(reply)
	return cmd
}

// run is called with m.mu held: there is one interpreter.
func (m *modelRedis) run(keys []string, args []any) (any, error) {
	m.lua.SetTop(0)
	m.lua.SetGlobal("KEYS", m.list(len(keys), func(i int) string { return keys[i] }))
	m.lua.SetGlobal("ARGV", m.list(len(args), func(i int) string { return fmt.Sprint(args[i]) }))
	m.lua.Push(m.script)
	if err := m.lua.PCall(0, 1, nil); err != nil {
		return nil, err
	}
	var reply []any
	m.lua.Get(-1).(*lua.LTable).ForEach(func(_, v lua.LValue) { reply = append(reply, int64(v.(lua.LNumber))) })
	return reply, nil
}

func (m *modelRedis) list(n int, at func(int) string) *lua.LTable {
	t := m.lua.NewTable()
	for i := range n {
		t.Append(lua.LString(at(i)))
	}
	return t
}

// call is redis.call.
func (m *modelRedis) call(l *lua.LState) int {
	switch l.CheckString(1) {
	case "TIME":
		now := time.Now().Add(m.skew)
		l.Push(m.list(2, func(i int) string {
			return strconv.FormatInt([]int64{now.Unix(), int64(now.Nanosecond() / 1000)}[i], 10)
		}))
	case "GET":
		value, ok := m.values[l.CheckString(2)]
		if !ok {
			l.Push(lua.LFalse)
			break
		}
		l.Push(lua.LString(value))
	case "SET": // nothing here lasts longer than its lifetime
		m.values[l.CheckString(2)] = l.CheckString(3)
		l.Push(lua.LTrue)
	default:
		l.RaiseError("no such command")
	}
	return 1
}

// fleet is nodes that share a ceiling of n per second, and what they sent.
type fleet struct {
	t     *testing.T
	n     int
	redis *modelRedis
	nodes []*Ceiling
	begin time.Time

	mu      sync.Mutex
	sent    []time.Time
	of      map[string]int // by account
	refused map[string]int
}

func newFleet(t *testing.T, nodes, n int) *fleet {
	f := &fleet{t: t, n: n, redis: newModel(), begin: time.Now(), of: map[string]int{}, refused: map[string]int{}}
	for range nodes {
		c := NewCeiling(CeilingOptions{Redis: f.redis})
		c.Set(n, nodes)
		f.nodes = append(f.nodes, c)
	}
	return f
}

func (f *fleet) close() {
	for _, c := range f.nodes {
		c.Close()
	}
}

// ask makes one request.
func (f *fleet) ask(node int, account string, class Class) bool {
	err := f.nodes[node].Wait(f.t.Context(), account, class)
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
func (f *fleet) load(wg *sync.WaitGroup, perSecond float64, lasts time.Duration, class Class, account func() string) {
	for node := range f.nodes {
		wg.Go(func() {
			for end := time.Now().Add(lasts); time.Now().Before(end); {
				time.Sleep(time.Duration(rand.ExpFloat64() * float64(time.Second) * float64(len(f.nodes)) / perSecond))
				wg.Go(func() { f.ask(node, account(), class) })
			}
		})
	}
}

// peak is the most requests in any second.
func (f *fleet) peak() int {
	slices.SortFunc(f.sent, time.Time.Compare)
	most, first := 0, 0
	for i, at := range f.sent {
		for at.Sub(f.sent[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// between counts what was sent from one moment to another after the begin.
func (f *fleet) between(from, to time.Duration) (n int) {
	for _, at := range f.sent {
		if since := at.Sub(f.begin); since >= from && since < to {
			n++
		}
	}
	return n
}

func anyAccount() string { return fmt.Sprintf("account-%d", rand.N(200)) }

func TestNoSecondAboveTheCeiling(t *testing.T) {
	for _, nodes := range []int{1, 3, 10} {
		for _, n := range []int{10, 100, 300} {
			t.Run(fmt.Sprintf("%d nodes, %d per second", nodes, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, nodes, n)
					var wg sync.WaitGroup
					f.load(&wg, 3*float64(n), 5*time.Second, Asked, anyAccount)
					wg.Wait()
					f.close()
					if peak := f.peak(); peak > n {
						t.Errorf("%d requests in a second", peak)
					}
					if used := float64(f.between(time.Second, 5*time.Second)) / 4; used < 0.85*float64(n) {
						t.Errorf("%.1f per second of %d are usable", used, n)
					}
				})
			})
		}
	}
}

func TestOneGreedyAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, 100)
		var wg sync.WaitGroup
		f.load(&wg, 300, 12*time.Second, Asked, func() string { return "greedy" })
		time.Sleep(3 * time.Second)
		f.mu.Lock()
		alone := f.of["greedy"]
		f.mu.Unlock()
		for i := range 64 { // cold lists of others, some per second
			wg.Go(func() {
				time.Sleep(rand.N(8 * time.Second))
				f.ask(i%3, fmt.Sprint("small-", i), Asked)
			})
		}
		wg.Wait()
		f.close()
		for account, n := range f.refused {
			if account != "greedy" && n > 0 {
				t.Errorf("%s was refused", account)
			}
		}
		if alone < 150 {
			t.Errorf("alone it got %d requests in 3 s, nobody else asked", alone)
		}
		if peak := f.peak(); peak > 100 {
			t.Errorf("%d requests in a second", peak)
		}
	})
}

func TestBackgroundComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, 100)
		var wg sync.WaitGroup
		f.load(&wg, 300, 6*time.Second, Background, func() string { return "background" })
		time.Sleep(3 * time.Second)
		f.mu.Lock()
		alone := f.of["background"]
		f.mu.Unlock()
		f.load(&wg, 300, 10*time.Second, Asked, anyAccount)
		time.Sleep(time.Second)
		f.mu.Lock()
		before := f.of["background"]
		f.mu.Unlock()
		time.Sleep(2 * time.Second)
		f.mu.Lock()
		beside := f.of["background"] - before
		f.mu.Unlock()
		wg.Wait()
		f.close()
		if alone < 120 || beside > 10 {
			t.Errorf("in 3 s alone %d requests, in 2 s beside callers who want all %d", alone, beside)
		}
	})
}

func TestRedisAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, 60)
		var wg sync.WaitGroup
		f.load(&wg, 180, 20*time.Second, Asked, anyAccount)
		away := func(is bool) { f.redis.mu.Lock(); f.redis.away = is; f.redis.mu.Unlock() }
		time.Sleep(5 * time.Second)
		away(true)
		time.Sleep(7 * time.Second)
		away(false)
		wg.Wait()
		f.close()
		if peak := f.peak(); peak > 60 {
			t.Errorf("%d requests in a second", peak)
		}
		if used := f.between(7*time.Second, 12*time.Second); used < 5*45 {
			t.Errorf("%d requests in 5 s without Redis", used)
		}
		if used := f.between(16*time.Second, 20*time.Second); used < 4*48 {
			t.Errorf("%d requests in 4 s after Redis was back", used)
		}
	})
}

// Whatever happens to Redis, no second has more: it forgets all, or its clock is set back.
func TestRedisForgets(t *testing.T) {
	for name, happen := range map[string]func(*modelRedis){
		"FLUSHALL":             func(m *modelRedis) { clear(m.values) },
		"clock an hour back":   func(m *modelRedis) { m.skew -= time.Hour },
		"clock an hour onward": func(m *modelRedis) { m.skew += time.Hour; clear(m.values) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 3, 100)
				var wg sync.WaitGroup
				f.load(&wg, 300, 9*time.Second, Asked, anyAccount)
				for range 3 {
					time.Sleep(2 * time.Second)
					f.redis.mu.Lock()
					happen(f.redis)
					f.redis.mu.Unlock()
				}
				wg.Wait()
				f.close()
				if peak := f.peak(); peak > 100 {
					t.Errorf("%d requests in a second", peak)
				}
				if used := f.between(7*time.Second, 9*time.Second); used < 2*80 {
					t.Errorf("%d requests in the last 2 s", used)
				}
			})
		})
	}
}

// An account that wants everything on one node leaves the others what they want on theirs.
func TestGreedOnAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, 100)
		var wg sync.WaitGroup
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			for range 5 {
				wg.Go(func() { f.ask(0, "greedy", Asked) })
			}
			if rand.N(10) < 7 {
				wg.Go(func() { f.ask(1+rand.N(2), anyAccount(), Asked) })
			}
		}
		wg.Wait()
		f.close()
		refused := 0
		for account, n := range f.refused {
			if account != "greedy" {
				refused += n
			}
		}
		if refused > 10 {
			t.Errorf("%d of about 420 requests of others were refused", refused)
		}
	})
}

// What is left of a slow reply serves nobody who comes 10 ms later: tokens live from the ask on.
func TestTokensLiveFromTheAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, 100)
		f.redis.slow = 45 * time.Millisecond
		f.ask(0, "first", Started)
		time.Sleep(2 * time.Second) // the bucket is full
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { f.ask(0, "three", Started) })
		}
		wg.Wait()
		f.ask(0, "one", Started) // gets as much as was sent lately
		time.Sleep(10 * time.Millisecond)
		begin := time.Now()
		f.ask(0, "late", Started)
		if took := time.Since(begin); took < 40*time.Millisecond {
			t.Errorf("a request got an old token after %v", took)
		}
		f.close()
	})
}

// Who comes first does not go first: accounts are served in turn.
func TestAccountsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, 100)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() { f.ask(0, "greedy", Started) })
		}
		time.Sleep(20 * time.Millisecond)
		if !f.ask(0, "small", Asked) {
			t.Error("refused behind another account's requests")
		}
		wg.Wait()
		f.close()
	})
}

func TestHowLongARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCeiling(CeilingOptions{}) // without Redis
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
		c.Set(0, 0)
		if took, err := wait(Background, t.Context()); took != 0 || err != nil {
			t.Errorf("without a ceiling: %v %v", took, err)
		}
	})
}

// The model and a real server give the same replies to the same calls, one moment each.
func TestScriptOnRedis(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer rdb.Close()
	model := newModel()
	b := Bucket{Key: "{c}:level", Every: time.Second, Burst: 5 * time.Second, Low: 2 * time.Second}
	s := Spenders{Keys: []string{"{c}:a", "{c}:b"}, Spent: []int{3, 0}, Every: time.Second, Allow: 2 * time.Second, Memory: 10 * time.Second}
	levels := []time.Duration{0, 2 * time.Second, 4 * time.Second, 5 * time.Second, time.Hour}
	for _, level := range levels {
		for _, need := range []int{0, 1, 4} {
			for _, at := range []redis.Scripter{rdb, model} {
				now := fmt.Sprintf("%d", time.Now().Add(level).UnixMicro())
				if at == model {
					model.values = map[string]string{b.Key: now}
				} else if err := rdb.Set(t.Context(), b.Key, now, 0).Err(); err != nil {
					t.Fatal(err)
				} else if err := rdb.Del(t.Context(), s.Keys...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			want, err := Take(t.Context(), rdb, b, need, 3, s)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Take(t.Context(), model, b, need, 3, s)
			if err != nil {
				t.Fatal(err)
			}
			near := func(a, b time.Duration) bool { return (a - b).Abs() < 500*time.Millisecond }
			if got.Tokens != want.Tokens || !near(got.Level, want.Level) || !near(got.Over[0], want.Over[0]) || got.Over[1] != want.Over[1] {
				t.Errorf("level %v, need %d: the model gives %+v, Redis %+v", level, need, got, want)
			}
		}
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := Take(t.Context(), rdb, b, 1, 1, s); err != nil || got.Tokens != 0 {
		t.Errorf("a key that is not there gives %+v, %v", got, err)
	}
}
