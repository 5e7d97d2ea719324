package gateway

import (
	"context"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/telemetry"
)

// scope names the spans of this package.
const scope = "inquiry-gateway/gateway"

// traced answers a request in a server's span. The span has nothing of the
// caller's own words: of paths the route, of hosts the address that listens, of
// methods those that are known, and no header. So a key in the wrong place gets
// into no span, and names are bounded.
//
// A trace that a trusted proxy sends is continued. That of a stranger is only
// linked to: it decides neither on ids nor on what is recorded, and its state is
// not read. What cannot be read is no trace.
func (g *Gateway) traced(c *gin.Context) {
	r := c.Request
	ctx := r.Context()
	opened, ok := ctx.Value(openedKey{}).(telemetry.Span)
	if !ok {
		ctx, opened = g.openSpan(ctx, r.Header["Traceparent"], r.Header["Tracestate"], front.FromContext(ctx).Peer(r))
	}
	defer opened.End()
	if opened.Recording() {
		s := trace.SpanFromContext(ctx)
		name, route := methodLabel(r.Method), c.FullPath()
		if name == otherMethod {
			name = "HTTP"
		}
		if route != "" {
			name += " " + route
			s.SetAttributes(semconv.HTTPRoute(route), semconv.URLPath(route))
		}
		s.SetName(name)
		s.SetAttributes(g.attributesOf(r)...)
	}
	c.Request = r.WithContext(ctx)
	c.Next()
}

// openSpan opens the span of a request from peer, with the values of its headers.
func (g *Gateway) openSpan(ctx context.Context, parents, states []string, peer netip.Addr) (context.Context, telemetry.Span) {
	if g.tracer == nil {
		return ctx, telemetry.Span{}
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	if len(parents) != 1 { // two of them are none (W3C Trace Context, section 3.2.2.5)
		return g.tracer.Force(ctx, "HTTP", opts...)
	}
	sent := propagation.MapCarrier{"traceparent": parents[0]}
	if len(g.proxies) > 0 && g.proxies.trust(peer) {
		if len(states) > 0 {
			sent["tracestate"] = states[0]
		}
		return g.tracer.Force(propagation.TraceContext{}.Extract(ctx, sent), "HTTP", opts...)
	}
	if s := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(ctx, sent)); s.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: s}))
	}
	return g.tracer.Force(ctx, "HTTP", opts...)
}

// attributesOf are those of the semantic conventions for servers of HTTP that are
// known before the answer.
func (g *Gateway) attributesOf(r *http.Request) []attribute.KeyValue {
	method, scheme := semconv.HTTPRequestMethodKey.String(methodLabel(r.Method)), "http"
	if methodLabel(r.Method) == otherMethod {
		method = semconv.HTTPRequestMethodOther
	}
	if r.TLS != nil {
		scheme = "https"
	}
	_, version, _ := strings.Cut(r.Proto, "/")
	if r.ProtoMajor >= 2 {
		version = strings.TrimSuffix(version, ".0")
	}
	all := []attribute.KeyValue{method, semconv.URLScheme(scheme), semconv.NetworkProtocolVersion(version)}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		all = appendAddress(all, local.String(), semconv.ServerAddress, semconv.ServerPort)
	}
	all = appendAddress(all, r.RemoteAddr, semconv.NetworkPeerAddress, semconv.NetworkPeerPort)
	if client := g.proxies.client(r.Header["X-Forwarded-For"], front.FromContext(r.Context()).Peer(r)); client.IsValid() {
		all = append(all, semconv.ClientAddress(client.String()))
	}
	return all
}

// appendAddress appends the two attributes of an address and its port; none if it has no port.
func appendAddress(all []attribute.KeyValue, address string, host func(string) attribute.KeyValue, port func(int) attribute.KeyValue) []attribute.KeyValue {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return all
	}
	return append(all, host(ap.Addr().Unmap().String()), port(int(ap.Port())))
}

// recording says whether somebody will see the request's span.
func (g *Gateway) recording(x *exchange) bool {
	return g.tracer != nil && trace.SpanFromContext(x.ctx).IsRecording()
}

// describe puts into the server's span what the request's record has.
func (g *Gateway) describe(x *exchange) {
	if !g.recording(x) {
		return
	}
	s := trace.SpanFromContext(x.ctx)
	s.SetAttributes(attribute.String("inquiry.request_id", x.id.String()))
	if x.status != statusClientClosedRequest { // which was not sent
		s.SetAttributes(semconv.HTTPResponseStatusCode(x.status), semconv.HTTPResponseBodySize(x.sent))
	}
	if x.status >= http.StatusInternalServerError {
		s.SetStatus(codes.Error, "")
	}
	if x.principal.Account != "" {
		s.SetAttributes(attribute.String("inquiry.account", x.principal.Account), attribute.String("inquiry.key_id", x.principal.KeyID))
	}
	if x.list.Outcome != "" {
		s.SetAttributes(attribute.String("cache.outcome", string(x.list.Outcome)))
	}
	if x.problem != "" {
		s.SetAttributes(semconv.ErrorTypeKey.String(x.problem))
	}
}

// appendTrace appends to a record where its trace is, if it was recorded.
func (g *Gateway) appendTrace(b []byte, x *exchange) []byte {
	if g.tracer == nil {
		return b
	}
	s := trace.SpanContextFromContext(x.ctx)
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
