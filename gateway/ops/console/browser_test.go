package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"inquiry-gateway/gateway/browsertest"
)

// explanation has the shape of an answer, nested and with all types.
type explanation struct {
	Verdict string         `json:"verdict"`
	Key     map[string]any `json:"key"`
	Scopes  []string       `json:"scopes"`
	Retry   *string        `json:"retry_at"`
	Paid    bool           `json:"paid_access"`
}

// served is a console on a server as the ops listener is one: with a guard
// against other origins, a read timeout, and no write timeout.
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
	var mu sync.Mutex
	var purged []string
	s.purged = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), purged...)
	}
	at, top := &clock{}, NewTopAccounts(64)
	for i := range 3000 {
		top.Filled(fmt.Sprintf("account-%d", i%7*(i%3)))
	}
	c, err := New(Options{
		Gatherer: s.feed.registry, Version: "v1.2.3-test", TopAccounts: top, Sessions: NewSessions(token, nil), Now: at.now, TTL: sampleReport,
		Explain: func(_ context.Context, q url.Values) (any, error) {
			if q.Get("account") == "" && q.Get("key_id") == "" {
				return nil, errors.New("give key_id, or kind and account")
			}
			return explanation{"would be answered from the cache", map[string]any{"account": q.Get("account"), "kind": q.Get("kind"), "epoch": 7}, []string{"inquiries:read"}, nil, true}, nil
		},
		Purge: func(_ context.Context, kind, account string) (uint64, error) {
			mu.Lock()
			defer mu.Unlock()
			purged = append(purged, kind+"|"+account)
			return 42, nil
		},
	})
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
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.feed.registry, promhttp.HandlerOpts{}))
	server := httptest.NewUnstartedServer(http.NewCrossOriginProtection().Handler(mux))
	server.Config.ReadTimeout = 10 * time.Second
	server.Start()
	s.base = server.URL
	s.stop = func() { cancel(); <-done }
	t.Cleanup(func() { s.stop(); server.Close() })
	return s
}

func sampleReport() any {
	var r ttlReport
	for _, kind := range []string{"buyer", "buyer, status pending", "seller"} {
		k := ttlKind{Kind: kind, TTL: 30, Observed: 5400, PerSecond: 214, WatchedKeys: 4096}
		for _, ttl := range []float64{1, 2, 3, 5, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400} {
			hit := ttl / (ttl + 6)
			k.Candidates = append(k.Candidates, ttlCandidate{
				TTL: ttl, HitRatio: ttlEstimate{hit, .002}, Upstream: ttlEstimate{214 * (1 - hit), .4}, MeanAge: ttlEstimate{ttl / 2.2, 0}, P99Age: ttl * .99,
				Outdated: &ttlEstimate{ttl / (ttl + 4000), .001}, Current: ttl == 30, Settled: ttl < 3000,
			})
		}
		k.Advice = []ttlAdvice{{"max_upstream_per_second", 120, "120s is the shortest TTL that keeps the lists within 12 requests/s (estimated 10.2)"}, {"max_outdated", 20, "20s is the longest TTL with at most 1 % of the answers outdated (estimated 0.4 %)"}}
		r.Kinds = append(r.Kinds, k)
	}
	return r
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

func lookAt(t *testing.T, width int64, scheme string) {
	s := serve(t, "")
	ctx, complaints := browsertest.Open(t, s.base)
	var shown, canary map[string]string
	var refused []string
	var wide int
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(width, 900), colors(scheme),
		chromedp.Navigate(s.base+"/"),
		until(`document.querySelectorAll(".plot canvas").length === document.querySelectorAll(".plot").length && document.getElementById("status").textContent === "Live"`),
		until(`performance.now() > 2500`), // some events have come
		browsertest.Screenshot(fmt.Sprintf("console-%s-%d", scheme, width)),
		browsertest.Into(&shown, chromedp.Evaluate[map[string]string](`Object.fromEntries([...document.querySelectorAll("[data-series]")].map(e => [e.dataset.series, e.textContent]))`)),
		browsertest.Into(&canary, chromedp.Evaluate[map[string]string](`Object.fromEntries([...document.querySelectorAll("#canary [data-series]")].map(e => [e.dataset.series, e.textContent]))`)),
		browsertest.Into(&wide, chromedp.Evaluate[int](overflow)),
		browsertest.Into(&refused, chromedp.Evaluate[[]string](`window.refused`)),
	)
	if err != nil {
		t.Fatalf("%v; the browser complained: %q", err, complaints())
	}
	sameAsMetrics(t, s.base, shown)
	sameCanary(t, shown, canary)
	if len(refused) > 0 || len(complaints()) > 0 {
		t.Errorf("policy violations %q, complaints %q", refused, complaints())
	}
	if wide > 0 {
		t.Errorf("the page is %d pixels wider than the screen", wide)
	}
}

// sameCanary holds that the canary's panel has all of its counters, with the
// values that are held against /metrics.
func sameCanary(t *testing.T, shown, canary map[string]string) {
	t.Helper()
	for series, value := range shown {
		if strings.HasPrefix(series, prefix+"canary_checks_total") && canary[series] != value {
			t.Errorf("the panel says %s %s, the totals say %s", series, canary[series], value)
		}
	}
	if len(canary) < len(canaryChecks)*len(kinds) {
		t.Errorf("the panel has only %d figures", len(canary))
	}
}

// sameAsMetrics holds every series of the page against the text of /metrics.
func sameAsMetrics(t *testing.T, base string, shown map[string]string) {
	t.Helper()
	response, err := http.Get(base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, string(text), shown)
}

// compare holds what the page shows against Prometheus' text format, and that
// no counter or gauge of the gateway's is missing that is not 0.
func compare(t *testing.T, text string, shown map[string]string) {
	t.Helper()
	if len(shown) < 20 {
		t.Errorf("the page shows only %d series", len(shown))
	}
	said, histograms := map[string]float64{}, []string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[1] == "TYPE" && fields[3] == "histogram" {
			histograms = append(histograms, fields[2])
		}
		cut := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[cut+1:]), 64)
		if !strings.HasPrefix(line, prefix) || err != nil || slices.ContainsFunc(histograms, func(h string) bool { return strings.HasPrefix(line, h) }) {
			continue
		}
		said[line[:cut]] = value
	}
	for series, value := range shown {
		got, err := strconv.ParseFloat(value, 64)
		if want, ok := said[series]; err != nil || !ok || got != want {
			t.Errorf("the page says %s %s, /metrics says %v", series, value, want)
		}
	}
	for series, value := range said {
		if _, ok := shown[series]; !ok && value != 0 {
			t.Errorf("the page lacks %s %v", series, value)
		}
	}
}
