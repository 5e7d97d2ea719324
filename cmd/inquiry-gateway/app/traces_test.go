package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A value that cannot be meant is an error at the start that names its variable;
// without it the SDK would go on with something else.
func TestWrongVariables(t *testing.T) {
	for _, tc := range []struct{ name, value string }{
		{"OTEL_SDK_DISABLED", "yes"},
		{"OTEL_TRACES_EXPORTER", "zipkin"},
		{"OTEL_TRACES_EXPORTER", "otlp,console"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "HTTP"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "udp"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:pass@collector"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector/?key=1"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "key"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a key=1"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "key=%zz"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"},
		{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"},
		{"OTEL_EXPORTER_OTLP_INSECURE", "1"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/does/not/exist.pem"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/does/not/exist.pem"},
		{"OTEL_TRACES_SAMPLER", "sometimes"},
		{"OTEL_TRACES_SAMPLER_ARG", "10%"},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN"},
		{"OTEL_BSP_SCHEDULE_DELAY", "0"},
		{"OTEL_BSP_MAX_QUEUE_SIZE", "-1"},
		{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"},
		{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many"},
		{"OTEL_RESOURCE_ATTRIBUTES", "a=1,b"},
		{"OTEL_PROPAGATORS", "b3"},
	} {
		t.Run(tc.name+"="+tc.value, func(t *testing.T) {
			env := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio"}
			env[tc.name] = tc.value
			_, err := readTraceEnv(func(name string) string { return env[name] })
			if err == nil || !strings.HasPrefix(err.Error(), tc.name+": ") || strings.Contains(err.Error(), "pass") {
				t.Errorf("%v", err)
			}
		})
	}
}

// Whether there are traces, and how many spans may wait.
func TestVariablesAskForTraces(t *testing.T) {
	const endpoint = "http://collector:4318"
	for _, tc := range []struct {
		env  map[string]string
		want traceEnv
	}{
		{nil, traceEnv{}},
		{map[string]string{"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "nonsense"}, traceEnv{}},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, traceEnv{}},
		{map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_SAMPLER": "nonsense"}, traceEnv{}},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console"}, traceEnv{name: "console", sampler: "parentbased_always_on", queue: 2048}},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, traceEnv{name: "otlp", protocol: "http/protobuf", endpoint: endpoint, sampler: "parentbased_always_on", queue: 2048}},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01",
			"OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_PROPAGATORS": "tracecontext,baggage"}, traceEnv{name: "otlp", protocol: "grpc", endpoint: endpoint, sampler: "traceidratio 0.01", queue: 100}},
	} {
		if got, err := readTraceEnv(func(name string) string { return tc.env[name] }); got != tc.want || err != nil {
			t.Errorf("%v: %+v, %v", tc.env, got, err)
		}
	}
}

// The exporter console writes a span per line.
func TestConsoleExporter(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	var out bytes.Buffer
	traces, err := openTraces(Options{Logger: slog.New(slog.DiscardHandler), Spans: &out, Getenv: os.Getenv}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		_, span := traces.tracers().Tracer("").Start(t.Context(), fmt.Sprint("span ", i))
		span.End()
	}
	traces.close(t.Context())
	lines := json.NewDecoder(&out)
	for i := range 3 {
		var span struct{ Name string }
		if err := lines.Decode(&span); err != nil || span.Name != fmt.Sprint("span ", i) {
			t.Errorf("%+v, %v", span, err)
		}
	}
	if err := lines.Decode(new(any)); err != io.EOF {
		t.Errorf("and then %v", err)
	}
}
