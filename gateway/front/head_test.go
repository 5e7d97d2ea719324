package front

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
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

// A request is read in the one form; each of the others is left to net/http.
func TestWhatTheFrontReads(t *testing.T) {
	var h Head
	for range 2 { // the second one is the same again
		good := h.read([]byte(canonical))
		if !good || h.Path != "/a" || h.Query != "b" || h.Fields[Authorization][0] != "Bearer k" || h.Fields[AcceptEncoding] != nil {
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
		if err != nil || len(body) > 0 || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || in.Buffered() > 0 {
			t.Fatalf("%q has a body, or a rest: %+v", p, r)
		}
		if r.Close || r.Proto != "HTTP/1.1" || r.Method != "GET" || !httpguts.ValidHostHeader(r.Host) {
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
		if want := FieldsOf(r.Header); !reflect.DeepEqual(h.Fields, want) {
			t.Fatalf("%q: %q, want %q", p, h.Fields, want)
		}
	})
}
