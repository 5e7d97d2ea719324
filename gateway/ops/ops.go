// Package ops serves the second listener: health, metrics, profiles, purges,
// explanations and the console, for those who run the gateway.
package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are the parts of the ops listener. All are needed. The functions must be safe
// for concurrent use.
type Options struct {
	Gatherer prometheus.Gatherer // of the series of /metrics
	// Ready tells the state that /readyz answers with. It is quick: probes call it
	// every few seconds.
	Ready func() Readiness
	// Sessions guard everything but /livez and /readyz, which probes read and
	// which say nothing of callers.
	Sessions *Sessions
	Console  Console // the page at "/"
	// Purge makes the lists of a kind or of an account unservable over the
	// fleet and returns their new epoch. With an error, what is set of the reply
	// was reached all the same.
	Purge func(ctx context.Context, kind, account string) (PurgeReply, error)
	// Changed marks lists as changed over the fleet.
	Changed func(context.Context, ChangedRequest) (ChangedReply, error)
	// Config gives the configuration that runs, secrets hidden, as YAML.
	Config func() string
	// TTL gives the TTL lab's what-if report, for JSON.
	TTL func() any
	// Explain says what a request would get now, and why.
	Explain func(context.Context, ExplainRequest) (Explanation, error)
	Logger  *slog.Logger
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
	mux.Handle("/console/assets/", opts.Console) // the sign-in form needs its style sheet
	mux.Handle("/console/login", opts.Sessions.login(opts.Console))
	mux.Handle("/", opts.Sessions.guard(opts.Console, opts.guarded()))
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
	mux.HandleFunc("POST /console/logout", opts.Sessions.logout)
	mux.Handle("/{$}", opts.Console)
	mux.Handle("/console/", opts.Console)
	mux.Handle("POST /ops/purge", post(maxPurgeBytes, `send JSON such as {"account":"acme"} or {"kind":"buyer"}`, PurgeRequest.check,
		func(ctx context.Context, q PurgeRequest) (PurgeReply, error) {
			reply, err := opts.Purge(ctx, q.Kind, q.Account)
			return reply, purgeFailed(reply, err)
		}))
	mux.Handle("POST /ops/changed", post(maxChangedBytes,
		`send JSON such as {"accounts":["acme"]} or {"accounts":["acme"],"hard":true}, and many in several requests`,
		func(ChangedRequest) error { return nil },
		func(ctx context.Context, q ChangedRequest) (ChangedReply, error) {
			reply, err := opts.Changed(ctx, q)
			if err != nil && !errors.Is(err, ErrChanged) {
				err = fmt.Errorf("not all is marked; repeat it: %w", err)
			}
			return reply, err
		}))
	mux.HandleFunc("GET /ops/ttl", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, opts.TTL()) })
	mux.HandleFunc("GET /ops/explain", func(w http.ResponseWriter, r *http.Request) {
		want, err := parseExplain(r.URL.RawQuery)
		var x Explanation
		if err == nil {
			x, err = opts.Explain(r.Context(), want)
		}
		respond(w, x, err)
	})
	mux.HandleFunc("GET /ops/config", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = io.WriteString(w, opts.Config()) // a caller that left; nobody to tell
	})
	return mux
}
