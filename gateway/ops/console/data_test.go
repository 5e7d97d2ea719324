package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func newConsole(t *testing.T, opts Options) (*Console, *feed) {
	t.Helper()
	f := newFeed()
	c, err := New(f.options(opts))
	if err != nil {
		t.Fatal(err)
	}
	return c, f
}

func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	return ask(h, httptest.NewRequest(http.MethodGet, path, nil))
}

// What the page is drawn from: all the history once, then the newest state.
func TestData(t *testing.T) {
	top := NewTopAccounts(4)
	top.Filled("acme")
	at := &clock{}
	c, f := newConsole(t, Options{TopAccounts: top, Now: at.now})
	var all struct {
		History map[string][]*float64 `json:"history"`
		State   state                 `json:"state"`
	}
	c.sampler.take()
	at.offset = sampleEvery
	f.count("cache_lookups_total", 10, "buyer", "hit", "local")
	c.sampler.take()
	w := get(c, "/console/data")
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all.History) != len(c.sampler.columns)+1 || len(all.History["t"]) != 2 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if *all.History["lookups.hit"][1] <= 0 || len(all.State.Accounts) != 1 || all.State.Accounts[0].Name != "acme" {
		t.Errorf("%+v", all)
	}
	var s state
	if err := json.Unmarshal(get(c, "/console/state").Body.Bytes(), &s); err != nil || s.At != all.State.At || s.Point["lookups.hit"] <= 0 ||
		s.Figures.Counts["lookups.hit.buyer"] != 10 || s.Figures.Values["hits.buyer"] != 1 {
		t.Errorf("%v: %+v", err, s)
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
	})
}
