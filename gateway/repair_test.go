package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

// ask sends a request from an address, as net/http would hand it over.
func (b bench) ask(method, target, from string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = from
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.gateway.ServeHTTP(w, r)
	return w
}

// logged are the records of the requests so far, each of which must be JSON.
func (b bench) logged(t *testing.T) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(b.logs.Bytes()) {
		record := map[string]any{}
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if record["msg"] == "request" {
			all = append(all, record)
		}
	}
	return all
}

// What a trusted proxy passes on of a stranger's words gets into the record as an address
// or not at all.
func TestForwardedAddresses(t *testing.T) {
	for sent, want := range map[string]string{
		`fe80::1%a"b`:               "fe80::1",
		`fe80::1%eth0`:              "fe80::1",
		"203.0.113.9:4711":          "203.0.113.9",
		"[2001:db8::7]:4711":        "2001:db8::7",
		"[2001:db8::7]":             "2001:db8::7",
		`[fe80::1%a"b]:1`:           "fe80::1",
		"::ffff:203.0.113.9":        "203.0.113.9",
		"203.0.113.9:x":             "192.0.2.1",
		"1.1.1.1, 203.0.113.9:4711": "203.0.113.9",
	} {
		b := newBench(Options{Lists: warm{entryOf("acme")}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
		b.get("X-Forwarded-For", sent)
		if all := b.logged(t); len(all) != 1 || all[0]["client_address"] != want {
			t.Errorf("%s: %v, want %s", sent, all, want)
		}
	}
}

// Whoever has no good key chooses how many requests there are, but not how many records;
// one client's requests hide no other's.
func TestRecordsWithoutAKeyAreBounded(t *testing.T) {
	b := newBench(Options{Lists: warm{entryOf("acme")}, LogRefusals: 5, Docs: true})
	for i := range 200 {
		b.ask("GET", "/nowhere/"+strconv.Itoa(i), "198.51.100.1:1")
		b.ask("POST", "/api/v1/buyer/inquiries", "198.51.100.1:2")
		b.ask("GET", "/docs/", "198.51.100.1:3")
		b.ask("GET", "/docs/nothing", "198.51.100.1:4")
	}
	b.ask("GET", "/nowhere", "198.51.100.2:1")
	for range 20 {
		b.ask("GET", "/api/v1/buyer/inquiries", "198.51.100.1:1")
	}
	counts := map[string]int{}
	for _, r := range b.logged(t) {
		code, _ := r["error_code"].(string)
		counts[r["client_address"].(string)+" "+code+" "+r["endpoint"].(string)]++
	}
	scanner := 0
	for key, n := range counts {
		if strings.HasPrefix(key, "198.51.100.1 ") && !strings.HasSuffix(key, "buyer_inquiries") {
			scanner += n
		}
	}
	if scanner != 15 || counts["198.51.100.2 not_found unmatched"] != 1 || counts["198.51.100.1  buyer_inquiries"] != 20 {
		t.Errorf("%d records of the scanner, want 5 for each of 3 reasons; all: %v", scanner, counts)
	}
	b.logs.Reset()
	b.gateway.Close()
	if !strings.Contains(b.logs.String(), `"client_address":"198.51.100.1","security":{"event":"unauthenticated_suppressed","reason":"not_found","suppressed":395}`) {
		t.Errorf("no summary of the unknown paths: %s", b.logs)
	}
}

// Documents answer their errors as all paths do: the envelope, the counter, the record.
func TestDocsErrors(t *testing.T) {
	b := newBench(Options{Docs: true})
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/docs/nothing", 404},
		{"GET", "/docs/index.html", 404},
		{"GET", "/docs/..%2fopenapi.yaml", 404},
		{"HEAD", "/docs/nothing", 404},
		{"POST", "/docs/", 405},
		{"DELETE", "/openapi.json", 405},
	} {
		w := b.ask(c.method, c.target, "192.0.2.1:1")
		if w.Code != c.status || w.Header().Get("Cache-Control") != "no-store" || c.method != "HEAD" && !strings.Contains(w.Body.String(), `"status":"`+strconv.Itoa(c.status)) {
			t.Errorf("%s %s: %d %v %s", c.method, c.target, w.Code, w.Header(), w.Body)
		}
	}
	counted, err := testkit.Values(b.registry, "inquiry_gateway_http_errors_total")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, n := range counted {
		sum += n
	}
	if all := b.logged(t); sum != 6 || len(all) != 6 || all[0]["error_code"] != "not_found" {
		t.Errorf("counted %v, records %v", counted, all)
	}
	if w := b.ask("GET", "/docs", "192.0.2.1:1"); w.Code != http.StatusFound || w.Header().Get("Location") != "docs/" {
		t.Errorf("/docs: %d to %q", w.Code, w.Header().Get("Location"))
	}
}

// The record of an answer that was cut off has the bytes that were sent, not those that
// should have been.
func TestBytesOfACutAnswer(t *testing.T) {
	const size = 32 << 20
	logs := &lines{}
	g := New(Options{Auth: authFunc(buyer), Lists: sized(func() []byte { return make([]byte, size) }), RequestLog: logs, HitLane: true})
	l := listenHere(t)
	serveOn(t, g, l, false)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /api/v1/buyer/inquiries HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	var record struct{ Status, Bytes int }
	for line := []byte(nil); record.Status == 0; time.Sleep(time.Millisecond) {
		if line = append(line, logs.take()...); bytes.HasSuffix(line, []byte("\n")) {
			if err := json.Unmarshal(line, &record); err != nil {
				t.Fatal(err)
			}
		}
	}
	if record.Status != statusClientClosedRequest || record.Bytes < 1<<19 || record.Bytes >= size {
		t.Errorf("%+v", record)
	}
}
