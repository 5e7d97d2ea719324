package upstream

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/testkit/redistest"
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

// of gives what an account was told, sorted.
func (s *seen) of(who string) string {
	slices.Sort(s.told[who])
	return strings.Join(s.told[who], " ")
}

// Who fails, and how, and what the others see: an account that asks all the time, one that
// comes for the first time when the failure has lasted, and the other kind's. Ourselves are the
// gateway's own sign-in, whose failure says nothing of any list.
func TestWhoFailsAndWhatOthersSee(t *testing.T) {
	const loud, active, newcomer, seller = "buyer:acme", "buyer:active", "buyer:newcomer", "seller:acme"
	fails := map[string]func(*http.Request) bool{
		"one account": func(r *http.Request) bool { return r.URL.Query().Get("customer") == "acme" },
		"one kind":    func(r *http.Request) bool { return r.URL.Path == "/list" },
		"all":         func(r *http.Request) bool { return r.URL.Path != "/login" },
		"ourselves":   func(r *http.Request) bool { return r.URL.Path == "/login" },
	}
	const keys = `{attempts: 1, buyer: {owner: of}, seller: {owner: of},
		auth: {type: session, password_file: f, login: {path: /login, body: ["{password}"]}, token: token}}`
	for who, failing := range fails {
		for _, way := range waysToFail {
			how := way.reason
			if who == "ourselves" {
				way.reason, way.fault = "auth", false
			}
			for _, others := range []bool{true, false} {
				name := fmt.Sprintf("%s fails with %s, others active: %t", who, how, others)
				serve := func(w http.ResponseWriter, r *http.Request) {
					switch {
					case failing(r):
						way.serve(w, r)
					case r.URL.Path == "/login":
						serveJSON(`{"token":"always the same"}`)(w, r)
					default:
						serveJSON(rows(""))(w, r)
					}
				}
				virtual(t, serve, keys, func(t *testing.T, f *fixture) {
					s := &seen{told: map[string][]string{}}
					s.ask(t, f, loud, 0, 200*time.Millisecond, 40*time.Second)
					if others {
						s.ask(t, f, active, 50*time.Millisecond, time.Second, 40*time.Second)
					}
					s.ask(t, f, newcomer, 32550*time.Millisecond, time.Minute, 40*time.Second)
					s.ask(t, f, seller, 70*time.Millisecond, 250*time.Millisecond, 40*time.Second)
					s.Wait()
					if n := f.metric(t, "sign_ins_total", "ok") + f.metric(t, "sign_ins_total", "error"); n > 10 {
						t.Errorf("%s: %v sign-ins in 40s", name, n)
					}
					alone := who == "one account"
					held := way.fault && !(alone && others) // by the breaker
					for observer, want := range map[string]struct {
						fails, held bool
					}{
						loud:     {true, held},
						active:   {!alone, held},
						newcomer: {!alone, held && !alone},
						seller:   {who == "all" || who == "ourselves", held && who == "all"},
					} {
						got, allowed := s.of(observer), []string{"ok"}
						switch {
						case observer == active && !others:
							allowed = []string{""}
						case want.held && observer == newcomer && others: // it comes once
							allowed = []string{"breaker_open"}
						case want.held && observer == newcomer: // the one other account shows nothing of the system yet
							allowed = []string{way.reason}
						case want.held:
							allowed = []string{"breaker_open " + way.reason, way.reason + " breaker_open"}
						case want.fails:
							allowed = []string{way.reason}
						}
						full := strings.TrimSpace(strings.ReplaceAll(" "+got, " account_bulkhead_full", ""))
						if observer == loud && (way.reason == "timeout" || way.reason == "auth") {
							got = full // lists that hang, of which each has a place
						}
						if !slices.Contains(allowed, got) {
							t.Errorf("%s: %s is told %q, want %q", name, observer, got, allowed)
						}
					}
				})
			}
		}
	}
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
				if f.BreakerState("buyer", "") == "closed" {
					t.Errorf("%d accounts, %s: closed after %v", accounts, way.reason, BreakerWindow+f.cfg.Timeout)
				}
				before := f.calls.Load()
				time.Sleep(20 * time.Second)
				if n := f.calls.Load() - before; n > 10 { // two in each open_for
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

// After an outage of all, the list of the one account that goes on failing keeps nobody
// from being asked for: its probe says nothing about them.
func TestAFailingProbeHoldsItsAccountAlone(t *testing.T) {
	down := true
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		if down || r.URL.Query().Get("customer") == "acme" {
			status(500)(w, r)
			return
		}
		serveJSON(rows(""))(w, r)
	}, "attempts: 1", func(t *testing.T, f *fixture) {
		for range 20 {
			_, _ = buyer(t, f.Client, "acme"), buyer(t, f.Client, "other")
		}
		down = false
		for range 3 {
			time.Sleep(f.cfg.Breaker.OpenFor)
			if got := buyer(t, f.Client, "acme"); got != "status_5xx" {
				t.Errorf("the probe: %s", got)
			}
			if got := buyer(t, f.Client, "acme"); got != "breaker_open" {
				t.Errorf("the account of the probe: %s", got)
			}
		}
		if got := buyer(t, f.Client, "other"); got != "ok" || f.BreakerState("buyer", "") != "closed" {
			t.Errorf("another account: %s, %s", got, f.BreakerState("buyer", ""))
		}
	})
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

// silentRedis answers nothing as long as it is waited for.
type silentRedis struct{ redis.Cmdable }

func (silentRedis) SetNX(ctx context.Context, _ string, _ any, _ time.Duration) *redis.BoolCmd {
	<-ctx.Done()
	return redis.NewBoolResult(false, ctx.Err())
}

func (silentRedis) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	<-ctx.Done()
	return redis.NewCmdResult(nil, ctx.Err())
}

// A probe does not wait for a Redis that does not answer: it is made without.
func TestTheProbeDoesNotWaitForRedis(t *testing.T) {
	down := true
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		if down {
			status(500)(w, r)
			return
		}
		serveJSON(rows(""))(w, r)
	}, "{attempts: 1, breaker: {min_requests: 1}}", func(t *testing.T, f *fixture) {
		c := f.another(t, f.cfg, func(o *Options) { o.Redis = silentRedis{} })
		_ = buyer(t, c, "acme")
		down = false
		time.Sleep(f.cfg.Breaker.OpenFor + time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Fetch(ctx, acme); err != nil || c.BreakerState("buyer", "") != "closed" {
			t.Errorf("%v, the breaker is %s", err, c.BreakerState("buyer", ""))
		}
	})
}

// lockInRedis is a Redis that has the one key of a probe.
type lockInRedis struct {
	redis.Cmdable
	mu  sync.Mutex
	end time.Time
}

func (r *lockInRedis) SetNX(_ context.Context, _ string, _ any, life time.Duration) *redis.BoolCmd {
	r.mu.Lock()
	defer r.mu.Unlock()
	free := !time.Now().Before(r.end)
	if free {
		r.end = time.Now().Add(life)
	}
	return redis.NewBoolResult(free, nil)
}

func (r *lockInRedis) EvalSha(_ context.Context, _ string, _ []string, args ...any) *redis.Cmd {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = time.Now().Add(time.Duration(args[1].(int64)) * time.Millisecond)
	return redis.NewCmdResult(int64(1), nil)
}

// While a node probes with a list that takes longer than one request may, and for a while after
// a probe that has stopped all accounts, no other node probes.
func TestOneNodeProbes(t *testing.T) {
	for works, seconds := range map[bool]int{true: 5, false: 7} { // of a probe of 6 s, and a rest of 2 s
		down := true
		virtual(t, func(w http.ResponseWriter, r *http.Request) {
			page := r.URL.Query().Get("p")
			if !down {
				time.Sleep(1500 * time.Millisecond)
			}
			if down || page == "3" && !works {
				status(500)(w, r)
				return
			}
			serveJSON(rows(`,"pages":4`, "page "+page))(w, r)
		}, "{attempts: 1, breaker: {min_requests: 2, open_for: 5s}, buyer: {paging: {style: page, param: p, total_pages: pages, concurrency: 1}}}", func(t *testing.T, f *fixture) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var nodes [2]*Client
			fetch := func(node int, account string) string {
				if _, err := nodes[node].Fetch(ctx, Request{Kind: "buyer", Account: account}); err != nil {
					return asError(err).Reason
				}
				return "ok"
			}
			lock := &lockInRedis{}
			for i := range nodes {
				nodes[i] = f.another(t, f.cfg, func(o *Options) { o.Redis = lock })
				_, _ = fetch(i, "acme"), fetch(i, "other")
			}
			time.Sleep(5 * time.Second)
			if !works {
				_ = fetch(0, "acme") // the first probe that fails stops its own account alone
			}
			down = false
			var first sync.WaitGroup
			first.Go(func() {
				if got := fetch(0, "other"); (got == "ok") != works {
					t.Errorf("works %t: the first node's probe: %s", works, got)
				}
			})
			for range seconds {
				time.Sleep(time.Second)
				if got := fetch(1, "acme"); got != "breaker_open" {
					t.Errorf("works %t: the second node is let through: %s", works, got)
				}
			}
			first.Wait()
			time.Sleep(2 * time.Second)
			if got := fetch(1, "acme"); got == "breaker_open" {
				t.Errorf("works %t: after that the second node is not let through", works)
			}
		})
	}
}

// A probe releases its own lock, and not one that is another node's by then.
func TestAProbeReleasesItsOwnLockAlone(t *testing.T) {
	rdb := redistest.Start(t).Client()
	const key = "iq:probe:{buyer}"
	for _, other := range []string{"", "another node's"} {
		probing, down := false, true
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case down:
				status(500)(w, r)
				return
			case !probing:
			case other != "":
				rdb.Set(r.Context(), key, other, time.Minute)
			case rdb.Exists(r.Context(), key).Val() == 0:
				t.Error("the probe has no lock")
			}
			serveJSON(rows(""))(w, r)
		}, configFrom(t, section, "{attempts: 1, breaker: {min_requests: 1, open_for: 1ns}}"))
		c := f.another(t, f.cfg, func(o *Options) { o.Redis = rdb })
		_ = buyer(t, c, "acme")
		probing, down = true, false
		if got := buyer(t, c, "acme"); got != "ok" {
			t.Errorf("the probe: %s", got)
		}
		if got := rdb.Get(t.Context(), key).Val(); got != other {
			t.Errorf("after the probe the lock is %q, want %q", got, other)
		}
	}
}
