package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// outage is a program with many buyers, whose legacy system fails for accounts whose name begins so; with
// "" it fails for all, and with "-" for none. Its lists are kept for a second, so that they are soon asked for again.
type outage struct {
	*program
	fails    atomic.Pointer[string]
	requests atomic.Int64 // that have failed
}

func startOutage(t *testing.T, accounts ...string) *outage {
	o := &outage{}
	o.failFor("-")
	o.program = start(t, setup{
		yaml: "cache: {buyer: {ttl: 1s, stale_while_revalidate: 0s, stale_if_error: 0s}}",
		backend: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Query().Get("customer"), *o.fails.Load()) {
					o.requests.Add(1)
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, `{"result":{"items":[]}}`)
			})
		},
		prepare: func(p *program) {
			callers := make([]gatewaytest.Caller, 0, len(accounts))
			for _, account := range accounts {
				callers = append(callers, gatewaytest.Paid(legacy.KindBuyer, account, account))
			}
			p.writeKeys(callers...)
		},
	})
	return o
}

func (o *outage) failFor(prefix string) { o.fails.Store(&prefix) }

// ask asks for the lists of accounts in turn, one every so often, until stop is closed. told gets each status
// with the moment when the request began.
func (o *outage) ask(stop chan struct{}, accounts []string, every time.Duration, told func(began time.Time, status int)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		status := []string{"pending", "answered", "closed"}[i/len(accounts)%3]
		began := time.Now()
		resp, err := o.client.Do(o.request(http.MethodGet, "/api/v1/buyer/inquiries?status="+status, accounts[i%len(accounts)]))
		if err != nil {
			o.t.Error(err)
			return
		}
		_ = resp.Body.Close()
		told(began, resp.StatusCode)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// Accounts whose lists fail for good, and are asked for 27 times a second each, leave the others theirs.
func TestFailingAccountsHarmNoOthers(t *testing.T) {
	t.Parallel()
	for _, failing := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(failing, " of 11"), func(t *testing.T) {
			t.Parallel()
			var accounts []string
			for i := range 11 {
				accounts = append(accounts, fmt.Sprint(map[bool]string{true: "bad", false: "good"}[i < failing], i))
			}
			o := startOutage(t, accounts...)
			o.failFor("bad")
			stop := make(chan struct{})
			var all sync.WaitGroup
			var ok, other atomic.Int64
			for i, account := range accounts {
				all.Go(func() {
					if i < failing {
						o.ask(stop, []string{account}, time.Second/27, func(time.Time, int) {})
						return
					}
					o.ask(stop, []string{account}, time.Second/2, func(_ time.Time, status int) {
						if status == http.StatusOK {
							ok.Add(1)
						} else {
							other.Add(1)
						}
					})
				})
			}
			time.Sleep(12 * time.Second) // of asking
			close(stop)
			all.Wait()
			t.Logf("%d of %d healthy answers are 200; %d requests for failing accounts", ok.Load(), ok.Load()+other.Load(), o.requests.Load())
			if n := ok.Load() + other.Load(); n < 20 || float64(ok.Load()) < 0.95*float64(n) {
				t.Errorf("%d of %d healthy answers are 200", ok.Load(), n)
			}
			if n := o.requests.Load(); n > int64(8*failing) { // three, then one each open_for
				t.Errorf("%d requests for the failing accounts", n)
			}
		})
	}
}

// A legacy system that fails for all is asked hardly any more, and soon after it has recovered all lists come.
func TestAnOutageOfAll(t *testing.T) {
	testkit.SkipUnderRace(t)
	t.Parallel()
	for _, n := range []int{1, 6, 50, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			var accounts []string
			for i := range n {
				accounts = append(accounts, fmt.Sprint("a", i))
			}
			o := startOutage(t, accounts...)
			stop := make(chan struct{})
			var all sync.WaitGroup
			defer all.Wait()
			end := sync.OnceFunc(func() { close(stop) })
			defer end()
			var ok, failed, late atomic.Int64
			var back atomic.Pointer[time.Time] // from here on all lists come
			for range 4 {
				all.Go(func() {
					o.ask(stop, accounts, 100*time.Millisecond, func(began time.Time, status int) {
						at := back.Load()
						switch {
						case status == http.StatusOK:
							ok.Add(1)
						case failed.Add(1) > 0 && at != nil && began.After(*at):
							late.Add(1)
						}
					})
				})
			}
			o.eventually("lists come", func() bool { return ok.Load() >= 10 })
			o.failFor("")
			o.eventually("lists fail", func() bool { return failed.Load() > 0 })
			time.Sleep(15 * time.Second)
			before := o.requests.Load()
			time.Sleep(10 * time.Second)
			requests := o.requests.Load() - before
			t.Logf("%d requests in 10 s", requests)
			if most := min(4*n, 20); requests > int64(most) || requests == 0 {
				t.Errorf("%d requests in 10 s, want 1 to %d", requests, most)
			}
			o.failFor("-")
			time.Sleep(14 * time.Second) // two open_for and a timeout
			now := time.Now()
			back.Store(&now)
			came := ok.Load()
			o.eventually("lists come again", func() bool { return ok.Load() >= came+20 })
			end()
			all.Wait()
			if late.Load() > 0 {
				t.Errorf("%d requests without a list long after the recovery", late.Load())
			}
		})
	}
}

// Large replies of many accounts stay within upstream.max_total_response_bytes: what does not fit is refused with 503 and
// Retry-After, is no evidence for the breaker, and does not stop small lists of others.
func TestLargeRepliesOfMany(t *testing.T) {
	t.Parallel()
	const many, fit = 12, 3 // of 900 KiB in three quarters of 4 MiB
	gate := make(chan struct{})
	large := fmt.Sprintf(`{"result":{"items":[]},"more":%q}`, strings.Repeat("x", 900<<10))
	accounts := []string{"small"}
	for i := range many {
		accounts = append(accounts, fmt.Sprint("large", i))
	}
	p := start(t, setup{
		yaml:     "request_timeout: 2m",
		upstream: []string{"timeout: 2s", "timeout: 1m\n  max_response_bytes: 1MiB\n  max_total_response_bytes: 4MiB"},
		backend: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Get("customer") == "small" {
					_, _ = fmt.Fprint(w, `{"result":{"items":[]}}`)
					return
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(large)))
				_, _ = fmt.Fprint(w, large[:len(large)/2])
				_ = http.NewResponseController(w).Flush()
				select {
				case <-gate:
					_, _ = fmt.Fprint(w, large[len(large)/2:])
				case <-r.Context().Done():
				}
			})
		},
		prepare: func(p *program) {
			var callers []gatewaytest.Caller
			for _, account := range accounts {
				callers = append(callers, gatewaytest.Paid(legacy.KindBuyer, account, account))
			}
			p.writeKeys(callers...)
		},
	})
	p.client.Timeout = time.Minute
	answers := make(chan answer, many)
	for _, account := range accounts[1:] {
		go func() { answers <- p.get("/api/v1/buyer/inquiries", account) }()
	}
	for range many - fit {
		if a := <-answers; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("beyond the bound: status %d, %v", a.status, a.header)
		}
	}
	if a := p.get("/api/v1/buyer/inquiries", "small"); a.status != http.StatusOK {
		t.Errorf("a small list meanwhile: status %d", a.status)
	}
	close(gate)
	for range fit {
		if a := <-answers; a.status != http.StatusOK {
			t.Errorf("within the bound: status %d", a.status)
		}
	}
	for _, account := range []string{"small", "large0"} { // nothing is held any more
		if a := p.get("/api/v1/buyer/inquiries?status=pending", account); a.status != http.StatusOK {
			t.Errorf("afterwards, %s: status %d", account, a.status)
		}
	}
}
