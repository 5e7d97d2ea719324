package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// overTLS lets a program speak TLS.
func overTLS(s setup) setup {
	s.yaml += "\ntls: {cert_file: cert.pem, key_file: key.pem}"
	s.prepare = func(p *program) { testkit.Certificate(p.t, p.dir, "gateway") }
	return s
}

// rawConn is a connection that a test writes by hand.
type rawConn struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// dial opens a connection to the public listener.
func (p *program) dial() *rawConn {
	p.t.Helper()
	scheme, address, _ := strings.Cut(p.app.URL(), "://")
	c, err := net.Dial("tcp", address)
	must(p.t, err)
	if scheme == "https" {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	}
	p.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &rawConn{c, p.t, bufio.NewReader(c)}
}

// send writes what a request looks like.
func (c *rawConn) send(target string, headers ...string) error {
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: gateway\r\n%s\r\n", target, strings.Join(append(headers, ""), "\r\n"))
	return err
}

// ask sends a request and returns its status; 0 where the connection has ended.
func (c *rawConn) ask(target string, headers ...string) int {
	c.t.Helper()
	if c.send(target, headers...) != nil {
		return 0
	}
	return c.answer()
}

// answer reads an answer and returns its status; 0 where the connection has ended.
func (c *rawConn) answer() int {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// connections is a metric of the public listener's connections.
func (p *program) connections(name string) float64 {
	p.t.Helper()
	return p.metric("inquiry_gateway_http_connections" + name + `{listener="public"}`)
}

// Whoever opens connections and has no key, and sends nothing or asks for what is
// not there, takes no more than max_connections and locks nobody out.
func TestUnauthenticatedClientsCannotTakeAllConnections(t *testing.T) {
	t.Parallel()
	const most = 20
	p := start(t, setup{yaml: "max_connections: 20"})
	caller, key := p.dial(), "Authorization: Bearer "+p.keys["buyer"]
	if got := caller.ask(buyerList, key); got != http.StatusOK {
		t.Fatalf("the first request: %d", got)
	}
	for i := range 3 * most {
		other := p.dial()
		if i%2 == 0 {
			if got := other.ask("/nowhere"); got != http.StatusNotFound {
				t.Fatalf("unauthenticated client %d: %d", i, got)
			}
		}
	}
	open, evicted, limit := p.connections(""), p.connections("_evicted_total"), p.connections("_limit")
	if open > most || evicted < 2*most || limit != most {
		t.Errorf("%v connections are open, %v were closed to make room, the limit is shown as %v", open, evicted, limit)
	}
	if got := p.dial().ask(buyerList, key); got != http.StatusOK {
		t.Errorf("a caller on a new connection: %d", got)
	}
	if got := caller.ask(buyerList, key); got != http.StatusOK {
		t.Errorf("the caller's first connection was closed although there were unauthenticated ones (%d)", got)
	}
	p.edit("max_connections: 20", "max_connections: 10")
	p.eventually("a reload changes the limit", func() bool { return p.connections("_limit") == 10 })
}

// While all connections are of authenticated clients a new one is refused; it is accepted again once
// one of them has ended.
func TestBusyConnectionsAreKept(t *testing.T) {
	t.Parallel()
	answers := make(chan struct{})
	p := start(t, setup{yaml: "max_connections: 2", backend: func(system http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-answers; system.ServeHTTP(w, r) })
	}})
	busy := make(chan int)
	var conns []*rawConn
	for _, id := range []string{"buyer", "other-buyer"} {
		c := p.dial()
		conns = append(conns, c)
		go func() { busy <- c.ask(buyerList, "Authorization: Bearer "+p.keys[id]) }()
	}
	p.eventually("both wait for the legacy", func() bool { return p.metric("inquiry_gateway_http_requests_in_flight") == 2 })
	if got := p.dial().ask("/nowhere"); got != 0 {
		t.Errorf("a third connection was answered %d", got)
	}
	if got := p.connections("_refused_total"); got != 1 {
		t.Errorf("%v were refused", got)
	}
	close(answers)
	for range 2 {
		if got := <-busy; got != http.StatusOK {
			t.Errorf("a request that was under way: %d", got)
		}
	}
	must(t, conns[0].Close())
	p.eventually("there is room again", func() bool { return p.dial().ask("/nowhere") == http.StatusNotFound })
}

// A header that is larger than net/http reads is answered, not only reset.
func TestTooLargeHeaderIsAnswered(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{"clear": {}, "TLS": overTLS(setup{})} {
		c := start(t, s).dial()
		must(t, c.send("/", "X-Large: "+strings.Repeat("x", 80<<10)))
		answer, err := io.ReadAll(c.in)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
			t.Errorf("%s: %.40q, then %v", name, answer, err)
		}
	}
}

// Over HTTP/2 a header that is too large is refused on its stream: a proxy may share the connection
// between callers.
func TestTooLargeHeaderLeavesTheConnection(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{"clear": {}, "TLS": overTLS(setup{})} {
		p := start(t, s)
		var dialed atomic.Int32
		protocols := new(http.Protocols)
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{
			Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a test
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed.Add(1)
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}
		p.client.CloseIdleConnections()
		p.client.Transport = transport
		p.gets(http.StatusOK, buyerList, "buyer") // and the client knows what the server takes
		for _, size := range []int{14, 16, 20, 40, 60} {
			want := http.StatusRequestHeaderFieldsTooLarge
			if size < 16 {
				want = http.StatusOK
			}
			p.gets(want, buyerList, "buyer", "X-Large", strings.Repeat("x", size<<10))
		}
		p.gets(http.StatusOK, buyerList, "buyer")
		if n := dialed.Load(); n != 1 {
			t.Errorf("%s: %d connections were needed", name, n)
		}
	}
}

// A caller whose connection is reset has left, and is told from one that waits.
func TestResetCallersHaveLeft(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	p.fault(legacy.Fault{Name: legacy.FaultDelay, Delay: time.Minute})
	c := p.dial()
	must(t, c.send(buyerList, "Authorization: Bearer "+p.keys["buyer"]))
	p.eventually("the legacy is asked", func() bool { return p.system.Requests().Buyer == 1 })
	_ = c.Conn.(*net.TCPConn).SetLinger(0) // close is a reset then
	_ = c.Close()
	p.logsEventually(`"status":499`)
}
