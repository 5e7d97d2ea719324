package upstream

import (
	"fmt"
	"net/http"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The legacy is told the span of its request. One that is not recorded goes on as such;
// without traces nothing is sent.
func TestTraceparent(t *testing.T) {
	var sent string
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("traceparent")
		serveJSON(rows(""))(w, r)
	}, "", func(t *testing.T, f *fixture) {
		if got := buyer(t, f.Client, "acme"); got != "ok" {
			t.Fatal(got)
		}
		span := f.spans.Ended()[0]
		if want := fmt.Sprintf("00-%s-%s-01", span.SpanContext().TraceID(), span.SpanContext().SpanID()); span.Name() != "GET" || sent != want {
			t.Errorf("sent %q, the span %s is %q", sent, span.Name(), want)
		}
		never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
		unrecorded := f.another(t, f.cfg, func(o *Options) { o.Traces = never })
		if got := buyer(t, unrecorded, "acme"); got != "ok" || len(sent) != 55 || sent[52:] != "-00" {
			t.Errorf("%s, sent %q", got, sent)
		}
		silent := f.another(t, f.cfg, func(o *Options) { o.Traces = nil })
		if got := buyer(t, silent, "acme"); got != "ok" || sent != "" {
			t.Errorf("%s, sent %q", got, sent)
		}
	})
}
