package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

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
	var c net.Conn
	var err error
	if scheme == "https" {
		c, err = tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	} else {
		c, err = net.Dial("tcp", address)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &rawConn{c, p.t, bufio.NewReader(c)}
}

// ask sends a request and returns its status; 0 where the connection has ended.
func (c *rawConn) ask(method, target string, headers ...string) int {
	c.t.Helper()
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: gateway\r\n%s\r\n", method, target, strings.Join(append(headers, ""), "\r\n"))
	if _, err := io.WriteString(c, text); err != nil {
		return 0
	}
	return c.answer(method)
}

// answer reads an answer and returns its status; 0 where the connection has ended.
func (c *rawConn) answer(method string) int {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// metric reads one series of the ops listener.
func (p *program) metric(series string) float64 {
	p.t.Helper()
	for line := range strings.Lines(string(p.ops("/metrics").body)) {
		if text, found := strings.CutPrefix(line, series+" "); found {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return v
		}
	}
	p.t.Fatalf("there is no series %s", series)
	return 0
}

// Whoever opens connections and has no key, and sends nothing or asks for what is
// not there, takes no more than max_connections and locks nobody out.
func TestStrangersCannotTakeAllConnections(t *testing.T) {
	const most = 20
	p := start(t, setup{yaml: fmt.Sprintf("max_connections: %d", most)})
	caller, key := p.dial(), "Authorization: Bearer "+p.keys["buyer"]
	if got := caller.ask("GET", buyerList, key); got != http.StatusOK {
		t.Fatalf("the first request: %d", got)
	}
	for i := range 3 * most {
		stranger := p.dial()
		if i%2 == 0 {
			if got := stranger.ask("GET", "/nowhere"); got != http.StatusNotFound {
				t.Fatalf("stranger %d: %d", i, got)
			}
		}
	}
	if open := p.metric(`inquiry_gateway_http_connections{listener="public"}`); open > most {
		t.Errorf("%v connections are open", open)
	}
	if got := p.metric(`inquiry_gateway_http_connections_evicted_total{listener="public"}`); got < 2*most {
		t.Errorf("%v were closed to make room", got)
	}
	if got := p.metric(`inquiry_gateway_http_connections_limit{listener="public"}`); got != most {
		t.Errorf("the limit is shown as %v", got)
	}
	if got := p.dial().ask("GET", buyerList, key); got != http.StatusOK {
		t.Errorf("a caller on a new connection: %d", got)
	}
	if got := caller.ask("GET", buyerList, key); got != http.StatusOK {
		t.Errorf("the caller's first connection was closed although there were strangers' (%d)", got)
	}
	p.edit(fmt.Sprintf("max_connections: %d", most), "max_connections: 10")
	p.eventually("a reload changes the limit", func() bool {
		return p.metric(`inquiry_gateway_http_connections_limit{listener="public"}`) == 10
	})
}

// Where a request is under way on each connection a new one is refused, and is
// welcome again when one of them is over.
func TestBusyConnectionsAreKept(t *testing.T) {
	p := start(t, setup{yaml: "max_connections: 2"})
	p.system.SetLatency(time.Second)
	busy := make(chan int)
	for _, id := range []string{"buyer", "other-buyer"} {
		c := p.dial()
		go func() { busy <- c.ask("GET", buyerList, "Authorization: Bearer "+p.keys[id]) }()
	}
	p.eventually("both wait for the legacy", func() bool {
		return p.metric("inquiry_gateway_http_requests_in_flight") == 2
	})
	if got := p.dial().ask("GET", "/nowhere"); got != 0 {
		t.Errorf("a third connection was answered %d", got)
	}
	if got := p.metric(`inquiry_gateway_http_connections_refused_total{listener="public"}`); got != 1 {
		t.Errorf("%v were refused", got)
	}
	for range 2 {
		if got := <-busy; got != http.StatusOK {
			t.Errorf("a request that was under way: %d", got)
		}
	}
	p.eventually("an idle connection gives way", func() bool { return p.dial().ask("GET", "/nowhere") == http.StatusNotFound })
}

// A header that is too large is answered, not only reset.
func TestTooLargeHeaderIsAnswered(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{
		"clear": {},
		"TLS":   {prepare: func(p *program) { testkit.Certificate(t, p.dir, "gateway") }, yaml: "tls: {cert_file: cert.pem, key_file: key.pem}"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, s)
			c := p.dial()
			// So much is still read.
			if got := p.dial().ask("GET", "/nowhere", "X-Large: "+strings.Repeat("x", 15<<10)); got != http.StatusNotFound {
				t.Errorf("15 KiB: %d", got)
			}
			if got := p.dial().ask("GET", "/nowhere", "X-Large: "+strings.Repeat("x", 16<<10)); got != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("more than 16 KiB: %d", got)
			}
			// More than net/http reads, so that something is left when it answers.
			large := "X-Large: " + strings.Repeat("x", 64<<10)
			if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: gateway\r\n%s\r\n\r\n", large); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(c.in)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
				t.Errorf("%.40q, then %v", answer, err)
			}
		})
	}
}

// A caller is told in the first frame of HTTP/2 how many requests it may have under way.
func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	p := start(t, setup{})
	c := p.dial()
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 9)
	if _, err := io.ReadFull(c.in, head); err != nil || head[3] != 4 {
		t.Fatalf("the first frame is no SETTINGS: %x, %v", head, err)
	}
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(c.in, settings); err != nil {
		t.Fatal(err)
	}
	streams := uint32(0)
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == 3 { // SETTINGS_MAX_CONCURRENT_STREAMS, RFC 9113, 6.5.2
			streams = binary.BigEndian.Uint32(settings[2:])
		}
	}
	if shown := p.metric(`inquiry_gateway_http_connections_streams_limit{listener="public"}`); streams != 100 || shown != 100 {
		t.Errorf("the caller is told of %d, the metric says %v", streams, shown)
	}
}

// A caller may send its requests and at once the end of what it sends, and waits: it
// gets all answers, those that are fetched first too, and those to what it sent behind.
func TestHalfClosedCallersGetTheirAnswers(t *testing.T) {
	t.Parallel() // it waits
	secure := "tls: {cert_file: cert.pem, key_file: key.pem}\n"
	for name, yaml := range map[string]string{"clear": "", "TLS": secure, "without the hit lane": "gateway: {hit_lane: off}\n", "TLS without it": secure + "gateway: {hit_lane: off}\n"} {
		p := start(t, setup{yaml: yaml, legacy: legacy.Options{Latency: 50 * time.Millisecond}, prepare: func(p *program) { testkit.Certificate(t, p.dir, "gateway") }})
		c := p.dial()
		var requests strings.Builder
		targets := []string{buyerList, buyerList + "?status=pending", sellerList, buyerList} // the last one is a hit
		for _, target := range targets {
			key := "buyer"
			if target == sellerList {
				key = "seller"
			}
			fmt.Fprintf(&requests, "GET %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n\r\n", target, p.keys[key])
		}
		if _, err := io.WriteString(c, requests.String()); err != nil {
			t.Fatal(err)
		}
		if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		for i, target := range targets {
			if status := c.answer(http.MethodGet); status != http.StatusOK {
				t.Errorf("%s: answer %d, of %s, is %d", name, i+1, target, status)
			}
		}
		if _, err := c.in.ReadByte(); err != io.EOF {
			t.Errorf("%s: after the last answer: %v", name, err)
		}
		if n := p.system.Requests(); n.Buyer+n.Seller != 3 {
			t.Errorf("%s: the legacy got %d requests", name, n)
		}
	}
}

// A caller whose connection is reset has left, and is told from one that waits.
func TestResetCallersHaveLeft(t *testing.T) {
	t.Parallel()                                                           // it waits
	p := start(t, setup{upstream: []string{"timeout: 2s", "timeout: 1s"}}) // then the request is over, and is logged
	if err := p.system.SetFault(legacy.Fault{Name: legacy.FaultDelay, Delay: time.Minute}); err != nil {
		t.Fatal(err)
	}
	c := p.dial()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n\r\n", buyerList, p.keys["buyer"])
	p.eventually("the legacy is asked", func() bool { return p.system.Requests().Buyer == 1 })
	_ = c.Conn.(*net.TCPConn).SetLinger(0) // close is a reset then
	_ = c.Close()
	p.eventually("the caller has left", func() bool { return strings.Contains(p.logs.String(), `"status":499`) })
}
