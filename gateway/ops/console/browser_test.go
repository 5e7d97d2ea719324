package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/internal/testkit/browser"
	"inquiry-gateway/upstream"
)

// served is a console on a real ops listener with a token, fed by hand. Its clock goes
// five seconds on with each state that the page asks for.
type served struct {
	*feed
	server *httptest.Server

	mu      sync.Mutex
	part    broken // while it is, the counters cannot be read
	trouble bool
	empty   bool // there is no traffic
	purged  []ops.PurgeRequest
	reached string // by a purge
	failing error  // of a purge
	n       int
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{feed: newFeed(t), part: broken{mended: true}}
	s.registry.MustRegister(&s.part)
	ages := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "cache_age_seconds", Help: "Fed.", Buckets: prometheus.ExponentialBuckets(.1, 2, 12)}, []string{"kind"})
	s.registry.MustRegister(ages)
	state := func() { // before each state
		s.mu.Lock()
		defer s.mu.Unlock()
		s.n++
		if s.empty {
			s.clock.Add(tickEvery)
			s.tick()
			return
		}
		for _, kind := range []string{"buyer", "seller"} {
			s.set("cache_lookups_total "+kind+" hit", 900+300*math.Sin(float64(s.n)/5))
			s.set("cache_lookups_total "+kind+" miss", 60)
			s.set("upstream_requests_total "+kind+" ok", 60)
			s.set("upstream_breaker_state "+kind, 0)
			ages.WithLabelValues(kind).Observe(float64(1 + s.n%20))
		}
		s.set("http_requests_total 200", 1900)
		s.set("auth_requests_total unknown", 12)
		s.set("redis_breaker_state", 0)
		if s.trouble {
			s.set("redis_breaker_state", 2)
			s.set("redis_operations_total timeout", 31)
			s.set("http_requests_total 502 upstream_invalid_response", 400)
		}
		s.clock.Add(tickEvery)
		s.tick()
	}
	for i, account := range []string{"acme", "globex", "initech"} {
		for range 30 / (i + 1) {
			s.opts.TopAccounts.Filled(account)
		}
	}
	registry := prometheus.NewRegistry()
	tokens := ops.NewTokens(slog.New(slog.DiscardHandler), registry)
	tokens.Set("s3cret", "")
	s.server = httptest.NewServer(ops.New(ops.Options{
		Console: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/console/state" {
				state()
			}
			s.ServeHTTP(w, r)
		}),
		Gatherer: registry, Tokens: tokens, Logger: slog.New(slog.DiscardHandler),
		Ready: func() ops.Readiness { return ops.Readiness{Status: ops.StatusReady} }, TTL: sampleReport,
		Explain: func(_ context.Context, want ops.ExplainRequest) (ops.Explanation, error) {
			return ops.Explanation{
				Prediction: ops.Prediction{Outcome: "hit", HTTPStatus: 200, Text: "served from the <cache>: the list is fresh"},
				Access:     &ops.Access{KeyID: "k1", Verdict: "allowed", KeyKind: "buyer", Scopes: []string{"inquiries:read"}, PaidAccess: true},
				Cache: cache.Explanation{
					Key: cache.Key{Kind: want.Kind, Account: want.Account}, Outcome: cache.Hit, Tier: "local", AnsweredAt: time.Date(2026, 11, 23, 6, 7, 0, 0, time.UTC),
					Age: 12, Remaining: 17, Bytes: 10234, Policy: "cache.buyer", TTL: 30, Jitter: 1, StaleWhileRevalidate: 30, StaleIfError: 600, Redis: "ok",
				},
				Upstream: ops.UpstreamState{Breaker: "closed"},
			}, nil
		},
		Purge: func(_ context.Context, q ops.PurgeRequest) (ops.PurgeReply, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.purged = append(s.purged, q)
			if s.failing != nil {
				return ops.PurgeReply{}, s.failing
			}
			return ops.PurgeReply{Purged: 1, Reached: s.reached}, nil
		},
	}))
	t.Cleanup(s.server.Close)
	return s
}

// sampleReport has the fields of the TTL report that the page reads.
func sampleReport() any {
	estimate := func(v float64) map[string]any { return map[string]any{"value": v, "std_err": v / 50} }
	var kinds []any
	for _, kind := range []string{"buyer", "seller", "buyer status=pending"} {
		var candidates []any
		for _, ttl := range []float64{0, 5, 10, 30, 60, 300, 3600} {
			c := map[string]any{
				"ttl_seconds": ttl, "hit_ratio": estimate(ttl / (ttl + 4)), "upstream_per_second": estimate(40 / (ttl + 1)), "mean_age_seconds": estimate(ttl / 2),
				"outdated": estimate(ttl / (ttl + 4000)), "current": ttl == 30, "settled": true,
			}
			candidates = append(candidates, c)
		}
		kinds = append(kinds, map[string]any{"kind": kind, "summary": kind + " lists, ttl 30s: 90.0 % of the look-ups do not wait.", "ttl_seconds": 30, "observed_seconds": 7200, "candidates": candidates})
	}
	return map[string]any{"kinds": kinds, "sources": 1}
}

// do runs once what came before it is done.
func do(f func()) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(context.Context, *chromedp.Target) error { f(); return nil })
}

const (
	// cutOff lists tables that are wider than their boxes.
	cutOff   = `[...document.querySelectorAll("#ttl .scroll, #accounts .scroll")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.parentElement.id + " " + e.scrollWidth + " > " + e.clientWidth)`
	overflow = `document.documentElement.scrollWidth - document.documentElement.clientWidth`
	live     = `document.getElementById("status").textContent.startsWith("Live")`
	// dangling lists what refers to an element of the page that is not there.
	dangling = `[...document.querySelectorAll("[aria-labelledby],[aria-describedby],label[for],a[href^='#']")].map(e => e.getAttribute("aria-labelledby") ?? e.getAttribute("aria-describedby") ?? e.getAttribute("for") ?? e.getAttribute("href").slice(1)).filter(id => !document.getElementById(id))`
	// sooner makes the page poll ten times as often.
	sooner = `const later = setTimeout; window.setTimeout = (run, after, ...rest) => later(run, after / 10, ...rest)`
)

// One gateway and one browser for all that people see: at the widths of a desk and of a
// telephone, light and dark, while all is well, in trouble, and after it.
func TestConsoleInABrowser(t *testing.T) {
	s := serve(t)
	ctx, complaints := browser.Open(t, s.server.URL)
	measure := func(name string) chromedp.Action[chromedp.Void] {
		var wide int
		var refused, lost []string
		return chromedp.Steps(
			browser.Screenshot(name),
			browser.Into(&wide, chromedp.Evaluate[int](overflow)),
			browser.Into(&refused, chromedp.Evaluate[[]string](`window.refused`)),
			browser.Into(&lost, chromedp.Evaluate[[]string](dangling)),
			do(func() {
				if wide > 0 || len(refused)+len(lost) > 0 {
					t.Errorf("%s: %d pixels wider than the screen, violations of its policy %q, references to nothing %q", name, wide, refused, lost)
				}
			}),
			browser.Accessible(t),
		)
	}
	text := func(dst *string, selector string) chromedp.Action[chromedp.Void] {
		return browser.Into(dst, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q).innerText`, selector)))
	}
	run := func(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatalf("%v; the browser complained: %q", err, complaints())
		}
	}
	says := func(t *testing.T, got string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
	}
	// The browser keeps the password that it is given once.
	run(t, browser.BeforeEachPage(sooner), chromedp.Navigate(strings.Replace(s.server.URL, "http://", "http://ops:s3cret@", 1)+"/"), browser.UntilPage(live))

	t.Run("empty", func(t *testing.T) { // sentences instead of empty axes
		setEmpty := func(empty bool) { s.mu.Lock(); defer s.mu.Unlock(); s.empty = empty }
		setEmpty(true)
		defer setEmpty(false)
		var axes int
		run(t, chromedp.EmulateViewport(1280, 900), browser.Colors("light"), chromedp.Navigate(s.server.URL+"/"),
			browser.UntilPage(live+` && [...document.querySelectorAll("#chart-grid .nothing")].filter(e => e.offsetHeight > 0).length === 9`),
			browser.Into(&axes, chromedp.Evaluate[int](`[...document.querySelectorAll("#chart-grid .plot")].filter(e => e.offsetHeight > 0).length`)), measure("empty-light-1280"))
		if axes > 0 {
			t.Errorf("%d charts without a figure show axes", axes)
		}
	})

	t.Run("well", func(t *testing.T) {
		for _, width := range []int64{1280, 400} {
			for _, scheme := range []string{"light", "dark"} {
				var title, buyer, seller, curve, refusals, accounts string
				var readouts, cut []string
				run(t, chromedp.EmulateViewport(width, 900), browser.Colors(scheme), chromedp.Navigate(s.server.URL+"/"),
					browser.UntilPage(live+` && document.querySelectorAll("#chart-traffic .figure").length === 6 && document.querySelector("#chart-age .figure").textContent !== "–" && document.querySelectorAll("#ttl-tables tr.current").length === 3`),
					browser.UntilPage(`performance.now() - (window.begin ??= performance.now()) > 1500`), // some points
					text(&title, "title"), text(&buyer, "[data-ttl=buyer] p"), text(&seller, "[data-ttl=seller] p"), text(&curve, "[data-ttl=buyer] .curve"), text(&refusals, "#chart-refusals .legend"), text(&accounts, "#accounts-table"),
					browser.Into(&readouts, chromedp.Evaluate[[]string](synced)), browser.Into(&cut, chromedp.Evaluate[[]string](cutOff)),
					measure(fmt.Sprintf("well-%s-%d", scheme, width)))
				says(t, title, "Nothing fails – inquiry gateway")
				says(t, buyer, "buyer lists, ttl 30s: 90.0 % of the look-ups do not wait.")
				says(t, seller, "seller lists, ttl 30s")
				says(t, curve, "today", "30s", "do not wait", "outdated", "legacy requests")
				says(t, refusals, "not authenticated\n2.4/s") // 12 in 5 s
				says(t, accounts, "acme", "initech")
				if width == 1280 && len(cut) > 0 {
					t.Errorf("tables are cut off: %q", cut)
				}
				if len(readouts) != 9 || slices.Contains(readouts, "") {
					t.Errorf("the pointer on one chart shows the values of %q", readouts)
				}
			}
		}
	})

	t.Run("trouble", func(t *testing.T) {
		s.mu.Lock()
		s.facts = Facts{File: "/etc/inquiry-gateway/gateway.yaml", Redis: "redis.internal:6379", Last: map[string]Failure{
			"redis": {Text: "dial tcp 10.0.0.7:6379: connect: connection refused", At: s.clock.Now()},
		}, Incidents: []upstream.Incident{incidentOf(t, "buyer system 240 9/9 acme", s.clock.Now()), incidentOf(t, "seller system 12 3/4 hanriver", s.clock.Now())},
			Breakers: map[string]string{"buyer": "open", "seller": "closed"}}
		s.trouble = true
		s.mu.Unlock()
		var now, title string
		run(t, chromedp.EmulateViewport(1280, 900), browser.Colors("light"), chromedp.Navigate(s.server.URL+"/"),
			browser.UntilPage(`document.querySelectorAll("#lines .bad").length === 4`),
			text(&now, "#now"), text(&title, "title"), measure("trouble-light-1280"),
			chromedp.EmulateViewport(400, 900), browser.Colors("dark"), measure("trouble-dark-400"))
		says(t, title, "✖ The legacy system fails (buyer lists), and 3 more")
		says(t, now, "Problem: The legacy system fails (buyer lists)", "Since 06:", "240 fetches of buyer lists failed, for all 9 accounts that were asked for. The breaker is open now.", "status 503 (buyer list of acme)",
			"inquiry-gateway probe -c /etc/inquiry-gateway/gateway.yaml --records 0 --buyer acme", "Runbook: InquiryGatewayLegacySystemFails",
			"Problem: Redis fails", "redis-cli -h redis.internal -p 6379 ping", "connection refused", "upstream_invalid_response: ")
		var chapter string
		run(t, browser.Into(&chapter, chromedp.Evaluate[string](`document.querySelector("#lines a[href*=runbook]").getAttribute("href")`)))
		var back string
		run(t, chromedp.Navigate(s.server.URL+"/"+chapter), browser.UntilPage(`document.querySelector(":target").textContent === "InquiryGatewayLegacySystemFails"`),
			browser.Into(&back, chromedp.Evaluate[string](`document.querySelector(":target + .back a").href`)), measure("runbook-dark-400"),
			chromedp.EmulateViewport(1280, 900), browser.Colors("light"), measure("runbook-light-1280"))
		if u, err := url.Parse(back); err != nil || u.Path != "/" {
			t.Errorf("the way back is %s", back)
		}
	})

	t.Run("forms", func(t *testing.T) {
		var answer, question, focused string
		run(t, chromedp.EmulateViewport(400, 900), browser.Colors("dark"), chromedp.Navigate(s.server.URL+"/"), browser.UntilPage(live),
			chromedp.SendKeys(chromedp.CSS(`#explain-account`), "acme"), chromedp.SetValue(chromedp.CSS(`#explain-kind`), "buyer"), press(`#explain button`),
			browser.UntilPage(`document.querySelector("#answer dl")`), text(&answer, "#answer"), measure("explained-dark-400"),
			chromedp.EmulateViewport(1280, 900), browser.Colors("light"), measure("explained-light-1280"),
			chromedp.SendKeys(chromedp.CSS(`#purge-account`), "acme\r"), browser.UntilPage(`document.getElementById("confirm").open`),
			text(&question, "#confirm-title"), text(&focused, "dialog :focus"), measure("confirm-light-1280"),
			chromedp.KeyEvent("\r"), browser.UntilPage(`!document.getElementById("confirm").open`))
		says(t, answer, "200, hit: served from the <cache>: the list is fresh.", "The buyer list of acme.", "k1 is allowed", "In this process, 10,234 bytes. The legacy system answered at 2026-11-23 06:07:00 UTC, 12 s ago. Fresh for 17 s more.", "30 s by cache.buyer, less 1 s of jitter", "Its breaker is closed.")
		says(t, question, "Purge all lists of account acme?")
		if focused != "Cancel" || len(s.purged) > 0 {
			t.Errorf("%q has the focus, and Enter purged %+v", focused, s.purged)
		}
		for _, c := range []struct {
			reached string
			failing error
			says    string
		}{
			{ops.ReachedFleet, nil, "Purged on all nodes at "}, {ops.ReachedNode, nil, "Without Redis it reaches no other"},
			{"", errors.New("Redis is unavailable"), "Not on all nodes. purged on this node only"}, {"", ops.ErrPurge, "Not done. cannot be purged"},
		} {
			s.mu.Lock()
			s.purged, s.reached, s.failing = nil, c.reached, c.failing
			s.mu.Unlock()
			run(t, press(`#purge form button`), browser.UntilPage(`document.getElementById("confirm").open`), press(`button.danger`),
				browser.UntilPage(fmt.Sprintf(`document.getElementById("purged").innerText.includes(%q)`, c.says)))
			s.mu.Lock()
			for _, p := range s.purged { // Chromium may send a request twice if a connection that it reuses has ended
				if !slices.Equal(p.Accounts, []string{"acme"}) || len(p.Kinds) > 0 {
					t.Errorf("purged %+v", p)
				}
			}
			if len(s.purged) == 0 {
				t.Error("nothing was purged")
			}
			s.mu.Unlock()
		}
	})

	t.Run("dead", func(t *testing.T) {
		var status, title, now string
		set := func(dead bool) chromedp.Action[chromedp.Void] {
			return do(func() { s.mu.Lock(); defer s.mu.Unlock(); s.part.mended = !dead })
		}
		run(t, set(true), browser.UntilPage(`document.querySelector(".status.bad")`), text(&status, "#status"), text(&title, "title"), measure("dead-light-1280"),
			do(func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.facts.Incidents = []upstream.Incident{incidentOf(t, "seller sign_in 3 3/3 hanriver", s.clock.Now())}
			}), browser.UntilPage(`document.querySelector("#lines").innerText.includes("refuses our sign-in")`), text(&now, "#lines"),
			set(false), browser.UntilPage(live))
		says(t, status, "No fresh figures since 0", "the gateway cannot read its counters")
		says(t, title, "✖ No fresh figures")
		says(t, now, "The metrics cannot be read", "collected twice.\n")
	})

	t.Run("lost", func(t *testing.T) { // last: it ends the figures
		for _, c := range complaints() {
			if !strings.Contains(c, "ops:s3cret@") && !strings.Contains(c, "/ops/purge") { // the first page, for its password, and purges that fail
				t.Errorf("complaint %q", c)
			}
		}
		var status string
		run(t, do(s.server.CloseClientConnections), do(s.server.Close), browser.UntilPage(`document.querySelector(".status.bad")`), text(&status, "#status"), measure("lost-light-1280"))
		says(t, status, "No fresh figures since 0", "inquiry-gateway health "+s.server.URL+"/readyz")
	})
}

// synced moves the pointer over the first chart and reads the line below each.
const synced = `(() => {
  const over = document.querySelector(".plot .u-over"), at = over.getBoundingClientRect();
  over.dispatchEvent(new MouseEvent("mouseenter", { clientX: at.left + at.width / 2, clientY: at.top + 20, bubbles: true }));
  over.dispatchEvent(new MouseEvent("mousemove", { clientX: at.left + at.width * 0.95, clientY: at.top + 20, bubbles: true }));
  return [...document.querySelectorAll("#chart-grid .readout")].map(e => e.textContent.slice(0, 8));
})()`

// press follows a link or a button with the keyboard: a pointer might miss what moves
// while charts are drawn.
func press(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent("\r"))
}
