package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache"
	"inquiry-gateway/upstream"
)

// tracedBench is a bench whose server spans are kept.
func tracedBench(opts Options, sampler sdktrace.Sampler) (bench, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	opts.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	if opts.Lists == nil {
		opts.Lists = warm{entryOf("acme")}
	}
	return newBench(opts), spans
}

const (
	foreignTrace  = "0af7651916cd43dd8448eb211c80319c"
	foreignSpan   = "b7ad6b7169203331"
	foreignParent = "00-" + foreignTrace + "-" + foreignSpan + "-01"
)

// A span is named by its route, and has nothing of the caller's own words.
func TestServerSpan(t *testing.T) {
	b, spans := tracedBench(Options{Docs: true}, sdktrace.AlwaysSample())
	for _, tc := range []struct{ method, target, name string }{
		{"GET", "/api/v1/buyer/inquiries?status=mine", "GET /api/v1/buyer/inquiries"},
		{"HEAD", "/api/v1/seller/inquiries", "HEAD /api/v1/seller/inquiries"},
		{"POST", "/api/v1/buyer/inquiries", "POST"},
		{"GET", "/docs/mine.css", "GET /docs/*file"},
		{"GET", "/openapi.json", "GET /openapi.json"},
		{"GET", "/mine", "GET"},
		{"MINE", "/mine", "HTTP"},
	} {
		spans.Reset()
		r := httptest.NewRequest(tc.method, tc.target, nil)
		r.Host = "mine.example"
		r.Header = http.Header{"Authorization": {"Bearer mine"}, "User-Agent": {"mine"}, "X-Forwarded-For": {"mine"}, "Tracestate": {"mine=1"}, "Traceparent": {foreignParent}, "Baggage": {"mine=1"}}
		b.gateway.ServeHTTP(httptest.NewRecorder(), r)
		all := spans.Ended()
		if len(all) != 1 || all[0].Name() != tc.name || all[0].SpanKind() != trace.SpanKindServer {
			t.Fatalf("%s %s: %v", tc.method, tc.target, all)
		}
		if text := fmt.Sprint(all[0].Attributes(), all[0].Status(), all[0].Events(), all[0].Links()); strings.Contains(text, "mine") || strings.Contains(text, "MINE") {
			t.Errorf("%s %s: the span has the caller's words: %s", tc.method, tc.target, text)
		}
	}
}

// A stranger's trace is linked to; that of a trusted proxy is continued.
func TestForeignTraces(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // httptest's peer
	for _, tc := range []struct {
		what         string
		proxies      []netip.Prefix
		parents      []string
		parent, link bool
	}{
		{"stranger", nil, []string{foreignParent}, false, true},
		{"stranger beside a proxy", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, []string{foreignParent}, false, true},
		{"trusted proxy", proxies, []string{foreignParent}, true, false},
		{"invalid", proxies, []string{"00-mine-01"}, false, false},
		{"all zero", proxies, []string{"00-" + strings.Repeat("0", 32) + "-" + foreignSpan + "-01"}, false, false},
		{"two", proxies, []string{foreignParent, foreignParent}, false, false},
		{"none", proxies, nil, false, false},
	} {
		b, spans := tracedBench(Options{TrustedProxies: tc.proxies}, sdktrace.ParentBased(sdktrace.AlwaysSample()))
		b.get(headersOf("traceparent", tc.parents)...)
		s := spans.Ended()[0]
		if parent := s.Parent().SpanID().String() == foreignSpan && s.SpanContext().TraceID().String() == foreignTrace; parent != tc.parent || s.Parent().IsValid() != tc.parent {
			t.Errorf("%s: the parent is %s", tc.what, s.Parent().TraceID())
		}
		if link := len(s.Links()) == 1 && s.Links()[0].SpanContext.TraceID().String() == foreignTrace; link != tc.link || len(s.Links()) > 1 {
			t.Errorf("%s: linked to %v", tc.what, s.Links())
		}
	}
}

// Whether a stranger's trace is sampled has no effect here.
func TestStrangersDoNotDecideOnSampling(t *testing.T) {
	b, spans := tracedBench(Options{}, sdktrace.ParentBased(sdktrace.NeverSample()))
	b.get("traceparent", foreignParent)
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
	if strings.Contains(b.logs.String(), "trace_id") {
		t.Errorf("the record names a trace that nobody has: %s", b.logs)
	}
}

func headersOf(name string, values []string) (pairs []string) {
	for _, v := range values {
		pairs = append(pairs, name, v)
	}
	return pairs
}

// A record says where its trace is, the span what the record says, and an error
// is its public code only.
func TestRecordAndSpanNameEachOther(t *testing.T) {
	failing := listsFunc(func(context.Context, cache.Key) (cache.Result, error) {
		return cache.Result{}, &upstream.Error{Kind: upstream.KindFailed, Reason: "status_5xx", Err: fmt.Errorf("secret")}
	})
	b, spans := tracedBench(Options{Lists: failing}, sdktrace.AlwaysSample())
	b.get()
	s := spans.Ended()[0]
	record := b.logs.String()
	if want := fmt.Sprintf(`"trace_id":"%s","span_id":"%s"`, s.SpanContext().TraceID(), s.SpanContext().SpanID()); !strings.Contains(record, want) {
		t.Errorf("%s is not in %s", want, record)
	}
	text := fmt.Sprint(s.Attributes(), s.Status())
	for _, want := range []string{`"error.type":"upstream_error"`, `"inquiry.account":"acme"`, `"inquiry.key_id":"k1"`, `"http.response.status_code":502`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if s.Status().Code != codes.Error || strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
}

// BenchmarkHitTraced is what traces cost a hit, for the decision on the share
// that is sampled.
func BenchmarkHitTraced(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"all": sdktrace.AlwaysSample(), "1%": sdktrace.TraceIDRatioBased(0.01)} {
		b.Run(name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(tracetest.NewNoopExporter()))
			b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
			benchHits(b, Options{Traces: provider})
		})
	}
}
