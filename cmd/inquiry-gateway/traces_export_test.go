package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
				p.gets(http.StatusOK, buyerList, "buyer")
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
