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

// openSpan opens the server's span of the request. The span has no text of the caller: the route instead of the
// path, the listening address instead of the host, known methods only, and no header. So a key in the wrong place
// gets into no span, and names are bounded.
//
// A trace from a trusted proxy is continued. Trace context from any other client is recorded as a link and does not
// affect ids or sampling.
func (req *request) openSpan() (opened telemetry.Span) {
	g, r := req.gateway, req.http
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	parent, state := r.Header[traceparentField], r.Header[tracestateField]
	if len(parent) == 1 { // two of them are none (W3C Trace Context, section 3.2.2.5)
		sent := propagation.MapCarrier{"traceparent": parent[0]}
		if req.fromProxy() {
			if len(state) > 0 {
				sent["tracestate"] = state[0]
			}
			req.ctx = propagation.TraceContext{}.Extract(req.ctx, sent)
		} else if s := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(req.ctx, sent)); s.IsValid() {
			opts = append(opts, trace.WithLinks(trace.Link{SpanContext: s}))
		}
	}
	if req.ctx, opened = g.tracer.StartAlways(req.ctx, "HTTP", opts...); !opened.Recording() {
		return opened
	}
	method := methodLabel(r.Method)
	name, known := method, semconv.HTTPRequestMethodKey.String(method)
	if method == otherMethod {
		name, known = "HTTP", semconv.HTTPRequestMethodOther
	}
	s := trace.SpanFromContext(req.ctx)
	if route := req.endpoint.route; route != "" {
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
	if local, ok := req.ctx.Value(http.LocalAddrContextKey).(net.Addr); ok {
		at, _ := netip.ParseAddrPort(local.String())
		all = appendAddress(all, at, semconv.ServerAddress, semconv.ServerPort)
	}
	all = appendAddress(all, req.peer(), semconv.NetworkPeerAddress, semconv.NetworkPeerPort)
	if client := req.clientAddress(); client.IsValid() {
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

// recording reports whether the request's span is recorded.
func (g *Gateway) recording(req *request) bool {
	return g.tracer != nil && trace.SpanFromContext(req.ctx).IsRecording()
}

// setSpanAttributes adds what the log record has to the server's span.
func (g *Gateway) setSpanAttributes(req *request) {
	if !g.recording(req) {
		return
	}
	s := trace.SpanFromContext(req.ctx)
	s.SetAttributes(attribute.String("inquiry.request_id", req.id.String()))
	if req.status != statusClientClosedRequest { // which was not sent
		s.SetAttributes(semconv.HTTPResponseStatusCode(req.status), semconv.HTTPResponseBodySize(req.sent))
	}
	if req.status >= http.StatusInternalServerError {
		s.SetStatus(codes.Error, "")
	}
	if req.principal.Account != "" {
		s.SetAttributes(attribute.String("inquiry.account", req.principal.Account), attribute.String("inquiry.key_id", req.principal.KeyID))
	}
	if req.list.Outcome != "" {
		s.SetAttributes(attribute.String("cache.outcome", string(req.list.Outcome)))
	}
	if req.problem != "" {
		s.SetAttributes(semconv.ErrorTypeKey.String(req.problem))
	}
}

// appendTrace appends the ids of the trace to a record, if it is sampled.
func (g *Gateway) appendTrace(b []byte, req *request) []byte {
	if g.tracer == nil {
		return b
	}
	s := trace.SpanContextFromContext(req.ctx)
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
