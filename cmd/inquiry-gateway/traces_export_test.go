package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"inquiry-gateway/auth"
	"inquiry-gateway/upstream/legacy"
)

// No key, digest, internal id, text or header of the legacy system is in any
// span, whatever callers and the legacy do; whose list it was says the server's
// span alone.
func TestNothingSecretInAnySpan(t *testing.T) {
	c := collect(t)
	p := start(t, setup{legacy: legacy.Options{Seed: 5}})
	key := p.keys["buyer"]
	for _, target := range []string{buyerList, buyerList + "?status=pending", buyerList + "?status=" + key, buyerList + "?key=" + key, "/" + key, "/docs/" + key, sellerList} {
		for id := range p.keys {
			p.get(target, id, "User-Agent", key, "X-Request-Id", key, "X-Forwarded-For", key, "tracestate", "k="+strings.ToLower(key))
		}
		r := p.request(key, target, "", "Authorization", "Bearer iqb_unknown0123456789012345678901234", "Host", key)
		r.Host = "host-" + strings.ReplaceAll(key, "_", "-")
		p.do(r)
	}
	for _, name := range []legacy.FaultName{legacy.FaultStatus, legacy.FaultHTML, legacy.FaultRefuse, legacy.FaultWrongOwner, legacy.FaultNullField, legacy.FaultTruncate, legacy.FaultRedirect} {
		fault(legacy.Fault{Name: name})(p)
		p.get(buyerList+"?inquiry_type=delivery&status=closed", "other-buyer")
	}
	p.stop()

	text := string(c.raw)
	for id, key := range p.keys {
		for what, secret := range map[string]string{"key": key, "digest": auth.Hasher{}.Hash(key).Hex(), "end of the key": key[len(key)-20:]} {
			if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
				t.Errorf("the %s of %s is in a span", what, id)
			}
		}
	}
	if id := idFinder(p.system)(answer{body: c.raw}); id != "" {
		t.Errorf("%s is in a span", id)
	}
	for _, word := range []string{"pending", "delivery", "/v2/"} {
		if strings.Contains(text, word) {
			t.Errorf("%q is in a span", word)
		}
	}
	accounts := 0
	for _, s := range c.got() {
		for name, value := range attributes(s.Attributes) {
			for _, account := range []string{legacy.BuyerTypical, legacy.BuyerOther, legacy.SellerTypical} {
				if strings.Contains(value, account) {
					accounts++
					if name != "inquiry.account" || len(s.ParentSpanId) > 0 {
						t.Errorf("%s of %s is %s", name, s.Name, value)
					}
				}
			}
		}
	}
	if accounts == 0 || len(c.got()) < 100 {
		t.Errorf("only %d spans, %d with an account", len(c.got()), accounts)
	}
}

// What the variables say reaches the collector, over HTTP and over gRPC.
func TestExporterByVariables(t *testing.T) {
	c := collect(t, "OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20ecret", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip",
		"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.version=9")
	p := start(t, setup{})
	p.get(buyerList, "buyer")
	p.stop()
	if c.header.Get("Api-Key") != "s ecret" || c.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("the collector was sent %v", c.header)
	}
	if r := c.resource; r["service.name"] != "inquiry-gateway" || r["service.version"] != "9" || r["deployment.environment.name"] != "test" || r["telemetry.sdk.language"] != "go" {
		t.Errorf("the resource is %v", r)
	}
	if strings.Contains(p.logs.String(), "ecret") {
		t.Error("a header's value is logged")
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	g := collect(t, "OTEL_SERVICE_NAME", "mine", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"+l.Addr().String(),
		"OTEL_EXPORTER_OTLP_COMPRESSION", "")
	collectorpb.RegisterTraceServiceServer(server, g)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	p = start(t, setup{})
	p.get(buyerList, "buyer")
	p.stop()
	if g.resource["service.name"] != "mine" || len(g.named(buyerSpan)) != 1 || len(g.raw) != 0 {
		t.Errorf("over gRPC: resource %v, spans %v", g.resource, g.paths())
	}
}

var spanCount = regexp.MustCompile(`inquiry_gateway_traces_spans_total\{result="(\w+)"\} (\d+)`)

// spansCounted reads the counter of spans by result.
func (p *program) spansCounted() map[string]string {
	count := map[string]string{}
	for _, m := range spanCount.FindAllStringSubmatch(string(p.ops("/metrics").body), -1) {
		count[m[1]] = m[2]
	}
	return count
}

// A collector that is away, refuses or never answers costs no request anything,
// is counted and logged, and the stop does not wait for it beyond its grace. The
// exporter's own timeouts are longer than any test.
func TestCollectorInTrouble(t *testing.T) {
	hanging := make(chan struct{})
	for what, trouble := range map[string]struct {
		collector http.HandlerFunc // nil: nobody listens
		result    string
	}{
		"away": {nil, "failed"},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("no ", 1000), http.StatusForbidden)
		}, "failed"},
		"hangs": {func(http.ResponseWriter, *http.Request) { <-hanging }, "dropped"},
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewServer(trouble.collector)
			defer server.Close()
			if trouble.collector == nil {
				server.Close()
			}
			for name, value := range map[string]string{
				"EXPORTER_OTLP_ENDPOINT": server.URL, "EXPORTER_OTLP_TIMEOUT": "3600000", "BSP_EXPORT_TIMEOUT": "3600000",
				"BSP_SCHEDULE_DELAY": "10", "BSP_MAX_QUEUE_SIZE": "20", "BSP_MAX_EXPORT_BATCH_SIZE": "5",
			} {
				t.Setenv("OTEL_"+name, value)
			}
			p := start(t, setup{yaml: "shutdown_grace: 1s"})
			p.eventually("what is lost is counted", func() bool {
				if a := p.get(buyerList, "buyer"); a.status != http.StatusOK {
					t.Fatalf("%d %s", a.status, a.body)
				}
				return p.spansCounted()[trouble.result] != "0"
			})
			p.stop()
			if what == "hangs" {
				close(hanging)
			}
			if said := regexp.MustCompile(`traces could not be sent[^\n]*`).FindString(p.logs.String()); said == "" || len(said) > 600 {
				t.Errorf("the log says %q", said)
			}
		})
	}
}

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

// serve does not start with a wrong variable, and says which it is.
func TestServeRefusesWrongVariables(t *testing.T) {
	p := &program{t: t, dir: t.TempDir(), keys: map[string]string{}}
	p.writeKeys(sampleKeys())
	p.write("gateway.yaml", "listen: 127.0.0.1:0\nops: {listen: 127.0.0.1:0}\nauth: {keys_file: keys.yaml}\n"+string(legacy.Mapping()))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
	_, errOut, code := command(t, "serve", "-c", filepath.Join(p.dir, "gateway.yaml"))
	if code != exitFailed || !strings.Contains(errOut, "OTEL_EXPORTER_OTLP_ENDPOINT") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// The exporter console writes a span per line.
func TestConsoleExporter(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	var out bytes.Buffer
	traces, err := openTraces(outlets{logger: slog.New(slog.DiscardHandler), spans: &out, getenv: os.Getenv}, prometheus.NewRegistry())
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
