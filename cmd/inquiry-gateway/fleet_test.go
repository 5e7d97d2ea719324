package main

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
)

// unruly stands in front of a legacy system and answers buyers by account, which
// no fault of the runnable one does.
type unruly struct {
	system http.Handler // set when the program runs
	fault  atomic.Pointer[misanswer]
	buyers atomic.Int64 // requests for buyers' lists
}

// misanswer answers for an account; nil leaves the answer to the legacy system.
type misanswer func(account string) http.HandlerFunc

func (u *unruly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account := r.URL.Query().Get("customer")
	if account != "" {
		u.buyers.Add(1)
	}
	if f := u.fault.Load(); f != nil {
		if h := (*f)(account); h != nil {
			h(w, r)
			return
		}
	}
	u.system.ServeHTTP(w, r)
}

// answer makes the fault that counts from now on.
func (u *unruly) answer(f misanswer) { u.fault.Store(&f) }

// always is one answer for the accounts; without accounts for everybody.
func always(h http.HandlerFunc, accounts ...string) misanswer {
	return func(account string) http.HandlerFunc {
		for _, a := range accounts {
			if a == account {
				return h
			}
		}
		if len(accounts) == 0 {
			return h
		}
		return nil
	}
}

func broken(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

// unrulyPair is a pair of nodes with an unruly legacy system; section is put into
// the upstream section.
func unrulyPair(t *testing.T, section string, upstream ...string) ([2]*program, *unruly) {
	t.Helper()
	u := &unruly{}
	nodes := pair(t, fmt.Sprintf("addrs: [%q], %s", redistest.Start(t).Addr, relaxedTimeout),
		setup{backend: u, upstream: append(upstream, "max_records: 10000", "max_records: 10000\n  "+section)})
	u.system = nodes[0].system
	return nodes, u
}

// trip has the legacy fail until the breakers of both nodes are open.
func trip(nodes [2]*program, u *unruly) {
	nodes[0].t.Helper()
	u.answer(always(broken))
	for _, node := range nodes {
		node.eventually("the breaker opens", func() bool {
			node.get(buyerList, "buyer")
			return node.part("upstream_buyer") == "open"
		})
	}
}

// The fleet sends one probe to a legacy system that hangs until that has a
// verdict, however long its timeout is.
func TestOneProbeUntilItsVerdict(t *testing.T) {
	t.Parallel() // it waits for timeouts
	nodes, u := unrulyPair(t, "breaker: {min_requests: 5, failure_ratio: 0.5, open_for: 300ms}\n  attempts: 1", "timeout: 2s", "timeout: 2400ms")
	trip(nodes, u)
	end := make(chan struct{})
	u.answer(always(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	defer close(end)
	asked := u.buyers.Load()
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 8 {
		callers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				node, key := nodes[w%2], []string{"buyer", "other-buyer", "empty-buyer"}[i%3]
				status := []string{"", "?status=pending", "?status=answered", "?status=closed"}[w/2]
				node.do(node.request(http.MethodGet, buyerList+status, key))
			}
		})
	}
	<-time.After(3 * time.Second) // 300 ms of silence, a probe of 2.4 s, 300 ms
	n := u.buyers.Load() - asked
	close(stop)
	callers.Wait()
	if n < 1 || n > 2 {
		t.Errorf("%d requests to a legacy system that hangs in 3 s, want one per 2.7 s", n)
	}
}
