package console

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each finding comes from the figures that it speaks of, and a quiet gateway has none.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(f *feed)
		level   level
		says    string
	}{
		"breaker open":      {func(f *feed) { f.gauge("upstream_breaker_state", 2, "buyer") }, levelBad, "breaker of the buyer lists is open"},
		"breaker half-open": {func(f *feed) { f.gauge("upstream_breaker_state", 1, "seller") }, levelWarn, "seller lists is half-open"},
		"failing":           {func(f *feed) { f.count("upstream_requests_total", 2, "buyer", "timeout") }, levelWarn, "100 % of the fetches of buyer lists"},
		"stale":             {func(f *feed) { f.count("cache_lookups_total", 2, "buyer", "stale-error", "local") }, levelWarn, "older buyer lists"},
		"foreign":           {func(f *feed) { f.count("upstream_foreign_records_total", 1, "seller") }, levelBad, "seller records of another account"},
		"drift":             {func(f *feed) { f.count("upstream_drift_total", 1, "buyer", "type") }, levelWarn, "changed their shape"},
		"invalid":           {func(f *feed) { f.count("upstream_records_invalid_total", 3, "buyer", "title") }, levelWarn, "Fields refused within a minute: 3."},
		"redis down":        {func(f *feed) { f.gauge("redis_breaker_state", 2) }, levelBad, "Redis is down"},
		"redis fails":       {func(f *feed) { f.count("redis_operations_total", 4, "get", "timeout") }, levelWarn, "Redis that failed within a minute: 4."},
		"5xx":               {func(f *feed) { f.count("http_requests_total", 5, "buyer_inquiries", "502") }, levelBad, "answers 5xx within a minute: 5."},
		"key store":         {func(f *feed) { f.count("auth_requests_total", 1, "unavailable") }, levelBad, "key store"},
		"limited":           {func(f *feed) { f.count("rate_limit_decisions_total", 9, "limited", "node") }, levelWarn, "over their account's rate within a minute: 9."},
		"reload":            {func(f *feed) { f.gauge("config_last_reload_successful", 0) }, levelWarn, "last reload"},
		"cross-read":        {func(f *feed) { f.count("canary_checks_total", 1, "seller", "cross_read", "failed") }, levelBad, "seller accounts got each other's records"},
		"let in":            {func(f *feed) { f.count("canary_checks_total", 1, "buyer", "access", "failed") }, levelBad, "buyer lists was not refused"},
		"canary":            {func(f *feed) { f.count("canary_checks_total", 1, "buyer", "keys", "failed") }, levelWarn, "check keys of buyer lists failed"},
		"panic":             {func(f *feed) { f.count("http_panics_total", 1) }, levelBad, "Handlers panicked"},
	} {
		s := newSteps()
		for kind := range 2 { // the series of both kinds exist from the start
			f := s.feed
			f.count("upstream_foreign_records_total", 0, kinds[kind])
		}
		s.next()
		if got := findings(s.span(tileSpan), s.span(kept), nil); len(got) != 0 {
			t.Errorf("a quiet gateway: %+v", got)
		}
		c.happens(s.feed)
		s.next()
		got := findings(s.span(tileSpan), s.span(kept), nil)
		if len(got) != 1 || got[0].Level != c.level || !strings.Contains(got[0].Text, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s := newSteps()
	if got := findings(s.span(tileSpan), s.span(kept), errors.New("no")); len(got) != 1 || got[0].Level != levelBad {
		t.Errorf("metrics that cannot be read: %+v", got)
	}
}

var target = regexp.MustCompile(`(?:href="#|aria-labelledby="|aria-describedby="|for=")([^"]*)"`)

// The page without JavaScript: every figure, every chart as a table, every label
// and link with what it refers to, and nothing inline.
func TestPage(t *testing.T) {
	c, f := newConsole(t, Options{TTL: sampleReport, TopAccounts: NewTopAccounts(4), Purge: nil, Version: "v9"})
	if body := ask(c, request()).Body.String(); !strings.Contains(body, "There are no fresh figures") {
		t.Error("the page before the first sample says nothing of it")
	}
	remember(c, f, &clock{})
	c.opts.TopAccounts.Filled("acme")
	w := ask(c, request())
	body := w.Body.String()
	if w.Code != 200 || w.Header().Get("Content-Security-Policy") != policy || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for _, m := range target.FindAllStringSubmatch(body, -1) {
		if !strings.Contains(body, `id="`+m[1]+`"`) {
			t.Errorf("%s refers to nothing", m[0])
		}
	}
	for _, ch := range c.charts {
		if !strings.Contains(body, `<tbody id="rows-`+ch.ID+`"><tr><th scope="row">`) {
			t.Errorf("chart %s has no table", ch.ID)
		}
	}
	for _, bad := range []string{"style=", "<style", "onclick", "javascript:", "acme", "NaN", "Inf"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page holds %s", bad)
		}
	}
	if n, inline := strings.Count(body, "<script"), strings.Count(body, "<script defer src="); n == 0 || n != inline {
		t.Errorf("%d scripts, %d of them files", n, inline)
	}
	if strings.Contains(body, `id="purge"`) || strings.Contains(body, `id="explain"`) {
		t.Error("forms without a function behind them")
	}
	if w := ask(c, httptest.NewRequest(http.MethodPost, "/", nil)); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/other", nil)); w.Code != http.StatusNotFound {
		t.Errorf("another path: %d", w.Code)
	}
}

func TestAssets(t *testing.T) {
	c, _ := newConsole(t, Options{Sessions: NewSessions("s3cret", nil)})
	for file, name := range c.site.names {
		w := ask(c, httptest.NewRequest(http.MethodGet, "/"+name, nil))
		if w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", file, w.Code, w.Header())
		}
	}
	if w := ask(c, httptest.NewRequest(http.MethodGet, "/console/assets/../home.html", nil)); w.Code == 200 {
		t.Error("a template is served")
	}
	if w := ask(c, httptest.NewRequest(http.MethodPost, "/"+c.site.names["console.js"], nil)); w.Code != 404 {
		t.Errorf("POST: %d", w.Code)
	}
}

// What is vendored is what the package holds.
func TestVendored(t *testing.T) {
	n := 0
	for line := range strings.Lines(string(mustRead("uplot/SHA256SUMS"))) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sum := sha256.Sum256(mustRead("uplot/" + name))
		if hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the file of the package", name)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d files", n)
	}
}

func TestFormat(t *testing.T) {
	for want, got := range map[string]string{
		"0/s": format(0, unitRate), "1234/s": format(1234.4, unitRate), "0.0012/s": format(.0012, unitRate), "1.5/s": format(1.5, unitRate), "100/s": format(100, unitRate),
		"100 %": format(1, unitRatio), ">99.99 %": format(.99999, unitRatio), "<0.01 %": format(.00001, unitRatio), "0 %": format(0, unitRatio), "93.89 %": format(.93894, unitRatio),
		"250 µs": format(.00025, unitSeconds), "28 ms": format(.028, unitSeconds), "64.5 s": format(64.5, unitSeconds), "10 min": format(600, unitSeconds), "3 h": format(10800, unitSeconds),
		unknown: format(math.NaN(), unitRate), "open": format(2, unitState), "12": format(12, unitCount),
		"90s": shortTTL(90), "5m": shortTTL(300), "24h": shortTTL(86400), "1.5s": shortTTL(1.5), "0s": shortTTL(0),
		"03:04:05": moment(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
