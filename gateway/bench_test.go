package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// nowhere takes an answer and keeps nothing of it, so that what is measured is
// the gateway's own work.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkHit is all of a hit of the engine but what net/http does, log record and metrics
// included, for the decision what may stand between look-up and write, and on the share of
// traces that is sampled.
func BenchmarkHit(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{
		"plain": nil, "1% traced": sdktrace.TraceIDRatioBased(0.01), "traced": sdktrace.AlwaysSample(),
	} {
		b.Run(name, func(b *testing.B) {
			s := newTestGateway(b, setting{options: func(o *Options) {
				o.RequestLog = io.Discard
				if sampler != nil {
					provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(tracetest.NewNoopExporter()))
					b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
					o.Traces = provider
				}
			}})
			r := httptest.NewRequest(http.MethodGet, buyersList+"?status=pending", nil)
			r.Header.Set("Authorization", "Bearer key-of-acme")
			w := &nowhere{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				s.gateway.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkFront is all of a hit of the front but the system calls, with real parts and
// a limit, for the decision what is worth to be done by hand.
func BenchmarkFront(b *testing.B) {
	for name, fields := range map[string][]string{"hit": nil, "304": {"If-None-Match: *"}, "gzip": {"Accept-Encoding: gzip"}} {
		b.Run(name, func(b *testing.B) {
			s := newTestGateway(b, setting{options: func(o *Options) { o.RequestLog = io.Discard }})
			caller := s.network.connect(peers[0])
			two := [2][]byte{[]byte(hitOf("acme", buyersList, fields...)), []byte(hitOf("globex", buyersList, fields...))}
			answers := make([]byte, 64<<10)
			var sizes [2]int
			for i := range 4 { // the first two are fills
				_, _ = caller.Write(two[i%2])
				time.Sleep(20 * time.Millisecond)
				sizes[i%2], _ = caller.Read(answers)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := caller.Write(two[i%2]); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(caller, answers[:sizes[i%2]]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(s.fast.Load())/float64(b.N), "front/op")
			_ = caller.Close()
		})
	}
}
