package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// statuses notes with which statuses a legacy system answers.
type statuses struct {
	http.Handler
	mu   sync.Mutex
	seen []int
}

func (s *statuses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kept := httptest.NewRecorder()
	s.Handler.ServeHTTP(kept, r)
	s.mu.Lock()
	s.seen = append(s.seen, kept.Code) // before the caller can know it
	s.mu.Unlock()
	maps.Copy(w.Header(), kept.Header())
	w.WriteHeader(kept.Code)
	_, _ = w.Write(kept.Body.Bytes())
}

func (s *statuses) list() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// expire makes every list too old for all that is asked from now on.
func (p *program) expire() {
	p.t.Helper()
	if err := p.app.ExpireLists(); err != nil {
		p.t.Fatal(err)
	}
}

// A legacy system that says that a list has not changed sends it once: later the list
// is renewed in the process and in Redis, and another node goes on from there.
func TestAListThatHasNotChangedIsSentOnce(t *testing.T) {
	system := legacy.New(legacy.Options{Seed: 1})
	backend := &statuses{Handler: system}
	for name, yaml := range map[string]string{"in the process": "", "in Redis": "redis: {addrs: [\"" + redistest.Start(t).Addr + "\"]}\n"} {
		before := len(backend.list())
		one := start(t, setup{backend: backend, yaml: yaml})
		one.expire()
		first := one.get(buyerList, "buyer")
		for range 2 {
			if a := one.get(buyerList, "buyer"); a.status != http.StatusOK || string(a.body) != string(first.body) || a.header.Get("Age") != "0" || !strings.Contains(a.header.Get("Cache-Status"), "; fwd=stale; stored") {
				t.Fatalf("%s: renewed as %d %v", name, a.status, a.header)
			}
		}
		if got := backend.list()[before:]; !slices.Equal(got, []int{200, 304, 304}) {
			t.Errorf("%s: the legacy answered %v", name, got)
		}
		if n := one.metric(`inquiry_gateway_upstream_requests_total{kind="buyer",result="not_modified"}`); n != 2 {
			t.Errorf("%s: %g renewals are counted", name, n)
		}
		system.Answer(legacy.BuyerTypical)
		if a := one.get(buyerList, "buyer"); string(a.body) == string(first.body) {
			t.Errorf("%s: the list has changed, and the old one is served", name)
		}
		one.get(buyerList, "buyer")
		command(t, "purge", "--ops", one.app.OpsURL(), "--account", legacy.BuyerTypical)
		one.get(buyerList, "buyer")
		if got := backend.list()[before+3:]; !slices.Equal(got, []int{200, 304, 200}) {
			t.Errorf("%s: changed, the same, purged: the legacy answered %v", name, got)
		}
	}
}

// A node takes over from Redis what another one learnt, but not from before it made its
// own connections: the other one's credentials may have been others.
func TestAnotherNodeRenewsTheList(t *testing.T) {
	backend := &statuses{Handler: legacy.New(legacy.Options{Seed: 1})}
	yaml := "redis: {addrs: [\"" + redistest.Start(t).Addr + "\"]}"
	one := start(t, setup{backend: backend, yaml: yaml})
	one.expire()
	one.get(buyerList, "buyer")
	other := start(t, setup{joins: one, yaml: yaml})
	other.expire()
	if other.get(buyerList, "buyer"); !slices.Equal(backend.list(), []int{200, 200}) {
		t.Errorf("the legacy answered %v", backend.list())
	}
	for _, p := range []*program{one, other} {
		// Ages out of Redis are exact to within a round trip, and the node is young.
		p.eventually("the list is renewed", func() bool {
			before := len(backend.list())
			p.get(buyerList, "buyer")
			return slices.Equal(backend.list()[before:], []int{304})
		})
	}
}
