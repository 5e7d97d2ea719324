package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/httpwire"
	"inquiry-gateway/internal/testkit"
)

// writes counts the writes that reach a connection.
type writes struct {
	net.Listener
	sizes chan int
}

func (l writes) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.sizes}, err
}

type countedConn struct {
	net.Conn
	sizes chan int
}

func (c countedConn) Write(p []byte) (int, error) {
	c.sizes <- len(p)
	return c.Conn.Write(p)
}

// Header and body leave together, of whatever size the body is, and the next
// answer on the connection is whole too.
func TestAnswerLeavesInOneWrite(t *testing.T) {
	for name, traces := range map[string]trace.TracerProvider{"plain": nil, "traced": sdktrace.NewTracerProvider()} {
		t.Run(name, func(t *testing.T) { testOneWrite(t, traces) })
	}
}

func testOneWrite(t *testing.T, traces trace.TracerProvider) {
	body := []byte(strings.Repeat("x", 200<<10))
	size := 0
	g := New(Options{Auth: authFunc(buyer), Lists: sized(func() []byte { return body[:size] }), Traces: traces})
	counted := writes{listenHere(t), make(chan int, 100)}
	serveOn(t, g, counted)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	for _, size = range []int{33, 2000, 3500, 4000, 6000, 10 << 10, 60 << 10, 64 << 10, 200 << 10, 100} {
		resp, err := client.Get("http://" + counted.Addr().String() + "/api/v1/buyer/inquiries")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || len(got) != size {
			t.Fatalf("%d bytes: got %d, %v", size, len(got), err)
		}
		// A TCP connection sends both parts with one call; this one is none, and
		// gets them one by one.
		if n := len(counted.sizes); n != 2 {
			t.Errorf("%d bytes left in %d parts, want the head and the body", size, n)
		}
		for len(counted.sizes) > 0 {
			<-counted.sizes
		}
	}
}

// sized has one list, of the body that it is told.
type sized func() []byte

func (s sized) Lookup(cache.Key) (cache.Result, bool) {
	r := entryOf("acme")
	body := s()
	r.Entry.Identity = cache.Variant{Body: body, Length: []string{strconv.Itoa(len(body))}}
	return r, true
}

func (s sized) Served(cache.Key, cache.Result) {}

func (s sized) Coded(*cache.Entry, cache.Coding) *cache.Variant { return nil }

func (s sized) Get(_ context.Context, k cache.Key) (cache.Result, error) {
	r, _ := s.Lookup(k)
	return r, nil
}

func listenHere(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serveOn(t *testing.T, g *Gateway, l net.Listener) {
	s := &http.Server{Handler: g, ConnContext: httpwire.ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(httpwire.NewListener(l, httpwire.Options{})) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
}

// limited has a rate for everybody.
type limited struct{}

func (limited) Allow(context.Context, string, string) rate.Decision {
	return rate.Decision{Allowed: true, Policy: "gold", Limit: 10, Remaining: 3}
}

// The head that is written by hand says what net/http would have said.
func TestHeadIsThatOfNetHTTP(t *testing.T) {
	g := New(Options{Auth: authFunc(buyer), Lists: sized(func() []byte { return []byte(strings.Repeat("x", 5000)) }), Rate: limited{}, Docs: true})
	l := listenHere(t)
	serveOn(t, g, l)
	const list = "/api/v1/buyer/inquiries"
	for _, tt := range []struct{ method, target, version, header string }{
		{"GET", list, "1.1", "Accept: */*"},
		{"GET", list, "1.1", "Accept-Encoding: gzip"},
		{"GET", list, "1.1", `If-None-Match: W/"x"`},
		{"GET", list, "1.1", "Connection: close"},
		{"GET", list, "1.1", "Expect: 100-continue\r\nContent-Length: 3"},
		{"GET", list, "1.0", "Connection: keep-alive"},
		{"HEAD", list, "1.1", "Accept: */*"},
		{"HEAD", list, "1.0", "Accept: */*"},
		{"GET", list + "?status=%zz", "1.1", "Accept: */*"},
		{"GET", "/nowhere", "1.1", "Accept: */*"},
		{"POST", list, "1.1", "Content-Length: 0"},
		{"GET", "/openapi.json", "1.1", "Accept: */*"},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			text := fmt.Sprintf("%s %s HTTP/%s\r\nHost: x\r\nAuthorization: Bearer k\r\n%s\r\n\r\n", tt.method, tt.target, tt.version, tt.header)
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := http.ReadResponse(bufio.NewReader(conn), request)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Body.Close()
			gotBody, err := io.ReadAll(got.Body)
			if err != nil {
				t.Fatal(err)
			}
			want := httptest.NewRecorder()
			g.ServeHTTP(want, request)
			for _, own := range []string{"Date", "Connection", "X-Request-Id"} { // of a connection, and of one request
				length := map[string]int{"Date": len(http.TimeFormat), "X-Request-Id": 32}[own]
				if length > 0 && (len(got.Header[own]) != 1 || len(got.Header.Get(own)) != length) {
					t.Errorf("%s is %q", own, got.Header[own])
				}
				got.Header.Del(own)
				want.Header().Del(own)
			}
			same := maps.EqualFunc(got.Header, want.Header(), func(a, b []string) bool { return len(a) == 1 && len(b) == 1 && a[0] == b[0] })
			if got.StatusCode != want.Code || !same {
				t.Errorf("got  %d %v\nwant %d %v", got.StatusCode, got.Header, want.Code, want.Header())
			}
			if tt.method != "HEAD" && len(gotBody) != want.Body.Len() {
				t.Errorf("%d bytes, want %d", len(gotBody), want.Body.Len())
			}
		})
	}
}

// serveSecure serves TLS on l until the test ends.
func serveSecure(t *testing.T, s *http.Server, l *httpwire.Listener) {
	dir := t.TempDir()
	testkit.Certificate(t, dir, "gateway")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l.Secure(config, time.Minute, log.New(io.Discard, "", 0))) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
}

// With TLS the connection's reader writes too: the alert about a record that
// cannot be read, for one, while an answer is on its way.
func TestAlertDuringAnAnswer(t *testing.T) {
	g := New(Options{Auth: authFunc(buyer), Lists: sized(func() []byte { return []byte(strings.Repeat("x", 5000)) })})
	l := listenHere(t)
	s := &http.Server{Handler: g, ConnContext: httpwire.ConnContext}
	serveSecure(t, s, httpwire.NewListener(l, httpwire.Options{}))
	for range 100 {
		raw, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
		for range 2 {
			if _, err := io.WriteString(conn, "HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := raw.Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32))); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		for {
			resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodHead})
			if err != nil {
				break
			}
			if resp.StatusCode != http.StatusNotFound {
				t.Fatalf("status %d", resp.StatusCode)
			}
		}
		_ = raw.Close()
	}
}
