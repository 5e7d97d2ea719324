package ops

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// newListener completes the options of a listener with these tokens; empty: none.
func newListener(operator, read string, opts Options) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "sample_total", Help: "A sample."}))
	opts.Gatherer, opts.Logger = registry, slog.New(slog.DiscardHandler)
	opts.Console = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeText(w, "text/html", "the console") })
	opts.Tokens = NewTokens(opts.Logger, registry)
	opts.Tokens.Set(operator, read)
	opts.Config = func() string { return "listen: x" }
	opts.TTL, opts.Lookups = func() any { return nil }, func(io.Writer) error { return nil }
	if opts.Ready == nil {
		opts.Ready = func() Readiness { return Readiness{Status: StatusReady} }
	}
	if opts.Purge == nil {
		opts.Purge = func(context.Context, PurgeRequest) (PurgeReply, error) { return PurgeReply{}, nil }
	}
	return New(opts)
}

// ask sends a request to http://localhost:9090; headers are names and values in turn.
func ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:9090"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRoutes(t *testing.T) {
	h := newListener("", "", Options{})
	for path, text := range map[string]string{
		"/livez": "ok", "/readyz": `"status":"ready"`, "/metrics": "sample_total 0", "/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile",
		"/": "the console", "/console": "the console", "/console/x": "the console", "/ops/config": "listen: x",
	} {
		if w := ask(h, http.MethodGet, path, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
	if w := ask(h, http.MethodPost, "/metrics", ""); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(h, http.MethodGet, "/nothing", ""); w.Code != http.StatusNotFound {
		t.Errorf("unknown path: %d", w.Code)
	}
	for state, code := range map[string]int{StatusReady: 200, StatusDegraded: 200, StatusDraining: 503} {
		h := newListener("", "", Options{Ready: func() Readiness { return Readiness{Status: state, Parts: map[string]string{"redis": "down"}} }})
		if w := ask(h, http.MethodGet, "/readyz", ""); w.Code != code || !strings.Contains(w.Body.String(), `"status":"`+state+`"`) || !strings.Contains(w.Body.String(), `"redis":"down"`) {
			t.Errorf("%s: %d %s", state, w.Code, w.Body)
		}
	}
}

// Each token opens what it is for, as a bearer token and as the password of a browser.
func TestTokens(t *testing.T) {
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:"+password))
	}
	const neither, reads, operates = 0, 1, 2
	h := newListener("s3cret", "r3ad", Options{})
	for authorization, right := range map[string]int{
		"": neither, "Bearer": neither, "Bearer ": neither, "Bearer s3cre": neither, "Bearer s3cret ": neither, "s3cret": neither, "Basic s3cret": neither, basic(""): neither, basic("s3cre"): neither,
		"Bearer r3ad": reads, basic("r3ad"): reads,
		"Bearer s3cret": operates, "bearer s3cret": operates, "Bearer  s3cret": operates, basic("s3cret"): operates,
	} {
		for path, needs := range map[string]int{"/livez": neither, "/readyz": neither, "/metrics": reads, "/debug/pprof/": operates, "/ops/config": operates, "/": operates, "/console/x": operates} {
			w := ask(h, http.MethodGet, path, "", "Authorization", authorization)
			want := http.StatusOK
			switch {
			case right >= needs:
			case right == reads && strings.HasPrefix(authorization, "Bearer"):
				want = http.StatusForbidden
			default:
				want = http.StatusUnauthorized
			}
			if w.Code != want || want == 401 && len(w.Header().Values("WWW-Authenticate")) != 2 {
				t.Errorf("%s with %q: %d %v, want %d", path, authorization, w.Code, w.Header(), want)
			}
		}
	}
}

// Another site's page changes nothing through the browser of somebody who may. It may cause a GET,
// whose response it cannot read.
func TestPagesOfOtherSites(t *testing.T) {
	const refused = http.StatusForbidden
	h := newListener("s3cret", "", Options{})
	for _, c := range []struct {
		method, path, site, mode, origin string
		want                             int
	}{
		{"GET", "/", "none", "navigate", "", 200},
		{"GET", "/", "cross-site", "navigate", "", 200},
		{"GET", "/console/runbook", "same-site", "navigate", "", 200},
		{"POST", "/", "cross-site", "navigate", "", refused},
		{"POST", "/ops/purge", "cross-site", "cors", "http://evil.example", refused},
		{"POST", "/ops/purge", "same-site", "navigate", "http://wiki.localhost", refused},
		{"POST", "/ops/purge", "", "", "http://evil.example", refused},
		{"POST", "/ops/purge", "", "", "null", refused},
		{"POST", "/ops/purge", "same-origin", "cors", "http://localhost:9090", 200},
		{"POST", "/ops/purge", "", "", "http://localhost:9090", 200},
		{"POST", "/ops/purge", "", "", "", 200},
	} {
		headers := []string{"Authorization", "Bearer s3cret"}
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode, "Origin": c.origin} {
			if value != "" {
				headers = append(headers, name, value)
			}
		}
		if w := ask(h, c.method, c.path, `{"accounts":["acme"]}`, headers...); w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
}

func TestBodies(t *testing.T) {
	h := newListener("", "", Options{Purge: func(_ context.Context, q PurgeRequest) (PurgeReply, error) {
		switch n := len(q.Accounts) + len(q.AccountHashes) + len(q.Kinds); {
		case n == 0:
			return PurgeReply{}, fmt.Errorf("%w: name an account", ErrPurge)
		case slices.Contains(q.Accounts, "away"):
			return PurgeReply{Reached: ReachedFleet}, errors.New("Redis is away")
		default:
			return PurgeReply{n, ReachedFleet}, nil
		}
	}})
	for _, c := range []struct {
		path, body string
		code       int
		says       string
	}{
		{"/ops/purge", `{"accounts":["acme"]}`, 200, `{"purged":1,"reached":"fleet"}`},
		{"/ops/purge", `{"accounts":["away"]}`, 502, "purged on this node only"},
		{"/ops/purge", `{"accounts":["a"],"account_hashes":["b"],"kinds":["buyer"],"soft":true}`, 200, `"purged":3`},
		{"/ops/purge", `{}`, 400, "name an account"},
		{"/ops/purge", `{"account":"acme"}`, 400, `unknown field "account"`},
		{"/ops/purge", `{"kinds":["buyer"]}{}`, 400, "more than one value"},
		{"/ops/purge", "", 400, "send JSON such as"},
		{"/ops/purge", `{"accounts":["` + strings.Repeat("a", 128<<10) + `"]}`, 413, "more than 128 KiB"},
		{"/ops/changed", `{"accounts":["a"]}`, 404, "not found"},
	} {
		if w := ask(h, http.MethodPost, c.path, c.body); w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %.40s: %d %s", c.path, c.body, w.Code, w.Body)
		}
	}
}
