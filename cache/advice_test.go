package cache

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/cache/redistest"
)

func newAdvice(t testing.TB, rdb redis.UniversalClient, c *clock) *Advice {
	t.Helper()
	a, err := NewAdvice(AdviceOptions{Redis: rdb, Now: c.Now, Cap: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// heeds waits until the node's answer is the wanted one.
func heeds(t *testing.T, a *Advice, want bool) {
	t.Helper()
	eventually(t, "the node heeds the advice", func() bool {
		_, _, ok := a.Enter(t.Context(), KindBuyer)
		return ok == want
	})
}

// enterAll lets callers on all nodes ask at once, and returns the tickets.
func enterAll(t *testing.T, nodes []*Advice) []Ticket {
	t.Helper()
	var mu sync.Mutex
	var tickets []Ticket
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			if ticket, _, ok := nodes[i%len(nodes)].Enter(t.Context(), KindBuyer); ok {
				mu.Lock()
				defer mu.Unlock()
				tickets = append(tickets, ticket)
			}
		})
	}
	wg.Wait()
	return tickets
}

func TestTheFleetHeedsAnOpenBreakerAndProbesOnce(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	var nodes []*Advice
	for range 3 {
		nodes = append(nodes, newAdvice(t, openRedis(t, patient(redisAt(srv.Addr))), c))
	}
	eventually(t, "all nodes listen", func() bool { return srv.Do("PUBSUB", "NUMSUB", "iq:2:advice") == "*2\r\n$11\r\niq:2:advice\r\n:3" })
	if n := len(enterAll(t, nodes)); n != 60 {
		t.Fatalf("%d of 60 calls without advice", n)
	}
	if err := nodes[0].Opened(t.Context(), KindBuyer, c.Now().Add(5*time.Second)); err != nil {
		t.Fatal(err)
	}
	for _, a := range nodes {
		heeds(t, a, false)
	}
	if _, wait, _ := nodes[1].Enter(t.Context(), KindBuyer); wait != 5*time.Second {
		t.Errorf("wait %s", wait)
	}
	if _, _, ok := nodes[1].Enter(t.Context(), KindSeller); !ok {
		t.Error("advice on buyers held a seller up")
	}

	c.add(5 * time.Second)
	tickets := enterAll(t, nodes)
	if len(tickets) != 1 || !tickets[0].Probe {
		t.Fatalf("%d calls when the advice ended, want one probe", len(tickets))
	}
	if err := tickets[0].Done(t.Context(), false, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	for _, a := range nodes {
		eventually(t, "the advice is extended", func() bool { _, wait, ok := a.Enter(t.Context(), KindBuyer); return !ok && wait == 5*time.Second })
	}

	c.add(5 * time.Second)
	tickets = enterAll(t, nodes)
	if len(tickets) != 1 {
		t.Fatalf("%d probes", len(tickets))
	}
	if err := tickets[0].Done(t.Context(), true, 0); err != nil {
		t.Fatal(err)
	}
	for _, a := range nodes {
		heeds(t, a, true)
	}
	if n := len(enterAll(t, nodes)); n != 60 {
		t.Errorf("%d of 60 calls after a good probe", n)
	}
}

func TestAProbeThatNeverReportsIsForgotten(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	a := newAdvice(t, openRedis(t, patient(redisAt(srv.Addr))), c)
	if err := a.Opened(t.Context(), KindBuyer, c.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	heeds(t, a, false)
	c.add(time.Second)
	if ticket, _, ok := a.Enter(t.Context(), KindBuyer); !ok || !ticket.Probe {
		t.Fatal("no probe")
	}
	if _, _, ok := a.Enter(t.Context(), KindBuyer); ok {
		t.Error("a second call while the probe runs")
	}
	c.add(probeLife)
	if ticket, _, ok := a.Enter(t.Context(), KindBuyer); !ok || ticket.Probe {
		t.Error("the node is not on its own again")
	}
}

func TestAdviceIsCappedAndReachesNodesThatStartLater(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	c.now = time.Now() // Redis forgets by the real time
	a := newAdvice(t, openRedis(t, patient(redisAt(srv.Addr))), c)
	if err := a.Opened(t.Context(), KindBuyer, c.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	late := newAdvice(t, openRedis(t, patient(redisAt(srv.Addr))), c)
	heeds(t, late, false)
	_, wait, _ := late.Enter(t.Context(), KindBuyer)
	if wait > 10*time.Second {
		t.Errorf("advice is honoured for %s, the cap is 10 s", wait)
	}
}

func TestWithoutRedisEachNodeIsOnItsOwn(t *testing.T) {
	srv := redistest.Start(t)
	c := newClock()
	cut := newAdvice(t, openRedis(t, patient(redisAt(srv.Addr))), c)
	alone := newAdvice(t, nil, c)
	srv.Kill()
	if err := cut.Opened(t.Context(), KindBuyer, c.Now().Add(time.Second)); err == nil {
		t.Error("advice that reached nobody is no error")
	}
	if err := alone.Opened(t.Context(), KindBuyer, c.Now().Add(time.Second)); err != nil {
		t.Error(err)
	}
	for _, a := range []*Advice{cut, alone} {
		if _, _, ok := a.Enter(t.Context(), KindBuyer); ok {
			t.Error("a node does not heed its own breaker")
		}
	}
	c.add(time.Second)
	var probes atomic.Int64
	for _, a := range []*Advice{cut, alone} {
		for range 10 {
			if ticket, _, ok := a.Enter(t.Context(), KindBuyer); ok && ticket.Probe {
				probes.Add(1)
			}
		}
	}
	if probes.Load() != 2 {
		t.Errorf("%d probes, want one per node", probes.Load())
	}
}

func TestAdviceOnAnUnknownKindIsRefused(t *testing.T) {
	a := newAdvice(t, nil, newClock())
	if err := a.Opened(t.Context(), "admin", time.Now()); err != ErrUnknownKind {
		t.Errorf("error %v", err)
	}
	if err := a.Closed(t.Context(), "admin"); err != ErrUnknownKind {
		t.Errorf("error %v", err)
	}
}

func FuzzHearAdvice(f *testing.F) {
	f.Add("buyer 1700000000000")
	f.Add("seller 0")
	f.Add("admin 1")
	f.Add("buyer -1")
	f.Fuzz(func(t *testing.T, message string) {
		c := newClock()
		a := newAdvice(t, nil, c)
		a.hear(message)
		if _, wait, _ := a.Enter(t.Context(), KindBuyer); wait > 10*time.Second+probeLife {
			t.Fatalf("%q holds calls up for %s", message, wait)
		}
	})
}
