// Package gateway routes, authorizes and answers the requests of the public API.
//
// Every request becomes an exchange. Its endpoint finds its list or its page, or says why
// there is none, and never writes; answer writes it once, and serve leaves one line in
// the log, whatever happens. The table that turns errors into answers is problemOf. Gin routes every
// request to its handler; a front.Listener may have parsed it in place of net/http.
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

// Authenticator turns the Authorization header's values, as received, into the grant
// of a Principal. Its errors are the sentinels of package auth; who keeps guessing
// from one address may be held back.
type Authenticator interface {
	AuthenticateFrom(ctx context.Context, authorization []string, from auth.Caller) (*auth.Grant, error)
}

// Lists answers with the list that a key names. Lookup is the hot path: it
// gives only what the process has and needs no refresh, and costs no context; who
// serves that calls RecordHit. Get does all the rest. Encoded gives an entry in a content
// coding, nil where there is none.
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

	// Draining is true once the process is asked to stop: from then on each answer
	// closes its connection, so that the caller comes back on another one. Nil:
	// never.
	Draining *atomic.Bool
	// RequestTimeout bounds one request, whatever it waits for; zero means 5 s.
	RequestTimeout time.Duration
	// WriteTimeout is when an answer must have been written, from the begin of its request; zero
	// means any time. It holds in place of the http.Server's.
	WriteTimeout time.Duration
	// FastPath lets a front.Listener serve requests for lists.
	FastPath bool
	// IgnoreUnknownParameters answers requests with parameters that are not
	// known instead of refusing them.
	IgnoreUnknownParameters bool
	// Kinds are the lists that are served, with the words that their filters take; another
	// list's path is unknown. Nil: both, with any words.
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
	Registerer prometheus.Registerer // nil: nobody sees the metrics
}

// Gateway is the public API as an http.Handler, safe for concurrent use.
type Gateway struct {
	opts                   Options
	proxies                proxies
	exchanges              sync.Pool    // of *exchange
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
	// find finds the exchange's list or page.
	find func(x *exchange) error
}

// newEndpoint makes one that is counted by its name.
func (g *Gateway) newEndpoint(name, route string, find func(x *exchange) error) *endpoint {
	return &endpoint{route, g.metrics.metricsFor(name), find}
}

// New builds a Gateway. It registers its metrics; one that is made after another
// with the same Registerer counts on.
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
		opts:      opts,
		proxies:   opts.TrustedProxies,
		exchanges: sync.Pool{New: func() any { return &exchange{fields: make(answerFields, 0, usualFields)} }},
		lines:     sync.Pool{New: func() any { return new(make([]byte, 0, 1024)) }},
		heads:     sync.Pool{New: func() any { return new(make([]byte, 0, 1024)) }},
		metrics:   newMetrics(opts.Registerer),
		headers:   newHeaders(),
		tracer:    telemetry.NewTracer(opts.Traces, scope),
		lists:     map[string]*endpoint{},
	}
	for _, k := range v1.Kinds() {
		if _, served := opts.Kinds[k.Name]; served {
			g.lists[k.Path] = g.newEndpoint(k.Endpoint, k.Path, func(x *exchange) error { return x.findList(k.Name) })
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
		document := func(x *exchange) error { d, _ := pages(); return x.findPage(d) }
		page := func(x *exchange) error { _, p := pages(); return x.findPage(p) }
		for _, route := range []string{"/openapi.json", "/openapi.yaml"} {
			e.Match(read, route, g.handler(g.newEndpoint("openapi", route, document)))
		}
		for _, route := range []string{"/docs", "/docs/*file"} {
			e.Match(read, route, g.handler(g.newEndpoint("docs", route, page)))
		}
	}
	e.NoRoute(g.handler(g.newEndpoint(unmatched, "", func(*exchange) error { return errNotFound })))
	e.NoMethod(g.handler(g.newEndpoint(unmatched, "", func(*exchange) error { return errMethodNotAllowed })))
	g.engine = e
}

// ServeHTTP answers one request. A path with an escaped slash is matched as it was sent:
// such a slash is part of a name and separates nothing (RFC 3986, section 2.2).
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(strings.ToUpper(r.URL.RawPath), "%2F") {
		u, other := *r.URL, *r
		u.Path, other.URL = u.RawPath, &u
		r = &other
	}
	g.engine.ServeHTTP(w, r)
}

// Live serves with the Gateway that a reload has put last. It is safe for concurrent use;
// Set comes before the first request.
type Live struct{ current atomic.Pointer[Gateway] }

// Set serves all requests from now on with g.
func (l *Live) Set(g *Gateway) { l.current.Store(g) }

// OnFastPath reports whether requests for a path may take the fast path.
func (l *Live) OnFastPath(path string) bool {
	g := l.current.Load()
	return g.opts.FastPath && g.lists[path] != nil
}

// ServeHTTP answers with the Gateway that was set last.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) { l.current.Load().ServeHTTP(w, r) }
