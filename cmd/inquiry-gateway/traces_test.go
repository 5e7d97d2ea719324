package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// span is what tests look at. Ids are hexadecimal.
type span struct {
	Name         string
	TraceID      string
	SpanID       string
	ParentSpanID string
	Attributes   []struct {
		Key   string
		Value struct{ StringValue string }
	}
	Links []struct{ TraceID string }
}

// attribute is the text of an attribute; empty if there is none.
func (s span) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
}

// collector receives traces. Its spans are complete when the program that sends them has stopped.
type collector struct {
	t *testing.T

	mu    sync.Mutex
	raw   []byte // all bodies
	spans []span
}

// collect starts a collector, and has programs that are started afterwards send
// their traces to it.
func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	return c
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []span }
		}
	}
	if err = errors.Join(err, json.Unmarshal(raw, &body)); err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
		c.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, raw...)
	for _, resource := range body.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				for _, id := range []*string{&s.TraceID, &s.SpanID, &s.ParentSpanID} {
					*id = strings.ToLower(*id)
				}
				c.spans = append(c.spans, s)
			}
		}
	}
}

// named are the spans of that name.
func (c *collector) named(name string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s span) bool { return s.Name != name })
}

// one is the only span of that name.
func (c *collector) one(name string) span {
	c.t.Helper()
	all := c.named(name)
	if len(all) != 1 {
		c.t.Fatalf("%d spans %s among\n%s", len(all), name, strings.Join(c.below(""), "\n"))
	}
	return all[0]
}

// below names each span under a root by those between them, sorted.
func (c *collector) below(root string) (paths []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byID := map[string]span{}
	for _, s := range c.spans {
		byID[s.SpanID] = s
	}
	for _, s := range c.spans {
		path := s.Name
		for up, found := byID[s.ParentSpanID]; found; up, found = byID[up.ParentSpanID] {
			path = up.Name + " > " + path
		}
		if rest, found := strings.CutPrefix(path, root); found && rest != "" {
			paths = append(paths, strings.TrimPrefix(rest, " > "))
		}
	}
	slices.Sort(paths)
	return paths
}

const (
	buyerSpan    = "GET " + buyerList
	foreignTrace = "0af7651916cd43dd8448eb211c80319c"
	foreignSpan  = "b7ad6b7169203331"
)

// A stranger's trace is only linked to, and neither it nor its state is passed on; a trusted
// proxy's goes on through the gateway to the legacy. Without a collector there are no traces, and
// a caller's own are none of the legacy's business either. The calls of Redis are seen, too.
func TestTraceOfAMiss(t *testing.T) {
	server := redistest.Start(t)
	for i, tt := range []struct {
		yaml            string
		traced, trusted bool
	}{{"", false, false}, {"", true, false}, {"gateway: {trusted_proxies: [127.0.0.1/32]}", true, true}} {
		var c *collector
		if tt.traced {
			c = collect(t)
		}
		var sent http.Header
		redis := fmt.Sprintf("{addrs: [%q], prefix: traces-%d, %s}", server.Addr, i, relaxedTimeout)
		p := start(t, setup{yaml: tt.yaml, redis: redis, backend: func(system http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent = r.Header.Clone()
				system.ServeHTTP(w, r)
			})
		}})
		p.gets(http.StatusOK, buyerList+"?status=pending", "buyer",
			"traceparent", "00-"+foreignTrace+"-"+foreignSpan+"-01", "tracestate", "shop=1", "baggage", "shop=1")
		p.stop()
		if sent.Get("Baggage") != "" || (sent.Get("Tracestate") == "shop=1") != tt.trusted {
			t.Errorf("%+v: the legacy was told %v", tt, sent)
		}
		if !tt.traced {
			if sent.Get("Traceparent") != "" || strings.Contains(p.logs.String(), "trace_id") {
				t.Errorf("there are traces: %v", sent)
			}
			continue
		}
		const flight = "cache.lookup > cache.flight"
		const fetch = flight + " > cache.fill > upstream.fetch"
		want := []string{
			"auth", "cache.lookup", flight, flight + " > cache.fill", flight + " > cache.fill > gateway.render",
			fetch, fetch + " > GET", fetch + " > upstream.guard", fetch + " > upstream.map",
			flight + " > cache.lease", flight + " > cache.lease > redis pipeline", // it is taken
			flight + " > cache.redis", flight + " > cache.redis > redis getrange",
			flight + " > cache.store", flight + " > cache.store > redis evalsha", // and the lease ends
			"cache.lookup > cache.local",
		}
		got := slices.DeleteFunc(c.below(buyerSpan), func(path string) bool {
			// Where no poll has read the purges before, this look-up does.
			return path == flight+" > cache.redis > redis pipeline" || path == flight+" > cache.redis > redis time" || strings.HasPrefix(path, flight+" > cache.redis > redis eval")
		})
		if !slices.Equal(got, want) {
			t.Errorf("the spans\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		root, client := c.one(buyerSpan), c.one("GET")
		if goesOn := root.TraceID == foreignTrace && root.ParentSpanID == foreignSpan; goesOn != tt.trusted {
			t.Errorf("%+v: the parent is %s in %s", tt, root.ParentSpanID, root.TraceID)
		}
		if linked := len(root.Links) == 1 && strings.EqualFold(root.Links[0].TraceID, foreignTrace); linked == tt.trusted {
			t.Errorf("%+v: links %v", tt, root.Links)
		}
		if got := sent.Get("Traceparent"); got != "00-"+client.TraceID+"-"+client.SpanID+"-01" {
			t.Errorf("the legacy was told %s, the client's span is %+v", got, client)
		}
		if root.attribute("inquiry.key_id") != "buyer" || root.attribute("cache.outcome") != "miss" {
			t.Errorf("%v", root.Attributes)
		}
		if want := `"trace_id":"` + root.TraceID + `","span_id":"` + root.SpanID + `"`; !strings.Contains(p.logs.String(), want) {
			t.Errorf("no record has %s", want)
		}
	}
}

// No key, digest, key of Redis, internal id, text or header of the legacy system is in any
// span, whatever callers and the legacy do; whose list it was says the server's span alone. A
// fetch that fails is marked by a word.
func TestNothingSecretInAnySpan(t *testing.T) {
	c := collect(t)
	p := start(t, setup{legacy: legacy.Options{Seed: 5}, redis: fmt.Sprintf("{addrs: [%q], %s}", redistest.Start(t).Addr, relaxedTimeout)})
	key := p.keys["buyer"]
	for _, target := range []string{
		buyerList, buyerList + "?status=pending", buyerList + "?status=" + key, buyerList + "?key=" + key, "/" + key, "/docs/" + key, sellerList,
	} {
		for id := range p.keys {
			p.get(target, id, "User-Agent", key, "X-Request-Id", key, "X-Forwarded-For", key, "tracestate", "k="+strings.ToLower(key))
		}
		r := p.request(key, target, "", "Authorization", "Bearer iqb_unknown0123456789012345678901234")
		r.Host = "host-" + strings.ReplaceAll(key, "_", "-")
		p.do(r)
	}
	for _, name := range []legacy.FaultName{
		legacy.FaultStatus, legacy.FaultHTML, legacy.FaultRefuse, legacy.FaultWrongOwner, legacy.FaultTruncate,
	} {
		p.fault(legacy.Fault{Name: name})
		p.get(buyerList+"?inquiry_type=delivery&status=closed", "other-buyer")
	}
	p.stop()

	text := strings.ToLower(string(c.raw))
	words := []string{"pending", "delivery", "/v2/", "iq:"}
	for key := range maps.Values(p.keys) {
		words = append(words, key, auth.Hasher{}.Hash(key).Hex(), key[len(key)-20:])
	}
	for _, word := range words {
		if strings.Contains(text, strings.ToLower(word)) {
			t.Errorf("%q is in a span", word)
		}
	}
	if id := idFinder(p.system)(answer{body: c.raw}); id != "" {
		t.Errorf("%s is in a span", id)
	}
	if fill := c.named("cache.fill"); !slices.ContainsFunc(fill, func(s span) bool {
		return s.attribute("error.type") == "fill" && s.attribute("upstream.reason") == "status_5xx"
	}) {
		t.Errorf("no failed fill among %+v", fill)
	}
	accounts := 0
	for _, s := range c.spans {
		for _, a := range s.Attributes {
			names := []string{legacy.BuyerTypical, legacy.BuyerOther, legacy.SellerTypical}
			if !slices.ContainsFunc(names, func(account string) bool { return strings.Contains(a.Value.StringValue, account) }) {
				continue
			}
			if accounts++; a.Key != "inquiry.account" || s.ParentSpanID != "" {
				t.Errorf("%s of %s is %s", a.Key, s.Name, a.Value.StringValue)
			}
		}
	}
	if accounts == 0 || len(c.spans) < 100 {
		t.Errorf("only %d spans, %d with an account", len(c.spans), accounts)
	}
}

// A collector that is away, refuses or never answers costs no request anything,
// is logged, and the stop does not wait for it beyond its grace. The
// exporter's own timeouts are longer than any test.
func TestCollectorInTrouble(t *testing.T) {
	hanging := make(chan struct{})
	for what, collector := range map[string]http.HandlerFunc{
		"away": nil,
		"refuses": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("no ", 1000), http.StatusForbidden)
		},
		"hangs": func(http.ResponseWriter, *http.Request) { <-hanging },
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewServer(collector)
			defer server.Close()
			if collector == nil {
				server.Close()
			}
			for name, value := range map[string]string{
				"EXPORTER_OTLP_ENDPOINT": server.URL, "EXPORTER_OTLP_TIMEOUT": "3600000", "BSP_EXPORT_TIMEOUT": "3600000",
				"BSP_SCHEDULE_DELAY": "10", "BSP_MAX_QUEUE_SIZE": "20", "BSP_MAX_EXPORT_BATCH_SIZE": "5",
			} {
				t.Setenv("OTEL_"+name, value)
			}
			p := start(t, setup{yaml: "shutdown_grace: 1s"})
			p.gets(http.StatusOK, buyerList, "buyer")
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
