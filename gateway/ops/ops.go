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

// maxPurgeBytes bounds the body of POST /ops/purge: a thousand ids.
const maxPurgeBytes = 128 << 10

// Options are the parts of the ops listener. All are needed. The functions must be safe
// for concurrent use.
type Options struct {
	Gatherer prometheus.Gatherer // of the series of /metrics
	// Ready tells the state that /readyz answers with. It is quick: probes call it
	// every few seconds.
	Ready  func() Readiness
	Tokens *Tokens
	// Console is the page for people: "/" and what is below "/console/".
	Console http.Handler
	// Purge purges lists over the fleet. An error that wraps no error of this package says that the
	// purge holds on this node only.
	Purge func(context.Context, PurgeRequest) (PurgeReply, error)
	// Config gives the configuration that runs, secrets hidden, as YAML.
	Config func() string
	// TTL says what other ttls would have done to the look-ups of this node, for JSON.
	TTL func() any
	// Lookups writes the node's sample of look-ups as lines of JSON.
	Lookups func(io.Writer) error
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
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeText(w, "text/plain; charset=utf-8", "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		state, code := opts.Ready(), http.StatusOK
		if state.Status == StatusDraining {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, state)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(opts.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("/{$}", opts.Console)
	mux.Handle("/console", opts.Console)
	mux.Handle("/console/", opts.Console)
	mux.HandleFunc("GET /ops/config", func(w http.ResponseWriter, _ *http.Request) { writeText(w, "application/yaml", opts.Config()) })
	mux.HandleFunc("GET /ops/ttl", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, opts.TTL()) })
	mux.HandleFunc("GET /ops/lookups", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_ = opts.Lookups(w) // an error is the client's, who has left
	})
	mux.HandleFunc("GET /ops/explain", func(w http.ResponseWriter, r *http.Request) {
		want, err := parseExplain(r.URL.RawQuery)
		var x Explanation
		if err == nil {
			x, err = opts.Explain(r.Context(), want)
		}
		writeResult(w, x, err)
	})
	mux.HandleFunc("POST /ops/purge", func(w http.ResponseWriter, r *http.Request) {
		var q PurgeRequest
		var reply PurgeReply
		err := readJSON(w, r, maxPurgeBytes, &q, `send JSON such as {"accounts":["acme"]} or {"kinds":["buyer"],"soft":true}, and many ids in several requests`)
		if err == nil {
			if reply, err = opts.Purge(r.Context(), q); err != nil {
				if _, refused := errors.AsType[refusal](err); !refused {
					err = fmt.Errorf("purged on this node only; other nodes may still serve those lists. Repeat the purge until Redis takes it (purge --wait 5m), and ask every node meanwhile: %w", err)
				}
			}
		}
		writeResult(w, reply, err)
	})
	return opts.Tokens.guard(func(path string) bool { return path == "/livez" || path == "/readyz" }, mux)
}
