package main

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

const buyerSpan = "GET " + buyerList

// wantPaths compares what is below a root with what should be.
func (c *collector) wantPaths(root string, want ...string) {
	c.t.Helper()
	if got := c.below(root); !slices.Equal(got, want) {
		c.t.Errorf("below %s:\n  %s\nwant\n  %s", root, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestTraceOfAMiss(t *testing.T) {
	c := collect(t)
	var sent http.Header
	var p *program
	p = start(t, setup{backend: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		p.system.ServeHTTP(w, r)
	})})
	p.gets(http.StatusOK, buyerList+"?status=pending", "buyer")
	p.stop()
	c.wantPaths(buyerSpan,
		"auth",
		"cache.lookup",
		"cache.lookup > cache.flight",
		"cache.lookup > cache.flight > cache.fill",
		"cache.lookup > cache.flight > cache.fill > gateway.render",
		"cache.lookup > cache.flight > cache.fill > upstream.fetch",
		"cache.lookup > cache.flight > cache.fill > upstream.fetch > GET",
		"cache.lookup > cache.flight > cache.fill > upstream.fetch > upstream.guard",
		"cache.lookup > cache.flight > cache.fill > upstream.fetch > upstream.map",
		"cache.lookup > cache.local",
	)
	if got, want := sent.Get("Traceparent"), traceparent(c.one("GET")); got != want {
		t.Errorf("the legacy was told %s, the client's span is %s", got, want)
	}
	root := c.one(buyerSpan)
	for key, want := range map[string]string{"http.route": buyerList, "inquiry.account": legacy.BuyerTypical, "inquiry.key_id": "buyer", "cache.outcome": "miss"} {
		if got := attributes(root.Attributes)[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if want := `"trace_id":"` + hex.EncodeToString(root.TraceId) + `","span_id":"` + hex.EncodeToString(root.SpanId) + `"`; !strings.Contains(p.logs.String(), want) {
		t.Errorf("no record has %s", want)
	}
}

// A legacy that fails is asked again, which is an event; every span up to the
// server's is marked by a word.
func TestTraceOfAnError(t *testing.T) {
	c := collect(t)
	p := start(t, setup{})
	fault(legacy.Fault{Name: legacy.FaultStatus, Code: 503})(p)
	p.gets(http.StatusBadGateway, buyerList, "buyer")
	p.stop()
	for name, want := range map[string]string{buyerSpan: "upstream_error", "cache.lookup": "fill", "cache.flight": "fill", "cache.fill": "fill", "upstream.fetch": "status_5xx"} {
		s := c.one(name)
		if got := attributes(s.Attributes)["error.type"]; got != want || s.Status.Code != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: %q, status %v; want %q", name, got, s.Status, want)
		}
	}
	if got := attributes(c.one("cache.fill").Attributes)["upstream.reason"]; got != "status_5xx" {
		t.Errorf("the fill failed because of %q", got)
	}
	if e := c.one("upstream.fetch").Events; len(e) != 1 || e[0].Name != "retry" || len(c.named("GET")) != 2 {
		t.Errorf("events %v, %d requests", e, len(c.named("GET")))
	}
}

const (
	foreignTrace = "0af7651916cd43dd8448eb211c80319c"
	foreignSpan  = "b7ad6b7169203331"
)

// A stranger's trace is only linked to, and neither it nor its state is passed
// on; a trusted proxy's goes on through the gateway to the legacy.
func TestForeignTraces(t *testing.T) {
	for yaml, trusted := range map[string]bool{"": false, "gateway: {trusted_proxies: [127.0.0.1/32]}": true} {
		c := collect(t)
		var sent http.Header
		var p *program
		p = start(t, setup{yaml: yaml, backend: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent = r.Header.Clone()
			p.system.ServeHTTP(w, r)
		})})
		p.get(buyerList, "buyer", "traceparent", "00-"+foreignTrace+"-"+foreignSpan+"-01", "tracestate", "shop=1", "baggage", "shop=1")
		p.stop()
		root := c.one(buyerSpan)
		if goesOn := hex.EncodeToString(root.TraceId) == foreignTrace && hex.EncodeToString(root.ParentSpanId) == foreignSpan; goesOn != trusted {
			t.Errorf("trusted %t: the parent is %x in %x", trusted, root.ParentSpanId, root.TraceId)
		}
		if linked := len(root.Links) == 1 && hex.EncodeToString(root.Links[0].TraceId) == foreignTrace; linked == trusted {
			t.Errorf("trusted %t: links %v", trusted, root.Links)
		}
		if passed := strings.Contains(sent.Get("Traceparent"), foreignTrace); passed != trusted || (sent.Get("Tracestate") == "shop=1") != trusted || sent.Get("Baggage") != "" {
			t.Errorf("trusted %t: the legacy was told %v", trusted, sent)
		}
	}
}

// Without traces a caller's own are none of the legacy's business either.
func TestNoTracesNothingIsPassedOn(t *testing.T) {
	var sent http.Header
	var p *program
	p = start(t, setup{backend: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		p.system.ServeHTTP(w, r)
	})})
	p.get(buyerList, "buyer", "traceparent", "00-"+foreignTrace+"-"+foreignSpan+"-01", "tracestate", "shop=1")
	if sent == nil || sent.Get("Traceparent")+sent.Get("Tracestate") != "" {
		t.Errorf("the legacy was told %v", sent)
	}
	if strings.Contains(p.logs.String(), "trace_id") {
		t.Error("a record names a trace")
	}
}

// The tier of Redis is seen in both of its directions, with its calls, and with
// none of its keys; so are the questions to a key store there.
func TestTraceOfRedis(t *testing.T) {
	c := collect(t)
	server := redistest.Start(t)
	shared := setup{yaml: `redis: {addrs: ["` + server.Addr + `"]}`, auth: "{redis: {}}"}
	first := start(t, shared)
	shared.joins = first
	second := start(t, shared)
	keysCommandFor[auth.Account](first, "keys", "account", legacy.BuyerTypical, "--api-access", "paid")
	key := keysCommandFor[shownKey](first, "keys", "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "k1").Key
	first.keys["k1"], second.keys["k1"] = key, key
	first.gets(http.StatusOK, buyerList, "k1")
	first.stop() // the list is in Redis then
	if a := second.get(buyerList, "k1"); !strings.Contains(a.header.Get("Cache-Status"), "hit") {
		t.Fatalf("the second node answered %s", a.header.Get("Cache-Status"))
	}
	second.stop()
	paths := c.below(buyerSpan)
	for _, want := range []string{
		"auth > auth.lookup > redis pipeline",
		"cache.lookup > cache.flight > cache.redis > redis evalsha", // and the lease is taken
		"cache.lookup > cache.flight > cache.store > redis evalsha", // the list is written, and the lease ends
	} {
		if !slices.Contains(paths, want) {
			t.Errorf("no span %s among\n%s", want, strings.Join(paths, "\n"))
		}
	}
	served := slices.DeleteFunc(c.named("cache.redis"), func(s *tracepb.Span) bool { return attributes(s.Attributes)["cache.result"] != "served" })
	if len(served) != 1 {
		t.Errorf("%d lists were served from Redis", len(served))
	}
	if bytes.Contains(c.raw, []byte("iq:")) || bytes.Contains(c.raw, []byte(key)) || bytes.Contains(c.raw, []byte(auth.Hasher{}.Hash(key).Hex())) {
		t.Error("a span names a key")
	}
}
