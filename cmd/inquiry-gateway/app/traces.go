package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"inquiry-gateway/internal/series"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// tracesFlush is how long a stop waits for the last spans to be sent, within
	// shutdown_grace: a collector that is away must not slow down each roll-out.
	tracesFlush = 5 * time.Second
	// tracesOverdue is how much longer an exporter may take that does not heed
	// its context.
	tracesOverdue = 250 * time.Millisecond
	// tracesRemark is how often the log says that spans are lost.
	tracesRemark = time.Minute
	// maxTracesError bounds what is logged of an exporter's error, which quotes
	// what the collector said.
	maxTracesError = 300
)

// traces are the spans of the process on their way out. Nothing of it is
// global: the parts get the provider.
type traces struct {
	provider *sdktrace.TracerProvider // nil: no spans
	sender   *spanSender
	logger   *slog.Logger
}

// openTraces reads the variables of OpenTelemetry. Where they do not ask for
// traces there is no provider, and only the counter exists.
func openTraces(out Options, reg prometheus.Registerer) (*traces, error) {
	spans := series.In(reg, "traces").Counters("spans_total",
		"Spans by what became of them: exported, failed at the exporter, wholly or in part, or dropped because too many were waiting.", "result")
	sender := &spanSender{
		logger: out.Logger, exported: spans.WithLabelValues("exported"), failed: spans.WithLabelValues("failed"), dropped: spans.WithLabelValues("dropped"),
	}
	t := &traces{sender: sender, logger: out.Logger}
	env, err := readTraceEnv(out.Getenv)
	if err != nil || env.name == "" {
		return t, err
	}
	// The SDK reads its variables itself; that they are right is known by now.
	ctx := context.Background()
	attributes, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("inquiry-gateway"), semconv.ServiceVersion(out.Version)), resource.WithFromEnv())
	if err != nil {
		return t, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	if sender.SpanExporter, err = env.exporter(ctx, out.Spans); err != nil {
		return t, fmt.Errorf("OTEL_EXPORTER_OTLP_*: the exporter cannot be made: %w", err)
	}
	sender.life, sender.end = context.WithCancel(ctx)
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(attributes),
		sdktrace.WithSpanProcessor(&spanQueue{sdktrace.NewBatchSpanProcessor(sender), sender, env.queue}),
		sdktrace.WithoutPanicRecording(), // its text may be anything
	)
	t.logger.Info("traces are sent", "exporter", env.name, "protocol", env.protocol, "endpoint", env.endpoint, "sampler", env.sampler)
	return t, nil
}

// exporter is the one that the variables name.
func (e traceEnv) exporter(ctx context.Context, stdout io.Writer) (sdktrace.SpanExporter, error) {
	switch {
	case e.name == exporterConsole:
		return stdouttrace.New(stdouttrace.WithWriter(stdout))
	case e.protocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// tracers is what the parts make their spans with; nil where there are none.
func (t *traces) tracers() trace.TracerProvider {
	if t == nil || t.provider == nil {
		return nil
	}
	return t.provider
}

// close sends what waits, for as long as ctx lasts but not longer than
// tracesFlush. Spans that cannot be sent are no reason to fail a stop.
func (t *traces) close(ctx context.Context) {
	if t == nil || t.provider == nil {
		return
	}
	defer t.sender.end()
	sending, cancel := context.WithTimeout(ctx, tracesFlush)
	defer cancel()
	defer context.AfterFunc(sending, t.sender.end)()
	until, _ := sending.Deadline()
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(until), 0)+tracesOverdue)
	defer cancel()
	if err := t.provider.Shutdown(waiting); err != nil {
		t.logger.Warn("the exporter of traces did not end", "error", err)
	}
	if lost := t.sender.lost.Load(); lost > 0 {
		t.logger.Warn("not all spans were sent", "spans", lost)
	}
}

// spanQueue bounds the spans that wait, as the processor behind it does, but
// counts those that there is no room for.
type spanQueue struct {
	sdktrace.SpanProcessor
	sender *spanSender
	limit  int64
}

// OnEnd takes a span that has ended; it never waits.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.sender.waiting.Add(1) > q.limit {
		q.sender.waiting.Add(-1)
		q.sender.dropped.Inc()
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// spanSender is an exporter whose failures are counted and logged here; the SDK
// would print them between the lines of the log. The processor calls it once at a
// time.
type spanSender struct {
	sdktrace.SpanExporter
	life context.Context // ends when what is under way is to be given up
	end  context.CancelFunc

	logger                    *slog.Logger
	exported, failed, dropped prometheus.Counter
	waiting                   atomic.Int64
	lost                      atomic.Int64 // since the log last said so
	remarked                  time.Time    // zero: the last batch was sent
}

// ExportSpans sends a batch. It does not return the error that it has told of.
func (s *spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	err := s.SpanExporter.ExportSpans(ctx, spans)
	s.waiting.Add(-int64(len(spans)))
	if err != nil {
		s.failed.Add(float64(len(spans)))
		s.remark(err, len(spans))
		return nil
	}
	s.exported.Add(float64(len(spans)))
	if !s.remarked.IsZero() {
		s.remarked = time.Time{}
		s.logger.Info("traces are sent again", "spans_lost", s.lost.Swap(0))
	}
	return nil
}

// remark logs the first failure of a row, and from then on one a minute.
func (s *spanSender) remark(err error, spans int) {
	s.lost.Add(int64(spans))
	if now := time.Now(); s.remarked.IsZero() || now.Sub(s.remarked) >= tracesRemark {
		s.remarked = now
		text := err.Error()
		s.logger.Warn("traces could not be sent", "spans_lost", s.lost.Swap(0), "error", text[:min(len(text), maxTracesError)])
	}
}
