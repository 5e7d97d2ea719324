package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// waysToFail are those of a legacy system, by the reason that the caller is told.
var waysToFail = []struct {
	reason string
	serve  http.HandlerFunc
	fault  bool // the system's, by this reply
}{
	{"status_5xx", status(500), true},
	{"timeout", hang, true},
	{"truncated", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}, true},
	{"truncated", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	{"json", serveJSON("<html>"), false},
	{"owner", serveJSON(`{"rows":[{"of":"stranger","t":"a",` + good + `}]}`), false},
	{"denied", status(401), false}, // a sign-in is refused by this, or has ended
	{"denied", status(403), false},
}

// seen collects what the accounts of a test are told.
type seen struct {
	sync.WaitGroup
	mu   sync.Mutex
	told map[string][]string
}

// ask asks for an account's list every so often, without waiting for its answer, until ctx
// of the test or the given time ends.
func (s *seen) ask(t *testing.T, f *fixture, who string, after, every, until time.Duration) {
	kind, account, _ := strings.Cut(who, ":")
	s.Go(func() {
		time.Sleep(after)
		for at := after; at < until; at += every {
			s.Go(func() {
				reason := "ok"
				if _, err := f.Fetch(t.Context(), Request{Kind: kind, Account: account}); err != nil {
					reason = asError(err).Reason
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if !slices.Contains(s.told[who], reason) {
					s.told[who] = append(s.told[who], reason)
				}
			})
			time.Sleep(every)
		}
	})
}

// A system that fails for all is soon not asked any more, however many ask.
func TestTheBreakerOpensSoon(t *testing.T) {
	for _, accounts := range []int{1, 2, 3, 50} {
		for _, way := range waysToFail {
			if !way.fault {
				continue
			}
			var down atomic.Bool
			virtual(t, func(w http.ResponseWriter, r *http.Request) {
				if down.Load() {
					way.serve(w, r)
					return
				}
				serveJSON(rows(""))(w, r)
			}, "attempts: 1", func(t *testing.T, f *fixture) {
				s := &seen{told: map[string][]string{}}
				for i := range accounts {
					s.ask(t, f, fmt.Sprintf("buyer:a%d", i), time.Duration(i)*time.Second/5, time.Second/5*time.Duration(accounts), time.Minute)
				}
				time.Sleep(20 * time.Second) // all of them work
				down.Store(true)
				time.Sleep(BreakerWindow + f.cfg.Timeout)
				if f.BreakerState("buyer", "a0") == "closed" {
					t.Errorf("%d accounts, %s: closed after %v", accounts, way.reason, BreakerWindow+f.cfg.Timeout)
				}
				before := f.calls.Load()
				time.Sleep(20 * time.Second)
				if n := f.calls.Load() - before; n > 22 { // five in each open_for
					t.Errorf("%d accounts, %s: %d requests in 20s", accounts, way.reason, n)
				}
				down.Store(false)
				time.Sleep(8 * time.Second) // the end of a probe, open_for and the next one
				if f.BreakerState("buyer", "") != "closed" {
					t.Errorf("%d accounts, %s: %s when the system works", accounts, way.reason, f.BreakerState("buyer", ""))
				}
				s.Wait()
			})
		}
	}
}

// A list that began before the breaker opened says nothing any more, whether it comes before or
// after a probe that failed.
func TestALateListClosesNothing(t *testing.T) {
	for _, late := range []string{"acme", "other"} {
		for _, takes := range []time.Duration{time.Second, 6 * time.Second} {
			down := false
			virtual(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !down:
					time.Sleep(takes)
					serveJSON(rows(""))(w, r)
				default:
					status(500)(w, r)
				}
			}, "{timeout: 10s, attempts: 1, breaker: {min_requests: 1, open_for: 5s}}", func(t *testing.T, f *fixture) {
				var under sync.WaitGroup
				under.Go(func() {
					if got := buyer(t, f.Client, late); got != "ok" {
						t.Errorf("the late list: %s", got)
					}
				})
				synctest.Wait()
				down = true
				_ = buyer(t, f.Client, "acme")
				time.Sleep(5 * time.Second)
				_ = buyer(t, f.Client, "acme") // the probe
				under.Wait()
				if strings.Contains(f.log.String(), `"to":"closed"`) {
					t.Errorf("a late list of %s, which took %v, closed the breaker: %s", late, takes, f.log.String())
				}
			})
		}
	}
}

// A fifth of open_for after the breaker opened, an account that has not failed may probe. One that has
// failed waits for the whole of it, so that it does not keep the breaker open for the others.
func TestFailedAccountsProbeLast(t *testing.T) {
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("customer") == "acme" {
			status(500)(w, r)
			return
		}
		serveJSON(rows(""))(w, r)
	}, "{attempts: 1, breaker: {min_requests: 1, open_for: 5s}}", func(t *testing.T, f *fixture) {
		_ = buyer(t, f.Client, "acme")
		time.Sleep(2 * time.Second)
		_, err := f.Fetch(t.Context(), acme)
		if e := asError(err); e.Reason != "breaker_open" || e.Wait != 3*time.Second || f.calls.Load() != 1 {
			t.Errorf("the account that failed: %v after %d requests", err, f.calls.Load())
		}
		if got := buyer(t, f.Client, "other"); got != "ok" || f.BreakerState("buyer", "") != "closed" {
			t.Errorf("an account that has not failed: %s, the breaker is %s", got, f.BreakerState("buyer", ""))
		}
		if got := buyer(t, f.Client, "acme"); got != "status_5xx" {
			t.Errorf("the account that failed, once the breaker is closed: %s", got)
		}
	})
}

// Lists of one account that hang leave places to the others, of either kind and of the same name.
func TestHangingListsLeavePlaces(t *testing.T) {
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("customer") == "acme" {
			hang(w, r)
			return
		}
		serveJSON(rows(""))(w, r)
	}, "{max_concurrent: 4, attempts: 1}", func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { _ = buyer(t, f.Client, "acme") })
		}
		synctest.Wait()
		_, err := f.Fetch(t.Context(), Request{Kind: "seller", Account: "acme"})
		if got := buyer(t, f.Client, "other"); got != "ok" || err != nil {
			t.Errorf("another account: %s; a seller of the same name: %v", got, err)
		}
		all.Wait()
	})
}

// A gauge tells of the breaker that is asked, whatever a client before it still meets.
func TestTheGaugeIsThePresentBreakers(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"the same":           func(*Config) {},
		"another mapping":    func(c *Config) { c.MaxRecords++ },
		"another open_for":   func(c *Config) { c.Breaker.OpenFor *= 2 },
		"another system":     func(c *Config) { c.BaseURL += "/" },
		"without the buyers": func(c *Config) { c.Buyer = DefaultConfig().Buyer },
	} {
		virtual(t, hang, "{attempts: 1, breaker: {min_requests: 1}}", func(t *testing.T, f *fixture) {
			var before sync.WaitGroup
			before.Go(func() { _ = buyer(t, f.Client, "acme") })
			synctest.Wait()
			cfg := f.cfg
			change(&cfg)
			next := f.next(t, cfg)
			before.Wait()
			states := map[string]float64{"closed": 0, "half-open": 1, "open": 2, "": 0}
			for range 2 {
				if got := f.metric(t, "breaker_state", "buyer"); got != states[next.BreakerState("buyer", "")] {
					t.Errorf("%s: the gauge says %v, the breaker is %s", name, got, next.BreakerState("buyer", ""))
				}
				time.Sleep(cfg.Breaker.OpenFor)
			}
		})
	}
}

// What fails again and again is in the log once a minute, however many fetches there are.
func TestFailingListsDoNotFloodTheLog(t *testing.T) {
	wrong := `{"rows":[{"of":"acme","t":"a","s":"unknown","at":"2026-01-02T03:04:05Z"}]}`
	ways := map[string]http.HandlerFunc{"invalid records": serveJSON(wrong)}
	for _, way := range waysToFail {
		ways[way.reason] = way.serve
	}
	for name, serve := range ways {
		for _, policy := range []string{"fail", "skip"} {
			virtual(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("customer") == "acme" {
					serve(w, r)
					return
				}
				serveJSON(rows(""))(w, r)
			}, "{attempts: 1, buyer: {owner: of, on_invalid_record: "+policy+"}}", func(t *testing.T, f *fixture) {
				for range 600 { // for a minute
					_, _ = buyer(t, f.Client, "acme"), buyer(t, f.Client, "other")
					time.Sleep(100 * time.Millisecond)
				}
				if n := strings.Count(f.log.String(), "\n"); n < 1 || n > 6 && name != "timeout" || n > 60 {
					t.Errorf("%s, %s: %d records: %.2000s", name, policy, n, f.log.String())
				}
			})
		}
	}
}

// A fetch that takes longer than a breaker window counts all the same.
func TestSlowFailuresCount(t *testing.T) {
	for _, timeout := range []string{"9s", "12s"} {
		virtual(t, hang, "{attempts: 1, timeout: "+timeout+", max_concurrent: 1000}", func(t *testing.T, f *fixture) {
			s := &seen{told: map[string][]string{}}
			for i := range 200 {
				s.ask(t, f, fmt.Sprintf("buyer:a%d", i), time.Duration(i)*time.Second/20, 10*time.Second, 2*time.Minute)
			}
			time.Sleep(60 * time.Second)
			before := f.calls.Load()
			time.Sleep(20 * time.Second)
			if n := f.calls.Load() - before; n > 20 { // 400 were asked for
				t.Errorf("timeout %s: %d requests in 20 s, the breaker is %s", timeout, n, f.BreakerState("buyer", ""))
			}
			s.Wait()
		})
	}
}
