package httpwire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

// requestSeeds are requests at the border of what the lane reads.
func requestSeeds() (all []string) {
	const line, host = "GET /api/v1/buyer/inquiries?status=a HTTP/1.1\r\n", "Host: x\r\n"
	all = []string{"GET / HTTP/1.0\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\nHost: x\n\n", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", "GET * HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", line + "\r\n"}
	for _, field := range []string{"Accept: */*", "A: b\r\n c", "A: b\r\n\tc", " A: b", "A : b", "A:", ": b", "A", "Content-Length: 0", "Content-Length: 3", "content-length : 3", "Transfer-Encoding: chunked",
		"Transfer-Encoding: identity", "Expect: 100-continue", "Connection: keep-alive", "Connection: close", "Host: y", "Authorization: Bearer a", "Authorization: Bearer a\r\nauthorization: Bearer b",
		"X: \x00", "X: \x7f", "X: \xff", "X\r: a", "X: a\rb", "Upgrade: h2c", "Trailer: A", "Accept-Encoding: gzip\r\nAccept-Encoding: br", "Traceparent: 00-1", "X-Request-Id:  a\t"} {
		all = append(all, line+host+field+"\r\n\r\n", line+field+"\r\n"+host+"\r\n")
	}
	return append(all, line+host+"\r\nGET", line+host+"\r\n"+line+host+"\r\n", line+host+"\r\nhello")
}

// readWhole has net/http read p; nil if that is not exactly one request without a body.
func readWhole(p []byte) *http.Request {
	in := bufio.NewReader(bytes.NewReader(p))
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) > 0 || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || in.Buffered() > 0 {
		return nil
	}
	return r
}

// Where the framing says that one request is over, net/http has read all bytes of it,
// and no more, however they were cut.
func FuzzFraming(f *testing.F) {
	for _, text := range requestSeeds() {
		f.Add([]byte(text), uint8(len(text)/2))
	}
	f.Fuzz(func(t *testing.T, p []byte, cut uint8) {
		var whole, inTwo framing
		at := min(int(cut), len(p))
		whole.follow(p)
		inTwo.follow(p[:at])
		inTwo.follow(p[at:])
		if whole != inTwo {
			t.Fatalf("%q cut at %d: %+v and %+v", p, at, whole, inTwo)
		}
		whole.idle()
		if !whole.atStart() {
			return
		}
		// What net/http refuses ends the connection.
		if _, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p))); err == nil && readWhole(p) == nil {
			t.Fatalf("%q is more or less than one request", p)
		}
	})
}

// What the lane reads of a request is what net/http would have read.
func FuzzHead(f *testing.F) {
	for _, text := range requestSeeds() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var h Head
		if !h.parse(p) {
			return
		}
		r := readWhole(p)
		if r == nil || r.Proto != "HTTP/1.1" || !httpguts.ValidHostHeader(r.Host) {
			t.Fatalf("net/http does not take %q", p)
		}
		for name, values := range r.Header {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(values[0]) {
				t.Fatalf("net/http refuses %q", p)
			}
		}
		var want Request
		want.Read(r, &Conn{peer: netip.Addr{}}, true)
		if h.Method != want.Method || h.Query != want.Query || h.Path != r.URL.EscapedPath() || r.URL.RawPath != "" || h.Major != want.Major {
			t.Fatalf("%q: %+v, want %+v of %s", p, h.Request, want, r.URL)
		}
		for _, pair := range [][2][]string{
			{h.Authorization, want.Authorization}, {h.AcceptEncoding, want.AcceptEncoding}, {h.IfNoneMatch, want.IfNoneMatch}, {h.RequestID, want.RequestID},
			{h.ForwardedFor, want.ForwardedFor}, {h.Traceparent, r.Header["Traceparent"]}, {h.Tracestate, r.Header["Tracestate"]},
		} {
			if strings.Join(pair[0], "|") != strings.Join(pair[1], "|") || len(pair[0]) != len(pair[1]) {
				t.Fatalf("%q: %q, want %q", p, pair[0], pair[1])
			}
		}
		if r.Close {
			t.Fatalf("%q wants the connection closed", p)
		}
	})
}

// A request is read in the one form; each of these is another one.
func TestWhatTheLaneReads(t *testing.T) {
	const request = "GET /a?b HTTP/1.1\r\nHost: x:1\r\nAuthorization:Bearer k \r\nCONNECTION: keep-alive\r\n\r\n"
	var h Head
	if !h.parse([]byte(request)) || h.Path != "/a" || h.Query != "b" || h.Authorization[0] != "Bearer k" || h.AcceptEncoding != nil {
		t.Fatalf("%+v", h)
	}
	for _, other := range [][2]string{
		{"GET", "HEAD"}, {"/a", "http://x/a"}, {"/a", "/%61"}, {"/a", "/a]"}, {"/a", "/a b"}, {"?b", "?b#c"}, {"/a", "/a\x7f"}, {"1.1", "1.0"}, {"Host: x:1\r\n", ""}, {"x:1", "x@y"}, {"x:1", ""},
		{"CONNECTION: keep-alive", "Connection: close"}, {"CONNECTION: keep-alive", "authorization: Bearer l"}, {"CONNECTION: keep-alive", "Content-Length: 0"},
		{"CONNECTION: keep-alive", " folded"}, {"CONNECTION: keep-alive", "A: \xc3\xa9"}, {"\r\n\r\n", "\r\n"}, {"\r\n\r\n", "\r\n\r\n\r\n"}, {"\r\n\r\n", "\n\n"}, {"\r\nHost", "\nHost"},
	} {
		if text := strings.Replace(request, other[0], other[1], 1); h.parse([]byte(text)) {
			t.Errorf("read %q", text)
		}
	}
}
