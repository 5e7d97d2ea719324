package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"inquiry-gateway/docs"
	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/cases"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// feed is a console whose series a test moves by hand. That they are those of the real
// parts is what a test of the whole program holds.
type feed struct {
	*Console
	clock    *testkit.Clock
	registry *prometheus.Registry
	counters map[string]*prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	facts    Facts
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
	facts := func() Facts {
		facts := f.facts
		facts.Kinds = []string{"buyer", "seller"}
		return facts
	}
	c, err := New(Options{
		Gatherer: f.registry, Facts: facts,
		TopAccounts: NewTopAccounts(), Version: "v1.2.3<b>", Node: "inquiry-gateway-6d9c7b5f4-<x>2k9q", Now: f.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Console = c
	c.tick()
	return f
}

// set adds to a counter, or sets a gauge. A series is a family with the values of the
// selected labels.
func (f *feed) set(series string, value float64) {
	labels := strings.Fields(series)
	if counter, ok := f.counters[labels[0]]; ok {
		counter.WithLabelValues(append(labels[1:], "x")...).Add(value)
		return
	}
	f.gauges[labels[0]].WithLabelValues(labels[1:]...).Set(value)
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

// Each cause is seen by its series, and says what, whom it hits, why, and what to do with the
// names of this gateway. The name of a case is the cause's id and whether it is bad; its lines are
// what grows, what else is so, and after "~" what the page must say.
func TestCauses(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range cases.Read(t, "testdata/causes.txt") {
		name, _, _ := strings.Cut(c.Name, ":")
		head, _, others := strings.Cut(name, ", ") // causes that are seen, too
		id, bad := strings.CutSuffix(head, " bad")
		f := newFeed(t)
		at := f.clock.Now()
		tried[id] = true
		f.facts = Facts{File: "/etc/gw.yaml", Redis: "[fd00::1]:6380", Breakers: map[string]string{}, Last: map[string]Failure{
			"redis": {Text: "connection refused", At: at}, "reload": {Text: "gateway.yaml:3:1: x", At: at},
		}}
		if quiet := f.after(tickEvery); len(quiet) > 0 {
			t.Fatalf("%s: before it fails: %+v", id, quiet)
		}
		var says []string
		for row := range strings.Lines(c.Text) {
			row = strings.TrimSuffix(row, "\n")
			if want, ok := strings.CutPrefix(row, "~ "); ok {
				says = append(says, want)
				continue
			}
			series, value, _ := strings.Cut(row, ": ")
			switch series {
			case "not in force":
				f.facts.NotInForce = strings.Split(value, ", ")
				continue
			case "failing", "over":
				f.facts.Legacy = append(f.facts.Legacy, episodeOf(t, value, f.clock.Now().Add(tickEvery), series == "over"))
				continue
			case "breaker":
				kind, state, _ := strings.Cut(value, " ")
				f.facts.Breakers[kind] = state
				continue
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			f.set(series, n)
		}
		got := f.after(tickEvery)
		if others {
			got = got[:1]
		}
		if len(got) != 1 || got[0].ID != id || got[0].Bad != bad || got[0].Over || got[0].Since != f.clock.Now().Unix() ||
			got[0].Hits == "" || strings.ContainsAny(got[0].Text+got[0].Do, "{}") {
			t.Fatalf("%s: %+v", id, got)
		}
		shown, err := json.Marshal(got[0])
		name = map[bool]string{true: "Problem: ", false: "Notice: "}[bad] + got[0].Name // as the page has it
		for _, want := range says {
			if err != nil || !strings.Contains(string(shown)+name, want) {
				t.Errorf("%s: no %q in %s, %v", id, want, shown, err)
			}
		}
	}
	if len(tried) != len(causes)+len(legacyCauses) {
		t.Errorf("tried are %v", tried)
	}
}

// Until a list has come an outage is not over, however long nobody asks: the page says that nobody
// knows. Then it says since when it works.
func TestAnOutageWithLittleTraffic(t *testing.T) {
	f := newFeed(t)
	begin := f.clock.Now()
	one := episodeOf(t, "buyer system 2 1/1 acme", begin, false)
	one.Usual, one.UsualCause, one.UsualFetches, one.Fetches = "the legacy system does not let us in (timeout): too slow", "too slow", 9, 12
	for _, step := range []struct {
		after       time.Duration
		over        bool
		text, cause string
	}{
		{tickEvery, false, "no other one was asked for.", "Last: status 503 (buyer list of acme). Most often, 9 of 12 times: too slow"},
		{5 * time.Minute, false, "Nothing has been asked since 06:07:00 UTC, so nobody knows whether it works again.", ""},
		{tickEvery, true, "It works again since 06:12:05 UTC, when a list came.", ""},
		{tickEvery, true, "It is over since 06:12:05 UTC, when another mapping was taken over.", ""},
	} {
		one.Remapped = strings.Contains(step.text, "mapping")
		if step.over {
			ended := begin.Add(5*time.Minute + tickEvery)
			one.Over, one.Ended = true, &ended
		}
		f.facts.Legacy = []ops.Failing{one}
		got := f.after(step.after)
		if len(got) != 1 || got[0].Over != step.over || got[0].Since != begin.Unix() || step.over && got[0].Last != one.Ended.Unix() || !strings.HasSuffix(got[0].Text, step.text) || !strings.HasPrefix(got[0].Cause, step.cause) {
			t.Errorf("%v later: %+v", step.after, got)
		}
	}
}

// episodeOf reads "buyer system some 4 1/14 acme".
func episodeOf(t *testing.T, text string, at time.Time, over bool) ops.Failing {
	t.Helper()
	f := ops.Failing{Since: at, Last: at, Over: over, Text: "the legacy system fails (status_5xx): status 503", Reason: "status_5xx", Cause: "status 503", UsualCause: "status 503"}
	text, f.Some = strings.Replace(text, " some ", " ", 1), strings.Contains(text, " some ")
	text, reason, found := strings.Cut(text, " (")
	if found {
		f.Reason = strings.TrimSuffix(reason, ")")
	}
	_, err := fmt.Sscanf(text, "%s %s %d %d/%d", &f.Kind, &f.Failure, &f.Fetches, &f.Accounts, &f.Of)
	f.Account, f.Usual, f.UsualFetches = strings.SplitN(text, " ", 5)[4], f.Text, f.Fetches
	if over {
		f.Ended = &at
	}
	if err != nil {
		t.Fatal(text, err)
	}
	return f
}

func TestSingleFailuresAreNoCause(t *testing.T) {
	f := newFeed(t)
	f.set("redis_operations_total timeout", 1)
	f.set("http_requests_total 429", 200)
	f.set("rate_limit_decisions_total limited", 4)
	if got := f.after(tickEvery); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// What a person pastes into a shell is one word, whatever the account is called.
func TestNamesInCommandsAreQuoted(t *testing.T) {
	for name, want := range map[string]string{"acme": "acme", "o'hara&sons": `'o'\''hara&sons'`, "a b": "'a b'", "$(rm)": "'$(rm)'", "x`y": "ID", "서울": "서울"} {
		if got := quoted(name); got != want {
			t.Errorf("%s is written %s", name, got)
		}
	}
}

// A fault is over once what had failed works, not when nobody asks; another one is a new one. What
// is over stands below, with both its times; what is long over is forgotten.
func TestSinceAndOver(t *testing.T) {
	f := newFeed(t)
	want := func(lines []line, want ...string) {
		t.Helper()
		var got []string
		for _, l := range lines {
			got = append(got, fmt.Sprint(l.ID, time.Unix(l.Since, 0).UTC().Format(" 15:04:05 "), time.Unix(l.Last, 0).UTC().Format("15:04:05 "), l.Over))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f.set("redis_breaker_state", 2)
	f.after(2 * time.Minute)
	f.set("redis_breaker_state", 0)
	want(f.after(10*time.Minute), "redis 06:07:05 06:09:00 false")
	if got := f.state().Lines[0].Text; !strings.HasSuffix(got, "Nothing has been asked since.") {
		t.Error(got)
	}
	f.set("redis_operations_total ok", 1)
	want(f.after(5*time.Second), "redis 06:07:05 06:09:00 true")
	f.set("rate_limit_decisions_total limited", 8)
	want(f.after(5*time.Second), "limited 06:19:10 06:19:10 false", "redis 06:07:05 06:09:00 true")
	f.set("redis_breaker_state", 1)
	want(f.after(5*time.Second), "redis 06:19:15 06:19:15 false", "limited 06:19:10 06:19:10 false")
	f.set("redis_breaker_state", 0)
	f.set("redis_operations_total ok", 1)
	f.after(5 * time.Second)
	f.set("redis_breaker_state", 2) // within half a minute it is the same
	want(f.after(5*time.Second), "redis 06:19:15 06:19:25 false", "limited 06:19:10 06:19:10 false")
	want(f.after(6 * time.Minute)[1:], "limited 06:19:10 06:19:10 true")
	f.set("redis_breaker_state", 0)
	f.set("redis_operations_total ok", 1)
	f.after(5 * time.Second)
	f.clock.Add(13 * time.Hour)
	want(f.after(5 * time.Second))
}

// broken is a part whose series cannot be read.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}
func (broken) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Fed.", nil, nil), errors.New("collected twice"))
}

// Figures that are missing must not look like good ones.
func TestMetricsThatCannotBeRead(t *testing.T) {
	f := newFeed(t)
	f.registry.MustRegister(broken{})
	f.set("panics_total cache", 1)
	if got := f.after(tickEvery); len(got) != 2 || !got[0].Bad || !strings.Contains(got[0].Cause, "collected twice") || got[1].ID != "panics" {
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
	got, err := sumUp(registry)
	if len(got) != len(selected) || err != nil {
		t.Errorf("%d families, %v", len(got), err)
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
		"/": "v1.2.3&lt;b&gt; on inquiry-gateway-6d9c7b5f4-&lt;x&gt;2k9q<", "/console/runbook": `<h2 id="inquirygatewaylegacysystemfails">`, "/console/state": `"lines":[]`,
	} {
		w := ask(f, path)
		body, header := w.Body.String(), w.Header()
		if w.Code != http.StatusOK || !strings.Contains(body, says) || strings.Contains(body, "{{") ||
			header.Get("Content-Security-Policy") != policy || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %.300s", path, w.Code, header, body)
		}
		for _, asset := range regexp.MustCompile(`(?:src|href)="(?:\.\./)?(console/assets/[^"]+)"`).FindAllStringSubmatch(body, -1) {
			if a := ask(f, "/"+asset[1]); a.Code != http.StatusOK || a.Header().Get("Cache-Control") != "no-cache" || a.Header().Get("ETag") == "" {
				t.Errorf("%s: %d %v", asset[1], a.Code, a.Header())
			}
		}
	}
	for path, location := range map[string]string{"/console": "./", "/console/": "../"} { // relative, for a proxy's prefix
		if w := ask(f, path); w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != location {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	if w := ask(f, "/console/x"); w.Code != http.StatusNotFound {
		t.Errorf("/console/x: %d", w.Code)
	}
}

// The runbook has no Markdown left and no way out of the page that leads nowhere, and each
// cause has a chapter.
func TestRunbook(t *testing.T) {
	body := ask(newFeed(t), "/console/runbook").Body.String()
	main := body[strings.Index(body, "<main"):strings.Index(body, "</main>")]
	if left := regexp.MustCompile("\\|---|\n## |\\]\\(|``").FindString(main); left != "" {
		t.Errorf("%q is left", left)
	}
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(main, -1) {
		if id, local := strings.CutPrefix(link[1], "#"); link[1] != "../" && (!local || !strings.Contains(body, `id="`+id+`"`)) {
			t.Errorf("a link to %q", link[1])
		}
	}
	chapters := map[string]string{}
	for _, c := range causes {
		chapters[c.id] = c.chapter
	}
	for _, c := range legacyCauses {
		chapters[c.failure] = c.chapter
	}
	for id, chapter := range chapters {
		if !strings.Contains(docs.Runbook, "\n## "+chapter+"\n") {
			t.Errorf("%s has no chapter %s", id, chapter)
		}
	}
}

// The bounds of the console and of the alerts stand side by side in docs/observing.md, as they are.
func TestBoundsOfConsoleAndAlerts(t *testing.T) {
	text, err := os.ReadFile("../../../docs/observing.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	accounts := fmt.Sprintf("from %g %% of the accounts", 100*legacyShare)
	want := map[string][2]string{ // notice, problem
		"keystore": {"", fmt.Sprintf("from %d requests and %g %% in 5 s", keysLeast, 100*keysShare)}, "answers": {"", fmt.Sprintf("from %g %% in 5 s", 100*failedShare)},
		"redis": {fmt.Sprintf("from %d failed calls in 5 s", redisLeast)}, "limited": {fmt.Sprintf("from %d requests and %g %% in 5 s", limitedLeast, 100*limitedShare)},
	}
	rows := map[string][]string{}
	for row := range strings.Lines(string(text)) {
		if cells := strings.Split(row, "|"); len(cells) == 7 {
			for i, cell := range cells {
				cells[i] = strings.TrimSpace(cell)
			}
			rows[cells[1]] = cells[1:6]
		}
	}
	compare := func(name, chapter, notice, problem string) {
		cells := rows[name]
		if cells == nil || cells[3] != chapter || !strings.Contains(cells[1], notice) || !strings.Contains(cells[2], problem) {
			t.Errorf("the row of %s is %q, want %q, %q, %q", name, cells, notice, problem, chapter)
			return
		}
		_, rule, _ := strings.Cut(string(alerts), "alert: "+chapter+"\n")
		rule, _, _ = strings.Cut(rule, "- alert: ")
		rule, _, _ = strings.Cut(rule, "annotations:")
		bounds := regexp.MustCompile(`[<>] (\d[\d.]*(?: \* \d[\d.]*)?)|for: (\w+)|severity: (\w+)`).FindAllStringSubmatch(rule, -1)
		if len(bounds) == 0 {
			t.Errorf("no bounds of %s", chapter)
		}
		for _, b := range bounds {
			if bound := b[1] + b[2] + b[3]; !strings.Contains(cells[4], bound) && bound != "0" && bound != "0.001" { // the last is of the objective itself
				t.Errorf("%s: the alert's bound %s is not in %q", name, bound, cells[4])
			}
		}
	}
	for _, c := range causes {
		compare(c.name, c.chapter, want[c.id][0], want[c.id][1])
	}
	for _, c := range legacyCauses {
		problem := accounts
		if !c.mayBeBad {
			problem = ""
		}
		compare(c.name, c.chapter, "one fetch", problem)
	}
}

func TestTopAccounts(t *testing.T) {
	top, at := NewTopAccounts(), time.Now()
	for range 60 {
		top.count("heavy", at)
		top.count("other", at)
		top.count("heavy", at)
	}
	for i := range maxCounted + 20 {
		top.count(fmt.Sprint("rare-", i), at)
	}
	if got := top.top(2, at.Add(time.Minute)); len(got) != 2 || got[0].Name != "heavy" || got[0].PerSecond != 2 || got[1].Name != "other" {
		t.Errorf("%+v", got)
	}
	if n := len(top.top(2*maxCounted, at.Add(time.Minute))); n != maxCounted {
		t.Errorf("%d accounts are told apart", n)
	}
	at = at.Add(countedFor)
	top.count("late", at)
	if got := top.top(1, at); len(got) != 1 || got[0].Name != "heavy" || got[0].PerSecond != 120/countedFor.Seconds() {
		t.Errorf("in the next period: %+v", got)
	}
	at = at.Add(countedFor)
	if got := top.top(3, at); len(got) != 1 || got[0].Name != "late" || got[0].Share != 1 {
		t.Errorf("in the one after: %+v", got)
	}
	if got := top.top(3, at.Add(2*countedFor)); len(got) != 0 {
		t.Errorf("later: %+v", got)
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
