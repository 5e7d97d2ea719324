package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/testkit"
)

// traced keeps the spans of a client that is made with the options.
func traced(opts ...sdktrace.TracerProviderOption) (*tracetest.SpanRecorder, Options) {
	spans := tracetest.NewSpanRecorder()
	return spans, Options{Traces: sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(spans))...)}
}

// spanNames counts the ended spans by name, with that of the span above.
func spanNames(spans *tracetest.SpanRecorder) string {
	byID, count := map[trace.SpanID]string{}, map[string]int{}
	for _, s := range spans.Ended() {
		byID[s.SpanContext().SpanID()] = strings.TrimPrefix(s.Name(), "upstream.")
	}
	for _, s := range spans.Ended() {
		count[strings.TrimPrefix(byID[s.Parent().SpanID()]+" > "+byID[s.SpanContext().SpanID()], " > ")]++
	}
	return fmt.Sprint(count)
}

// spanText is everything that is told of a span.
func spanText(s sdktrace.ReadOnlySpan) string {
	return fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links())
}

// Each request to the legacy has a span, which is what it is told as traceparent. None
// has anything of the list in it.
func TestSpansOfAFetch(t *testing.T) {
	spans, opts := traced()
	var sent []string
	f := newFixtureWith(t, opts, func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("traceparent"))
		if len(sent) == 1 {
			status(503)(w, r)
			return
		}
		serveJSON(`{"result":{"items":[`+testkit.SampleTicket+`]}}`)(w, r)
	}, func(c *Config) { c.Breaker.MinRequests = 1000 })
	if _, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "pending"}); err != nil {
		t.Fatal(err)
	}
	if got, want := spanNames(spans), "map[fetch:1 fetch > GET:2 fetch > guard:1 fetch > map:1]"; got != want {
		t.Errorf("%s, want %s", got, want)
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

	spans, opts = traced()
	f = newFixtureWith(t, opts, (&commentLegacy{tickets: 5}).ServeHTTP, responses(t, fetches["each"]))
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	if got, want := spanNames(spans), "map[fetch:1 fetch > GET:1 fetch > guard:1 fetch > map:1 fetch > responses:1 responses > GET:5 responses > map:5]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	// A legacy that is not asked has no client's span; the fetch says why.
	spans, opts = traced()
	f = newFixtureWith(t, opts, status(500), strict(1))
	failed(t, f, t.Context(), "upstream", "status_5xx")
	failed(t, f, t.Context(), "unavailable", "breaker_open")
	last := spans.Ended()[len(spans.Ended())-1]
	if got := spanNames(spans); got != "map[fetch:2 fetch > GET:1]" || last.Status().Description != "breaker_open" || !strings.Contains(spanText(last), `"upstream.breaker":"open"`) {
		t.Errorf("%s %s", got, spanText(last))
	}
}

// A trace that is not recorded goes on at the legacy as one that is not; without
// traces nothing is sent.
func TestTraceparentOfWhatIsNotRecorded(t *testing.T) {
	spans, unsampled := traced(sdktrace.WithSampler(sdktrace.NeverSample()))
	for suffix, opts := range map[string]Options{"": {}, "-00": unsampled} {
		var sent string
		f := newFixtureWith(t, opts, func(w http.ResponseWriter, r *http.Request) {
			sent = strings.Join(r.Header.Values("traceparent"), ",")
			serveJSON(emptyList)(w, r)
		})
		if _, err := f.Fetch(t.Context(), acme); err != nil || !strings.HasSuffix(sent, suffix) || (sent == "") != (suffix == "") || len(spans.Ended()) != 0 {
			t.Errorf("%q, %v", sent, err)
		}
	}
}
