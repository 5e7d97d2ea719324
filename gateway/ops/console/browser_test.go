package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"inquiry-gateway/gateway/browsertest"
)

// served is a console on a server as the ops listener is one: with a guard
// against other origins, a read timeout, and no write timeout. Explanations and
// purges are those of a stand-in.
type served struct {
	base    string
	console *Console
	feed    *feed
	purged  func() []string
	stop    func() // ends Run
}

func serve(t *testing.T, token string) *served {
	t.Helper()
	s := &served{feed: newFeed()}
	at, top, sessions := &clock{}, NewTopAccounts(64), NewSessions(token, nil)
	for i := range 3000 {
		top.Filled(fmt.Sprintf("account-%d", i%7*(i%3)))
	}
	c, err := New(Options{Gatherer: s.feed.registry, Version: "v1.2.3-test", TopAccounts: top, Sessions: sessions, Now: at.now, TTL: sampleReport})
	if err != nil {
		t.Fatal(err)
	}
	s.console = c
	remember(c, s.feed, at)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	mux := http.NewServeMux()
	mux.Handle("/", c.Handler())
	s.control(mux, sessions)
	server := httptest.NewUnstartedServer(http.NewCrossOriginProtection().Handler(mux))
	server.Config.ReadTimeout = 10 * time.Second
	server.Start()
	s.base = server.URL
	s.stop = func() { cancel(); <-done }
	t.Cleanup(func() { s.stop(); server.Close() })
	return s
}

// control adds what package ops has beside the console.
func (s *served) control(mux *http.ServeMux, sessions *Sessions) {
	var mu sync.Mutex
	var purged []string
	s.purged = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), purged...)
	}
	mux.HandleFunc("GET /ops/explain", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("account") == "" || !sessions.Authorized(r) {
			http.Error(w, "send either key_id, or account and kind", http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"prediction": map[string]any{"outcome": "<hit>", "text": "would be answered from the cache"}, "query": r.URL.RawQuery,
			"scopes": []string{"inquiries:read"}, "retry_at": nil, "paid_access": true, "none": []int{},
		})
	})
	mux.HandleFunc("POST /ops/purge", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if purged = append(purged, string(body)); !sessions.Authorized(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"epoch":42}`)
	})
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
			"advice": []map[string]any{{"goal": "max_outdated", "ttl_seconds": 20, "reason": "20s is the longest TTL with at most 1 % of the answers outdated (estimated 0.4 %)"}},
		})
	}
	return map[string]any{"kinds": all}
}

// colors makes the page believe that the person prefers light or dark.
func colors(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// keep runs once what came before it is done.
func keep(do func()) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(context.Context, *chromedp.Target) error {
		do()
		return nil
	})
}

// until waits for a condition, in this page or in the one it leads to: while one
// page goes and the next comes there is nothing to ask.
func until(condition string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if ok, err := chromedp.Evaluate[bool](`document.readyState === "complete" && Boolean(`+condition+`)`)(ctx, tab); ok && err == nil {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("%w: never %s", ctx.Err(), condition)
			}
		}
	})
}

const overflow = `document.documentElement.scrollWidth - document.documentElement.clientWidth`

// At the widths of a desk and of a telephone, light and dark, the page draws its
// charts, shows what /metrics says, and stays silent.
func TestConsoleInABrowser(t *testing.T) {
	for _, width := range []int64{1280, 390} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprint(scheme, width), func(t *testing.T) { lookAt(t, width, scheme) })
		}
	}
}

// dangling lists what refers to an element of the page that is not there.
const dangling = `[...document.querySelectorAll("[aria-labelledby],[aria-describedby],label[for],a[href^='#']")].map(e => e.getAttribute("aria-labelledby") ?? e.getAttribute("aria-describedby") ?? e.getAttribute("for") ?? e.getAttribute("href").slice(1)).filter(id => !document.getElementById(id))`

// unnamed lists the charts without a name, a legend with figures, or a table with
// more than a row per five minutes.
const unnamed = `[...document.querySelectorAll(".chart")].filter(c => { const d = c.querySelector("details"); d.open = true; d.dispatchEvent(new Event("toggle")); return !c.querySelector("[role=img]").ariaLabel || !c.querySelector(".legend li") || c.querySelectorAll("tbody tr").length < 12; }).map(c => c.id)`

// said is what the page shows of the figures, by the names that they have in the data.
const said = `Object.fromEntries([["failed", "answers.failed"], ["answers", "answers"]].map(([tile, name]) => [name, document.querySelector("[data-tile=" + tile + "] .value").textContent.replaceAll(",", "")]))`

func lookAt(t *testing.T, width int64, scheme string) {
	s := serve(t, "")
	ctx, complaints := browsertest.Open(t, s.base)
	var refused, lost, poor, readouts, checks []string
	var wide, marks int
	var title, accounts string
	var shown map[string]string
	var known state
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(width, 900), colors(scheme),
		chromedp.Navigate(s.base+"/"),
		until(`document.querySelectorAll(".plot canvas").length === document.querySelectorAll(".plot").length && document.querySelectorAll(".plot").length === 12 && document.getElementById("status").textContent === "Live"`),
		until(`performance.now() > 2500`), // an event has come
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
		keep(func() { known = s.console.state(false) }),
	)
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
