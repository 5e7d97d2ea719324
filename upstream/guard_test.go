package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/ceiling"
)

// Of a legacy that is down a tenth of the requests is repeated, and three more.
func TestRetryBudget(t *testing.T) {
	const n = 200
	for _, code := range []int{502, 503} {
		virtual(t, status(code), "{attempts: 4, breaker: {min_requests: 1000}}", func(t *testing.T, f *fixture) {
			for i := range n {
				_ = buyer(t, f.Client, fmt.Sprint("account", i))
			}
			if repeats := f.calls.Load() - n; repeats < n/10 || repeats > n/10+budgetBurst {
				t.Errorf("%d repeats of %d requests", repeats, n)
			}
		})
	}
}

// A long list that is read once more, as it has changed meanwhile, leaves the other accounts their repeats.
func TestASecondReadingLeavesRepeats(t *testing.T) {
	const pages = 40
	failed := map[string]bool{}
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		account, page := r.URL.Query().Get("customer"), r.URL.Query().Get("p")
		switch {
		case account == "long" && page == fmt.Sprint(pages-1):
			serveJSON(rows(`,"n":1`, "a"))(w, r) // it says another total than the pages before
		case account == "long":
			serveJSON(rows(fmt.Sprintf(`,"n":%d`, pages), "a"+page))(w, r)
		case !failed[account]:
			failed[account] = true
			status(502)(w, r)
		default:
			serveJSON(rows(`,"n":0`))(w, r)
		}
	}, "buyer: {paging: {style: page, param: p, total: n}}", func(t *testing.T, f *fixture) {
		if got := buyer(t, f.Client, "long"); got != "changed" || f.metric(t, "retries_total", "changed") != 1 {
			t.Fatalf("the long list: %s, read again %v times", got, f.metric(t, "retries_total", "changed"))
		}
		if got := buyer(t, f.Client, "other"); got != "ok" {
			t.Errorf("another account's list that fails once: %s", got)
		}
	})
}

// A caller's deadline ends the repeats, too, and who leaves counts for nothing.
func TestCallersWhoLeave(t *testing.T) {
	const keys = "{attempts: 50, breaker: {min_requests: 1}}"
	virtual(t, hang, keys, func(t *testing.T, f *fixture) {
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := f.Fetch(ctx, acme); asError(err).Reason != "canceled" || !asError(err).Refused() {
				t.Error(err)
			}
		}
		if f.BreakerState("buyer", "") != "closed" || f.metric(t, "requests_total", "canceled") != 3 || f.calls.Load() != 3 {
			t.Errorf("the breaker is %s after %d requests", f.BreakerState("buyer", ""), f.calls.Load())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Fetch(ctx, acme); asError(err).Reason != "timeout" {
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
		if f.BreakerState("buyer", "") != "half-open" {
			t.Errorf("%s when the caller has left", f.BreakerState("buyer", ""))
		}
	})
}

// The fleet's ceiling counts every request: pages, repeats and sign-ins. It changes none of them: one without
// a body is not sent in chunks.
func TestCeilingCountsEveryRequest(t *testing.T) {
	list := serveJSON(rows(""))
	for keys, replies := range map[string][]http.HandlerFunc{
		"attempts: 3": {status(502), status(502), list},
		"buyer: {paging: {style: page, param: p, until_empty: true}}":                                                {serveJSON(rows("", "a")), serveJSON(rows("", "b")), list},
		"auth: {type: session, username: u, password_file: f, login: {path: /login, basic: true}, token: {json: t}}": {serveJSON(`{"t":"x"}`), list},
		"buyer: {method: POST, paging: {style: page, param: p, until_empty: true}}":                                  {serveJSON(rows("", "a")), list},
		"buyer: {method: POST, body: x, paging: {style: page, param: p, until_empty: true}}":                         {serveJSON(rows("", "a")), list},
	} {
		came := 0
		virtual(t, func(w http.ResponseWriter, r *http.Request) {
			if came++; r.ContentLength < 0 || r.TransferEncoding != nil {
				t.Errorf("%s: request %d is %s with %d bytes, %v", keys, came, r.Method, r.ContentLength, r.TransferEncoding)
			}
			replies[min(came, len(replies))-1](w, r)
		}, keys, func(t *testing.T, f *fixture) {
			limiter := ceiling.New(ceiling.Options{})
			limiter.Set(1, 1)
			c := f.another(t, f.cfg, func(o *Options) { o.Ceiling = limiter })
			begin := time.Now()
			got := buyer(t, c, "acme")
			if least := time.Duration(len(replies)-1) * time.Second; got != "ok" || came != len(replies) || time.Since(begin) < least {
				t.Errorf("%s: %s after %d requests in %v", keys, got, came, time.Since(begin))
			}
		})
	}
}

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

// Waiting for a place until the list's time is over says nothing of the legacy system: the breaker stays closed.
func TestWaitingForAPlaceIsNoFault(t *testing.T) {
	const keys = `{max_concurrent: 2, max_concurrent_per_account: 2, timeout: 20s, breaker: {min_requests: 1}, ` +
		`buyer: {fields: {responses: {fetch: {path: "/n/{account}/{id}", id: id, paging: {style: none}}}}}}`
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/n/"):
			hang(w, r) // of the other account, which has both places
		case r.URL.Query().Get("customer") == "acme":
			time.Sleep(time.Second)
		}
		serveJSON(`{"rows":[{"id":"1","t":"a",`+good+`},{"id":"2","t":"b",`+good+`}]}`)(w, r)
	}, keys, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		busy, leave := context.WithCancel(t.Context())
		var other sync.WaitGroup
		other.Go(func() { _, _ = f.Fetch(busy, Request{Kind: "buyer", Account: "other"}) })
		if _, err := f.Fetch(ctx, acme); asError(err).Reason != "bulkhead_full" || f.BreakerState("buyer", "") != "closed" {
			t.Errorf("%v; the breaker is %s", err, f.BreakerState("buyer", ""))
		}
		leave()
		other.Wait()
	})
}

// slots is a Redis that has a slot at once, and keeps the keys that it was asked for.
type slots struct {
	redis.Scripter
	keys []string
}

func (s *slots) EvalSha(ctx context.Context, _ string, keys []string, _ ...any) *redis.Cmd {
	s.keys = append(s.keys, keys...)
	return redis.NewCmdResult(int64(0), nil)
}

// A buyer and a seller of one name have a part of the ceiling each.
func TestCeilingOfABuyerAndASeller(t *testing.T) {
	virtual(t, serveJSON(rows("")), "", func(t *testing.T, f *fixture) {
		server := &slots{}
		limiter := ceiling.New(ceiling.Options{Redis: server})
		limiter.Set(1, 1)
		c := f.another(t, f.cfg, func(o *Options) { o.Ceiling = limiter })
		for _, kind := range []string{"buyer", "seller"} {
			if _, err := c.Fetch(t.Context(), Request{Kind: kind, Account: "kim"}); err != nil {
				t.Error(err)
			}
		}
		if len(server.keys) != 4 || server.keys[0] != server.keys[2] || server.keys[1] == server.keys[3] {
			t.Errorf("the keys are %q", server.keys)
		}
	})
}

// busy is a legacy system that takes a second for each request, and knows how many it had
// at a time. Its lists have eight records with a further request each. It signs in who asks for that.
type busy struct {
	mu        sync.Mutex
	now, most int
}

func (b *busy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	time.Sleep(time.Second)
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now--
	}()
	switch {
	case r.URL.Path == "/login":
		serveJSON(`{"token":"t"}`)(w, r)
	case r.URL.Path == "/list":
		serveJSON(`{"n":8,"rows":[`+strings.Repeat(`{"id":"1","t":"a",`+good+`},`, 7)+`{"id":"1","t":"a",`+good+`}]}`)(w, r)
	default:
		serveJSON(`{"r":[]}`)(w, r)
	}
}

// The legacy never has more requests at a time than max_concurrent says, nor of one account
// than max_concurrent_per_account does, whatever a list is made of. No list waits for itself.
func TestRequestsAtATime(t *testing.T) {
	const (
		details = `buyer: {fields: {responses: {fetch: {path: "/n/{id}", id: id, concurrency: 8, paging: {style: none}}}}}`
		pages   = `buyer: {paging: {style: page, param: p, total: n, concurrency: 8}, max_records: 64}`
		session = `auth: {type: session, password_file: f, login: {path: /login, body: ["{password}"]}, token: {json: token}}`
	)
	for _, tc := range []struct {
		bounds, keys string
		accounts     string // a list each
		most         int    // requests at a time
		took         time.Duration
	}{
		{"max_concurrent: 1", details, "acme", 1, 9 * time.Second},
		{"max_concurrent: 2", details, "acme other", 2, 9 * time.Second},
		{"max_concurrent: 4", details, "acme", 1, 9 * time.Second},
		{"max_concurrent: 4\nmax_concurrent_per_account: 4", details, "acme", 4, 3 * time.Second},
		{"max_concurrent: 8\nmax_concurrent_per_account: 8", details, "acme", 8, 2 * time.Second},
		{"max_concurrent: 8\nmax_concurrent_per_account: 8", details, "acme acme acme acme acme acme acme acme", 8, 9 * time.Second},
		{"max_concurrent: 64", details, "acme", 8, 2 * time.Second},
		{"max_concurrent: 64", details, "a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4 5 6", 64, 5 * time.Second},
		{"max_concurrent: 1", session + "\n" + details, "acme", 1, 10 * time.Second},
		{"max_concurrent: 64", session + "\n" + details, "acme", 8, 3 * time.Second},
	} {
		system := &busy{}
		virtual(t, system.ServeHTTP, tc.bounds+"\n"+tc.keys, func(t *testing.T, f *fixture) {
			begin := time.Now()
			var lists sync.WaitGroup
			for _, account := range strings.Fields(tc.accounts) {
				lists.Go(func() {
					if got := buyer(t, f.Client, account); got != "ok" {
						t.Errorf("%s: %s: %s", tc.bounds, account, got)
					}
				})
			}
			lists.Wait()
			if took := time.Since(begin); system.most != tc.most || took != tc.took || f.metric(t, "in_flight") != 0 {
				t.Errorf("%s %s: %d requests at a time in %v, want %d in %v; %v are under way", tc.bounds, tc.keys, system.most, took, tc.most, tc.took, f.metric(t, "in_flight"))
			}
		})
	}
}

// A client that takes the place of another goes on with what is known of the legacy, as
// long as the configuration leaves it as it is.
func TestWhatOutlivesAReload(t *testing.T) {
	for _, tc := range []struct {
		change func(*Config)
		gauge  float64 // of the breaker
		same   bool    // connections
		want   string  // why there is no list
	}{
		{func(c *Config) { c.MaxRecords++ }, 2, true, "breaker_open"},
		{func(c *Config) { c.Timeout, c.MaxConcurrent = 2*c.Timeout, 2*c.MaxConcurrent }, 2, true, "breaker_open"},
		{func(c *Config) { c.Breaker.OpenFor *= 2 }, 0, true, "status_5xx"},
		{func(c *Config) { c.BaseURL += "/" }, 0, true, "status_5xx"},
		{func(c *Config) { c.Headers = map[string]string{"X-A": "b"} }, 2, false, "breaker_open"},
	} {
		virtual(t, status(500), "breaker: {min_requests: 1}", func(t *testing.T, f *fixture) {
			_ = buyer(t, f.Client, "acme")
			cfg := f.cfg
			tc.change(&cfg)
			next := f.next(t, cfg)
			if f.GoesOnIn(next) != tc.same || f.metric(t, "breaker_state", "buyer") != tc.gauge {
				t.Errorf("the gauge says %v, the same connections: %t", f.metric(t, "breaker_state", "buyer"), f.GoesOnIn(next))
			}
			if got := buyer(t, next, "acme"); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
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
		wait := retryAfter(text, now)
		n, err := strconv.ParseUint(text, 10, 31) // RFC 9110, 10.2.3: digits only
		if wait < 0 || (err == nil || errors.Is(err, strconv.ErrRange)) && wait != time.Duration(n)*time.Second {
			t.Errorf("%q: %v", text, wait)
		}
	})
}
