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

// nextEvent reads one server-sent event.
func nextEvent(t *testing.T, r *bufio.Reader) (name string, data []byte) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			data = []byte(value)
		case "":
			return name, data
		}
	}
}

func TestStream(t *testing.T) {
	c, f := newConsole(t, Options{})
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
	name, data := nextEvent(t, r)
	var history map[string][]*float64
	if err := json.Unmarshal(data, &history); name != "history" || err != nil || len(history) != len(c.sampler.columns)+1 {
		t.Fatalf("%s %s: %v", name, data, err)
	}
	f.count("cache_lookups_total", 10, "buyer", "hit", "local")
	var point map[string]*float64
	for name != "point" {
		name, data = nextEvent(t, r)
	}
	if err := json.Unmarshal(data, &point); err != nil || point["t"] == nil || point["lookups.hit"] == nil || *point["lookups.hit"] <= 0 {
		t.Errorf("point %s: %v", data, err)
	}
	name, data = nextEvent(t, r)
	var parts map[string]string
	if err := json.Unmarshal(data, &parts); name != "parts" || err != nil || !strings.Contains(parts["tiles"], "Hit ratio") {
		t.Errorf("%s %s: %v", name, data, err)
	}
	stop() // ends the stream, so that the server can shut down
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
	<-ended
	if w := ask(c, request()); w.Code != http.StatusOK {
		t.Errorf("the page after the end of Run: %d", w.Code)
	}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/stream", nil))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("a stream after the end of Run: %d", w.Code)
	}
}

func ask(c *Console, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, r)
	return w
}

func TestSubscribersAreBounded(t *testing.T) {
	var h hub
	var all []chan []byte
	for range maxSubscribers {
		c, ok := h.subscribe()
		if !ok {
			t.Fatal("refused before the bound")
		}
		all = append(all, c)
	}
	if _, ok := h.subscribe(); ok {
		t.Error("one more than the bound")
	}
	h.leave(all[0])
	h.leave(all[0]) // twice does no harm
	if _, ok := h.subscribe(); !ok {
		t.Error("the place of one who left is not free")
	}
	for range backlog + 1 {
		h.publish([]byte("e"))
		<-all[1] // this one keeps up
	}
	if n := len(h.subscribers); n != 1 {
		t.Errorf("%d subscribers, want the one that keeps up", n)
	}
	received := 0
	for range all[2] { // ends, because the channel was closed
		received++
	}
	if received != backlog {
		t.Errorf("a slow one got %d events before it was dropped", received)
	}
	h.close()
	if _, open := <-all[1]; open {
		t.Error("open after the end")
	}
	h.leave(all[1])
}

// Run takes a sample a second and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := NewTopAccounts(2)
		c, _ := newConsole(t, Options{TopAccounts: top})
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		top.Filled("a")
		time.Sleep(halfLife + time.Millisecond)
		synctest.Wait()
		if n := c.sampler.samples.len(); n != 301 {
			t.Errorf("%d samples in 5 minutes", n)
		}
		if w := top.heavy["a"].count; w < .49 || w > .51 {
			t.Errorf("weight %v after a half-life", w)
		}
		cancel()
		synctest.Wait()
		if _, ok := c.hub.subscribe(); ok {
			t.Error("the hub is open after the end")
		}
	})
}
