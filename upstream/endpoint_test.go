package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/testkit"
)

// The kind alone says whether the legacy is at fault: for the breaker, the log and the
// cache's back-off.
func TestKinds(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want verdict
	}{
		{nil, well}, {&Error{Kind: KindTimeout}, atFault}, {&Error{Kind: KindFailed}, atFault}, {&Error{Kind: KindOverloaded}, atFault},
		{&Error{Kind: KindRejected}, well}, {&Error{Kind: KindThrottled}, well}, {&Error{Kind: KindInvalid}, well},
		{&Error{Kind: KindUnready}, unknown}, {&Error{Kind: KindNotAsked}, unknown}, {&Error{Kind: KindCanceled}, unknown}, {&Error{}, unknown},
		{errors.New("of another package"), unknown}, {fmt.Errorf("of the caller: %w", context.Canceled), unknown},
	} {
		if got := verdictOf(tc.err); got != tc.want {
			t.Errorf("%v: verdict %d, want %d", tc.err, got, tc.want)
		}
	}
}

// strict opens the breaker after so many fetches.
func strict(n int) func(*Config) {
	return func(c *Config) {
		c.Breaker = BreakerConfig{Window: time.Hour, MinRequests: n, FailureRatio: 0.5, OpenFor: time.Hour}
	}
}

// What opens the breaker of its kind, and what does not.
func TestBreakerCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		serve        http.HandlerFunc
		kind, reason string
		state        string
	}{
		"a 4xx":                  {status(404), "upstream", "status_4xx", "closed"},
		"garbage":                {serveJSON("<html>"), "invalid", "json", "closed"},
		"our deadline":           {hang(""), "timeout", "timeout", "open"},
		"a 5xx":                  {status(500), "upstream", "status_5xx", "open"},
		"told to wait by a 429":  {throttling(429, "10", 100), "unavailable", "throttled", "closed"},
		"told to wait by a 503":  {throttling(503, "10", 100), "unavailable", "throttled", "open"},
		"one page, of many asks": {pagesOf(map[string]http.HandlerFunc{"1": status(500)}), "upstream", "status_5xx", "open"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testkit.NewClock(time.Now())
			f := newFixtureAt(t, clock, tc.serve, strict(4), func(c *Config) {
				if tc.kind == "timeout" {
					c.Timeout = 200 * time.Millisecond
				}
				c.Buyer.Paging.Style, c.Buyer.Paging.Param, c.Buyer.Paging.Total = "page", "page", "total"
			})
			for i := range 4 {
				if f.BreakerState("buyer") != "closed" {
					t.Errorf("open after %d fetches", i)
				}
				failed(t, f, t.Context(), tc.kind, tc.reason)
				clock.Add(10 * time.Second)
			}
			if f.BreakerState("buyer") != tc.state || f.BreakerState("seller") != "closed" {
				t.Fatalf("buyer %s, seller %s", f.BreakerState("buyer"), f.BreakerState("seller"))
			}
			if tc.state == "closed" {
				return
			}
			calls := f.calls.Load()
			e := failed(t, f, t.Context(), "unavailable", "breaker_open")
			if e.Wait > time.Hour || e.Wait < 50*time.Minute || e.Wait%time.Second != 0 || f.calls.Load() != calls {
				t.Errorf("retry after %v, %d calls", e.Wait, f.calls.Load())
			}
			if f.metric(t, "breaker_state", "buyer") != 2 || f.metric(t, "breaker_transitions_total", "buyer", "open") != 1 {
				t.Error("metrics do not show it")
			}
		})
	}
}

// pagesOf serves a list of several pages, some of them in another way.
func pagesOf(other map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch serve, ok := other[r.URL.Query().Get("page")]; {
		case ok:
			serve(w, r)
		case r.URL.Query().Get("page") == "0":
			pagedLegacy{total: 100, size: 10}.ServeHTTP(w, r)
		default: // pages that are canceled are nobody's fault
			<-r.Context().Done()
		}
	}
}

func TestBreakerRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := BreakerConfig{Window: 10 * time.Second, MinRequests: 4, FailureRatio: 0.5, OpenFor: 5 * time.Second}
		b := newBreaker("buyer", Config{Breaker: cfg}, newMetrics(nil, "buyer", nil), Options{}.withDefaults())
		try := func(times int, result error) (err error) {
			for range times {
				_, err = b.do(t.Context(), func() (List, error) { return List{}, result })
			}
			return err
		}
		state := func(want string) {
			t.Helper()
			if got := b.state().String(); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		bad := &Error{Kind: KindTimeout, Reason: "timeout"}
		_ = try(3, bad)
		time.Sleep(11 * time.Second) // out of the window
		_ = try(1, bad)
		state("closed")
		_ = try(3, bad)
		state("open")
		time.Sleep(1500 * time.Millisecond)
		if e := asError(try(1, nil)); e.Reason != "breaker_open" || e.Wait != 4*time.Second {
			t.Errorf("got %v, retry after %v", e, e.Wait)
		}
		time.Sleep(4 * time.Second)
		state("half-open")
		_ = try(1, bad)
		state("open")
		time.Sleep(6 * time.Second)
		_ = try(1, &Error{Kind: KindCanceled}) // a probe that nobody waits for does not stick
		state("half-open")
		if _, err := b.do(t.Context(), func() (List, error) {
			if e := asError(try(1, nil)); e.Reason != "breaker_open" || e.Wait != time.Second {
				t.Errorf("a second probe at the same time: %v", e)
			}
			return List{}, nil
		}); err != nil {
			t.Errorf("the probe: %v", err)
		}
		state("closed")
	})
}

func TestCallerWhoLeavesCountsForNothing(t *testing.T) {
	arrived := make(chan struct{}, 8)
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}, strict(1))
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		failed(t, f, ctx, "canceled", "canceled")
	}
	if f.BreakerState("buyer") != "closed" || f.metric(t, "requests_total", "canceled") != 3 {
		t.Errorf("the breaker is %s", f.BreakerState("buyer"))
	}
}

// attempts runs the repeats of n requests that all end in the same way, and counts how
// often they are sent.
func attempts(t *testing.T, ctx context.Context, e endpoint, retry RetryConfig, n int, r reply, failed *Error) (sent int) {
	s := &Source{endpoint: e, cfg: Config{Retry: retry}, opts: Options{}.withDefaults(), metrics: newMetrics(nil, "buyer", nil)}
	do := s.repeated(func(context.Context, *call) (reply, error) {
		sent++
		return r, failed
	})
	for range n {
		if _, err := do(ctx, &call{fetch: &fetch{Source: s}}); err == nil || ctx.Err() != nil {
			t.Fatalf("%v, context %v", err, ctx.Err())
		}
	}
	return sent
}

func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		down, cut, connect := &Error{Kind: KindFailed, Reason: "status_5xx"}, &Error{Kind: KindFailed, Reason: "truncated"}, &Error{Kind: KindFailed, Reason: "connect"}
		for _, tc := range []struct {
			retry       RetryConfig
			status      int
			err         *Error
			least, most int // repeats
		}{
			{RetryConfig{4, 0.1}, 503, down, n / 10, n/10 + budgetBurst}, {RetryConfig{4, 0.1}, 502, down, n / 10, n/10 + budgetBurst},
			{RetryConfig{4, 0.1}, 0, connect, n / 10, n/10 + budgetBurst},
			{RetryConfig{4, 0}, 503, down, 0, 0}, {RetryConfig{1, 1}, 503, down, 0, 0}, {RetryConfig{4, 1}, 500, down, 0, 0},
			{RetryConfig{4, 1}, 0, cut, 0, 0}, {RetryConfig{4, 1}, 0, &Error{Kind: KindTimeout, Reason: "timeout"}, 0, 0},
		} {
			if repeats := attempts(t, t.Context(), newEndpoint(nil), tc.retry, n, reply{status: tc.status}, tc.err) - n; repeats < tc.least || repeats > tc.most {
				t.Errorf("%+v: %d repeats", tc, repeats)
			}
		}
		// What the ceiling keeps back never reaches the legacy, and earns no repeat of what does.
		e := newEndpoint(nil)
		e.budget.tokens = 0
		attempts(t, t.Context(), e, RetryConfig{2, 0.1}, 100, reply{}, notAsked(reasonCeiling, 0, "no token"))
		if e.budget.withdraw(0.1) {
			t.Error("100 requests that were never sent have earned a repeat")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if sent := attempts(t, ctx, newEndpoint(nil), RetryConfig{50, 1}, 1, reply{}, connect); sent < 2 || sent > 20 {
			t.Errorf("%d attempts within a deadline", sent)
		}
	})
}

// An account has a quarter of the places, and all together no more than there are.
func TestBulkhead(t *testing.T) {
	arrived, release := make(chan struct{}, 16), make(chan struct{})
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		serveJSON(emptyList)(w, r)
	}, strict(1), func(c *Config) { c.MaxConcurrent = 8 })
	var under sync.WaitGroup
	for _, account := range []string{"acme", "acme", "a", "b", "c", "a", "b", "c"} {
		under.Go(func() {
			if _, err := f.buyer(t, account); err != nil {
				t.Error(err)
			}
		})
		<-arrived
	}
	for account, reason := range map[string]string{"acme": "account_bulkhead_full", "globex": "bulkhead_full"} {
		_, err := f.buyer(t, account)
		if e := asError(err); e.Reason != reason || e.Kind != KindNotAsked || e.Wait != time.Second || f.metric(t, "refused_total", "buyer", reason) != 1 {
			t.Errorf("%s: got %v", account, err)
		}
	}
	if f.metric(t, "in_flight") != 8 {
		t.Errorf("%v in flight", f.metric(t, "in_flight"))
	}
	close(release)
	under.Wait()
	if _, err := f.Fetch(t.Context(), acme); err != nil || f.BreakerState("buyer") != "closed" {
		t.Errorf("after its fetches have ended: %v", err)
	}
	if n := len(f.places.accounts); n != 0 {
		t.Errorf("%d accounts are held with nothing under way", n)
	}
	for _, tc := range []struct{ all, one, want int }{{64, 0, 16}, {3, 0, 1}, {64, 64, 64}, {64, 1, 1}} {
		if got := (&Config{MaxConcurrent: tc.all, MaxConcurrentPerAccount: tc.one}).perAccount(); got != tc.want {
			t.Errorf("%d of %d: %d, want %d", tc.one, tc.all, got, tc.want)
		}
	}
}

// A client that takes the place of another goes on with what is known of the
// legacy, as long as the configuration leaves it as it is.
func TestWhatOutlivesAReload(t *testing.T) {
	f := newFixture(t, status(500), strict(1))
	failed(t, f, t.Context(), "upstream", "status_5xx")
	held := newFixture(t, throttling(429, "30", 100))
	failed(t, held, t.Context(), "unavailable", "throttled")
	for _, tc := range []struct {
		change         func(*Config)
		state          string
		gauge          float64
		same           bool
		reason, waited string
	}{
		{func(c *Config) { c.MaxRecords++ }, "open", 2, true, "breaker_open", "held_back"},
		{func(c *Config) { c.Breaker.OpenFor *= 2 }, "closed", 0, true, "status_5xx", "held_back"},
		{func(c *Config) { c.BaseURL += "/" }, "closed", 0, true, "status_5xx", "throttled"},
		{func(c *Config) { c.Headers = map[string]string{"X-A": "b"} }, "open", 2, false, "breaker_open", "held_back"},
	} {
		next := func(f *fixture) *fixture {
			cfg := f.cfg
			tc.change(&cfg)
			c, err := New(cfg, Options{Registerer: f.reg, Before: f.Client})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return &fixture{Client: c, reg: f.reg}
		}
		n := next(f)
		if n.BreakerState("buyer") != tc.state || f.metric(t, "breaker_state", "buyer") != tc.gauge || f.GoesOnIn(n.Client) != tc.same || n.places != f.places {
			t.Errorf("%s, the gauge says %v", n.BreakerState("buyer"), f.metric(t, "breaker_state", "buyer"))
		}
		for f, want := range map[*fixture]string{n: tc.reason, next(held): tc.waited} {
			if _, err := f.Fetch(t.Context(), acme); asError(err).Reason != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

// throttling answers with a status and Retry-After so many times, then with a list.
func throttling(code int, retryAfter string, times int64) http.HandlerFunc {
	var asked atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > times {
			serveJSON(`{"result":{"items":[`+testkit.SampleTicket+`]}}`)(w, r)
			return
		}
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		status(code)(w, r)
	}
}

// A legacy that tells to wait is asked again by the same fetch if that fits, and by
// nobody before.
func TestToldToWait(t *testing.T) {
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat)
	for _, tc := range []struct {
		code     int
		told     string
		attempts int
		heldFor  time.Duration // 0: it fits
	}{
		{429, "0", 2, time.Second}, {429, "", 2, time.Second}, {429, "1", 2, 0}, {429, "1", 1, time.Second}, {429, "", 1, time.Second},
		{429, "30", 2, 30 * time.Second}, {503, "30", 2, 30 * time.Second}, {429, "86400", 2, time.Minute}, {429, tomorrow, 2, time.Minute},
	} {
		clock := testkit.NewClock(time.Now())
		f := newFixtureAt(t, clock, throttling(tc.code, tc.told, 1), func(c *Config) { c.Retry.Attempts = tc.attempts })
		if tc.heldFor == 0 {
			if _, err := f.Fetch(t.Context(), acme); err != nil || f.calls.Load() != 2 || f.metric(t, "retries_total", "throttled") != 1 {
				t.Errorf("%d %s: %v after %d requests", tc.code, tc.told, err, f.calls.Load())
			}
			continue
		}
		if e := failed(t, f, t.Context(), "unavailable", "throttled"); max(e.Wait, time.Second) != tc.heldFor || e.Refused() {
			t.Errorf("%d %s: %+v", tc.code, tc.told, e)
		}
		clock.Add(tc.heldFor - time.Millisecond)
		if e := failed(t, f, t.Context(), "unavailable", "held_back"); e.Wait != time.Second || !e.Refused() {
			t.Errorf("%d %s: %+v", tc.code, tc.told, e)
		}
		if f.calls.Load() != 1 || f.metric(t, "refused_total", "held_back") != 1 {
			t.Errorf("%d %s: asked %d times", tc.code, tc.told, f.calls.Load())
		}
		clock.Add(time.Millisecond)
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			t.Errorf("%d %s: %v when the time is over", tc.code, tc.told, err)
		}
	}
}

// One account's quota holds that account of that kind back, and three of them everybody.
func TestAQuotaHoldsItsAccount(t *testing.T) {
	f := newFixture(t, throttling(429, "30", 100))
	for _, step := range [][3]string{
		{"buyer", "acme", "throttled"}, {"buyer", "acme", "held_back"}, {"seller", "acme", "throttled"}, {"buyer", "globex", "throttled"},
		{"buyer", "globex", "held_back"}, {"buyer", "initech", "throttled"}, {"buyer", "umbrella", "held_back"}, {"seller", "umbrella", "throttled"},
	} {
		if _, err := f.Fetch(t.Context(), Request{Kind: step[0], Account: step[1]}); asError(err).Reason != step[2] {
			t.Errorf("%v: %v", step, err)
		}
	}
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

// An outage is in the log when it begins and when it is over, however many fetches fail
// meanwhile; what is one account's own is told once a minute.
func TestAnOutageIsTold(t *testing.T) {
	var broken atomic.Bool
	clock := testkit.NewClock(time.Now())
	f := newFixtureAt(t, clock, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case broken.Load():
			status(500)(w, r)
		case r.URL.Query().Get("customer") == "unknown":
			status(404)(w, r)
		default:
			serveJSON(emptyList)(w, r)
		}
	}, strict(1000))
	fetch := func(account string, n int) {
		for range n {
			_, _ = f.buyer(t, account)
			clock.Add(time.Second)
		}
	}
	broken.Store(true)
	fetch("acme", 117)
	broken.Store(false)
	fetch("acme", 3)
	fetch("unknown", 90)
	for want, texts := range map[int][]string{
		1: {"WARN", `begin to fail`, `"account":"acme","reason":"status_5xx","error":"legacy system: upstream (status_5xx): status 500"`},
		2: {"WARN", "reply.empty_statuses"},
	} {
		if f.logged(texts...) != want {
			t.Errorf("%q not %d times: %s", texts, want, f.log.String())
		}
	}
	if f.logged("begin to fail") != 1 || f.logged("INFO", `work again","kind":"buyer","failed":117`) != 1 {
		t.Error(f.log.String())
	}
}
