package front

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

const canonical = "GET /a?b HTTP/1.1\r\nHost: x:1\r\nAuthorization:Bearer k \r\nCONNECTION: keep-alive\r\n\r\n"

// others are texts of the canonical request, each with what makes another request of it.
var others = [][2]string{
	{"GET", "HEAD"}, {"GET", "get"}, {"GET", "PRI"}, {"GET ", "GET  "}, {"GET ", "\r\nGET "}, {"/a", "http://x/a"}, {"/a", "//a"}, {"/a", "*"}, {"/a", "/%61"}, {"/a", "/a]"},
	{"/a", "/a b"}, {"?b", "?b#c"}, {"/a", "/a\x7f"}, {"1.1", "1.0"}, {"1.1", "1.10"}, {" HTTP/1.1", ""}, {"Host: x:1\r\n", ""}, {"x:1", "x@y"}, {"x:1", ""},
	{"CONNECTION: keep-alive", "Connection: close"}, {"CONNECTION: keep-alive", "authorization: Bearer l"}, {"CONNECTION: keep-alive", "Host: x:1"},
	{"CONNECTION: keep-alive", "Content-Length: 0"}, {"CONNECTION: keep-alive", "Content-Length : 3"}, {"CONNECTION: keep-alive", "Transfer-Encoding: identity"},
	{"CONNECTION: keep-alive", "Expect: 100-continue"}, {"CONNECTION: keep-alive", "Upgrade: h2c"}, {"CONNECTION: keep-alive", "Trailer: A"},
	{"CONNECTION: keep-alive", " folded"}, {"CONNECTION: keep-alive", ": b"}, {"CONNECTION: keep-alive", "A"}, {"CONNECTION: keep-alive", "A: \xc3\xa9"}, {"CONNECTION: keep-alive", "A: \x00"},
	{"CONNECTION: keep-alive", "A: b\rc"}, {"\r\n\r\n", "\r\n"}, {"\r\n\r\n", "\r\n\r\n\r\n"}, {"\r\n\r\n", "\n\n"}, {"\r\nHost", "\nHost"}, {"\r\n\r\n", "\r\n\r\nhello"}, {"\r\n\r\n", "\r\n\r\n" + canonical},
}

// A request is read in the one form; each of the others is left to net/http.
func TestWhatTheFrontReads(t *testing.T) {
	var h Head
	for range 2 { // the second one is the same again
		if !h.read([]byte(canonical)) || h.Path != "/a" || h.Query != "b" || h.Authorization[0] != "Bearer k" || h.AcceptEncoding != nil {
			t.Fatalf("%+v", h)
		}
	}
	for _, other := range others {
		if text := strings.Replace(canonical, other[0], other[1], 1); text == canonical || h.read([]byte(text)) || h.Path != "" {
			t.Errorf("read %q", text)
		}
	}
}

// What the front reads is exactly one request without a body to net/http, too, and the same.
func FuzzHead(f *testing.F) {
	f.Add([]byte(canonical))
	for _, other := range others {
		f.Add([]byte(strings.Replace(canonical, other[0], other[1], 1)))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var h Head
		if !h.read(p) {
			return
		}
		in := bufio.NewReader(bytes.NewReader(p))
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("net/http does not take %q: %v", p, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 0 || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || in.Buffered() > 0 || r.Close || r.Proto != "HTTP/1.1" || r.Method != "GET" || !httpguts.ValidHostHeader(r.Host) {
			t.Fatalf("%q is %+v", p, r)
		}
		for name, values := range r.Header {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(values[0]) {
				t.Fatalf("net/http refuses %q", p)
			}
		}
		if h.Query != r.URL.RawQuery || h.Path != r.URL.Path || r.URL.RawPath != "" {
			t.Fatalf("%q: %q %q, want %+v", p, h.Path, h.Query, r.URL)
		}
		for name, got := range map[string][]string{
			"Authorization": h.Authorization, "Accept-Encoding": h.AcceptEncoding, "If-None-Match": h.IfNoneMatch, "X-Request-Id": h.RequestID,
			"X-Forwarded-For": h.ForwardedFor, "Traceparent": h.Traceparent, "Tracestate": h.Tracestate,
		} {
			if !slices.Equal(got, r.Header[name]) {
				t.Fatalf("%q: %s is %q, want %q", p, name, got, r.Header[name])
			}
		}
	})
}

// net/http closes the listener once more, and takes an error for that of a stop.
func TestListenerMayBeClosedTwice(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, Options{})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
