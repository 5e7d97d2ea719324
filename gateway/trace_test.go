package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache"
	"inquiry-gateway/upstream"
)

// newTraced is a testGateway that keeps its spans.
func newTraced(t *testing.T, sampler sdktrace.Sampler, options func(*Options)) (*testGateway, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return newTestGateway(t, setting{options: func(o *Options) {
		o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
		if options != nil {
			options(o)
		}
	}}), spans
}

const (
	foreignTrace  = "0af7651916cd43dd8448eb211c80319c"
	foreignSpan   = "b7ad6b7169203331"
	foreignParent = "00-" + foreignTrace + "-" + foreignSpan + "-01"
)

// A span is named by its route, and has nothing of the caller's own words.
func TestServerSpan(t *testing.T) {
	s, spans := newTraced(t, sdktrace.AlwaysSample(), nil)
	for _, tc := range []struct{ method, target, name string }{
		{"GET", "/api/v1/buyer/inquiries?status=mine", "GET /api/v1/buyer/inquiries"},
		{"HEAD", "/api/v1/seller/inquiries", "HEAD /api/v1/seller/inquiries"},
		{"POST", "/api/v1/buyer/inquiries", "POST"},
		{"GET", "/docs/mine.css", "GET /docs/*file"},
		{"GET", "/openapi.json", "GET /openapi.json"},
		{"GET", "http://mine.example/mine", "GET"},
		{"MINE", "/mine", "HTTP"},
	} {
		spans.Reset()
		s.ask(tc.method, tc.target, "Authorization: ", "Authorization: Bearer mine", "User-Agent: mine", "X-Forwarded-For: mine",
			"Tracestate: mine=1", "Traceparent: "+foreignParent, "Baggage: mine=1")
		all := spans.Ended()
		if len(all) != 1 || all[0].Name() != tc.name || all[0].SpanKind() != trace.SpanKindServer {
			t.Fatalf("%s %s: %v", tc.method, tc.target, all)
		}
		text := fmt.Sprint(all[0].Attributes(), all[0].Status(), all[0].Events(), all[0].Links())
		if strings.Contains(strings.ToLower(text), "mine") {
			t.Errorf("%s %s: the span has the caller's words: %s", tc.method, tc.target, text)
		}
	}
}

// The trace of a trusted proxy is continued. That of any other client is linked to, and decides on
// nothing here.
func TestForeignTraces(t *testing.T) {
	const proxy, untrusted = "From: 192.0.2.1:1", "From: 198.51.100.1:1"
	for _, tc := range []struct {
		what, from   string
		parents      []string
		parent, link bool
	}{
		{"untrusted", untrusted, []string{foreignParent}, false, true},
		{"trusted proxy", proxy, []string{foreignParent}, true, false},
		{"invalid", proxy, []string{"00-mine-01"}, false, false},
		{"all zero", proxy, []string{"00-" + strings.Repeat("0", 32) + "-" + foreignSpan + "-01"}, false, false},
		{"two", proxy, []string{foreignParent, foreignParent}, false, false},
		{"none", proxy, nil, false, false},
	} {
		for root, sampled := range map[sdktrace.Sampler]int{sdktrace.AlwaysSample(): 1, sdktrace.NeverSample(): 0} {
			s, spans := newTraced(t, sdktrace.ParentBased(root), nil)
			fields := []string{tc.from}
			for _, parent := range tc.parents {
				fields = append(fields, "Traceparent: "+parent)
			}
			s.ask("GET", buyersList, fields...)
			if tc.parent {
				sampled = 1
			}
			all := spans.Ended()
			if len(all) != sampled || strings.Contains(s.logs.String(), "trace_id") != (sampled == 1) {
				t.Fatalf("%s: %d spans, recorded %s", tc.what, len(all), s.logs)
			}
			if sampled == 0 {
				continue
			}
			parent := all[0].Parent()
			continued := parent.SpanID().String() == foreignSpan && parent.TraceID().String() == foreignTrace
			if parent.IsValid() != tc.parent || continued != tc.parent {
				t.Errorf("%s: the parent is %v", tc.what, parent)
			}
			if links := all[0].Links(); (len(links) == 1) != tc.link || tc.link && links[0].SpanContext.TraceID().String() != foreignTrace {
				t.Errorf("%s: linked to %v", tc.what, links)
			}
		}
	}
}

// A record says where its trace is, the span what the record says, and an error
// is its public code only.
func TestRecordAndSpanNameEachOther(t *testing.T) {
	s, spans := newTraced(t, sdktrace.AlwaysSample(), func(o *Options) {
		o.Lists = scripted{Lists: o.Lists, get: func(context.Context, cache.Key) (cache.Result, error) {
			return cache.Result{}, &upstream.Error{Reason: "status_5xx", Err: fmt.Errorf("secret")}
		}}
	})
	s.ask("GET", buyersList)
	span, all := spans.Ended()[0], s.lines(t)
	if all[0].TraceID != span.SpanContext().TraceID().String() || all[0].SpanID != span.SpanContext().SpanID().String() {
		t.Errorf("recorded %+v of %v", all[0], span.SpanContext())
	}
	text := fmt.Sprint(span.Attributes(), span.Status())
	for _, want := range []string{
		`"error.type":"upstream_error"`, `"inquiry.account":"acme"`, `"inquiry.key_id":"acme"`, `"http.response.status_code":502`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if span.Status().Code != codes.Error || strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
}
