package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"inquiry-gateway/docs"
	"inquiry-gateway/gateway/ops/canary"
	"inquiry-gateway/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// feed is a console whose counters a test moves by hand. That they are those of the
// real parts is what a test of the whole program holds.
type feed struct {
	*Console
	clock    *testkit.Clock
	registry *prometheus.Registry
	counters map[string]*prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	facts    Facts
	canary   []canary.Result
	err      error
}

func newFeed(t *testing.T) *feed {
	t.Helper()
	f := &feed{
		clock: testkit.NewClock(time.Date(2026, 11, 23, 6, 7, 0, 0, time.UTC)), registry: prometheus.NewRegistry(),
		counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{},
	}
	for name, labels := range selected {
		switch {
		case strings.HasSuffix(name, "_total"):
			f.counters[name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: "Fed."}, append(labels, "more"))
			f.registry.MustRegister(f.counters[name])
		case !strings.HasSuffix(name, "_seconds"):
			f.gauges[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: "Fed."}, labels)
			f.registry.MustRegister(f.gauges[name])
		}
	}
	f.gauge("config_last_reload_successful", 1)
	c, err := New(Options{
		Gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			all, err := f.registry.Gather()
			return all, errors.Join(err, f.err)
		}),
		Facts: func() Facts {
			facts := f.facts
			facts.Kinds = []string{"buyer", "seller"}
			return facts
		},
		Canary:      func() []canary.Result { return f.canary },
		TopAccounts: NewTopAccounts(10), Version: "v1.2.3<b>", Now: f.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Console = c
	c.tick()
	return f
}

// count adds to the counter of a family with the selected labels.
func (f *feed) count(name string, n float64, labels ...string) {
	f.counters[name].WithLabelValues(append(labels, "x")...).Add(n)
}

func (f *feed) gauge(name string, value float64, labels ...string) {
	f.gauges[name].WithLabelValues(labels...).Set(value)
}

// after moves the clock on, five seconds a tick.
func (f *feed) after(d time.Duration) []line {
	for ; d > 0; d -= tickEvery {
		f.clock.Add(tickEvery)
		f.tick()
	}
	return f.state().Lines
}

func ask(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// Each cause is seen by its counters, and says what, whom it hits, why, and what to do
// with the names of this gateway.
func TestCauses(t *testing.T) {
	for id, c := range map[string]struct {
		fail func(*feed)
		bad  bool
		says []string
	}{
		"canary": {func(f *feed) {
			f.count("canary_checks_total", 1, "buyer", "cross_read", "failed")
			f.canary = []canary.Result{{Kind: "buyer", Check: "cross_read", Result: canary.Failed, Reasons: []string{"records in both lists: 2"}}}
		}, true, []string{"buyer cross_read failed: 1", "records in both lists: 2", "InquiryGatewayCanaryFailed"}},
		"foreign": {func(f *feed) { f.count("upstream_foreign_records_total", 3, "seller") }, true,
			[]string{"in seller lists: 3", "probe -c /etc/gw.yaml --kind seller --account hanriver", "Last: mapped wrongly (seller list of hanriver)"}},
		"legacy": {func(f *feed) {
			f.gauge("upstream_breaker_state", 2, "buyer")
			f.count("upstream_requests_total", 12, "buyer", "upstream")
		}, true, []string{"requests for buyer lists failed: 12, the breaker of buyer lists is open", "Last: status 503 (buyer list of acme)", "check -c /etc/gw.yaml --live --buyer acme"}},
		"keystore": {func(f *feed) { f.count("auth_requests_total", 4, "unavailable") }, true, []string{"requests: 4", "keys -c /etc/gw.yaml list"}},
		"answers": {func(f *feed) {
			f.count("http_requests_total", 90, "200")
			f.count("http_requests_total", 10, "502")
			f.count("http_errors_total", 10, "upstream_error")
			f.count("http_errors_total", 10, "invalid_api_key")
		}, true, []string{"Since then: upstream_error: 10.", "such as hanriver"}},
		"panics": {func(f *feed) { f.count("http_panics_total", 1); f.count("panics_total", 2, "cache") }, true, []string{"cache: 2, in a handler: 1"}},
		"redis": {func(f *feed) { f.gauge("redis_breaker_state", 2); f.count("redis_operations_total", 7, "timeout") }, true,
			[]string{"its breaker is open, timeouts: 7", "redis-cli -h fd00::1 -p 6380 ping", "Last: connection refused"}},
		"ceiling": {func(f *feed) {
			f.count("ceiling_requests_total", 9, "background", "refused")
			f.count("ceiling_requests_total", 2, "asked", "refused")
		}, false, []string{"requests: 2"}},
		"reload": {func(f *feed) { f.gauge("config_last_reload_successful", 0) }, false, []string{"configuration", "Last: gateway.yaml:3:1: x", "check -c /etc/gw.yaml`"}},
		"limited": {func(f *feed) {
			f.count("rate_limit_decisions_total", 8, "limited")
			f.count("http_requests_total", 20, "429")
		}, false, []string{"over their account's rate: 8"}},
	} {
		t.Run(id, func(t *testing.T) {
			f := newFeed(t)
			at := f.clock.Now()
			f.facts = Facts{File: "/etc/gw.yaml", Redis: "[fd00::1]:6380", Last: map[string]Failure{
				"buyer": {Text: "status 503", Account: "acme", At: at}, "seller": {Text: "mapped wrongly", Account: "hanriver", At: at.Add(time.Second)},
				"redis": {Text: "connection refused", At: at}, "reload": {Text: "gateway.yaml:3:1: x", At: at},
			}}
			if quiet := f.after(tickEvery); len(quiet) > 0 {
				t.Fatalf("before it fails: %+v", quiet)
			}
			c.fail(f)
			got := f.after(tickEvery)
			if len(got) != 1 || got[0].ID != id || got[0].Bad != c.bad || got[0].Over || got[0].Since != f.clock.Now().Unix() {
				t.Fatalf("%+v", got)
			}
			text, err := json.Marshal(got[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.says {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in %s", want, text)
				}
			}
			if strings.ContainsAny(got[0].Text+got[0].Do, "{}") || got[0].Hits == "" {
				t.Errorf("%+v", got[0])
			}
		})
	}
	for name, want := range map[string]string{"acme": "acme", "o'hara&sons": `'o'\''hara&sons'`, "a b": "'a b'", "$(rm)": "'$(rm)'", "x`y": "ID", "서울": "서울"} {
		if got := quoted(name); got != want {
			t.Errorf("%s is written %s", name, got)
		}
	}
	// Single failures that callers do not notice are none.
	f := newFeed(t)
	f.count("redis_operations_total", 1, "timeout")
	f.count("http_requests_total", 200, "429")
	f.count("rate_limit_decisions_total", 4, "limited")
	f.count("ceiling_requests_total", 9, "background", "refused")
	if got := f.after(tickEvery); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// A fault that is over stands below those of now, with both its times; one that comes
// back soon is the same one, later it is a new one; what is long over is forgotten.
func TestSinceAndOver(t *testing.T) {
	f := newFeed(t)
	at := func(l line) string {
		return fmt.Sprint(l.ID, " ", time.Unix(l.Since, 0).UTC().Format("15:04:05"), " ", time.Unix(l.Last, 0).UTC().Format("15:04:05"), " ", l.Over)
	}
	all := func(lines []line) (texts []string) {
		for _, l := range lines {
			texts = append(texts, at(l))
		}
		return texts
	}
	want := func(lines []line, texts ...string) {
		t.Helper()
		if got := all(lines); strings.Join(got, "; ") != strings.Join(texts, "; ") {
			t.Errorf("%q, want %q", got, texts)
		}
	}
	f.gauge("upstream_breaker_state", 2, "buyer")
	f.after(2 * time.Minute)
	f.gauge("upstream_breaker_state", 0, "buyer")
	want(f.after(30*time.Second), "legacy 06:07:05 06:09:00 false")
	want(f.after(5*time.Second), "legacy 06:07:05 06:09:00 true")
	f.count("rate_limit_decisions_total", 8, "limited")
	want(f.after(5*time.Second), "limited 06:09:40 06:09:40 false", "legacy 06:07:05 06:09:00 true")
	f.count("panics_total", 1, "cache")
	want(f.after(5*time.Second), "panics 06:09:45 06:09:45 false", "limited 06:09:40 06:09:40 false", "legacy 06:07:05 06:09:00 true")
	f.gauge("upstream_breaker_state", 1, "buyer")
	want(f.after(5*time.Second), "legacy 06:07:05 06:09:50 false", "panics 06:09:45 06:09:45 false", "limited 06:09:40 06:09:40 false")
	f.gauge("upstream_breaker_state", 0, "buyer")
	f.after(6 * time.Minute)
	f.count("panics_total", 1, "cache")
	want(f.after(5*time.Second), "panics 06:15:55 06:15:55 false", "legacy 06:07:05 06:09:50 true", "limited 06:09:40 06:09:40 true")
	f.clock.Add(13 * time.Hour)
	want(f.after(5 * time.Second))
}

// Figures that are missing must not look like good ones.
func TestMetricsThatCannotBeRead(t *testing.T) {
	f := newFeed(t)
	f.err = errors.New("collected twice")
	if got := f.after(tickEvery); len(got) != 1 || !got[0].Bad || !strings.Contains(got[0].Cause, "collected twice") {
		t.Errorf("%+v", got)
	}
	f.err = nil
	if got := f.after(tickEvery); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// The sums are those of the series, over the labels that nobody tells apart.
func TestSums(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "http_request_duration_seconds", Help: "Fed.", Buckets: []float64{.1, 1}}, []string{"endpoint"})
	n := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "cache_lookups_total", Help: "Fed."}, []string{"kind", "outcome", "tier"})
	registry.MustRegister(h, n, prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "other_total", Help: "Fed."}))
	h.WithLabelValues("a").Observe(.05)
	h.WithLabelValues("b").Observe(.5)
	h.WithLabelValues("b").Observe(5)
	n.WithLabelValues("buyer", "hit", "local").Add(2)
	n.WithLabelValues("buyer", "hit", "redis").Add(3)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := sumUp(families)
	if len(got) != len(selected) {
		t.Errorf("%d families", len(got))
	}
	for name, want := range map[string]string{
		"cache_lookups_total": `{"buyer hit":{"v":5}}`, "http_request_duration_seconds": `{"":{"v":3,"le":[0.1,1],"n":[1,2]}}`, "panics_total": "{}",
	} {
		if text, err := json.Marshal(got[name]); err != nil || string(text) != want {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

func TestPages(t *testing.T) {
	f := newFeed(t)
	for path, says := range map[string]string{
		"/": "v1.2.3&lt;b&gt;", "/console/runbook": `<h2 id="inquirygatewaybreakeropen">`, "/console/state": `"lines":[]`,
	} {
		w := ask(f, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), says) || w.Header().Get("Content-Security-Policy") != policy || w.Header().Get("Cache-Control") != "no-store" || strings.Contains(w.Body.String(), "{{") {
			t.Errorf("%s: %d %v %.300s", path, w.Code, w.Header(), w.Body)
		}
		for _, asset := range regexp.MustCompile(`(?:src|href)="(?:\.\./)?(console/assets/[^"]+)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			if a := ask(f, "/"+asset[1]); a.Code != http.StatusOK || !strings.Contains(a.Header().Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %d %v", asset[1], a.Code, a.Header())
			}
		}
	}
	for path, code := range map[string]int{"/console/": http.StatusTemporaryRedirect, "/console/x": http.StatusNotFound, "/console/assets/console.js": http.StatusNotFound} {
		if w := ask(f, path); w.Code != code {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// The runbook has no Markdown left and no way out of the page that leads nowhere, and each
// cause has a chapter.
func TestRunbook(t *testing.T) {
	body := ask(newFeed(t), "/console/runbook").Body.String()
	main := body[strings.Index(body, "<main"):strings.Index(body, "</main>")]
	for _, left := range []string{"|---", "\n## ", "](", "``"} {
		if strings.Contains(main, left) {
			t.Errorf("%q is left", left)
		}
	}
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(main, -1) {
		if id, local := strings.CutPrefix(link[1], "#"); link[1] != "../" && (!local || !strings.Contains(body, `id="`+id+`"`)) {
			t.Errorf("a link to %q", link[1])
		}
	}
	for _, c := range causes {
		if !strings.Contains(docs.Runbook, "\n## "+c.chapter+"\n") {
			t.Errorf("%s has no chapter %s", c.id, c.chapter)
		}
	}
}

func TestTopAccounts(t *testing.T) {
	top, at := NewTopAccounts(3), time.Now()
	top.fade(at)
	for range 60 {
		top.Filled("heavy")
		top.Filled("other")
		top.Filled("heavy")
	}
	for i := range 20 {
		top.Filled(fmt.Sprint("rare-", i))
	}
	got := top.top(2)
	if len(got) != 2 || got[0].Name != "heavy" || got[1].Name != "other" || math.Abs(got[0].Share-.6) > .01 {
		t.Errorf("%+v", got)
	}
	before := got[0].PerSecond
	top.fade(at.Add(halfLife))
	if got := top.top(1); math.Abs(got[0].PerSecond-before/2) > 1e-9 || math.Abs(got[0].Share-.6) > .01 {
		t.Errorf("after a half-life: %+v, before %v", got, before)
	}
}

// What the console costs a gateway that nobody looks at, every 5 seconds. It decides that
// the causes are judged always, and the gathering is most of it.
func BenchmarkTick(b *testing.B) {
	f := newFeed(&testing.T{})
	b.ReportAllocs()
	for b.Loop() {
		f.tick()
	}
}
