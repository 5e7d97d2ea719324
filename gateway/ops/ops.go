// Package ops serves the second listener: health, metrics, profiles, purges,
// explanations and the console, for those who run the gateway.
package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are the parts of the ops listener.
type Options struct {
	// Gatherer gives the series of /metrics.
	Gatherer prometheus.Gatherer
	// Ready tells the state that /readyz answers with. It must be safe for
	// concurrent use and quick: probes call it every few seconds.
	Ready func() Readiness
	// Sessions guard everything but /livez and /readyz, which probes read and
	// which say nothing of callers. Nil lets in everybody who asks for a name of
	// this machine.
	Sessions *Sessions
	// Console is the page at "/". Nil: none.
	Console Console
	// Purge makes the lists of a kind or of an account unservable over the
	// fleet and returns their new epoch. With an error, what is set of the reply
	// was reached all the same. Nil: /ops/purge is not there.
	Purge func(ctx context.Context, kind, account string) (PurgeReply, error)
	// Changed marks lists as changed over the fleet. Nil: /ops/changed is not there.
	Changed func(ctx context.Context, r ChangedRequest) (ChangedReply, error)
	// Config gives the configuration that runs, secrets hidden, as YAML. Nil:
	// /ops/config is not there.
	Config func() string
	// TTL gives the TTL lab's what-if report, for JSON. Nil: /ops/ttl is not there.
	TTL func() any

	// Explain says what a request would get now, and why. Nil: /ops/explain is
	// not there.
	Explain func(ctx context.Context, want ExplainRequest) (Explanation, error)

	// Trial is what the playground does. Nil: it is not there.
	Trial *Trial

	Logger *slog.Logger // nil: slog.Default
}

// Readiness is what /readyz answers.
type Readiness struct {
	// Status is ready, degraded (serving, but a part is away) or draining.
	Status string `json:"status"`
	// Parts tells the state of each part by name.
	Parts map[string]string `json:"parts,omitempty"`
}

// The states of Readiness.
const (
	StatusReady    = "ready"
	StatusDegraded = "degraded"
	StatusDraining = "draining"
)

// New builds the ops listener's handler.
func New(opts Options) http.Handler {
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	guarded := opts.guarded()
	mux := http.NewServeMux()
	// /livez asks no part: a restart cures neither Redis nor the legacy system.
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n") // the prober left; nobody to tell
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		state, code := opts.Ready(), http.StatusOK
		if state.Status == StatusDraining {
			code = http.StatusServiceUnavailable
		}
		answer(w, code, state)
	})
	if opts.Console != nil {
		mux.Handle("/console/assets/", opts.Console) // the sign-in form needs its style sheet
		mux.Handle("/console/login", opts.Sessions.login(opts.Console))
		guarded.HandleFunc("POST /console/logout", opts.Sessions.logout)
		guarded.Handle("/{$}", opts.Console)
		guarded.Handle("/console/", opts.Console)
	}
	mux.Handle("/", opts.Sessions.guard(opts.Console, guarded))
	// A page of another origin must not be able to purge through the browser of
	// somebody who may.
	protected := http.NewCrossOriginProtection().Handler(mux)
	local := loopbackOnly(protected)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if opts.Sessions.Guarded() { // a reload may change it
			protected.ServeHTTP(w, r)
			return
		}
		local.ServeHTTP(w, r)
	})
}

// guarded has the routes that want the token.
func (opts Options) guarded() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(opts.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if opts.Purge != nil {
		mux.Handle("POST /ops/purge", purge(opts.Purge))
	}
	if opts.Changed != nil {
		mux.Handle("POST /ops/changed", changed(opts.Changed))
	}
	if opts.TTL != nil {
		mux.HandleFunc("GET /ops/ttl", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, opts.TTL()) })
	}
	if opts.Explain != nil {
		mux.Handle("GET /ops/explain", explain(opts.Explain))
	}
	if opts.Trial != nil {
		opts.Trial.routes(mux, opts.Sessions)
	}
	if opts.Config != nil {
		mux.HandleFunc("GET /ops/config", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			_, _ = io.WriteString(w, opts.Config()) // a caller that left; nobody to tell
		})
	}
	return mux
}

// read takes a body of at most limit bytes as JSON. Where it cannot, it has answered
// with 413 or 400 and the hint.
func read(w http.ResponseWriter, r *http.Request, limit int64, into any, hint string) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d KiB", limit>>10)
	}
	http.Error(w, hint+": "+err.Error(), status)
	return false
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a caller that left; nobody to tell
}
