package upstream

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/quota"
)

// Of a legacy that is down a tenth of the requests is repeated, and three more.
func TestRetryBudget(t *testing.T) {
	const n = 200
	for _, code := range []int{502, 503} {
		virtual(t, status(code), "{attempts: 4, breaker: {min_requests: 1000}}", func(t *testing.T, f *fixture) {
			for range n {
				_ = buyer(t, f.Client, "acme")
			}
			if repeats := f.calls.Load() - n; repeats < n/10 || repeats > n/10+budgetBurst {
				t.Errorf("%d repeats of %d requests", repeats, n)
			}
		})
	}
}

// A caller's deadline ends the repeats, too, and who leaves counts for nothing.
func TestCallersWhoLeave(t *testing.T) {
	const keys = "{attempts: 50, breaker: {min_requests: 1}}"
	virtual(t, hang, keys, func(t *testing.T, f *fixture) {
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := f.Fetch(ctx, acme); asError(err).Kind != KindCanceled || !asError(err).Refused() {
				t.Error(err)
			}
		}
		if f.BreakerState("buyer") != "closed" || f.metric(t, "requests_total", "canceled") != 3 || f.calls.Load() != 3 {
			t.Errorf("the breaker is %s after %d requests", f.BreakerState("buyer"), f.calls.Load())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Fetch(ctx, acme); asError(err).Kind != KindTimeout {
			t.Error(err)
		}
	})
	virtual(t, status(503), keys, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := f.Fetch(ctx, acme); asError(err).Reason != "status_5xx" || time.Since(begin) > 30*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// A request under way whose reply tells a shorter time does not end the longer wait.
func TestAWaitIsNotEndedSooner(t *testing.T) {
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		told := "30"
		if r.URL.Query().Get("state") == "A" {
			time.Sleep(time.Second)
			told = "5"
		}
		w.Header().Set("Retry-After", told)
		status(429)(w, r)
	}, "", func(t *testing.T, f *fixture) {
		var slow sync.WaitGroup
		slow.Go(func() { _, _ = f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "answered"}) })
		synctest.Wait()
		_ = buyer(t, f.Client, "acme")
		slow.Wait()
		time.Sleep(10 * time.Second)
		if got := buyer(t, f.Client, "acme"); got != "held_back" || f.calls.Load() != 2 {
			t.Errorf("%s after %d requests", got, f.calls.Load())
		}
	})
}

// A half-open breaker lets one list through at a time, and one that nobody waits for says
// nothing.
func TestOneProbeAtATime(t *testing.T) {
	virtual(t, hang, "{attempts: 1, breaker: {min_requests: 1, open_for: 5s}}", func(t *testing.T, f *fixture) {
		_ = buyer(t, f.Client, "acme")
		time.Sleep(6 * time.Second)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		var probe sync.WaitGroup
		probe.Go(func() { _, _ = f.Fetch(ctx, acme) })
		synctest.Wait()
		_, err := f.Fetch(t.Context(), acme)
		if e := asError(err); e.Reason != "breaker_open" || e.Wait != time.Second || f.calls.Load() != 2 {
			t.Errorf("a second one: %v after %d requests", err, f.calls.Load())
		}
		probe.Wait()
		if f.BreakerState("buyer") != "half-open" {
			t.Errorf("%s when the caller has left", f.BreakerState("buyer"))
		}
	})
}

// The fleet's ceiling counts every request: pages, repeats, sign-ins, and those that
// net/http sends again.
func TestCeilingCountsEveryRequest(t *testing.T) {
	list, drop := serveJSON(rows("")), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	const session = "auth: {type: session, password_file: f, login: {path: /login, body: ['{password}']}, token: t}"
	for keys, replies := range map[string][]http.HandlerFunc{
		"attempts: 3": {status(502), status(502), list},
		"buyer: {paging: {style: page, param: p}}": {serveJSON(rows("", "a")), serveJSON(rows("", "b")), list},
		session: {serveJSON(`{"t":"x"}`), status(401), serveJSON(`{"t":"y"}`), list},
		"buyer: {method: POST, body: x, paging: {style: page, param: p}}":  {serveJSON(rows("", "a")), drop, list},
		"buyer: {paging: {style: page, size: 1, size_param: n, param: p}}": {serveJSON(rows("", "a")), drop, list},
	} {
		came := 0
		virtual(t, func(w http.ResponseWriter, r *http.Request) {
			came++
			replies[came-1](w, r)
		}, keys, func(t *testing.T, f *fixture) {
			ceiling := quota.NewCeiling(quota.CeilingOptions{})
			defer ceiling.Close()
			ceiling.Set(1, 1)
			c := f.another(t, f.cfg, func(o *Options) { o.Ceiling = ceiling })
			begin := time.Now()
			got := buyer(t, c, "acme")
			if least := time.Duration(len(replies)-1) * time.Second; got != "ok" || came != len(replies) || time.Since(begin) < least {
				t.Errorf("%s: %s after %d requests in %v", keys, got, came, time.Since(begin))
			}
		})
	}
}

// A panic in one of the goroutines that a list has is that list's failure.
func TestPanics(t *testing.T) {
	for in, keys := range map[string]string{
		"/list": "", "p=1": "buyer: {paging: {style: page, param: p, total: n}}",
		"/n/1": `buyer: {fields: {responses: {fetch: {path: "/n/{id}", id: id}}}}`,
	} {
		virtual(t, serveJSON(`{"n":2,"rows":[{"id":"1","t":"a",`+good+`}]}`), keys, func(t *testing.T, f *fixture) {
			c := f.another(t, f.cfg, func(o *Options) {
				o.Transport = func(network http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if strings.Contains(r.URL.String(), in) {
							panic("a bug")
						}
						return network.RoundTrip(r)
					})
				}
			})
			if got := buyer(t, c, "acme"); got != "internal" || c.BreakerState("buyer") != "closed" {
				t.Errorf("%s: %s", in, got)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An account has a quarter of the places, or what the configuration says, and all together
// no more than there are. One more is refused at once.
func TestBulkhead(t *testing.T) {
	for keys, full := range map[string]map[string][]string{
		"{max_concurrent: 8}": {
			"account_bulkhead_full": {"acme", "acme", "acme"},
			"bulkhead_full":         {"acme", "acme", "a", "b", "c", "a", "b", "c", "other"},
		},
		"{max_concurrent: 3}":                                {"account_bulkhead_full": {"acme", "acme"}},
		"{max_concurrent: 8, max_concurrent_per_account: 8}": {"account_bulkhead_full": strings.Split("acme"+strings.Repeat(" acme", 8), " ")},
	} {
		for reason, accounts := range full {
			virtual(t, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				serveJSON(rows(""))(w, r)
			}, keys, func(t *testing.T, f *fixture) {
				most := len(accounts) - 1
				var under sync.WaitGroup
				for _, account := range accounts[:most] {
					under.Go(func() {
						if got := buyer(t, f.Client, account); got != "ok" {
							t.Errorf("%s: %s: %s", keys, account, got)
						}
					})
				}
				synctest.Wait()
				_, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: accounts[most]})
				if e := asError(err); e.Reason != reason || e.Wait != time.Second || f.metric(t, "in_flight") != float64(most) {
					t.Errorf("%s: %v, want %s", keys, err, reason)
				}
				under.Wait()
				if got := buyer(t, f.Client, accounts[most]); got != "ok" || f.calls.Load() != int64(most)+1 {
					t.Errorf("%s: %s when all have ended, %d requests", keys, got, f.calls.Load())
				}
			})
		}
	}
}

// A list makes several requests at a time, each of which gets a connection at once: waiting
// for one would look like a legacy that is slow.
func TestRequestsDoNotWaitForEachOther(t *testing.T) {
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/list" {
			serveJSON(`{"rows":[`+strings.Repeat(`{"id":"1","t":"a",`+good+`},`, 7)+`{"id":"1","t":"a",`+good+`}]}`)(w, r)
			return
		}
		time.Sleep(time.Second)
		serveJSON(`{"r":[]}`)(w, r)
	}, `{max_concurrent: 2, max_concurrent_per_account: 2, buyer: {fields: {responses: {fetch: {path: "/n/{id}", id: id, concurrency: 8}}}}}`,
		func(t *testing.T, f *fixture) {
			begin := time.Now()
			var lists sync.WaitGroup
			for range 2 {
				lists.Go(func() {
					if got := buyer(t, f.Client, "acme"); got != "ok" || time.Since(begin) != time.Second {
						t.Errorf("%s after %v", got, time.Since(begin))
					}
				})
			}
			lists.Wait()
		})
}

// A client that takes the place of another goes on with what is known of the legacy, as
// long as the configuration leaves it as it is.
func TestWhatOutlivesAReload(t *testing.T) {
	for _, tc := range []struct {
		change       func(*Config)
		gauge        float64 // of the breaker
		same         bool    // connections
		failed, held string  // why there is no list
	}{
		{func(c *Config) { c.MaxRecords++ }, 2, true, "breaker_open", "held_back"},
		{func(c *Config) { c.Breaker.OpenFor *= 2 }, 0, true, "status_5xx", "held_back"},
		{func(c *Config) { c.BaseURL += "/" }, 0, true, "status_5xx", "throttled"},
		{func(c *Config) { c.Headers = map[string]string{"X-A": "b"} }, 2, false, "breaker_open", "held_back"},
	} {
		for code, want := range map[int]string{500: tc.failed, 429: tc.held} {
			virtual(t, status(code), "breaker: {min_requests: 1}", func(t *testing.T, f *fixture) {
				_ = buyer(t, f.Client, "acme")
				cfg := f.cfg
				tc.change(&cfg)
				next := f.next(t, cfg)
				if f.GoesOnIn(next) != tc.same || code == 500 && f.metric(t, "breaker_state", "buyer") != tc.gauge {
					t.Errorf("%d: the gauge says %v, the same connections: %t", code, f.metric(t, "breaker_state", "buyer"), f.GoesOnIn(next))
				}
				if got := buyer(t, next, "acme"); got != want {
					t.Errorf("%d: %s, want %s", code, got, want)
				}
			})
		}
	}
}

// What is under way counts for the client that takes over.
func TestPlacesOutliveAReload(t *testing.T) {
	virtual(t, hang, "{max_concurrent: 1, timeout: 1s}", func(t *testing.T, f *fixture) {
		var under sync.WaitGroup
		under.Go(func() { _ = buyer(t, f.Client, "acme") })
		synctest.Wait()
		if got := buyer(t, f.next(t, f.cfg), "other"); got != "bulkhead_full" {
			t.Error(got)
		}
		under.Wait()
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", " 7 ", "-1", "1.5", "99999999999999999999", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"} {
		f.Add(s)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		wait := toldToWait(text, now)
		n, err := strconv.Atoi(text)
		if wait < 0 || err == nil && n >= 0 && n < 1<<31 && wait != time.Duration(n)*time.Second {
			t.Errorf("%q: %v", text, wait)
		}
	})
}
