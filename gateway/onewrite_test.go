package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
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
// answer on the connection is whole too. With TLS their records do, as far as there is room.
func TestAnswerLeavesInOneWrite(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for name, traces := range map[string]trace.TracerProvider{"plain": nil, "traced": sdktrace.NewTracerProvider()} {
			t.Run(fmt.Sprint(name, ", TLS ", secure), func(t *testing.T) { testOneWrite(t, traces, secure) })
		}
	}
}

func testOneWrite(t *testing.T, traces trace.TracerProvider, secure bool) {
	body := []byte(strings.Repeat("x", 200<<10))
	size := 0
	counted := writes{listenHere(t), make(chan int, 1000)}
	serveOn(t, New(Options{Auth: authFunc(buyer), Lists: sized(func() []byte { return body[:size] }), Traces: traces, HitLane: true}), counted, secure)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}} //nolint:gosec // a test
	t.Cleanup(client.CloseIdleConnections)
	for i, n := range []int{33, 2000, 3500, 4000, 6000, 10 << 10, 30 << 10, 60 << 10, 64 << 10, 200 << 10, 100} {
		size = n
		resp, err := client.Get(map[bool]string{false: "http://", true: "https://"}[secure] + counted.Addr().String() + "/api/v1/buyer/inquiries")
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
		want := 2
		if secure {
			want = 1
		}
		if parts := len(counted.sizes); parts != want && !(secure && (i == 0 || size > 30<<10)) { // the handshake; more than there is room for
			t.Errorf("%d bytes left in %d parts", size, parts)
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

// serveOn serves g with the front until the test ends.
func serveOn(t *testing.T, g *Gateway, l net.Listener, secure bool) {
	var live Live
	live.Set(g, time.Minute, true)
	s, in := &http.Server{Handler: &live, ConnContext: front.ConnContext}, front.NewListener(l, front.Options{Handler: &live})
	if secure {
		serveSecure(t, s, in)
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(in) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
}

// secureConfig is that of a server with a certificate of its own.
func secureConfig(t *testing.T) *tls.Config {
	dir := t.TempDir()
	testkit.Certificate(t, dir, "gateway")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
}

// serveSecure serves TLS on l until the test ends.
func serveSecure(t *testing.T, s *http.Server, l *front.Listener) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	l.Secure(secureConfig(t))
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
}
