package gateway

import (
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/telemetry"
)

// scope names the spans of this package.
const scope = "inquiry-gateway/gateway"

// openSpan opens the server's span of the exchange. The span has nothing of the
// caller's own words: of paths the route, of hosts the address that listens, of
// methods those that are known, and no header. So a key in the wrong place gets
// into no span, and names are bounded.
//
// A trace that a trusted proxy sends is continued. That of any other client is only
// linked to: it decides neither on ids nor on what is recorded, and its state is
// not read. What cannot be read is no trace.
func (x *exchange) openSpan() (opened telemetry.Span) {
	g, r := x.gateway, x.request
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	parent, state := r.Header[traceparentField], r.Header[tracestateField]
	if len(parent) == 1 { // two of them are none (W3C Trace Context, section 3.2.2.5)
		sent := propagation.MapCarrier{"traceparent": parent[0]}
		if x.fromProxy() {
			if len(state) > 0 {
				sent["tracestate"] = state[0]
			}
			x.ctx = propagation.TraceContext{}.Extract(x.ctx, sent)
		} else if s := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(x.ctx, sent)); s.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: s}))
		}
	}
	if x.ctx, opened = g.tracer.Force(x.ctx, "HTTP", opts...); !opened.Recording() {
		return opened
	}
	method := methodLabel(r.Method)
	name, known := method, semconv.HTTPRequestMethodKey.String(method)
	if method == otherMethod {
		name, known = "HTTP", semconv.HTTPRequestMethodOther
	}
	s := trace.SpanFromContext(x.ctx)
	if route := x.endpoint.route; route != "" {
		name += " " + route
		s.SetAttributes(semconv.HTTPRoute(route), semconv.URLPath(route))
	}
	s.SetName(name)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	version := strings.TrimSuffix(strings.TrimPrefix(r.Proto, "HTTP/"), ".0")
	if r.Proto == "HTTP/1.0" {
		version = "1.0"
	}
	all := []attribute.KeyValue{known, semconv.URLScheme(scheme), semconv.NetworkProtocolVersion(version)}
	if local, ok := x.ctx.Value(http.LocalAddrContextKey).(net.Addr); ok {
		at, _ := netip.ParseAddrPort(local.String())
		all = appendAddress(all, at, semconv.ServerAddress, semconv.ServerPort)
	}
	all = appendAddress(all, x.peer(), semconv.NetworkPeerAddress, semconv.NetworkPeerPort)
	if client := x.clientAddress(); client.IsValid() {
		all = append(all, semconv.ClientAddress(client.String()))
	}
	s.SetAttributes(all...)
	return opened
}

// appendAddress appends the two attributes of an address and its port, where there is one.
func appendAddress(all []attribute.KeyValue, at netip.AddrPort, host func(string) attribute.KeyValue, port func(int) attribute.KeyValue) []attribute.KeyValue {
	if !at.IsValid() {
		return all
	}
	return append(all, host(at.Addr().Unmap().String()), port(int(at.Port())))
}

// recording says whether somebody will see the request's span.
func (g *Gateway) recording(x *exchange) bool {
	return g.tracer != nil && trace.SpanFromContext(x.ctx).IsRecording()
}

// setSpanAttributes puts into the server's span what the request's line in the log has.
func (g *Gateway) setSpanAttributes(x *exchange) {
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

// appendTrace appends to a line where its trace is, if it was recorded.
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
