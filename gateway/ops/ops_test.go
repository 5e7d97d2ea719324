package ops

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// page is a console that answers with nothing.
type page struct{ http.Handler }

func (page) SignIn(w http.ResponseWriter, _ string, _ bool) { w.WriteHeader(http.StatusUnauthorized) }

// newListener completes the options of a listener with a token, or none.
func newListener(token string, opts Options) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "sample_total", Help: "A sample."}))
	opts.Gatherer, opts.Console, opts.Logger = registry, page{http.NotFoundHandler()}, slog.New(slog.DiscardHandler)
	if opts.Sessions == nil {
		opts.Sessions = NewSessions(token, nil)
	}
	return New(opts)
}

func listener(token string, state Readiness) http.Handler {
	return newListener(token, Options{Ready: func() Readiness { return state }})
}

func ask(h http.Handler, method, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:9090"+path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRoutes(t *testing.T) {
	h := listener("", Readiness{Status: StatusReady})
	for path, text := range map[string]string{
		"/livez": "ok", "/readyz": `"status":"ready"`, "/metrics": "sample_total 0", "/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile",
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
}

func TestReadiness(t *testing.T) {
	for state, code := range map[string]int{StatusReady: 200, StatusDegraded: 200, StatusDraining: 503} {
		w := ask(listener("", Readiness{Status: state, Parts: map[string]string{"redis": "down"}}), http.MethodGet, "/readyz", "")
		if w.Code != code || !strings.Contains(w.Body.String(), `"status":"`+state+`"`) || !strings.Contains(w.Body.String(), `"redis":"down"`) {
			t.Errorf("%s: %d %s", state, w.Code, w.Body)
		}
	}
}

func TestToken(t *testing.T) {
	h := listener("s3cret", Readiness{Status: StatusReady})
	for authorization, code := range map[string]int{
		"": 401, "Bearer": 401, "Bearer ": 401, "Bearer s3cre": 401, "Bearer s3cret ": 401, "Basic s3cret": 401, "s3cret": 401,
		"Bearer s3cret": 200, "bearer s3cret": 200, "Bearer  s3cret": 200,
	} {
		for _, path := range []string{"/metrics", "/debug/pprof/"} {
			w := ask(h, http.MethodGet, path, authorization)
			if w.Code != code || code == 401 && (w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "sample")) {
				t.Errorf("%s with %q: %d", path, authorization, w.Code)
			}
		}
		for _, path := range []string{"/livez", "/readyz"} {
			if w := ask(h, http.MethodGet, path, authorization); w.Code != 200 {
				t.Errorf("%s with %q: %d; probes carry no token", path, authorization, w.Code)
			}
		}
	}
}
