package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/browsertest"
	"inquiry-gateway/gateway/ops"
)

// served is a console on a real ops listener, with the sessions and the other
// endpoints of package ops.
type served struct {
	base     string
	console  *Console
	feed     *feed
	sessions *ops.Sessions
	purged   func() []ops.PurgeRequest
	stop     func() // ends Run
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{feed: newFeed(), sessions: ops.NewSessions("", nil)}
	at, top := &clock{}, NewTopAccounts(64)
	for i := range 3000 {
		top.Filled(fmt.Sprintf("account-%d", i%7*(i%3)))
	}
	c, err := New(s.feed.options(Options{Version: "v1.2.3-test", TopAccounts: top, CanLogout: s.sessions.Guarded, Now: at.now}))
	if err != nil {
		t.Fatal(err)
	}
	s.console = c
	fillHistory(c, s.feed, at, 6)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	server := httptest.NewServer(ops.New(s.options()))
	s.base = server.URL
	s.stop = func() { cancel(); <-done }
	t.Cleanup(func() { s.stop(); server.Close() })
	return s
}

// options are those of an ops listener that explains and purges for show.
func (s *served) options() ops.Options {
	var mu sync.Mutex
	var purged []ops.PurgeRequest
	s.purged = func() []ops.PurgeRequest {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(purged)
	}
	return ops.Options{
		Gatherer: s.feed.registry, Console: s.console, Sessions: s.sessions, TTL: sampleReport, Logger: slog.New(slog.DiscardHandler),
		Explain: func(_ context.Context, want ops.ExplainRequest) (ops.Explanation, error) {
			return ops.Explanation{
				Cache: cache.Explanation{Key: cache.Key{Account: want.Account}}, Prediction: ops.Prediction{Outcome: "<hit>", Text: "would be answered from the cache"},
				Access: &ops.Access{Scopes: []string{"inquiries:read"}, PaidAccess: true},
			}, nil
		},
		Purge: func(_ context.Context, kind, account string) (ops.PurgeReply, error) {
			mu.Lock()
			defer mu.Unlock()
			purged = append(purged, ops.PurgeRequest{Kind: kind, Account: account})
			return ops.PurgeReply{Epoch: 42}, nil
		},
	}
}

type estimate struct {
	Value  float64 `json:"value"`
	StdErr float64 `json:"std_err"`
}

// sampleReport has the form of ttllab.Report.
func sampleReport() any {
	var all []map[string]any
	for _, kind := range []string{"buyer", "buyer, status pending", "seller"} {
		var candidates []map[string]any
		for _, ttl := range []float64{1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400} {
			hit := ttl / (ttl + 6)
			candidates = append(candidates, map[string]any{
				"ttl_seconds": ttl, "hit_ratio": estimate{hit, .002}, "upstream_per_second": estimate{214 * (1 - hit), .4}, "mean_age_seconds": estimate{ttl / 2.2, 0},
				"p99_age_seconds": ttl * .99, "outdated": estimate{ttl / (ttl + 4000), .001}, "current": ttl == 30, "settled": ttl < 3000,
			})
		}
		all = append(all, map[string]any{
			"kind": kind, "ttl_seconds": 30, "observed_seconds": 5400, "lookups_per_second": 214, "watched_keys": 4096, "candidates": candidates,
			"advice": []map[string]any{{"goal": "max_outdated", "ttl_seconds": 20, "limit": 0.01, "reason": "20s is the longest TTL with at most 1 % of the answers outdated (estimated 0.4 %)"}}, "verdict": "1s to 20s; today's 30s breaks max_outdated",
			"outage": map[string]any{"for_seconds": []float64{60, 300, 3600}, "rows": []map[string]any{
				{"stale_if_error_seconds": 0, "answered": []any{.31, .08, .01}},
				{"stale_if_error_seconds": 600, "current": true, "answered": []any{.93, .88, nil}},
			}},
		})
	}
	at := time.Date(2026, 11, 21, 2, 40, 0, 0, time.UTC)
	figures := func(hits, requests float64) map[string]any {
		return map[string]any{"hit_ratio": hits, "requests_per_lookup": requests}
	}
	off := func(hits, requests float64) map[string]any {
		return map[string]any{"hit_ratio_points": hits, "requests_points": requests, "margin_points": .61}
	}
	all[0]["ttl_changes"] = []map[string]any{
		{"at": at, "from_seconds": 5, "to_seconds": 60, "state": "done", "until": at, "predicted": figures(.912, .088), "measured": figures(.9087, .0913), "simulated": figures(.909, .091), "error": off(-.33, .33)},
		{"at": at, "from_seconds": 60, "to_seconds": 20, "state": "done", "until": at, "predicted": figures(.78, .22), "measured": figures(.7352, .2648), "simulated": figures(.781, .219), "error": off(-4.48, 4.48)},
		{"at": at, "from_seconds": 20, "to_seconds": 25, "state": "abandoned", "until": at, "why": "the ttl has changed again", "predicted": figures(.8, .2)},
		{"at": at, "from_seconds": 25, "to_seconds": 30, "state": "settling", "until": at, "predicted": figures(.83, .17)},
	}
	return map[string]any{"kinds": all}
}

// keep runs once what came before it is done.
func keep(do func()) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(context.Context, *chromedp.Target) error {
		do()
		return nil
	})
}

const overflow = `document.documentElement.scrollWidth - document.documentElement.clientWidth`

// One gateway and one browser for all that people see.
func TestConsoleInABrowser(t *testing.T) {
	s := serve(t)
	ctx, complaints := browsertest.Open(t, s.base)
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprint(scheme, width), func(t *testing.T) { testPage(t, ctx, s, complaints, width, scheme) })
		}
	}
	t.Run("forms", func(t *testing.T) { testForms(t, ctx, s, complaints) })
	t.Run("trouble", func(t *testing.T) { testTrouble(t, ctx, s, complaints) }) // last: it ends the figures
}

// dangling lists what refers to an element of the page that is not there.
const dangling = `[...document.querySelectorAll("[aria-labelledby],[aria-describedby],label[for],a[href^='#']")].map(e => e.getAttribute("aria-labelledby") ?? e.getAttribute("aria-describedby") ?? e.getAttribute("for") ?? e.getAttribute("href").slice(1)).filter(id => !document.getElementById(id))`

// unnamed lists the charts without a name, a legend with figures, or a table with
// more than a row per five minutes.
const unnamed = `[...document.querySelectorAll(".chart")].filter(c => { const d = c.querySelector("details"); d.open = true; d.dispatchEvent(new Event("toggle")); return !c.querySelector("[role=img]").ariaLabel || !c.querySelector(".legend li") || c.querySelectorAll("tbody tr").length < 12; }).map(c => c.id)`

// said is what the page shows of the figures, by the names that they have in the data.
const said = `Object.fromEntries([["failed", "answers.failed"], ["answers", "answers"]].map(([tile, name]) => [name, document.querySelector("[data-tile=" + tile + "] .value").textContent.replaceAll(",", "")]))`

// At the widths of a desk and of a telephone, light and dark, the page draws its
// charts, shows what /metrics says, and stays silent.
func testPage(t *testing.T, ctx context.Context, s *served, complaints func() []string, width int64, scheme string) {
	var refused, lost, poor, readouts, checks []string
	var wide, marks int
	var title, accounts string
	var shown map[string]string
	var known state
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(width, 900), browsertest.Colors(scheme),
		chromedp.Navigate(s.base+"/"),
		browsertest.Until(`document.querySelectorAll(".plot canvas").length === document.querySelectorAll(".plot").length && document.querySelectorAll(".plot").length === 12 && document.getElementById("status").textContent === "Live"`),
		browsertest.Until(`document.querySelectorAll("#ttl-grid canvas").length === 3`),
		browsertest.Until(`[...document.querySelectorAll("#ttl-grid details:nth-of-type(2) tr.current td")].map(e => e.textContent[0]).join("") === "98–98–98–"`),
		browsertest.Until(`[...document.querySelectorAll("#ttl-grid details:nth-of-type(3) li")].map(e => e.textContent.split(/: |[.] /).at(-1)).join("|") === "|the ttl has changed again|off|right"`),
		browsertest.Screenshot(fmt.Sprintf("console-%s-%d", scheme, width)),
		browsertest.Into(&title, chromedp.Evaluate[string](`document.title`)),
		browsertest.Into(&marks, chromedp.Evaluate[int](`document.querySelectorAll("#marks-list strong").length`)),
		browsertest.Into(&checks, chromedp.Evaluate[[]string](`[...document.querySelectorAll("[data-check]")].map(e => e.dataset.check + " " + e.querySelector(".state").textContent)`)),
		browsertest.Into(&accounts, chromedp.Evaluate[string](`document.getElementById("accounts-table").innerText`)),
		browsertest.Into(&lost, chromedp.Evaluate[[]string](dangling)),
		browsertest.Into(&poor, chromedp.Evaluate[[]string](unnamed)),
		browsertest.Into(&readouts, chromedp.Evaluate[[]string](synced)),
		browsertest.Into(&wide, chromedp.Evaluate[int](overflow)),
		browsertest.Into(&shown, chromedp.Evaluate[map[string]string](said)),
		browsertest.Into(&refused, chromedp.Evaluate[[]string](`window.refused`)),
		keep(func() { known = s.console.state() }),
	)
	if err == nil && (width > 500) == (scheme == "light") { // it takes seconds: each width and each scheme once
		err = chromedp.Do(ctx, browsertest.Accessible(t))
	}
	if err != nil {
		t.Fatalf("%v; the browser complained: %q", err, complaints())
	}
	if len(refused) > 0 || len(complaints()) > 0 {
		t.Errorf("policy violations %q, complaints %q", refused, complaints())
	}
	if wide > 0 {
		t.Errorf("the page is %d pixels wider than the screen", wide)
	}
	if len(lost) > 0 || len(poor) > 0 {
		t.Errorf("references to nothing: %q, charts without name, legend or table: %q", lost, poor)
	}
	if len(readouts) != 9 || slices.Contains(readouts, "") {
		t.Errorf("the pointer on one chart shows the values of %q", readouts)
	}
	for name, value := range shown { // the window of a count moves on while the page is read
		if got, err := strconv.Atoi(value); err != nil || max(got, known.Figures.Counts[name])-min(got, known.Figures.Counts[name]) > 1000 {
			t.Errorf("the page says %s %s, the gateway %d", name, value, known.Figures.Counts[name])
		}
	}
	if marks == 0 || !strings.Contains(accounts, "account-0") || !strings.HasSuffix(title, "Canary failing – inquiry gateway") {
		t.Errorf("%d marks, accounts %q, title %q", marks, accounts, title)
	}
	if len(checks) != len(canaryChecks)*len(kinds) || !slices.Contains(checks, "freshness.seller unavailable") || !slices.Contains(checks, "keys.buyer ok") {
		t.Errorf("canary: %q", checks)
	}
}

// synced moves the pointer over the first chart and reads the line below each.
const synced = `(() => {
  const over = document.querySelector(".plot .u-over"), at = over.getBoundingClientRect();
  over.dispatchEvent(new MouseEvent("mouseenter", { clientX: at.left + at.width / 2, clientY: at.top + 20, bubbles: true }));
  over.dispatchEvent(new MouseEvent("mousemove", { clientX: at.left + at.width / 2, clientY: at.top + 20, bubbles: true }));
  return [...document.querySelectorAll("#chart-grid .readout")].map(e => e.textContent.slice(0, 8));
})()`

// press follows a link or a button with the keyboard: a pointer might miss what
// moves while charts are drawn.
func press(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent("\r"))
}

// With a token: sign in with the keyboard alone, explain, purge after a
// question, sign out.
func testForms(t *testing.T, ctx context.Context, s *served, complaints func() []string) {
	before := len(complaints())
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // an open page would load itself again, to ask for the token
		t.Fatal(err)
	}
	s.sessions.SetTokens("s3cret", "")
	defer s.sessions.SetTokens("", "")
	var wrong, answer, question, epoch string
	var refused, narrow []int
	measure := func(dst *[]int) chromedp.Action[chromedp.Void] {
		var refusedNow []string
		var wide int
		return chromedp.Steps(
			browsertest.Into(&wide, chromedp.Evaluate[int](overflow)),
			browsertest.Into(&refusedNow, chromedp.Evaluate[[]string](`window.refused`)),
			keep(func() { refused = append(refused, len(refusedNow)); *dst = append(*dst, wide) }),
		)
	}
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(390, 900), browsertest.Colors("dark"),
		chromedp.Navigate(s.base+"/"),
		browsertest.Screenshot("login-dark-390"), measure(&narrow),
		browsertest.Until(`document.activeElement.id === "token"`),
		chromedp.KeyEvent("not the token\r"),
		browsertest.Until(`document.querySelector("[role=alert]") && document.activeElement.id === "token"`),
		browsertest.Into(&wrong, chromedp.Text(chromedp.CSS(`[role=alert]`))),
		chromedp.KeyEvent("s3cret\r"),
		browsertest.Until(`document.querySelector("#status.on")`),
		chromedp.SendKeys(chromedp.CSS(`#explain-account`), "acme"),
		chromedp.SetValue(chromedp.CSS(`#explain-kind`), "buyer"),
		press(`#explain button`),
		browsertest.Until(`document.querySelector("#answer dl")`),
		browsertest.Into(&answer, chromedp.Text(chromedp.CSS(`#answer`))),
		browsertest.Screenshot("explained-dark-390"), measure(&narrow),
		chromedp.EmulateViewport(1280, 900), browsertest.Colors("light"),
		chromedp.SendKeys(chromedp.CSS(`#purge-account`), "acme\r"),
		browsertest.Until(`document.getElementById("confirm").open`),
		browsertest.Into(&question, chromedp.Text(chromedp.CSS(`#confirm-title`))),
		browsertest.Screenshot("confirm-light-1280"), measure(&narrow),
	)
	if err == nil && len(s.purged()) > 0 {
		t.Errorf("purged before the question was answered: %+v", s.purged())
	}
	if err == nil {
		err = chromedp.Do(ctx,
			press(`button.danger`),
			browsertest.Until(`document.getElementById("epoch")`),
			browsertest.Into(&epoch, chromedp.Text(chromedp.CSS(`#epoch`))),
			browsertest.Screenshot("purged-light-1280"), measure(&narrow),
			press(`header form button`),
			browsertest.Until(`document.getElementById("token")`),
		)
	}
	if err != nil {
		t.Fatalf("%v; the browser complained: %q", err, complaints())
	}
	if !strings.Contains(wrong, "not the token") || !strings.Contains(answer, "would be answered from the cache") || !strings.Contains(answer, "acme") || !strings.Contains(answer, "<hit>") || !strings.Contains(question, "account acme?") || epoch != "42" {
		t.Errorf("wrong token: %q, explained: %q, question: %q, epoch %q", wrong, answer, question, epoch)
	}
	if got := s.purged(); len(got) != 1 || got[0] != (ops.PurgeRequest{Account: "acme"}) {
		t.Errorf("purged %+v", got)
	}
	for i := range narrow {
		if narrow[i] > 0 || refused[i] > 0 {
			t.Errorf("page %d is %d pixels too wide, with %d violations of its policy", i, narrow[i], refused[i])
		}
	}
	for _, c := range complaints()[before:] {
		if !strings.Contains(c, "401 (Unauthorized)") { // the pages that ask for the token
			t.Errorf("complaint %q", c)
		}
	}
}

// When things go wrong the page says so, in words; it can be held still, and it
// says when its own figures are old.
func testTrouble(t *testing.T, ctx context.Context, s *served, complaints func() []string) {
	s.feed.gauge("upstream_breaker_state", 2, "buyer")
	s.feed.gauge("redis_breaker_state", 2)
	s.feed.count("upstream_foreign_records_total", 3, "seller")
	s.feed.count("upstream_requests_total", 40, "seller", "timeout")
	s.feed.count("http_requests_total", 40000, "buyer_inquiries", "503")
	s.feed.count("http_errors_total", 40000, "buyer_inquiries", "upstream_unavailable")
	s.feed.count("cache_lookups_total", 400, "buyer", "stale-error", "local")
	var all, title, lostTitle, chapter string
	var held, later string
	const headline = `document.getElementById("headline").innerText`
	s.console.sampler.take()
	err := chromedp.Do(ctx,
		browsertest.BeforeEachPage(`const later = setTimeout; window.setTimeout = (run, after, ...rest) => later(run, after / 10, ...rest)`), // polls come sooner
		chromedp.EmulateViewport(1280, 900), browsertest.Colors("dark"),
		chromedp.Navigate(s.base+"/"),
		browsertest.Until(`document.querySelector("#status.on") && document.querySelectorAll("#findings .bad").length === 3`),
		browsertest.Into(&all, chromedp.Evaluate[string](`document.getElementById("now").innerText`)),
		browsertest.Into(&title, chromedp.Evaluate[string](`document.title`)),
		browsertest.Into(&chapter, chromedp.Evaluate[string](`document.querySelector("#incident a").getAttribute("href")`)),
		browsertest.Screenshot("trouble-dark-1280"),
		chromedp.EmulateViewport(390, 900), browsertest.Colors("light"),
		browsertest.Screenshot("trouble-light-390"),
		press(`#pause`),
		browsertest.Until(`document.getElementById("status").textContent === "Paused" && document.getElementById("pause").ariaPressed === "true"`),
		keep(func() {
			s.feed.count("canary_checks_total", 1, "buyer", "cross_read", "failed")
			s.console.sampler.take()
		}),
		browsertest.Until(`performance.now() - (window.begin ??= performance.now()) > 500`),
		browsertest.Into(&held, chromedp.Evaluate[string](headline)),
		press(`#pause`),
		browsertest.Until(headline+`.includes("Cross-read")`),
		browsertest.Into(&later, chromedp.Evaluate[string](`document.getElementById("status").textContent`)),
		keep(s.stop),
		chromedp.Evaluate[chromedp.Void](`{ const now = Date.now; Date.now = () => now() + 10000; }`),
		browsertest.Until(`document.querySelector("#status.lost")`),
		browsertest.Into(&lostTitle, chromedp.Evaluate[string](`document.title`)),
		browsertest.Screenshot("lost-light-390"),
	)
	if err == nil {
		err = chromedp.Do(ctx,
			chromedp.Navigate(s.base+"/"+chapter),
			browsertest.Until(`document.querySelector(":target h2").textContent === "InquiryGatewayForeignRecords"`),
			browsertest.Screenshot("runbook-light-390"),
		)
	}
	if err != nil {
		t.Fatalf("%v; the browser complained: %q", err, complaints())
	}
	for _, want := range []string{
		"Foreign records since ", "3 seller records of another account", "40,000 answers failed in the last ", "503 upstream_unavailable (40,000)", "lists older than their TTL",
		"Problem", "breaker of the buyer lists is open",
		"Do this: Ask for that list with inquiry-gateway probe -c FILE --kind KIND --account ID, and tell", "Explain the request of an account", "Redis is down", "Notice", "Runbook: InquiryGatewayBreakerOpen",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if title != "✖ Foreign records – inquiry gateway" || !strings.Contains(lostTitle, "No fresh figures") {
		t.Errorf("titles %q, %q", title, lostTitle)
	}
	if !strings.Contains(held, "Foreign records") || later != "Live" {
		t.Errorf("held still it changed to %s; afterwards it is %q", held, later)
	}
}
