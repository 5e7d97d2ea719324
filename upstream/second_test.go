package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/upstream/internal/sample"
)

// commentLegacy serves tickets without responses, and the responses by a second
// call in the way of several systems.
type commentLegacy struct {
	tickets int
	more    string       // follows the comments in their reply
	most    atomic.Int64 // requests for responses at the same time
	now     atomic.Int64
	comment string // replaces the good one of ticket 2
}

func (l *commentLegacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := func(id, ticket string) string {
		if id == "2" && l.comment != "" {
			return l.comment
		}
		return fmt.Sprintf(`{"author":"staff-%s9","ticket":%q,"text":"re %s, by staff-%s9","by":{"role":"C"},"at":"2026-01-01T00:00:00Z"}`, id, ticket, id, id)
	}
	if r.URL.Path == "/v2/tickets" {
		var list []string
		for i := range l.tickets {
			list = append(list, strings.NewReplacer("6f1c2a34-1111-4222-8333-944455566677", fmt.Sprintf("t-%d", i), "Late", fmt.Sprintf("no. %d staff-99", i)).Replace(sample.Ticket))
		}
		serveJSON(`{"result":{"items":[`+strings.Join(list, ",")+`]}}`)(w, r)
		return
	}
	l.most.Store(max(l.most.Load(), l.now.Add(1)))
	defer l.now.Add(-1)
	var comments []string
	if id, ok := strings.CutPrefix(r.URL.Path, "/v2/tickets/t-"); ok {
		comments = append(comments, body(strings.TrimSuffix(id, "/comments"), ""))
	} else {
		ids := r.URL.Query()["ids"]
		if len(ids) == 1 {
			ids = strings.Split(ids[0], ",")
		}
		for i := range ids {
			id := ids[len(ids)-1-i]
			comments = append(comments, body(strings.TrimPrefix(id, "t-"), id))
		}
	}
	serveJSON(`{"comments":[`+strings.Join(comments, ",")+`]`+l.more+`}`)(w, r)
}

func secondFixture(t testing.TB, l *commentLegacy, fetch string, change func(*Config)) *fixture {
	t.Helper()
	return secondFixtureOf(t, l.ServeHTTP, fetch, change)
}

func secondFixtureOf(t testing.TB, serve http.HandlerFunc, fetch string, change func(*Config)) *fixture {
	t.Helper()
	section := strings.Replace(sample.YAML, "      items: replies\n", "      items: comments\n      internal_ids: [author]\n      fetch: "+fetch+"\n", 1)
	return newFixture(t, serve, func(c *Config) {
		cfg := configFrom(t, section)
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		c.Buyer = cfg.Buyer
		if change != nil {
			change(c)
		}
	})
}

var fetches = map[string]string{
	"each":   `{path: "/v2/tickets/{id}/comments", id: uuid, concurrency: 3}`,
	"joined": `{path: /v2/comments, query: {ids: "{ids}"}, id: uuid, batch: 4, key: ticket}`,
	"repeat": `{path: /v2/comments, query: {ids: "{ids}"}, id: uuid, batch: 4, key: ticket, join: repeat}`,
}

func TestSecondCalls(t *testing.T) {
	for name, fetch := range fetches {
		t.Run(name, func(t *testing.T) {
			l := &commentLegacy{tickets: 10}
			f := secondFixture(t, l, fetch, nil)
			list, err := f.Fetch(t.Context(), acme)
			if err != nil || len(list.Inquiries) != 10 {
				t.Fatalf("%d inquiries, %v", len(list.Inquiries), err)
			}
			for i, inq := range list.Inquiries {
				if len(inq.Responses) != 1 || inq.Responses[0].Content != fmt.Sprintf("re %d, by [removed]", i) || inq.Responses[0].ResponderType.String != "customer" {
					t.Errorf("inquiry %d: %+v", i, inq.Responses)
				}
				if inq.Title != fmt.Sprintf("no. %d [removed]", i) {
					t.Errorf("an id of a response stays in %q", inq.Title)
				}
			}
			if want := map[string]int64{"each": 11}[name]; want != 0 && f.calls.Load() != want {
				t.Errorf("%d requests", f.calls.Load())
			} else if want == 0 && f.calls.Load() != 4 {
				t.Errorf("%d requests", f.calls.Load())
			}
			if l.most.Load() > 3 {
				t.Errorf("%d requests at the same time", l.most.Load())
			}
		})
	}
}

func TestSecondCallsNobodyAsksFor(t *testing.T) {
	l := &commentLegacy{tickets: 10}
	f := secondFixture(t, l, fetches["each"], nil)
	if list, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "answered"}); err != nil || len(list.Inquiries) != 0 || f.calls.Load() != 1 {
		t.Errorf("%d inquiries, %v, %d requests", len(list.Inquiries), err, f.calls.Load())
	}
}

func TestSecondCallsFail(t *testing.T) {
	for _, tc := range []struct{ fetch, comment, reason string }{
		{"each", `{"text":1}`, "record"},
		{"each", `7`, "record"},
		{"each", `}`, "json"},
		{"joined", `{"text":1}`, "record"},
		{"joined", `{"ticket":"t-77","text":"x","at":"2026-01-01T00:00:00Z"}`, "record"},
	} {
		f := secondFixture(t, &commentLegacy{tickets: 5, comment: tc.comment}, fetches[tc.fetch], nil)
		failed(t, f, t.Context(), "invalid", tc.reason)
	}
	f := secondFixture(t, &commentLegacy{tickets: 5, comment: `{"text":1}`}, fetches["each"], func(c *Config) { c.Buyer.OnInvalidRecord = "skip" })
	list, err := f.Fetch(t.Context(), acme)
	if err != nil || len(list.Inquiries) != 4 || f.metric(t, "records_invalid_total", "responses.created_at") != 1 {
		t.Errorf("%d inquiries, %v", len(list.Inquiries), err)
	}
	f = secondFixture(t, &commentLegacy{tickets: 5}, `{path: "/v2/nosuch/{id}", id: customer.nosuch}`, nil)
	failed(t, f, t.Context(), "invalid", "record")
}

// A list makes several requests at a time, each of which gets a connection at once:
// waiting for one would look like a legacy that is slow.
func TestRequestsDoNotWaitForEachOther(t *testing.T) {
	l := &commentLegacy{tickets: 8}
	section := `{path: "/v2/tickets/{id}/comments", id: uuid, concurrency: 8}`
	slow := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/tickets" {
			time.Sleep(200 * time.Millisecond)
		}
		l.ServeHTTP(w, r)
	}
	f := secondFixtureOf(t, slow, section, func(c *Config) {
		c.MaxConcurrent, c.MaxConcurrentPerAccount, c.Timeout, c.Breaker.MinRequests = 2, 2, 700*time.Millisecond, 1
	})
	var lists sync.WaitGroup
	for range 2 {
		lists.Go(func() {
			if _, err := f.Fetch(t.Context(), acme); err != nil {
				t.Error(err)
			}
		})
	}
	lists.Wait()
	if state := f.BreakerState("buyer"); state != "closed" {
		t.Errorf("the breaker of a legacy that is well is %s", state)
	}
}

// max_response_bytes bounds what a fetch holds while its replies come, not only when
// they are there.
func TestRepliesThatComeTogetherAreBoundedTogether(t *testing.T) {
	l := &commentLegacy{tickets: 8}
	const limit = 64 << 10
	for name, length := range map[string]bool{"told": true, "untold": false} {
		var sent atomic.Int64
		end := make(chan struct{})
		f := secondFixtureOf(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/tickets" {
				l.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if length {
				w.Header().Set("Content-Length", fmt.Sprint(limit/2))
			}
			for range 31 { // each below the limit, and no reply ends
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				sent.Add(1 << 10)
			}
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}, `{path: "/v2/tickets/{id}/comments", id: uuid, concurrency: 8}`, func(c *Config) { c.MaxResponseBytes = limit })
		begin := time.Now()
		failed(t, f, t.Context(), "invalid", "too_large")
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("%s: refused after %v, when the replies had come", name, took)
		}
		close(end)
	}
}

// A part of the responses is never taken for all of them.
func TestResponsesThatGoOnAreRefused(t *testing.T) {
	for _, fetch := range []string{fetches["each"], fetches["joined"]} {
		f := secondFixture(t, &commentLegacy{tickets: 2, more: `,"meta":{"has_more":true}`}, fetch, nil)
		if err := failed(t, f, t.Context(), "invalid", "paging"); !strings.Contains(err.Error(), "meta.has_more is true") {
			t.Errorf("%s: %v", fetch, err)
		}
	}
	f := secondFixture(t, &commentLegacy{tickets: 2, more: `,"meta":{"has_more":false},"count":1`}, fetches["each"], nil)
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Error(err)
	}
}
