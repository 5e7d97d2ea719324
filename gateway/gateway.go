// Package gateway routes, authorizes and answers the requests of the public API.
//
// Gin routes every request to its endpoint; a front.Listener may have parsed it in place of net/http.
// The endpoint finds the list or the page, or returns an error, and never writes. respond writes the
// response once, and serve leaves one record in the log, whatever happens. The table that turns errors
// into responses is problemOf.
package gateway

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/internal/theme"
)

// Authenticator turns the values of the Authorization header, as received, into the grant of a
// Principal. Its errors are those of package auth. Clients that keep sending unknown keys are limited.
type Authenticator interface {
	AuthenticateFrom(ctx context.Context, authorization []string, from auth.Caller) (*auth.Grant, error)
}

// Lists returns the list that a key names. Lookup is the hot path: it returns only fresh entries of this
// process and needs no context; call RecordHit after serving one. Get does all the rest. Encoded returns an
// entry in a content coding, or nil.
type Lists interface {
	Lookup(k cache.Key) (cache.Result, bool)
	RecordHit(k cache.Key, r cache.Result)
	Get(ctx context.Context, k cache.Key) (cache.Result, error)
	Encoded(e *cache.Entry, c cache.Coding) *cache.Representation
}

// Limiter decides whether one more request of an account is within its rate, without waiting. A
// Decision without a policy means that no limit applies.
type Limiter interface {
	Allow(account, plan string) rate.Decision
}

// Options are the parts and settings of a Gateway. Auth and Lists are needed;
// every other zero value is usable.
type Options struct {
	Auth  Authenticator
	Lists Lists
	Rate  Limiter // nil: no limits

	// Draining is true once the process is asked to stop: from then on each response closes its
	// connection, so that the caller connects to another node. Nil: never.
	Draining *atomic.Bool
	// RequestTimeout bounds one request, whatever it waits for; zero means 5 s.
	RequestTimeout time.Duration
	// WriteTimeout bounds the time from the begin of a request to the end of its response; zero means
	// no bound. It takes the place of the http.Server's.
	WriteTimeout time.Duration
	// FastPath lets a front.Listener serve requests for lists.
	FastPath bool
	// IgnoreUnknownParameters ignores unknown query parameters instead of refusing the request.
	IgnoreUnknownParameters bool
	// Kinds are the lists that are served, with the values of their filters; the path of any other list
	// is unknown. Nil: both, with any values.
	Kinds map[string]v1.Words
	// Docs serves the OpenAPI document at /openapi.json and its page at /docs.
	Docs bool
	// TrustedProxies are the networks whose X-Forwarded-For, X-Request-Id and
	// traceparent headers are taken over.
	TrustedProxies []netip.Prefix

	// RequestLog gets one JSON line per request, each in one Write, which must be
	// safe for concurrent use and must not keep the bytes. Nil: no such log.
	RequestLog io.Writer
	// SampleHits keeps one of so many lines of fresh hits; 0 and 1 keep all.
	SampleHits int
	// LogListKeys adds to the lines what the ttl command reads them by: kind, a
	// hash of the list's name, and the entity tag.
	LogListKeys bool
	// LogRefusals is how many refused requests per second have a record in the log, for each reason; 0: all have one.
	// Documents and responses with a status of 500 or above always have one.
	LogRefusals int

	Traces trace.TracerProvider // nil: no spans

	Logger     *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // nil: metrics are not exported
}

// Gateway is the public API as an http.Handler, safe for concurrent use.
type Gateway struct {
	opts                   Options
	proxies                proxies
	requests               sync.Pool    // of *request
	heads                  sync.Pool    // of *[]byte, for heads of answers only
	lines                  sync.Pool    // of *[]byte, for lines of the log only
	unauthenticatedStreams atomic.Int64 // see maxUnauthenticatedStreams
	refusals               *logLimiter
	metrics                *metrics
	headers                *headers
	dates                  dates
	engine                 *gin.Engine
	lists                  map[string]*endpoint // by path
	tracer                 *telemetry.Tracer    // nil: no spans
}

// endpoint is something that is served.
type endpoint struct {
	route  string // its path; empty: none
	series *endpointSeries
	// find finds the list or page of a request.
	find func(req *request) error
}

// newEndpoint makes one that is counted by its name.
func (g *Gateway) newEndpoint(name, route string, find func(req *request) error) *endpoint {
	return &endpoint{route, g.metrics.metricsFor(name), find}
}

// New builds a Gateway and registers its metrics. A second one with the same Registerer goes on
// counting in the same series.
func New(opts Options) *Gateway {
	opts.RequestTimeout = cmp.Or(opts.RequestTimeout, 5*time.Second)
	opts.Draining = cmp.Or(opts.Draining, new(atomic.Bool))
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	opts.SampleHits = max(opts.SampleHits, 1)
	if opts.Kinds == nil {
		opts.Kinds = map[string]v1.Words{}
		for _, k := range v1.Kinds() {
			opts.Kinds[k.Name] = v1.Words{}
		}
	}
	g := &Gateway{
		opts:     opts,
		proxies:  opts.TrustedProxies,
		requests: sync.Pool{New: func() any { return &request{fields: make(answerFields, 0, usualFields)} }},
		lines:    sync.Pool{New: func() any { return new(make([]byte, 0, 1024)) }},
		heads:    sync.Pool{New: func() any { return new(make([]byte, 0, 1024)) }},
		metrics:  newMetrics(opts.Registerer),
		headers:  newHeaders(),
		tracer:   telemetry.NewTracer(opts.Traces, scope),
		lists:    map[string]*endpoint{},
	}
	for _, k := range v1.Kinds() {
		if _, served := opts.Kinds[k.Name]; served {
			g.lists[k.Path] = g.newEndpoint(k.Endpoint, k.Path, func(req *request) error { return req.findList(k.Name) })
		}
	}
	g.refusals = newLogLimiter(opts.LogRefusals, g.metrics.logSuppressed)
	gin.SetMode(gin.ReleaseMode)
	g.routes(gin.New())
	return g
}

// unmatched counts the requests that no endpoint is for.
const unmatched = "unmatched"

// routes is the whole public surface. HEAD stands beside GET because gin does not derive
// it, and an unlisted method must answer 405 with both.
func (g *Gateway) routes(e *gin.Engine) {
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.ForwardedByClientIP = false

	read := []string{http.MethodGet, http.MethodHead}
	for path, list := range g.lists {
		e.Match(read, path, g.handler(list))
	}
	if g.opts.Docs {
		pages := sync.OnceValues(func() (document, page map[string]theme.Asset) { return v1.Pages(g.opts.Kinds) }) // some 40 ms, when first asked for
		document := func(req *request) error { d, _ := pages(); return req.findPage(d) }
		page := func(req *request) error { _, p := pages(); return req.findPage(p) }
		for _, route := range []string{"/openapi.json", "/openapi.yaml"} {
			e.Match(read, route, g.handler(g.newEndpoint("openapi", route, document)))
		}
		for _, route := range []string{"/docs", "/docs/*file"} {
			e.Match(read, route, g.handler(g.newEndpoint("docs", route, page)))
		}
	}
	e.NoRoute(g.handler(g.newEndpoint(unmatched, "", func(*request) error { return errNotFound })))
	e.NoMethod(g.handler(g.newEndpoint(unmatched, "", func(*request) error { return errMethodNotAllowed })))
	g.engine = e
}

// ServeHTTP serves one request. A path with an escaped slash is matched as it was sent: such a slash
// is part of a name (RFC 3986, section 2.2).
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(strings.ToUpper(r.URL.RawPath), "%2F") {
		u, other := *r.URL, *r
		u.Path, other.URL = u.RawPath, &u
		r = &other
	}
	g.engine.ServeHTTP(w, r)
}

// Handler serves with the Gateway that was set last, so that a reload can replace it. It is safe for
// concurrent use. Call Set before the first request.
type Handler struct{ current atomic.Pointer[Gateway] }

// Set serves all requests from now on with g.
func (h *Handler) Set(g *Gateway) { h.current.Store(g) }

// OnFastPath reports whether requests for a path may take the fast path.
func (h *Handler) OnFastPath(path string) bool {
	g := h.current.Load()
	return g.opts.FastPath && g.lists[path] != nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.current.Load().ServeHTTP(w, r) }
