package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
)

// arrivals are the moments at which requests came to the legacy system.
type arrivals struct {
	system http.Handler
	mu     sync.Mutex
	at     []time.Time
}

func (a *arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.at = append(a.at, time.Now())
	a.mu.Unlock()
	a.system.ServeHTTP(w, r)
}

// most is how many came within any time of that length, and how many since then.
func (a *arrivals) most(within time.Duration, since time.Time) (most, all int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first, _ := slices.BinarySearchFunc(a.at, since, time.Time.Compare)
	at := a.at[first:]
	for end, begin := 0, 0; end < len(at); end++ {
		for at[end].Sub(at[begin]) >= within {
			begin++
		}
		most = max(most, end-begin+1)
	}
	return most, len(at)
}

// Three nodes that are asked for more than the legacy system may be asked stay under
// the ceiling together: with Redis, while it is away, and when it is back.
func TestCeilingOfTheFleet(t *testing.T) {
	t.Parallel() // it waits
	const ceiling = 90
	server, backend := redistest.Start(t), &arrivals{}
	s := setup{
		backend: backend, yaml: fmt.Sprintf("redis: {addrs: [%q], %s}", server.Addr, relaxedTimeout),
		upstream: []string{"values: {P: product, D: delivery, R: refund}, default: null", "default: null",
			"max_records: 10000", fmt.Sprintf("max_records: 10000\n  max_requests_per_second: %d", ceiling)},
	}
	nodes := []*program{start(t, s)}
	backend.system = nodes[0].system
	for s.joins = nodes[0]; len(nodes) < 3; {
		nodes = append(nodes, start(t, s))
	}
	var lists, refused, served atomic.Int64
	load := func(what string, nodes ...*program) {
		begin := time.Now()
		var callers sync.WaitGroup
		for _, node := range nodes {
			for range 12 {
				callers.Go(func() {
					for time.Since(begin) < 1500*time.Millisecond {
						switch a := node.get(fmt.Sprintf("%s?inquiry_type=list-%d", buyerList, lists.Add(1)), "buyer"); {
						case a.status == http.StatusOK:
							served.Add(1)
						case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "1":
							refused.Add(1)
							time.Sleep(time.Millisecond) // one of 36 callers who ask for far more than there is
						default:
							t.Errorf("%s: %d %s", what, a.status, a.body)
							return
						}
					}
				})
			}
		}
		callers.Wait()
		second, all := backend.most(time.Second, begin)
		t.Logf("%s: %d requests in %s, at most %d in a second", what, all, time.Since(begin).Round(time.Millisecond), second)
	}
	load("all nodes", nodes...)
	load("one node", nodes[0])
	server.Kill()
	load("without Redis", nodes...)
	server.Restart()
	load("Redis is back", nodes...)
	if refused.Load() == 0 || served.Load() == 0 {
		t.Errorf("%d served and %d refused: the load is no more than the ceiling", served.Load(), refused.Load())
	}
	// A busy machine delays requests that have passed the ceiling: over four seconds
	// that is no matter. The simulation counts every second.
	if n, _ := backend.most(4*time.Second, time.Time{}); n > 4*ceiling {
		t.Errorf("%d requests in four seconds, of at most %d", n, 4*ceiling)
	}
}
