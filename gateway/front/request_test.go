package front

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"
)

const (
	connection = "CONNECTION: keep-alive"
	canonical  = "GET /a?b HTTP/1.1\r\nHost: x:1\r\nAuthorization:Bearer k \r\n" + connection + "\r\n\r\n"
)

// others are texts of the canonical request, each with what makes another request of it.
var others = [][2]string{
	{"GET", "HEAD"}, {"GET", "get"}, {"GET", "PRI"}, {"GET ", "GET  "}, {"GET ", "\r\nGET "}, {"/a", "http://x/a"}, {"/a", "//a"}, {"/a", "*"},
	{"/a", "/%61"}, {"/a", "/a]"}, {"/a", "/a b"}, {"?b", "?b#c"}, {"/a", "/a\x7f"}, {"1.1", "1.0"}, {"1.1", "1.10"}, {" HTTP/1.1", ""},
	{"Host: x:1\r\n", ""}, {"x:1", "x@y"}, {"x:1", ""}, {connection, "Connection: close"}, {connection, "authorization: Bearer l"},
	{connection, "Host: x:1"}, {connection, "Content-Length: 0"}, {connection, "Content-Length : 3"},
	{connection, "Transfer-Encoding: identity"}, {connection, "Expect: 100-continue"}, {connection, "Upgrade: h2c"}, {connection, "Trailer: A"}, {connection, " folded"},
	{connection, ": b"}, {connection, "A"}, {connection, "A: \xc3\xa9"}, {connection, "A: \x00"}, {connection, "A: b\rc"}, {"\r\n\r\n", "\r\n"},
	{"\r\n\r\n", "\r\n\r\n\r\n"}, {"\r\n\r\n", "\n\n"}, {"\r\nHost", "\nHost"}, {"\r\n\r\n", "\r\n\r\nhello"},
	{"\r\n\r\n", "\r\n\r\n" + canonical},
}

var kept = []string{"Authorization", "Accept-Encoding", "X-Request-Id"}

func newParser() *parser {
	p := &parser{}
	p.init(&http.Request{Method: "GET", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, RemoteAddr: "192.0.2.1:80"}, kept)
	return p
}

// One canonical form is parsed; everything else is the http.Server's.
func TestWhatIsParsed(t *testing.T) {
	p := newParser()
	for range 2 { // the second one is known already
		if !p.parse([]byte(canonical)) {
			t.Fatal("the canonical request is not parsed")
		}
		r := p.take()
		if r.URL.Path != "/a" || r.URL.RawQuery != "b" || r.RequestURI != "/a?b" || r.Host != "x:1" || r.Header.Get("Authorization") != "Bearer k" || len(r.Header) != 1 {
			t.Fatalf("%+v", r)
		}
	}
	for _, other := range others {
		if text := strings.Replace(canonical, other[0], other[1], 1); text == canonical || p.parse([]byte(text)) {
			t.Errorf("parsed %q", text)
		}
	}
}

// Nothing of a request is left in the next one.
func TestRequestsLeaveNothingBehind(t *testing.T) {
	p := newParser()
	for _, text := range []string{
		"GET /a?b HTTP/1.1\r\nHost: x\r\nAuthorization: k\r\nAccept-Encoding: gzip\r\n\r\n",
		"GET /c HTTP/1.1\r\nHost: y\r\nX-Request-Id: 1\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: l\r\nX-Request-Id: 2\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if !p.parse([]byte(text)) {
			continue
		}
		r := p.take()
		want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil || !reflect.DeepEqual(r.Header, want.Header) || r.Host != want.Host || *r.URL != *want.URL || r.Pattern != "" || r.Form != nil {
			t.Errorf("%q: %+v, want %+v, %v", text, r, want, err)
		}
		r.Pattern, r.Form = "set by a handler", url.Values{}
	}
}

// What is parsed here is exactly one request without a body to net/http, too, and the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(canonical))
	for _, other := range others {
		f.Add([]byte(strings.Replace(canonical, other[0], other[1], 1)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newParser()
		if !p.parse(b) {
			return
		}
		got := p.take()
		in := bufio.NewReader(bytes.NewReader(b))
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("net/http does not take %q: %v", b, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) > 0 || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || in.Buffered() > 0 {
			t.Fatalf("%q has a body, or a rest: %+v", b, r)
		}
		if r.Close || r.Proto != "HTTP/1.1" || r.Method != "GET" || !httpguts.ValidHostHeader(r.Host) {
			t.Fatalf("%q is %+v", b, r)
		}
		want := http.Header{}
		for name, values := range r.Header {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(values[0]) {
				t.Fatalf("net/http refuses %q", b)
			}
			if slices.Contains(kept, name) {
				want[name] = values
			}
		}
		if *got.URL != *r.URL || got.RequestURI != r.RequestURI || got.Host != r.Host || !reflect.DeepEqual(got.Header, want) {
			t.Fatalf("%q: %+v, want %+v", b, got, r)
		}
	})
}
