package main

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
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

// span is what tests look at.
type span struct {
	name, trace, id, parent string // ids in hexadecimal
	attributes              map[string]string
	events                  []string
	linked                  []string // ids of traces
	failed                  bool
}

// collector is a receiver of traces. Its spans are whole when the program that sends them has stopped.
type collector struct {
	t *testing.T

	mu    sync.Mutex
	raw   []byte // all that has come
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
	return c
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = zip
	}
	raw, err := io.ReadAll(body)
	if err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
		c.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, raw...)
	for _, resource := range message(raw)[1] { // ExportTraceServiceRequest, opentelemetry-proto
		for _, scope := range message(resource)[2] {
			for _, one := range message(scope)[2] {
				c.spans = append(c.spans, readSpan(message(one)))
			}
		}
	}
}

// fields are those of a message of Protocol Buffers, by their numbers.
type fields map[uint64][][]byte

// message reads one message; the tests would not build the libraries for it otherwise.
func message(b []byte) fields {
	f := fields{}
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		b = b[n:]
		switch tag & 7 { // the wire type
		case 0: // a number
			_, n = binary.Uvarint(b)
		case 1:
			n = 8
		case 2: // a length, and so many bytes
			size, head := binary.Uvarint(b)
			b, n = b[head:], int(size)
		case 5:
			n = 4
		}
		f[tag>>3] = append(f[tag>>3], b[:n])
		b = b[n:]
	}
	return f
}

// text is the last value of a field.
func (f fields) text(number uint64) string {
	if all := f[number]; len(all) > 0 {
		return string(all[len(all)-1])
	}
	return ""
}

func readSpan(f fields) span {
	id := func(f fields, number uint64) string { return hex.EncodeToString([]byte(f.text(number))) }
	const traceID, spanID, parentID, name, attributes, events, links, status = 1, 2, 4, 5, 9, 11, 13, 15
	s := span{name: f.text(name), trace: id(f, traceID), id: id(f, spanID), parent: id(f, parentID), attributes: map[string]string{}}
	for _, a := range f[attributes] { // a key, and a value, which may be a text
		s.attributes[message(a).text(1)] = message([]byte(message(a).text(2))).text(1)
	}
	for _, e := range f[events] {
		s.events = append(s.events, message(e).text(2))
	}
	for _, l := range f[links] {
		s.linked = append(s.linked, id(message(l), 1))
	}
	s.failed = message([]byte(f.text(status))).text(3) == "\x02"
	return s
}

// named are the spans of that name.
func (c *collector) named(name string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s span) bool { return s.name != name })
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
		byID[s.id] = s
	}
	for _, s := range c.spans {
		path := s.name
		for up, found := byID[s.parent]; found; up, found = byID[up.parent] {
			path = up.name + " > " + path
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

// askTraced starts a program and asks as a caller with a trace of its own. It returns what the
// legacy system was sent.
func askTraced(t *testing.T, yaml string) (p *program, sent http.Header) {
	p = start(t, setup{yaml: yaml, backend: func(system http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent = r.Header.Clone()
			system.ServeHTTP(w, r)
		})
	}})
	own := []string{"traceparent", "00-" + foreignTrace + "-" + foreignSpan + "-01", "tracestate", "shop=1", "baggage", "shop=1"}
	p.gets(http.StatusOK, buyerList+"?status=pending", "buyer", own...)
	p.stop()
	if sent.Get("Baggage") != "" {
		t.Errorf("the legacy was told %v", sent)
	}
	return p, sent
}

// A stranger's trace is only linked to, and neither it nor its state is passed
// on; a trusted proxy's goes on through the gateway to the legacy.
func TestTraceOfAMiss(t *testing.T) {
	for yaml, trusted := range map[string]bool{"": false, "gateway: {trusted_proxies: [127.0.0.1/32]}": true} {
		c := collect(t)
		p, sent := askTraced(t, yaml)
		const flight = "cache.lookup > cache.flight"
		const fetch = flight + " > cache.fill > upstream.fetch"
		want := []string{
			"auth", "cache.lookup", flight, flight + " > cache.fill", flight + " > cache.fill > gateway.render",
			fetch, fetch + " > GET", fetch + " > upstream.guard", fetch + " > upstream.map", "cache.lookup > cache.local",
		}
		if got := c.below(buyerSpan); !slices.Equal(got, want) {
			t.Errorf("the spans\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		root, client := c.one(buyerSpan), c.one("GET")
		if goesOn := root.trace == foreignTrace && root.parent == foreignSpan; goesOn != trusted {
			t.Errorf("trusted %t: the parent is %s in %s", trusted, root.parent, root.trace)
		}
		if linked := slices.Equal(root.linked, []string{foreignTrace}); linked == trusted {
			t.Errorf("trusted %t: links %v", trusted, root.linked)
		}
		if got := sent.Get("Traceparent"); got != "00-"+client.trace+"-"+client.id+"-01" || (sent.Get("Tracestate") == "shop=1") != trusted {
			t.Errorf("trusted %t: the legacy was told %v", trusted, sent)
		}
		for key, want := range map[string]string{
			"http.route": buyerList, "inquiry.account": legacy.BuyerTypical, "inquiry.key_id": "buyer", "cache.outcome": "miss",
		} {
			if got := root.attributes[key]; got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if want := `"trace_id":"` + root.trace + `","span_id":"` + root.id + `"`; !strings.Contains(p.logs.String(), want) {
			t.Errorf("no record has %s", want)
		}
	}
}

// Without traces a caller's own are none of the legacy's business either.
func TestNoTracesNothingIsPassedOn(t *testing.T) {
	t.Parallel()
	p, sent := askTraced(t, "")
	if sent == nil || sent.Get("Traceparent")+sent.Get("Tracestate") != "" || strings.Contains(p.logs.String(), "trace_id") {
		t.Errorf("the legacy was told %v", sent)
	}
}

// A legacy that fails is asked again, which is an event; every span up to the
// server's is marked by a word.
func TestTraceOfAnError(t *testing.T) {
	c := collect(t)
	p := start(t, setup{})
	p.fault(legacy.Fault{Name: legacy.FaultStatus, Code: 503})
	p.gets(http.StatusBadGateway, buyerList, "buyer")
	p.stop()
	for name, want := range map[string]string{
		buyerSpan: "upstream_error", "cache.lookup": "fill", "cache.flight": "fill", "cache.fill": "fill", "upstream.fetch": "status_5xx",
	} {
		if s := c.one(name); s.attributes["error.type"] != want || !s.failed {
			t.Errorf("%s: %+v, want %q", name, s, want)
		}
	}
	if got := c.one("cache.fill").attributes["upstream.reason"]; got != "status_5xx" {
		t.Errorf("the fill failed because of %q", got)
	}
	if e := c.one("upstream.fetch").events; !slices.Equal(e, []string{"retry"}) || len(c.named("GET")) != 2 {
		t.Errorf("events %v, %d requests", e, len(c.named("GET")))
	}
}

// The tier of Redis is seen in both of its directions, with its calls, and with
// none of its keys; so are the questions to a key store there.
func TestTraceOfRedis(t *testing.T) {
	c := collect(t)
	shared := keysInRedis(redistest.Start(t).Addr)
	first := start(t, shared)
	shared.joins = first
	second := start(t, shared)
	made := newKey(t, []*program{first, second}, "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "k1", "--api-access", "paid")
	first.gets(http.StatusOK, buyerList, "k1")
	first.stop() // the list is in Redis then
	if a := second.get(buyerList, "k1"); !a.isHit() {
		t.Fatalf("the second node answered %v", a.header)
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
	served := slices.DeleteFunc(c.named("cache.redis"), func(s span) bool { return s.attributes["cache.result"] != "served" })
	if len(served) != 1 {
		t.Errorf("%d lists were served from Redis", len(served))
	}
	if text := string(c.raw); strings.Contains(text, "iq:") || strings.Contains(text, made.Key) || strings.Contains(text, auth.Hasher{}.Hash(made.Key).Hex()) {
		t.Error("a span names a key")
	}
}

// No key, digest, internal id, text or header of the legacy system is in any
// span, whatever callers and the legacy do; whose list it was says the server's
// span alone.
func TestNothingSecretInAnySpan(t *testing.T) {
	c := collect(t)
	p := start(t, setup{legacy: legacy.Options{Seed: 5}})
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
	for _, name := range []legacy.FaultName{legacy.FaultStatus, legacy.FaultHTML, legacy.FaultRefuse, legacy.FaultWrongOwner, legacy.FaultTruncate} {
		p.fault(legacy.Fault{Name: name})
		p.get(buyerList+"?inquiry_type=delivery&status=closed", "other-buyer")
	}
	p.stop()

	text := strings.ToLower(string(c.raw))
	words := []string{"pending", "delivery", "/v2/"}
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
	accounts := 0
	for _, s := range c.spans {
		for name, value := range s.attributes {
			names := []string{legacy.BuyerTypical, legacy.BuyerOther, legacy.SellerTypical}
			if !slices.ContainsFunc(names, func(account string) bool { return strings.Contains(value, account) }) {
				continue
			}
			if accounts++; name != "inquiry.account" || s.parent != "" {
				t.Errorf("%s of %s is %s", name, s.name, value)
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
