package console

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newConsole(t *testing.T, opts Options) (*Console, *feed) {
	t.Helper()
	f := newFeed()
	opts.Gatherer = f.registry
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

// nextState reads one server-sent event.
func nextState(t *testing.T, r *bufio.Reader) (s state) {
	t.Helper()
	line, err := r.ReadString('\n')
	if err == nil {
		_, err = r.Discard(1) // the empty line
	}
	data, ok := strings.CutPrefix(line, "data: ")
	if err != nil || !ok || json.Unmarshal([]byte(data), &s) != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return s
}

func TestDataAndStream(t *testing.T) {
	top := NewTopAccounts(4)
	top.Filled("acme")
	c, f := newConsole(t, Options{TTL: sampleReport, TopAccounts: top})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	server := httptest.NewUnstartedServer(c.Handler())
	server.Config.ReadTimeout = 50 * time.Millisecond // a stream must outlive it
	server.Start()
	defer server.Close()
	response, err := http.Get(server.URL + "/console/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	r := bufio.NewReader(response.Body)
	first := nextState(t, r)
	f.count("cache_lookups_total", 10, "buyer", "hit", "local")
	s := nextState(t, r)
	if s.At <= first.At || s.Point["lookups.hit"] <= 0 || s.Figures.Counts["lookups.hit.buyer"] != 10 || s.Figures.Values["hits.buyer"] != 1 {
		t.Errorf("%+v", s)
	}
	var all struct {
		History map[string][]*float64 `json:"history"`
		State   state                 `json:"state"`
	}
	data := ask(c, httptest.NewRequest(http.MethodGet, "/console/data", nil))
	if err := json.Unmarshal(data.Body.Bytes(), &all); err != nil || len(all.History) != len(c.sampler.columns)+1 || len(all.History["t"]) < 2 { // the stream may have begun before the first sample
		t.Fatalf("%v: %s", err, data.Body)
	}
	if all.State.At < s.At || len(all.State.Accounts) != 1 || all.State.Accounts[0].Name != "acme" || all.State.TTL == nil {
		t.Errorf("%+v", all.State)
	}
	stop() // ends the stream, so that the server can shut down
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
	<-ended
	if w := ask(c, request()); w.Code != http.StatusOK {
		t.Errorf("the page after the end of Run: %d", w.Code)
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/console/stream", nil)); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("a stream after the end of Run: %d", w.Code)
	}
}

func ask(c *Console, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, r)
	return w
}

func TestStreamsAreBounded(t *testing.T) {
	h := newHub()
	for range maxStreams {
		if !h.enter() {
			t.Fatal("refused before the bound")
		}
	}
	if h.enter() {
		t.Error("one more than the bound")
	}
	h.streams.Add(-1)
	if !h.enter() {
		t.Error("the place of one who left is not free")
	}
	before := h.newest.Load()
	h.publish([]byte("1"))
	h.publish([]byte("2")) // a slow stream gets the newest only
	<-before.outdated
	if u := h.newest.Load(); string(u.event) != "2" || u.last {
		t.Errorf("%+v", u)
	}
	before = h.newest.Load()
	h.close()
	<-before.outdated
	if !h.newest.Load().last || h.enter() {
		t.Error("open after the end")
	}
}

// Run takes a sample every 2 seconds and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := NewTopAccounts(2)
		c, _ := newConsole(t, Options{TopAccounts: top})
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		top.Filled("a")
		time.Sleep(halfLife + time.Millisecond)
		synctest.Wait()
		if n := len(c.sampler.samples); n != 151 {
			t.Errorf("%d samples in 5 minutes", n)
		}
		if w := top.heavy["a"].count; w < .49 || w > .51 {
			t.Errorf("weight %v after a half-life", w)
		}
		cancel()
		synctest.Wait()
		if c.hub.enter() {
			t.Error("the hub is open after the end")
		}
	})
}
