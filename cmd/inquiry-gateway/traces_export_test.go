package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

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
	for _, name := range []legacy.FaultName{legacy.FaultStatus, legacy.FaultHTML, legacy.FaultRefuse, legacy.FaultWrongOwner, legacy.FaultTruncate} {
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

// A collector that is away, refuses or never answers costs no request anything,
// is logged, and the stop does not wait for it beyond its grace. The
// exporter's own timeouts are longer than any test.
func TestCollectorInTrouble(t *testing.T) {
	hanging := make(chan struct{})
	for what, collector := range map[string]http.HandlerFunc{ // nil: nobody listens
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
