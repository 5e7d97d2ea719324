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
	"inquiry-gateway/upstream/fleet"
)

func TestBreakerOpens(t *testing.T) {
	f := newFixture(t, status(500), func(c *Config) {
		c.Breaker = BreakerConfig{Window: time.Hour, MinRequests: 4, FailureRatio: 0.5, OpenFor: time.Hour}
	})
	for range 4 {
		failed(t, f, t.Context(), FailureUpstream, "status_5xx")
	}
	if f.BreakerState("buyer") != "open" || f.BreakerState("seller") != "closed" {
		t.Fatalf("buyer %s, seller %s", f.BreakerState("buyer"), f.BreakerState("seller"))
	}
	e := failed(t, f, t.Context(), FailureUnavailable, "breaker_open")
	if e.RetryAfter > time.Hour || e.RetryAfter < 50*time.Minute || e.RetryAfter%time.Second != 0 || f.calls.Load() != 4 {
		t.Errorf("retry after %v, %d calls", e.RetryAfter, f.calls.Load())
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
			_, err := b.do(t.Context(), func() (answer, error) { return answer{}, result })
			return err
		}
		bad := &Error{Failure: FailureTimeout, Reason: "timeout"}
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
		if e := asError(try(nil)); e.Reason != "breaker_open" || e.RetryAfter != 4*time.Second {
			t.Errorf("got %v, retry after %v", e, e.RetryAfter)
		}
		time.Sleep(4 * time.Second)
		state("half-open")
		_ = try(bad)
		state("open")
		time.Sleep(6 * time.Second)
		if _, err := b.do(t.Context(), func() (answer, error) {
			if e := asError(try(nil)); e.Reason != "breaker_open" || e.RetryAfter != time.Second {
				t.Errorf("a second probe at the same time: %v", e)
			}
			return answer{}, nil
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
		fail   Failure
		state  string
	}{
		{"4xx is no failure", status(404), "status_4xx", FailureUpstream, "closed"},
		{"garbage is no failure", serveJSON("<html>"), "json", FailureInvalid, "closed"},
		{"our deadline is one", hang(""), "timeout", FailureTimeout, "open"},
		{"5xx is one", status(500), "status_5xx", FailureUpstream, "open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.serve, func(c *Config) {
				section(c)
				if tc.fail != FailureTimeout {
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

// One judge serves the breaker and the cache's back-off.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want verdict
	}{
		{nil, answers},
		{&Error{Failure: FailureTimeout, Reason: "timeout"}, fails},
		{&Error{Failure: FailureUpstream, Reason: "connect"}, fails},
		{&Error{Failure: FailureUpstream, Reason: "truncated"}, fails},
		{&Error{Failure: FailureUpstream, Reason: "status_5xx"}, fails},
		{&Error{Failure: FailureUpstream, Reason: "status_4xx"}, answers},
		{invalidReply("too_many", "of them"), answers},
		{&Error{Failure: FailureUpstream, Reason: "auth"}, unknown},
		{&Error{Failure: FailureUpstream, Reason: "account"}, unknown},
		{&Error{Failure: FailureUpstream, Reason: "internal"}, unknown},
		{&Error{Failure: FailureUnavailable, Reason: "bulkhead_full"}, unknown},
		{&Error{Failure: FailureCanceled, Reason: "canceled"}, unknown},
		{errors.New("of another package"), unknown},
	} {
		if got := judge(tc.err); got != tc.want {
			t.Errorf("%v: verdict %d, want %d", tc.err, got, tc.want)
		}
		if e, ok := tc.err.(*Error); ok && e.EndpointFault() != (tc.want == fails) {
			t.Errorf("%v: endpoint's fault %t", e, e.EndpointFault())
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
		failed(t, f, ctx, FailureCanceled, "canceled")
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
	failed(t, f, t.Context(), FailureUpstream, "status_5xx")
	waitFor(t, func() bool { return f.BreakerState("buyer") == "half-open" })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	failed(t, f, ctx, FailureCanceled, "canceled")
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

func TestRetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		e := &endpoint{budget: newBudget(0.1), attempts: 4, metrics: newFixtureMetrics()}
		calls := 0
		for range n {
			_, _ = e.retried(t.Context(), func() (answer, error) {
				calls++
				return answer{}, &Error{Failure: FailureUpstream, Reason: "status_5xx", Err: statusError(503)}
			})
		}
		if extra := calls - n; extra > n/10+budgetBurst || extra < n/10 {
			t.Errorf("%d repeats for %d requests", extra, n)
		}
	})
}

// TestTheCeilingPaysForNoRepeat: what the ceiling keeps back never reaches the legacy
// system, and earns no repeat of what does.
func TestTheCeilingPaysForNoRepeat(t *testing.T) {
	e := &endpoint{budget: newBudget(0.1), attempts: 2, metrics: newFixtureMetrics()}
	for e.budget.withdraw() {
	}
	for range 100 {
		_, _ = e.retried(t.Context(), func() (answer, error) {
			return answer{}, &Error{Failure: FailureUnavailable, Reason: reasonCeiling, Err: fleet.ErrCeiling}
		})
	}
	if e.budget.withdraw() {
		t.Error("100 requests that were never sent have earned a repeat")
	}
}

func TestRetryStaysInTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{budget: newBudget(1), attempts: 50, metrics: newFixtureMetrics()}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		calls := 0
		_, err := e.retried(ctx, func() (answer, error) {
			calls++
			return answer{}, &Error{Failure: FailureUpstream, Reason: "connect"}
		})
		if err == nil || ctx.Err() != nil || calls < 2 || calls > 20 {
			t.Errorf("%d calls, %v, context %v", calls, err, ctx.Err())
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
	if e.Reason != "bulkhead_full" || e.Failure != FailureUnavailable || f.metric(t, "refused_total", "buyer", "bulkhead_full") != 1 {
		t.Errorf("got %v", e)
	}
	if e.RetryAfter != time.Second || f.metric(t, "in_flight") != 2 {
		t.Errorf("retry after %v with %v in flight", e.RetryAfter, f.metric(t, "in_flight"))
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
		if e := failed(t, f, t.Context(), FailureUnavailable, "account_bulkhead_full"); e.RetryAfter != time.Second {
			t.Errorf("%v, retry after %v", e, e.RetryAfter)
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
	if n := len(f.bulkhead.accounts); n != 0 {
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
	failed(t, f, t.Context(), FailureUpstream, "status_5xx")
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
