package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/span"
	"inquiry-gateway/upstream/internal/sample"
)

// traced has the fixture make spans, and keeps them.
func (f *fixture) traced(opts ...sdktrace.TracerProviderOption) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	for _, s := range f.sources {
		s.tracer = span.New(sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(spans))...), "test")
	}
	return spans
}

// names counts the ended spans by name, with that of the span above.
func names(spans *tracetest.SpanRecorder) map[string]int {
	byID := map[trace.SpanID]string{}
	for _, s := range spans.Ended() {
		byID[s.SpanContext().SpanID()] = s.Name()
	}
	count := map[string]int{}
	for _, s := range spans.Ended() {
		count[strings.TrimPrefix(byID[s.Parent().SpanID()]+" > "+s.Name(), " > ")]++
	}
	return count
}

// spanText is everything that is told of a span.
func spanText(s sdktrace.ReadOnlySpan) string {
	return fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links())
}

// Each request to the legacy has a span, which is what it is told as traceparent.
func TestSpansOfAFetch(t *testing.T) {
	var sent []string
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("traceparent"))
		if len(sent) == 1 {
			status(503)(w, r)
			return
		}
		serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
	}, nil)
	spans := f.traced()
	if _, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "pending"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"upstream.fetch": 1, "upstream.fetch > GET": 2, "upstream.fetch > upstream.map": 1, "upstream.fetch > upstream.guard": 1}
	if got := names(spans); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
	var parents []string
	for _, s := range spans.Ended() {
		switch s.Name() {
		case "GET":
			parents = append(parents, fmt.Sprintf("00-%s-%s-01", s.SpanContext().TraceID(), s.SpanContext().SpanID()))
			if s.SpanKind() != trace.SpanKindClient {
				t.Errorf("of kind %v", s.SpanKind())
			}
		case "upstream.fetch":
			if e := s.Events(); len(e) != 1 || e[0].Name != "retry" || !strings.Contains(spanText(s), "status_503") {
				t.Errorf("the retry is no event: %s", spanText(s))
			}
		}
		for _, secret := range []string{"acme", "state=", "/v2/tickets", "s3cr3t", "Late"} {
			if strings.Contains(spanText(s), secret) {
				t.Errorf("%q is in %s", secret, spanText(s))
			}
		}
	}
	if !slices.Equal(sent, parents) {
		t.Errorf("the legacy was told %v, the spans are %v", sent, parents)
	}
}

// A trace that is not recorded goes on at the legacy as one that is not; without
// traces nothing is sent.
func TestTraceparentOfWhatIsNotRecorded(t *testing.T) {
	var sent string
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		sent = strings.Join(r.Header.Values("traceparent"), ",")
		serveJSON(`{"result":{"items":[]}}`)(w, r)
	}, nil)
	if _, err := f.Fetch(t.Context(), acme); err != nil || sent != "" {
		t.Errorf("without traces: %q, %v", sent, err)
	}
	spans := f.traced(sdktrace.WithSampler(sdktrace.NeverSample()))
	if _, err := f.Fetch(t.Context(), acme); err != nil || !strings.HasPrefix(sent, "00-") || !strings.HasSuffix(sent, "-00") || len(spans.Ended()) != 0 {
		t.Errorf("not sampled: %q, %v", sent, err)
	}
}

func TestSpansOfSecondCalls(t *testing.T) {
	f := secondFixture(t, &commentLegacy{tickets: 5}, fetches["each"], nil)
	spans := f.traced()
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	if got := names(spans); got["upstream.responses > GET"] != 5 || got["upstream.fetch > GET"] != 1 || got["upstream.fetch > upstream.responses"] != 1 {
		t.Errorf("%v", got)
	}
}

// Each reply that is wrong in its own way marks the spans with its word, and is
// not quoted.
func TestSpansOfBadReplies(t *testing.T) {
	for _, bad := range badReplies() {
		t.Run(bad.name, func(t *testing.T) {
			f := newFixture(t, bad.serve, func(c *Config) { c.MaxResponseBytes, c.MaxRecords = 50_000, 30 })
			spans := f.traced()
			failed(t, f, t.Context(), bad.failure, bad.reason)
			for _, s := range spans.Ended() {
				if s.Name() == "upstream.fetch" && (s.Status().Code != codes.Error || s.Status().Description != bad.reason) {
					t.Errorf("status %+v", s.Status())
				}
				for _, secret := range []string{"s3cr3t", "login", "elsewhere", "acme"} {
					if strings.Contains(spanText(s), secret) {
						t.Errorf("%q is in %s", secret, spanText(s))
					}
				}
			}
		})
	}
}

// A legacy that is not asked has no client's span; the fetch says why.
func TestSpanOfAnOpenBreaker(t *testing.T) {
	f := newFixture(t, status(500), func(c *Config) {
		c.Breaker = BreakerConfig{Window: time.Hour, MinRequests: 2, FailureRatio: 0.5, OpenFor: time.Hour}
	})
	for range 2 {
		failed(t, f, t.Context(), "upstream", "status_5xx")
	}
	spans := f.traced()
	failed(t, f, t.Context(), "unavailable", "breaker_open")
	for _, s := range spans.Ended() {
		if s.Name() == "GET" {
			t.Error("the legacy has a span although it was not asked")
		}
		if s.Name() == "upstream.fetch" && (s.Status().Description != "breaker_open" || !strings.Contains(spanText(s), `"upstream.breaker":"open"`)) {
			t.Errorf("%s", spanText(s))
		}
	}
}
