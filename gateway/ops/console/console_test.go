package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"inquiry-gateway/docs"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/cases"
	"inquiry-gateway/internal/theme"
	"inquiry-gateway/upstream"
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
// selected labels; those that are left out are empty.
func (f *feed) set(series string, value float64) {
	labels := strings.Fields(series)
	for len(labels) <= len(selected[labels[0]]) {
		labels = append(labels, "")
	}
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

// Each incident and condition says what, whom it hits, why, and what to do with the names of this gateway. The name of a
// case is the line's id and whether it is bad; its lines are what grows, what else is so, and after "~" what the page
// must say.
func TestLines(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range cases.Read(t, "testdata/lines.txt") {
		name, _, _ := strings.Cut(c.Name, ":")
		head, _, others := strings.Cut(name, ", ") // conditions that are seen, too
		id, bad := strings.CutSuffix(head, " bad")
		f := newFeed(t)
		at := f.clock.Now()
		kind, _, _ := strings.Cut(id, "-")
		tried[kind] = true
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
			case "failing":
				f.facts.Incidents = append(f.facts.Incidents, incidentOf(t, value, f.clock.Now().Add(tickEvery)))
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
		if len(got) != 1 || got[0].ID != id || got[0].Bad != bad || got[0].Since != 0 && got[0].Since != f.clock.Now().Unix() ||
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
	if len(tried) != len(conditions)+len(incidentTexts) {
		t.Errorf("tried are %v", tried)
	}
}

// Until a list comes nobody knows whether an outage is over, however long nobody asks, and the page says so.
func TestAnOutageWithLittleTraffic(t *testing.T) {
	f := newFeed(t)
	begin := f.clock.Now()
	one := incidentOf(t, "buyer system 2 1/1 acme", begin)
	for _, step := range []struct {
		after time.Duration
		text  string
	}{
		{tickEvery, "no other one was asked for."},
		{5 * time.Minute, "Nothing has been asked since 06:07:00 UTC, so nobody knows whether it works again."},
		{tickEvery, "A list came at 06:12:10 UTC: if no more fail, it is over within 30 seconds."},
	} {
		if strings.HasPrefix(step.text, "A list") {
			one.Accounts, one.Worked = 0, f.clock.Now().Add(tickEvery)
		}
		f.facts.Incidents = []upstream.Incident{one}
		got := f.after(step.after)
		if len(got) != 1 || got[0].Since != begin.Unix() || got[0].Last != begin.Unix() || !strings.HasSuffix(got[0].Text, step.text) || got[0].Cause != "Last: status 503 (buyer list of acme)" {
			t.Errorf("%v later: %+v", step.after, got)
		}
	}
}

// incidentOf reads "buyer system 4 1/14 acme (reason)".
func incidentOf(t *testing.T, text string, at time.Time) upstream.Incident {
	t.Helper()
	i := upstream.Incident{Since: at, Last: at, Text: "the legacy system fails (status_5xx): status 503", Reason: "status_5xx", Cause: "status 503"}
	text, reason, found := strings.Cut(text, " (")
	if found {
		i.Reason = strings.TrimSuffix(reason, ")")
	}
	_, err := fmt.Sscanf(text, "%s %s %d %d/%d", &i.Kind, &i.Failure, &i.Fetches, &i.Accounts, &i.Asked)
	i.Account = strings.SplitN(text, " ", 5)[4]
	if err != nil {
		t.Fatal(text, err)
	}
	return i
}

func TestSingleFailuresAreNotShown(t *testing.T) {
	f := newFeed(t)
	f.set("redis_operations_total timeout", 1)
	f.set("http_requests_total 429 rate_limited", 200)
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

// A condition is shown for a minute after it was last seen, a state as long as it lasts.
func TestConditionsOfTheLastMinute(t *testing.T) {
	f := newFeed(t)
	f.set("panics_total cache", 1)
	f.set("redis_breaker_state", 2)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{tickEvery, "panics redis "}, {50 * time.Second, "panics redis "}, {2 * tickEvery, "redis "}} {
		got := ""
		for _, l := range f.after(step.after) {
			got += l.ID + " "
		}
		if got != step.want {
			t.Errorf("%v later: %s, want %s", step.after, got, step.want)
		}
	}
	f.set("redis_breaker_state", 0)
	if got := f.after(tickEvery); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// broken is a part whose series cannot be read.
type broken struct{ mended bool }

func (*broken) Describe(chan<- *prometheus.Desc) {}
func (b *broken) Collect(to chan<- prometheus.Metric) {
	if b.mended {
		return
	}
	to <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "Fed.", nil, nil), errors.New("collected twice"))
}

// Figures that are missing must not look like good ones, nor like counters that began again once they can be read.
func TestMetricsThatCannotBeRead(t *testing.T) {
	f := newFeed(t)
	f.set("http_requests_total 502 upstream_error", 1000)
	f.after(2 * windowSize)
	part := &broken{}
	f.registry.MustRegister(part)
	if got := f.after(tickEvery); len(got) != 1 || !got[0].Bad || !strings.Contains(got[0].Cause, "collected twice") {
		t.Errorf("%+v", got)
	}
	part.mended = true
	if got := f.after(tickEvery); len(got) > 0 {
		t.Errorf("afterwards: %+v", got)
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
	got, err := collect(registry)
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
			header.Get("Content-Security-Policy") != theme.Policy || header.Get("Cache-Control") != "no-store" {
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
// line has a chapter.
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
	for _, c := range conditions {
		chapters[c.id] = c.chapter
	}
	for _, i := range incidentTexts {
		chapters[string(i.failure)] = i.chapter
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
	accounts := fmt.Sprintf("from %g %% of the accounts", 100*failingShare)
	want := map[string][2]string{ // notice, problem
		"keystore": {"", fmt.Sprintf("from %d requests and %g %% in 1 min", keysLeast, 100*keysShare)}, "answers": {"", fmt.Sprintf("from %g %% in 1 min", 100*failedShare)},
		"redis": {fmt.Sprintf("from %d failed calls in 1 min", redisLeast)}, "limited": {fmt.Sprintf("from %d requests and %g %% in 1 min", limitedLeast, 100*limitedShare)},
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
	for _, c := range conditions {
		compare(c.name, c.chapter, want[c.id][0], want[c.id][1])
	}
	for _, i := range incidentTexts {
		switch {
		case i.problem:
			compare(i.name, i.chapter, "", "one fetch")
		case i.notice:
			compare(i.name, i.chapter, "one fetch", "")
		default:
			compare(i.name, i.chapter, "one fetch", accounts)
		}
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

// What the console costs a gateway that nobody looks at, every 5 seconds. The gathering is most
// of it.
func BenchmarkTick(b *testing.B) {
	f := newFeed(&testing.T{})
	b.ReportAllocs()
	for b.Loop() {
		f.tick()
	}
}
