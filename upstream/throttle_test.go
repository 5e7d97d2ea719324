package upstream

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/internal/sample"
)

// throttling answers with a status and Retry-After so many times, then with a list.
func throttling(code int, retryAfter string, times int64) http.HandlerFunc {
	var asked atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= times {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			status(code)(w, r)
			return
		}
		serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
	}
}

// A legacy that tells to wait is asked again by the same fetch if that fits, and by
// nobody before.
func TestToldToWait(t *testing.T) {
	for _, tc := range []struct {
		code      int
		told      string
		attempts  int
		fits      bool
		heldFor   time.Duration // without a fit
		callsHeld int64
	}{
		{429, "0", 2, false, time.Second, 1},
		{429, "", 2, false, time.Second, 1},
		{429, "1", 2, true, 0, 0},
		{429, "1", 1, false, time.Second, 1},
		{429, "", 1, false, time.Second, 1},
		{429, "30", 2, false, 30 * time.Second, 1},
		{503, "30", 2, false, 30 * time.Second, 1},
		{429, "86400", 2, false, time.Minute, 1},
		{429, time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat), 2, false, time.Minute, 1},
	} {
		clock := testkit.NewClock(time.Now())
		f := newFixtureAt(t, clock, throttling(tc.code, tc.told, 1), func(c *Config) { c.Retry.Attempts = tc.attempts })
		if tc.fits {
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
		if f.calls.Load() != tc.callsHeld || f.metric(t, "refused_total", "held_back") != 1 {
			t.Errorf("%d %s: asked %d times", tc.code, tc.told, f.calls.Load())
		}
		clock.Add(time.Millisecond)
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			t.Errorf("%d %s: %v when the time is over", tc.code, tc.told, err)
		}
	}
}

// A 429 says that the legacy is up, a 503 that it is not.
func TestBreakerAndThrottling(t *testing.T) {
	for code, want := range map[int]string{429: "closed", 503: "open"} {
		clock := testkit.NewClock(time.Now())
		f := newFixtureAt(t, clock, throttling(code, "10", 100), func(c *Config) { c.Breaker.MinRequests = 3 })
		for range 3 {
			failed(t, f, t.Context(), "unavailable", "throttled")
			clock.Add(10 * time.Second)
		}
		if f.BreakerState("buyer") != want {
			t.Errorf("%d: the breaker is %s", code, f.BreakerState("buyer"))
		}
	}
}

// One kind that is held does not hold the other, and a client that takes the place of
// another goes on to wait.
func TestHoldIsOfOneKindAndOutlivesAReload(t *testing.T) {
	f := newFixture(t, throttling(429, "30", 100), nil)
	failed(t, f, t.Context(), "unavailable", "throttled")
	if _, err := f.Fetch(t.Context(), Request{Kind: "seller", Account: "acme"}); asError(err).Reason != "throttled" {
		t.Errorf("the other kind: %v", err)
	}
	cfg := f.cfg
	cfg.MaxRecords++
	next, err := New(cfg, Options{Before: f.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if _, err := next.Fetch(t.Context(), acme); asError(err).Reason != "held_back" {
		t.Errorf("after a reload: %v", err)
	}
}

// One account's quota holds that account back, and three of them everybody.
func TestAQuotaHoldsItsAccount(t *testing.T) {
	f := newFixture(t, throttling(429, "30", 100), nil)
	ask := func(account string) string {
		_, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: account})
		return asError(err).Reason
	}
	for _, tt := range [][2]string{
		{"acme", "throttled"}, {"acme", "held_back"}, {"globex", "throttled"}, {"globex", "held_back"},
		{"initech", "throttled"}, {"umbrella", "held_back"},
	} {
		if got := ask(tt[0]); got != tt[1] {
			t.Errorf("%s: %q, want %s", tt[0], got, tt[1])
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
