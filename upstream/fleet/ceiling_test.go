package fleet

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"inquiry-gateway/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(redistest.Silence{})
	goleak.VerifyTestMain(m)
}

// patient is a client that gives a busy machine time for a call of Redis.
type patient struct{ *redis.Client }

func (patient) CallTimeout() time.Duration { return 4 * time.Second }

func openRedis(t testing.TB, srv *redistest.Server) redis.Cmdable {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	return patient{rdb}
}

// ask lets a member make a call, and take its answer unless it is lost.
func ask(t testing.TB, s *store, m *member, g sharing, now time.Time, answered bool) shared {
	t.Helper()
	m.sent++
	told := *m
	got, err := s.share(t.Context(), told, g)
	if err != nil {
		t.Fatal(err)
	}
	if answered {
		m.take(told, got, now)
	}
	return got
}

// sum is what all members use together.
func sum(members []*member) (all float64) {
	for _, m := range members {
		all += m.used
	}
	return all
}

// Whatever of calls, answers and memory is lost, and in whatever order nodes come and
// call, they never use more than the whole together.
func TestPartsAreNeverMoreThanTheWhole(t *testing.T) {
	t.Parallel() // it waits by the clock of Redis, as the next one does
	srv := redistest.Start(t)
	rdb := openRedis(t, srv)
	s := newStore(rdb, "")
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 6 {
		rdb.FlushAll(t.Context())
		now := time.Unix(0, 0)
		var members []*member
		for i := range 4 {
			members = append(members, &member{node: string(rune('a' + i)), process: string(rune('a' + i))})
		}
		replica := ""
		for step := range 100 {
			if step == 2 {
				time.Sleep(bootFor) // by the clock of Redis
			}
			now = now.Add(beatEvery)
			for _, i := range rng.Perm(len(members)) {
				if rng.IntN(8) > 0 { // else its call does not reach Redis
					ask(t, s, members[i], sharing{}, now, rng.IntN(6) > 0)
				}
				if all := sum(members); all > 1.0000001 {
					t.Fatalf("round %d, step %d: the parts are %v together", round, step, all)
				}
			}
			switch rng.IntN(12) {
			case 0:
				if step > 10 { // some node has a part that it can tell
					rdb.FlushAll(t.Context())
				}
			case 1:
				replica = rdb.Get(t.Context(), s.ceilingKey()).Val()
			case 2:
				if replica != "" {
					rdb.Set(t.Context(), s.ceilingKey(), replica, 0)
				}
			}
		}
		for range 6 { // all is well again
			now = now.Add(beatEvery)
			for _, m := range members {
				ask(t, s, m, sharing{}, now, true)
			}
		}
		if all := sum(members); all < 0.5 {
			t.Errorf("round %d: after all losses the parts are %v together", round, all)
		}
	}
}

// A node that comes gets its part of the others', and one that leaves gives it back.
func TestPartsFollowTheNodes(t *testing.T) {
	t.Parallel()
	s := newStore(openRedis(t, redistest.Start(t)), "")
	now := time.Unix(0, 0)
	all := func(members ...*member) {
		for range 6 {
			now = now.Add(beatEvery)
			for _, m := range members {
				ask(t, s, m, sharing{}, now, true)
			}
		}
	}
	want := func(part float64, members ...*member) {
		t.Helper()
		for _, m := range members {
			if m.used < part-0.001 || m.used > part+0.001 {
				t.Errorf("%s has %v, want %v", m.node, m.used, part)
			}
		}
	}
	a, b, c := &member{node: "a", process: "1"}, &member{node: "b", process: "2"}, &member{node: "c", process: "3"}
	all(a)
	want(0, a) // there may be others of whom Redis knows nothing yet
	time.Sleep(bootFor)
	all(a)
	want(1, a)
	all(a, b)
	want(0.5, a, b)
	all(a, b, c)
	want(1./3, a, b, c)
	ask(t, s, c, sharing{leave: true}, now, false)
	all(a, b)
	want(0.5, a, b)
	// The next process on b has its part when the one before is silent.
	again := &member{node: "b", process: "4"}
	all(a, again)
	want(0, again)
	want(0.5, a)
	time.Sleep(silentFor)
	all(a, again)
	want(0.5, a, again)
}

// A late call of before changes nothing.
func TestLateCallsCountForNothing(t *testing.T) {
	s := newStore(openRedis(t, redistest.Start(t)), "")
	m := &member{node: "a", process: "1"}
	late := *m
	late.sent = 1
	m.sent = 1
	ask(t, s, m, sharing{}, time.Unix(0, 0), true)
	if _, err := s.share(t.Context(), late, sharing{give: 5, most: 5}); err != errLate {
		t.Errorf("a late call: %v", err)
	}
	if got := ask(t, s, m, sharing{want: 5, most: 5}, time.Unix(1, 0), true); got.tokens != 0 {
		t.Errorf("%v tokens of a late call", got.tokens)
	}
}

func TestTokensGoFromNodeToNode(t *testing.T) {
	s := newStore(openRedis(t, redistest.Start(t)), "")
	a, b := &member{node: "a", process: "1"}, &member{node: "b", process: "2"}
	ask(t, s, a, sharing{give: 3, most: 4}, time.Unix(0, 0), true)
	ask(t, s, a, sharing{give: 3, most: 4}, time.Unix(0, 0), true)
	if got := ask(t, s, b, sharing{want: 3, most: 4}, time.Unix(0, 0), true); got.tokens != 3 || got.pool != 1 {
		t.Errorf("%+v, want 3 of the 4 tokens that fit", got)
	}
	if got := ask(t, s, b, sharing{want: 3, most: 4}, time.Unix(0, 0), true); got.tokens != 1 {
		t.Errorf("%+v, want the last", got)
	}
}

// With every sort of demand and every number of nodes, in no second more than the
// ceiling are spent, given tokens included.
func TestNoSecondHasMoreThanTheCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		ceiling := rapid.IntRange(nodes, 400).Draw(t, "ceiling")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		now, pool := time.Unix(0, 0), 0.0
		buckets := make([]bucket, nodes)
		for i := range buckets {
			buckets[i].set(now, float64(ceiling)/float64(nodes))
		}
		most := buckets[0].pool(float64(ceiling))
		var spent []time.Time
		for end := now.Add(4 * time.Second); now.Before(end); now = now.Add(time.Duration(rng.IntN(int(20 * time.Millisecond)))) {
			for i := range buckets {
				b := &buckets[i]
				switch rng.IntN(4) {
				case 0:
					b.settle(now, 0)
					pool = min(most, pool+b.give())
				case 1:
					n := min(pool, float64(rng.IntN(9)))
					pool -= n
					b.receive(now, n, 9)
				default:
					for range rng.IntN(20) {
						if b.spend(now, rng.IntN(5) == 0) {
							spent = append(spent, now)
						}
					}
				}
			}
			spent = slices.DeleteFunc(spent, func(at time.Time) bool { return now.Sub(at) >= time.Second })
			if len(spent) > ceiling {
				t.Fatalf("%d in a second, of at most %d with %d nodes", len(spent), ceiling, nodes)
			}
		}
	})
}

// Those for whom nobody waits get none while others wait or little is left.
func TestBackgroundGivesWay(t *testing.T) {
	now := time.Unix(0, 0)
	var b bucket
	b.set(now, 160) // 10 in the bucket
	now = now.Add(time.Second)
	count := func(reserve bool) (n int) {
		for b.spend(now, reserve) {
			n++
		}
		return n
	}
	if behind, rest := count(true), count(false); behind < 4 || behind > 10 || rest != 5 {
		t.Errorf("%d in the background and %d after them, want half of the ten left", behind, rest)
	}
}

func TestCeilingWithoutRedis(t *testing.T) {
	c := NewCeiling(CeilingOptions{})
	defer c.Close()
	for range 1000 {
		if err := c.Take(t.Context(), Background); err != nil {
			t.Fatal("a ceiling of 0 refuses")
		}
	}
	c.Set(20, 0)
	refused := 0
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if c.Take(ctx, Asked) != nil {
			refused++
		}
		cancel()
	}
	if refused < 10 {
		t.Errorf("%d of 30 requests refused at once with 20 per second", refused)
	}
	if err := c.Take(t.Context(), Started); err != nil {
		t.Errorf("a fetch under way does not wait: %v", err)
	}
	var none *Ceiling
	if err := none.Take(t.Context(), Asked); err != nil || none.State() != (CeilingState{}) {
		t.Error("no ceiling bounds something")
	}
}
