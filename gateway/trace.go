package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"inquiry-gateway/cache"
	"inquiry-gateway/upstream"
)

// scope names the spans that are made here.
const scope = "inquiry-gateway/gateway"

// tracing wraps the public handler in the server's span. There is none where
// nothing is traced, and then a request costs what it would cost without.
type tracing struct {
	gateway *Gateway
	tracer  trace.Tracer
	handler http.Handler      // otelhttp, for what is recorded
	routes  map[string]string // by path
	folders map[string]string // by what a path begins with
}

// newTracing is nil without a provider. Metrics of otelhttp are off: the
// gateway has its own.
func newTracing(g *Gateway, p trace.TracerProvider) *tracing {
	if p == nil {
		return nil
	}
	t := &tracing{gateway: g, tracer: p.Tracer(scope), routes: map[string]string{}, folders: map[string]string{}}
	for _, r := range g.engine.Routes() {
		if folder, _, found := strings.Cut(r.Path, "*"); found {
			t.folders[folder] = r.Path
		} else {
			t.routes[r.Path] = r.Path
		}
	}
	t.handler = otelhttp.NewHandler(http.HandlerFunc(t.serve), "",
		otelhttp.WithTracerProvider(adopted{}),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()), // begin has read the headers
	)
	return t
}

// ServeHTTP begins the span itself: otelhttp costs as much as the rest of a hit,
// whether the span is recorded or not, so it gets only those that are.
func (t *tracing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, span := t.begin(r)
	r = r.WithContext(ctx)
	if !span.IsRecording() {
		t.gateway.engine.ServeHTTP(w, r)
		return
	}
	t.handler.ServeHTTP(w, t.shown(r).WithContext(context.WithValue(ctx, originalKey{}, r)))
}

// begin goes on with a trace that a trusted proxy sends. A stranger's is only
// linked to: it decides neither on ids nor on what is recorded, and its state is
// nobody's business here. What cannot be read is no trace.
func (t *tracing) begin(r *http.Request) (context.Context, trace.Span) {
	ctx, server := r.Context(), trace.WithSpanKind(trace.SpanKindServer)
	parent := r.Header["Traceparent"]
	switch {
	case len(parent) != 1: // two of them are none (W3C Trace Context, section 3.2.2.5)
	case len(t.gateway.proxies) > 0 && t.gateway.proxies.trust(parsePeer(r.RemoteAddr)):
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	default:
		foreign := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent[0]})
		if s := trace.SpanContextFromContext(foreign); s.IsValid() {
			return t.tracer.Start(ctx, "HTTP", server, trace.WithLinks(trace.Link{SpanContext: s}))
		}
	}
	return t.tracer.Start(ctx, "HTTP", server)
}

// adopted is what otelhttp makes its span with: the one that has begun.
type adopted struct{ embedded.TracerProvider }

// Tracer gives one for every name.
func (adopted) Tracer(string, ...trace.TracerOption) trace.Tracer { return adoptedTracer{} }

type adoptedTracer struct{ embedded.Tracer }

// Start gives the span in the context its name and attributes.
func (adoptedTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	span, config := trace.SpanFromContext(ctx), trace.NewSpanStartConfig(opts...)
	span.SetName(name)
	span.SetAttributes(config.Attributes()...)
	return ctx, span
}

// originalKey is where the context of a request that otelhttp is shown has the
// one that arrived.
type originalKey struct{}

func (t *tracing) serve(w http.ResponseWriter, shown *http.Request) {
	r, _ := shown.Context().Value(originalKey{}).(*http.Request)
	t.gateway.engine.ServeHTTP(w, r)
}

// shown is the request without anything of the caller's own words: of paths the
// route, of hosts the one that listens, of methods those that are known, and no
// header. So a key in the wrong place gets into no span, and names are bounded.
func (t *tracing) shown(r *http.Request) *http.Request {
	s := &http.Request{
		Method: methodLabel(r.Method), URL: &url.URL{}, Proto: r.Proto, Header: http.Header{},
		RemoteAddr: r.RemoteAddr, TLS: r.TLS, Body: http.NoBody,
	}
	if route := t.route(r.URL.Path); route != "" {
		s.Pattern, s.URL.Path = route, route
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		s.Host = local.String()
	}
	if client := t.gateway.clientAddress(r, parsePeer(r.RemoteAddr)); client.IsValid() {
		s.Header["X-Forwarded-For"] = []string{client.String()} // where otelhttp looks for it
	}
	return s
}

// route is the route that a path belongs to; empty for none.
func (t *tracing) route(path string) string {
	if route, ok := t.routes[path]; ok {
		return route
	}
	for folder, route := range t.folders {
		if strings.HasPrefix(path, folder) {
			return route
		}
	}
	return ""
}

// lookup is the lists' hot path. A request that is recorded takes the other one,
// which has a context for spans to hang on.
func (g *Gateway) lookup(x *exchange, k cache.Key) (cache.Result, bool) {
	if g.tracing != nil && trace.SpanFromContext(x.request.Context()).IsRecording() {
		return cache.Result{}, false
	}
	return g.lists.Lookup(k)
}

// observe puts into the server's span what the request's record has.
func (g *Gateway) observe(x *exchange) {
	if g.tracing == nil {
		return
	}
	span := trace.SpanFromContext(x.request.Context())
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("inquiry.request_id", x.id.String()))
	if x.principal.Account != "" {
		span.SetAttributes(attribute.String("inquiry.account", x.principal.Account), attribute.String("inquiry.key_id", x.principal.KeyID))
	}
	if x.list.Outcome != "" {
		span.SetAttributes(attribute.String("cache.outcome", string(x.list.Outcome)))
	}
	if x.problem != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(x.problem))
	}
}

// appendTrace appends to a record where its trace is, if it was recorded.
func (g *Gateway) appendTrace(b []byte, x *exchange) []byte {
	if g.tracing == nil {
		return b
	}
	s := trace.SpanContextFromContext(x.request.Context())
	if !s.IsSampled() {
		return b
	}
	traceID, spanID := s.TraceID(), s.SpanID()
	b = append(b, `,"trace_id":"`...)
	b = hex.AppendEncode(b, traceID[:])
	b = append(b, `","span_id":"`...)
	b = hex.AppendEncode(b, spanID[:])
	return append(b, '"')
}

// noteFailure says in the fill's span why the legacy gave no list, in words of
// fixed sets; who asks it (see upstream.Error) knows more than the cache.
func noteFailure(ctx context.Context, err error) {
	var e *upstream.Error
	if span := trace.SpanFromContext(ctx); span.IsRecording() && errors.As(err, &e) {
		span.SetAttributes(attribute.String("upstream.failure", string(e.Failure)), attribute.String("upstream.reason", e.Reason))
	}
}

// tracedRender is render in a span, where the fill is being recorded.
func tracedRender(ctx context.Context, kind string, list []upstream.Inquiry) ([]byte, error) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return render(kind, list)
	}
	_, span := parent.TracerProvider().Tracer(scope).Start(ctx, "gateway.render")
	defer span.End()
	return render(kind, list)
}
