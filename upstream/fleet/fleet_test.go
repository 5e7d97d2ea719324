package fleet

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

const (
	buyer, seller = "buyer", "seller"
	longest       = 4 * time.Second // of a call
)

func TestMain(m *testing.M) {
	redis.SetLogger(redistest.Silence{})
	goleak.VerifyTestMain(m)
}

// newClock is near the real time, by which Redis forgets, in the milliseconds of
// a message.
func newClock() *testkit.Clock { return testkit.NewClock(time.Now().Truncate(time.Millisecond)) }

// patient is a client that gives a busy machine time for a call of Redis.
type patient struct{ *redis.Client }

func (patient) CallTimeout() time.Duration { return 4 * time.Second }

func openRedis(t testing.TB, srv *redistest.Server) redis.Cmdable {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	return patient{rdb}
}

func newAdvice(t testing.TB, rdb redis.Cmdable, c *testkit.Clock) *Advice {
	t.Helper()
	a := New(Options{Redis: rdb, Now: c.Now})
	t.Cleanup(a.Close)
	return a
}

// three nodes that hear each other.
func three(t *testing.T, c *testkit.Clock) (nodes []*Advice, srv *redistest.Server) {
	t.Helper()
	srv = redistest.Start(t)
	for range 3 {
		nodes = append(nodes, newAdvice(t, openRedis(t, srv), c))
	}
	redistest.Eventually(t, "all nodes listen", func() bool { return strings.HasSuffix(srv.Do("PUBSUB", "NUMSUB", "iq:2:advice"), ":3") })
	return nodes, srv
}

// awaitsAdvice waits until the node makes no calls for that long.
func awaitsAdvice(t *testing.T, a *Advice, want time.Duration) {
	t.Helper()
	redistest.Eventually(t, "the node follows the advice", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		until := a.kinds[buyer].until
		if want == 0 {
			return until.IsZero()
		}
		return until.Sub(a.opts.Now()).Round(time.Millisecond) == want
	})
}

// enterAll lets callers on all nodes ask at once. It returns how many calls were
// allowed and the probes among them.
func enterAll(t *testing.T, nodes []*Advice) (calls int, probes []Ticket) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			ticket, _, ok := nodes[i%len(nodes)].Enter(t.Context(), buyer, longest)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				calls++
			}
			if ticket.a != nil {
				probes = append(probes, ticket)
			}
		})
	}
	wg.Wait()
	return calls, probes
}

// probe ends the advice by its time and returns the one probe of the fleet.
func probe(t *testing.T, nodes []*Advice, c *testkit.Clock, wait time.Duration) Ticket {
	t.Helper()
	c.Add(wait)
	calls, probes := enterAll(t, nodes)
	if calls != 1 || len(probes) != 1 {
		t.Fatalf("%d calls and %d probes, want one probe", calls, len(probes))
	}
	return probes[0]
}

func TestTheFleetFollowsAnOpenBreakerAndProbesOnce(t *testing.T) {
	c := newClock()
	nodes, _ := three(t, c)
	if n, _ := enterAll(t, nodes); n != 60 {
		t.Fatalf("%d of 60 calls without advice", n)
	}
	nodes[0].Opened(t.Context(), buyer, c.Now().Add(5*time.Second))
	for _, a := range nodes {
		awaitsAdvice(t, a, 5*time.Second)
	}
	if _, wait, ok := nodes[1].Enter(t.Context(), buyer, longest); ok || wait.Round(time.Millisecond) != 5*time.Second {
		t.Errorf("wait %s, allowed %t", wait, ok)
	}
	if _, _, ok := nodes[1].Enter(t.Context(), seller, longest); !ok {
		t.Error("advice on buyers held a seller up")
	}
	probe(t, nodes, c, 5*time.Second).Done(t.Context(), Fails, 5*time.Second)
	for _, a := range nodes {
		awaitsAdvice(t, a, 5*time.Second)
	}
	probe(t, nodes, c, 5*time.Second).Done(t.Context(), Answers, 0)
	for _, a := range nodes {
		awaitsAdvice(t, a, 0)
	}
	if n, _ := enterAll(t, nodes); n != 60 {
		t.Errorf("%d of 60 calls after a good probe", n)
	}
}

// However long the probe takes, nobody else calls; without a verdict the lease
// goes to the next call, also of another node.
func TestAProbeHoldsTheFleetUntilItsVerdict(t *testing.T) {
	c := newClock()
	nodes, srv := three(t, c)
	nodes[0].Opened(t.Context(), buyer, c.Now().Add(time.Second))
	for _, a := range nodes {
		awaitsAdvice(t, a, time.Second)
	}
	ticket := probe(t, nodes, c, time.Second)
	for range 8 { // 4 s, the longest call
		c.Add(longest / 8)
		if n, _ := enterAll(t, nodes); n != 0 {
			t.Fatalf("%d calls beside the probe", n)
		}
	}
	ticket.Done(t.Context(), Unknown, time.Second)
	if got := srv.Do("EXISTS", "iq:2:advice:{buyer}:probe"); got != ":0" {
		t.Errorf("the lease of a probe without a verdict is still there: %s", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	probe(t, nodes, c, askAgain).Done(ended, Answers, 0) // also where the call's context has ended
	for _, a := range nodes {
		awaitsAdvice(t, a, 0)
	}
}

// A probe whose node died is replaced when its lease has ended.
func TestAProbeThatNeverReportsIsReplaced(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	a := newAdvice(t, openRedis(t, srv), c)
	a.Opened(t.Context(), buyer, c.Now().Add(time.Second))
	probe(t, []*Advice{a}, c, time.Second)
	if ttl := srv.Do("PTTL", "iq:2:advice:{buyer}:probe"); !strings.HasPrefix(ttl, ":4") && ttl != ":5000" {
		t.Errorf("the lease lives for %s ms, want up to 5,000", ttl)
	}
	c.Add(longest + leaseSlack)
	srv.Do("DEL", "iq:2:advice:{buyer}:probe") // by the real time
	probe(t, []*Advice{a}, c, 0)
}

func TestAdviceIsCappedAndReachesNodesThatStartLater(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	a := newAdvice(t, openRedis(t, srv), c)
	a.Opened(t.Context(), buyer, c.Now().Add(time.Hour))
	awaitsAdvice(t, newAdvice(t, openRedis(t, srv), c), longestAdvice)
	ticket := probe(t, []*Advice{a}, c, longestAdvice)
	late := newAdvice(t, openRedis(t, srv), c) // during the probe
	redistest.Eventually(t, "the late node has read it", func() bool {
		late.mu.Lock()
		defer late.mu.Unlock()
		return !late.kinds[buyer].until.IsZero()
	})
	if n, _ := enterAll(t, []*Advice{late}); n != 0 {
		t.Errorf("%d calls of a node that started during the probe", n)
	}
	ticket.Done(t.Context(), Answers, 0)
}

func TestWithoutRedisEachNodeIsOnItsOwn(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	nodes := []*Advice{newAdvice(t, openRedis(t, srv), c), newAdvice(t, nil, c)}
	srv.Kill()
	for _, a := range nodes {
		a.Opened(t.Context(), buyer, c.Now().Add(time.Second))
		if _, _, ok := a.Enter(t.Context(), buyer, longest); ok {
			t.Error("a node does not follow its own breaker")
		}
	}
	c.Add(time.Second)
	if calls, probes := enterAll(t, nodes); calls != 2 || len(probes) != 2 {
		t.Errorf("%d calls and %d probes, want one probe per node", calls, len(probes))
	}
}

func TestNoAdviceLetsEveryCallPass(t *testing.T) {
	var none *Advice
	none.Opened(t.Context(), buyer, time.Now().Add(time.Hour))
	ticket, _, ok := none.Enter(t.Context(), buyer, longest)
	ticket.Done(t.Context(), Fails, time.Hour)
	a := newAdvice(t, nil, newClock())
	a.Opened(t.Context(), "admin", time.Now().Add(time.Hour))
	if _, _, known := a.Enter(t.Context(), "admin", longest); !ok || !known {
		t.Error("a call that nobody can have advised on was refused")
	}
}

func TestKeysHaveAnEnd(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	a := newAdvice(t, openRedis(t, srv), c)
	a.Opened(t.Context(), buyer, c.Now().Add(time.Second))
	probe(t, []*Advice{a}, c, time.Second)
	for _, key := range []string{"iq:2:advice:{buyer}", "iq:2:advice:{buyer}:probe"} {
		if ttl := srv.Do("PTTL", key); ttl == ":-1" || ttl == ":-2" {
			t.Errorf("%s: PTTL %s", key, ttl)
		}
	}
	if got := srv.Do("DBSIZE"); got != ":2" {
		t.Errorf("%s keys", got)
	}
}

func FuzzReceiveAdvice(f *testing.F) {
	f.Add("buyer 1700000000000")
	f.Add("seller 0")
	f.Add("admin 1")
	f.Add("buyer -1")
	f.Fuzz(func(t *testing.T, message string) {
		c := newClock()
		a := newAdvice(t, nil, c)
		a.receive(message)
		if _, wait, _ := a.Enter(t.Context(), buyer, longest); wait > longestAdvice {
			t.Fatalf("%q holds calls up for %s", message, wait)
		}
	})
}
