package gateway

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/gateway/front"
)

// A connection on which nobody has authenticated is closed soon after it is idle,
// whether it has had a request or not; one with a caller's stays.
func TestStrangersAreIdleForShorter(t *testing.T) {
	for _, c := range []struct{ name, first string }{
		{"nothing sent", ""},
		{"not found", "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"key refused", "GET /api/v1/buyer/inquiries HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", TLS ", secure), func(t *testing.T) {
				address := serveStrangers(t, secure)
				conn := dialStrangers(t, address, secure)
				if _, err := io.WriteString(conn, c.first); err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
					t.Error("the connection is still open")
				}
			})
		}
	}
	for _, secure := range []bool{false, true} {
		address := serveStrangers(t, secure)
		caller, stranger := dialStrangers(t, address, secure), dialStrangers(t, address, secure)
		ask := func() {
			if _, err := io.WriteString(caller, "GET /api/v1/buyer/inquiries HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(caller), nil)
			if err != nil {
				t.Fatalf("TLS %t: a caller's connection: %v", secure, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		ask()
		for range 3 { // longer than a stranger's
			_, _ = io.Copy(io.Discard, stranger)
			stranger = dialStrangers(t, address, secure)
		}
		ask()
	}
}

// Over HTTP/2, too, the connection on which somebody has authenticated stays.
func TestStrangersOverHTTP2(t *testing.T) {
	address := serveStrangers(t, true)
	var opened atomic.Int64
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			opened.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	ask := func(key string) int64 {
		r, _ := http.NewRequest(http.MethodGet, "https://"+address+"/api/v1/buyer/inquiries", nil)
		if key != "" {
			r.Header.Set("Authorization", key)
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.ProtoMajor != 2 {
			t.Fatal(resp.Proto)
		}
		return opened.Load()
	}
	wait := func() {
		stranger := dialStrangers(t, address, true)
		_, _ = io.Copy(io.Discard, stranger)
	}
	ask("")
	wait()
	wait()
	if n := ask("Bearer k"); n != 2 {
		t.Errorf("a stranger's connection stayed (%d were opened)", n)
	}
	wait()
	wait()
	if n := ask("Bearer k"); n != 2 {
		t.Errorf("a caller's connection was closed (%d were opened)", n)
	}
}

const strangersIdle = 100 * time.Millisecond

// anyKey takes every key for the buyer's, and nobody without.
type anyKey struct{}

func (anyKey) AuthenticateFrom(_ context.Context, authorization []string, _ auth.Caller) (*auth.Grant, error) {
	if len(authorization) == 0 {
		return nil, auth.ErrMissingKey
	}
	p, err := buyer()
	return &auth.Grant{Principal: p}, err
}

func (anyKey) Recall([]string) (*auth.Grant, bool) { return nil, false }
func (anyKey) Accept(context.Context, *auth.Grant) { panic("nothing was recalled") }

// serveStrangers answers whoever has a key.
func serveStrangers(t *testing.T, secure bool) string {
	var live Live
	live.Set(New(Options{Auth: anyKey{}, Lists: sized(func() []byte { return []byte("[]") }), HitLane: true}), time.Minute, true)
	l := listenHere(t)
	s := &http.Server{Handler: &live, ConnContext: front.ConnContext, ConnState: front.ConnState, IdleTimeout: time.Hour}
	listener := front.NewListener(l, front.Options{Handler: &live, UnknownIdle: strangersIdle, IdleTimeout: time.Hour})
	if secure {
		serveSecure(t, s, listener)
		return l.Addr().String()
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

func dialStrangers(t *testing.T, address string, secure bool) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	if secure {
		c, err = tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	} else {
		c, err = net.Dial("tcp", address)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // as it comes from the connection
	return ok && e.Timeout()
}
