// Package ops is the second listener: health, metrics and profiles for those
// who run the gateway. Nothing of it is on the public listener.
package ops

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"inquiry-gateway/gateway/ops/console"
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
	Sessions *console.Sessions
	// Console is the page at "/"; it asks for the token by itself. Nil: none.
	Console http.Handler
	// Purge makes the lists of a kind or of an account unservable over the
	// fleet and returns their new epoch. With an error, what is set of the reply
	// was reached all the same. Nil: /ops/purge is not there.
	Purge func(ctx context.Context, kind, account string) (PurgeReply, error)
	// Config gives the configuration that runs, secrets hidden, as YAML. Nil:
	// /ops/config is not there.
	Config func() string
	// TTL gives the TTL lab's what-if report, for JSON. Nil: /ops/ttl is not there.
	TTL func() any

	// Explain says what a request would get now, and why. Nil: /ops/explain is
	// not there.
	Explain func(ctx context.Context, want ExplainRequest) (Explanation, error)

	Logger *slog.Logger // nil: slog.Default
}

// New builds the ops listener's handler.
func New(opts Options) http.Handler {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	guarded := http.NewServeMux()
	guarded.Handle("GET /metrics", promhttp.HandlerFor(opts.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelError),
	}))
	guarded.HandleFunc("GET /debug/pprof/", pprof.Index)
	guarded.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	guarded.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	guarded.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	guarded.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if opts.Purge != nil {
		guarded.Handle("POST /ops/purge", purge(opts.Purge))
	}
	if opts.TTL != nil {
		guarded.HandleFunc("GET /ops/ttl", func(w http.ResponseWriter, _ *http.Request) { answer(w, opts.TTL()) })
	}
	if opts.Explain != nil {
		guarded.Handle("GET /ops/explain", explain(opts.Explain))
	}
	if opts.Config != nil {
		guarded.HandleFunc("GET /ops/config", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/yaml")
			_, _ = io.WriteString(w, opts.Config()) // a caller that left; nobody to tell
		})
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", livez)
	mux.Handle("GET /readyz", readyz(opts.Ready))
	mux.Handle("/", requireToken(opts.Sessions, guarded))
	if opts.Console != nil {
		mux.Handle("/{$}", opts.Console)
		mux.Handle("/console/", opts.Console)
	}
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

// requireToken lets in who carries the token or is signed in at the console.
func requireToken(sessions *console.Sessions, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !sessions.Authorized(r) {
			if r.Header.Get("Authorization") != "" && !sessions.Wrong.Delay(w, r) {
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="ops"`)
			http.Error(w, "send the token of ops.token_file as Authorization: Bearer <token>", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
