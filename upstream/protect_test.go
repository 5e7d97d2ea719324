package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/testkit"
)

func TestBreakerOpens(t *testing.T) {
	f := newFixture(t, status(500), func(c *Config) {
		c.Breaker = BreakerConfig{Window: time.Hour, MinRequests: 4, FailureRatio: 0.5, OpenFor: time.Hour}
	})
	for range 4 {
		failed(t, f, t.Context(), "upstream", "status_5xx")
	}
	if f.BreakerState("buyer") != "open" || f.BreakerState("seller") != "closed" {
		t.Fatalf("buyer %s, seller %s", f.BreakerState("buyer"), f.BreakerState("seller"))
	}
	e := failed(t, f, t.Context(), "unavailable", "breaker_open")
	if e.Wait > time.Hour || e.Wait < 50*time.Minute || e.Wait%time.Second != 0 || f.calls.Load() != 4 {
		t.Errorf("retry after %v, %d calls", e.Wait, f.calls.Load())
	}
	if f.metric(t, "breaker_state", "buyer") != 2 || f.metric(t, "breaker_transitions_total", "buyer", "open") != 1 {
		t.Error("metrics do not show it")
	}
}

func TestBreakerRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := BreakerConfig{Window: 10 * time.Second, MinRequests: 4, FailureRatio: 0.5, OpenFor: 5 * time.Second}
		b := newBreaker("buyer", Config{Breaker: cfg}, newFixtureMetrics(), Options{}.withDefaults())
		try := func(result error) error {
			_, err := b.do(t.Context(), func() (List, error) { return List{}, result })
			return err
		}
		bad := &Error{Kind: KindTimeout, Reason: "timeout"}
		state := func(want string) {
			t.Helper()
			if got := b.cb.State().String(); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		for range 3 {
			_ = try(bad)
		}
		time.Sleep(11 * time.Second) // out of the window
		_ = try(bad)
		state("closed")
		for range 3 {
			_ = try(bad)
		}
		state("open")
		time.Sleep(1500 * time.Millisecond)
		if e := asError(try(nil)); e.Reason != "breaker_open" || e.Wait != 4*time.Second {
			t.Errorf("got %v, retry after %v", e, e.Wait)
		}
		time.Sleep(4 * time.Second)
		state("half-open")
		_ = try(bad)
		state("open")
		time.Sleep(6 * time.Second)
		if _, err := b.do(t.Context(), func() (List, error) {
			if e := asError(try(nil)); e.Reason != "breaker_open" || e.Wait != time.Second {
				t.Errorf("a second probe at the same time: %v", e)
			}
			return List{}, nil
		}); err != nil {
			t.Errorf("the probe: %v", err)
		}
		state("closed")
	})
}

// waitFor polls until a state that another goroutine's clock brings about.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("never happened")
		}
	}
}

func TestBreakerCounts(t *testing.T) {
	section := func(c *Config) {
		c.Breaker.MinRequests, c.Timeout = 2, 20*time.Millisecond
	}
	for _, tc := range []struct {
		name   string
		serve  http.HandlerFunc
		reason string
		fail   string
		state  string
	}{
		{"4xx is no failure", status(404), "status_4xx", "upstream", "closed"},
		{"garbage is no failure", serveJSON("<html>"), "json", "invalid", "closed"},
		{"our deadline is one", hang(""), "timeout", "timeout", "open"},
		{"5xx is one", status(500), "status_5xx", "upstream", "open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.serve, func(c *Config) {
				section(c)
				if tc.fail != "timeout" {
					c.Timeout = 5 * time.Second
				}
			})
			for range 2 {
				failed(t, f, t.Context(), tc.fail, tc.reason)
			}
			if f.BreakerState("buyer") != tc.state {
				t.Errorf("the breaker is %s", f.BreakerState("buyer"))
			}
		})
	}
}

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
		{errors.New("of another package"), unknown},
	} {
		if got := verdictOf(tc.err); got != tc.want {
			t.Errorf("%v: verdict %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestCallerWhoLeavesCountsForNothing(t *testing.T) {
	arrived := make(chan struct{}, 8)
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	}, func(c *Config) { c.Breaker.MinRequests = 1 })
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		failed(t, f, ctx, "canceled", "canceled")
	}
	if f.BreakerState("buyer") != "closed" || f.metric(t, "requests_total", "canceled") != 3 {
		t.Errorf("the breaker is %s", f.BreakerState("buyer"))
	}
}

func TestCanceledProbeDoesNotStick(t *testing.T) {
	var calls atomic.Int64
	arrived := make(chan struct{})
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			status(500)(w, r)
		case 2:
			close(arrived)
			<-r.Context().Done()
		default:
			serveJSON(`{"result":{"items":[]}}`)(w, r)
		}
	}, func(c *Config) { c.Breaker.MinRequests, c.Breaker.OpenFor = 1, time.Millisecond })
	failed(t, f, t.Context(), "upstream", "status_5xx")
	waitFor(t, func() bool { return f.BreakerState("buyer") == "half-open" })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	failed(t, f, ctx, "canceled", "canceled")
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Errorf("the next probe was not let through: %v", err)
	}
}

func TestRetryUntilGood(t *testing.T) {
	for _, code := range []int{502, 503} {
		var calls atomic.Int64
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				status(code)(w, r)
				return
			}
			serveJSON(`{"result":{"items":[]}}`)(w, r)
		}, nil)
		if _, err := f.Fetch(t.Context(), acme); err != nil || calls.Load() != 2 || f.metric(t, "retries_total") != 1 {
			t.Errorf("%d: %v after %d calls", code, err, calls.Load())
		}
	}
}

// attempts runs the repeats of n requests that all end in the same way, and counts how
// often they are sent.
func attempts(t *testing.T, ctx context.Context, e endpoint, retry RetryConfig, n int, r reply, failed *Error) (sent int) {
	s := &Source{endpoint: e, cfg: Config{Retry: retry}, opts: Options{}.withDefaults(), metrics: newFixtureMetrics()}
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

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		down := &Error{Kind: KindFailed, Reason: "status_5xx"}
		if extra := attempts(t, t.Context(), newEndpoint(nil), RetryConfig{4, 0.1}, n, reply{status: 503}, down) - n; extra > n/10+budgetBurst || extra < n/10 {
			t.Errorf("%d repeats for %d requests", extra, n)
		}
		if sent := attempts(t, t.Context(), newEndpoint(nil), RetryConfig{4, 0}, n, reply{status: 503}, down); sent != n {
			t.Errorf("%d requests without a budget", sent)
		}
		// What the ceiling keeps back never reaches the legacy, and earns no repeat of what does.
		e := newEndpoint(nil)
		e.budget.tokens = 0
		attempts(t, t.Context(), e, RetryConfig{2, 0.1}, 100, reply{}, notAsked(reasonCeiling, 0, "no token"))
		if e.budget.withdraw(0.1) {
			t.Error("100 requests that were never sent have earned a repeat")
		}
	})
}

func TestRetryStaysInTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if sent := attempts(t, ctx, newEndpoint(nil), RetryConfig{50, 1}, 1, reply{}, &Error{Kind: KindFailed, Reason: "connect"}); sent < 2 || sent > 20 {
			t.Errorf("%d attempts", sent)
		}
	})
}

func TestBulkhead(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		serveJSON(`{"result":{"items":[]}}`)(w, r)
	}, func(c *Config) { c.MaxConcurrent, c.MaxConcurrentPerAccount = 2, 2 })
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := f.Fetch(t.Context(), acme); err != nil {
				t.Error(err)
			}
		})
		<-arrived
	}
	_, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "globex"})
	e := asError(err)
	if e.Reason != "bulkhead_full" || e.Kind != KindNotAsked || f.metric(t, "refused_total", "buyer", "bulkhead_full") != 1 {
		t.Errorf("got %v", e)
	}
	if e.Wait != time.Second || f.metric(t, "in_flight") != 2 {
		t.Errorf("retry after %v with %v in flight", e.Wait, f.metric(t, "in_flight"))
	}
	close(release)
	wg.Wait()
	if f.BreakerState("buyer") != "closed" {
		t.Error("a full bulkhead counts against the legacy")
	}
}

func TestAnAccountHasAQuarterOfTheBulkhead(t *testing.T) {
	arrived, release := make(chan struct{}, 16), make(chan struct{})
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		serveJSON(`{"result":{"items":[]}}`)(w, r)
	}, func(c *Config) { c.MaxConcurrent, c.Breaker.MinRequests = 8, 1 })
	var wg sync.WaitGroup
	fetch := func(account string) {
		wg.Go(func() {
			if _, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: account}); err != nil {
				t.Error(err)
			}
		})
		<-arrived
	}
	fetch("acme")
	fetch("acme")
	for range 3 {
		if e := failed(t, f, t.Context(), "unavailable", "account_bulkhead_full"); e.Wait != time.Second {
			t.Errorf("%v, retry after %v", e, e.Wait)
		}
	}
	if n := f.metric(t, "refused_total", "buyer", "account_bulkhead_full"); n != 3 {
		t.Errorf("%v refusals counted, want 3", n)
	}
	for _, other := range []string{"a", "b", "c", "a", "b", "c"} { // all of the six places that are left
		fetch(other)
	}
	close(release)
	wg.Wait()
	if f.BreakerState("buyer") != "closed" {
		t.Error("an account with too much under way counts against the legacy")
	}
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Errorf("after its fetches have ended: %v", err)
	}
	if n := len(f.sources["buyer"].bulkhead.accounts); n != 0 {
		t.Errorf("%d accounts are held with nothing under way", n)
	}
}

func TestAnAccountsPart(t *testing.T) {
	for _, tc := range []struct{ all, one, want int }{{64, 0, 16}, {3, 0, 1}, {64, 64, 64}, {64, 1, 1}} {
		if got := (&Config{MaxConcurrent: tc.all, MaxConcurrentPerAccount: tc.one}).perAccount(); got != tc.want {
			t.Errorf("%d of %d: %d, want %d", tc.one, tc.all, got, tc.want)
		}
	}
}

// newFixtureMetrics gives an endpoint's series without an endpoint.
func newFixtureMetrics() *metrics { return newMetrics(nil, "buyer", nil) }

// A client that takes the place of another goes on with what is known of the
// legacy, as long as the configuration leaves it as it is.
func TestSuccessorKeepsTheBreaker(t *testing.T) {
	f := newFixture(t, status(500), func(c *Config) { c.Breaker.MinRequests, c.Breaker.OpenFor = 1, time.Hour })
	failed(t, f, t.Context(), "upstream", "status_5xx")
	for _, tc := range []struct {
		openFor time.Duration
		state   string
		gauge   float64
	}{{time.Hour, "open", 2}, {2 * time.Hour, "closed", 0}} {
		cfg := f.cfg
		cfg.Breaker.OpenFor = tc.openFor
		next, err := New(cfg, Options{Registerer: f.reg, Before: f.Client})
		if err != nil {
			t.Fatal(err)
		}
		if next.BreakerState("buyer") != tc.state || f.metric(t, "breaker_state", "buyer") != tc.gauge || !f.GoesOnIn(next) {
			t.Errorf("%v: %s, the gauge says %v", tc.openFor, next.BreakerState("buyer"), f.metric(t, "breaker_state", "buyer"))
		}
	}
}

// An outage is in the log when it begins and when it is over, however many fetches fail
// meanwhile; what is one account's own is told once a minute.
func TestAnOutageIsTold(t *testing.T) {
	var broken atomic.Int64
	clock := testkit.NewClock(time.Now())
	f := newFixtureAt(t, clock, func(w http.ResponseWriter, r *http.Request) {
		switch account := r.URL.Query().Get("customer"); {
		case broken.Load() > 0:
			status(int(broken.Load()))(w, r)
		case account == "unknown":
			status(404)(w, r)
		default:
			serveJSON(`{"result":{"items":[]}}`)(w, r)
		}
	}, func(c *Config) { c.Breaker.MinRequests = 1000 })
	fetch := func(account string, n int) {
		for range n {
			_, _ = f.Fetch(t.Context(), Request{Kind: "buyer", Account: account})
			clock.Add(time.Second)
		}
	}
	told := func(what string, level string, want int) {
		t.Helper()
		n := 0
		for line := range strings.Lines(f.log.String()) {
			if strings.Contains(line, `"level":"`+level+`"`) && strings.Contains(line, what) {
				n++
			}
		}
		if n != want {
			t.Errorf("%q %d times, want %d: %s", what, n, want, f.log.String())
		}
	}
	broken.Store(500)
	fetch("acme", 117)
	told("begin to fail", "WARN", 1)
	told(`"account":"acme","reason":"status_5xx","error":"legacy system: upstream (status_5xx): status 500"`, "WARN", 1)
	broken.Store(0)
	fetch("acme", 3)
	told(`work again","kind":"buyer","failed":117`, "INFO", 1)
	fetch("unknown", 90)
	told("reply.empty_statuses", "WARN", 2)
	told("begin to fail", "WARN", 1)
}
