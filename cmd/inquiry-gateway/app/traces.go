package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// tracesFlush is how long a stop waits for the last spans to be sent, within shutdown_grace: an unavailable collector must not
	// delay each roll-out.
	tracesFlush = 5 * time.Second
	// tracesRemark is how often lost spans are logged.
	tracesRemark = time.Minute
	// maxTracesError bounds what is logged of an exporter's error, which quotes the collector's response.
	maxTracesError = 300
)

// traces send the spans of the process by OTLP over HTTP, as the OTEL_* variables of the SDK say.
type traces struct {
	provider *sdktrace.TracerProvider // nil: no spans
	sender   *spanSender
	logger   *slog.Logger
}

// openTraces sends traces if the environment names a collector or the exporter otlp. Variables that the SDK would misread or ignore
// are an error.
func openTraces(o Options) (*traces, error) {
	t := &traces{logger: o.Logger}
	name, endpoint := otlpVariable("ENDPOINT")
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	asked := exporter != "none" && (exporter != "" || endpoint != "")
	if !o.Traces || !asked || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return t, nil
	}
	if exporter != "" && exporter != "otlp" {
		return t, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not supported; set it to otlp or none", exporter)
	}
	collector, err := tracesURL(name, endpoint)
	if err != nil {
		return t, err
	}
	for variable, values := range map[string][]string{"PROTOCOL": {"http/protobuf", "http/json"}, "COMPRESSION": {"gzip", "none"}} {
		if name, value := otlpVariable(variable); value != "" && !slices.Contains(values, value) {
			return t, fmt.Errorf("%s: %q is not supported; set OTEL_EXPORTER_OTLP_TRACES_%s=%s", name, value, variable, values[0])
		}
	}
	ctx := context.Background()
	attributes, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("inquiry-gateway"), semconv.ServiceVersion(o.Version)), resource.WithFromEnv())
	if err != nil {
		return t, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporterHTTP, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(collector))
	if err != nil {
		return t, fmt.Errorf("OTEL_EXPORTER_OTLP_*: the exporter cannot be made: %w", err)
	}
	t.sender = &spanSender{SpanExporter: exporterHTTP, logger: o.Logger}
	t.sender.life, t.sender.end = context.WithCancel(ctx)
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(attributes), sdktrace.WithBatcher(t.sender),
		sdktrace.WithoutPanicRecording(), // its text may be anything
	)
	t.logger.Info("traces are sent", "endpoint", collector)
	return t, nil
}

// otlpVariable returns a variable of the exporter and its name: the one for traces if it is set, else the
// one for all signals.
func otlpVariable(suffix string) (name, value string) {
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if name, value = prefix+suffix, strings.TrimSpace(os.Getenv(prefix+suffix)); value != "" {
			break
		}
	}
	return name, value
}

// tracesURL is where the exporter sends to. The path of the endpoint for all signals is completed
// (OpenTelemetry Protocol Exporter, "Endpoint URLs for OTLP/HTTP").
func tracesURL(name, endpoint string) (string, error) {
	u, err := url.Parse(cmp.Or(endpoint, "http://localhost:4318"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s: must be a URL with http:// or https://, such as http://collector:4318", name) // it may hold a password
	}
	if u.User != nil || u.RawQuery != "" {
		return "", fmt.Errorf("%s: the exporter ignores the user, password and query of a URL; use OTEL_EXPORTER_OTLP_HEADERS", name)
	}
	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		u = u.JoinPath("v1/traces")
	}
	return u.String(), nil
}

// tracers returns the provider of spans; nil without traces.
func (t *traces) tracers() trace.TracerProvider {
	if t == nil || t.provider == nil {
		return nil
	}
	return t.provider
}

// close sends the last spans until ctx ends, but no longer than tracesFlush. Spans that cannot be sent do not fail a stop.
func (t *traces) close(ctx context.Context) {
	if t == nil || t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tracesFlush)
	defer cancel()
	defer t.sender.end()
	defer context.AfterFunc(ctx, t.sender.end)() // an export under way ends, and with it the batcher
	if err := t.provider.Shutdown(context.WithoutCancel(ctx)); err != nil {
		t.logger.Warn("the exporter of traces did not stop in time", "error", err)
	}
	if t.sender.lost > 0 {
		t.logger.Warn("spans were lost at the stop", "spans", t.sender.lost)
	}
}

// spanSender is an exporter that logs its failures. The batcher does not call it concurrently.
type spanSender struct {
	sdktrace.SpanExporter
	life       context.Context // ends when an export in progress is to be cancelled
	end        context.CancelFunc
	logger     *slog.Logger
	lost       int       // spans, since they were last logged
	lastWarned time.Time // zero if the last batch was sent
}

// ExportSpans sends a batch. It logs failures, at most one a minute, and returns none.
func (s *spanSender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	err := s.SpanExporter.ExportSpans(ctx, spans)
	switch now := time.Now(); {
	case err == nil && !s.lastWarned.IsZero():
		s.logger.Info("traces are sent again", "spans_lost", s.lost)
		s.lastWarned, s.lost = time.Time{}, 0
	case err != nil:
		if s.lost += len(spans); s.lastWarned.IsZero() || now.Sub(s.lastWarned) >= tracesRemark {
			text := err.Error()
			s.logger.Warn("traces could not be sent", "spans_lost", s.lost, "error", text[:min(len(text), maxTracesError)])
			s.lastWarned, s.lost = now, 0
		}
	}
	return nil
}
