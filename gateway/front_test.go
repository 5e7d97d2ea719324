package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"inquiry-gateway/cache"
)

const buyersList = "/api/v1/buyer/inquiries"

// hitOf is a canonical request.
func hitOf(key, target string, lines ...string) string {
	text := "GET " + target + " HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer key-of-" + key + "\r\n"
	for _, line := range lines {
		text += line + "\r\n"
	}
	return text + "\r\n"
}

// handCaller speaks HTTP by hand.
type handCaller struct {
	net.Conn
	in *bufio.Reader
	t  testing.TB
}

func dialStand(t testing.TB, s *stand, secure bool) *handCaller {
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &handCaller{c, bufio.NewReader(c), t}
}

// serveStand serves until the test ends.
func serveStand(t *testing.T, s *stand, secure bool) {
	if secure {
		serveSecure(t, s.server, s.listener)
		return
	}
	s.serve(t)
}

func (c *handCaller) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *handCaller) receive() (int, http.Header, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// The front answers each canonical request for a list on a connection, the first one too, and
// all but fresh hits with the engine.
func TestTheFrontAnswers(t *testing.T) {
	const n = 50
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			s := newStand(t, listenHere(t), nil)
			serveStand(t, s, secure)
			c := dialStand(t, s, secure)
			for range n {
				c.send(hitOf("acme", buyersList+"?status=pending"))
				if status, _, body := c.receive(); status != http.StatusOK || body != string(bodyOf(cache.Key{Kind: "buyer", Account: "acme", Status: "pending"})) {
					t.Fatal(status, body)
				}
			}
			for text, want := range map[string]int{
				hitOf("vendor", buyersList): 403, hitOf("nobody", buyersList): 401, hitOf("acme", buyersList+"?a=b"): 400, hitOf("acme", buyersList+"?status=new"): 200,
			} {
				c.send(text)
				if status, _, _ := c.receive(); status != want {
					t.Errorf("%q: %d", text, status)
				}
			}
			if got := s.inLane(t); got != n-1 || len(s.idle) > 0 {
				t.Errorf("the front answered %d of %d hits; net/http had %d requests", got, n, len(s.idle))
			}
		})
	}
}

// At the first request that is not of the front's form the connection is net/http's, for ever.
func TestHandOver(t *testing.T) {
	for name, tt := range map[string]struct {
		other   string
		answers int
	}{
		"another path":   {hitOf("acme", "/nowhere"), 1},
		"two at once":    {hitOf("acme", buyersList) + hitOf("acme", buyersList), 2},
		"an empty body":  {hitOf("acme", buyersList, "Content-Length: 0"), 1},
		"a body":         {hitOf("acme", buyersList, "Content-Length: 3") + "abc", 1},
		"a folded field": {hitOf("acme", buyersList, "X: a", " b"), 1},
		"a large field":  {hitOf("acme", buyersList, "X: "+strings.Repeat("x", 5000)), 1},
		"HTTP/1.0":       {strings.Replace(hitOf("acme", buyersList, "Connection: close"), "1.1", "1.0", 1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, listenHere(t), nil).serve(t)
			c := dialStand(t, s, false)
			for range 2 {
				c.send(hitOf("acme", buyersList))
				c.receive()
			}
			before := s.inLane(t)
			c.send(tt.other)
			for range tt.answers {
				c.receive()
			}
			if name != "HTTP/1.0" {
				c.send(hitOf("acme", buyersList))
				c.receive()
			}
			if got := s.inLane(t); got != before || before != 1 {
				t.Errorf("the front answered %d, then %d", before, got)
			}
		})
	}
}

// What follows an answer of the front is not taken for the beginning of HTTP/2.
func TestNoHTTP2InTheMiddle(t *testing.T) {
	s := newStand(t, listenHere(t), nil).serve(t)
	c := dialStand(t, s, false)
	c.send(hitOf("acme", buyersList))
	c.receive()
	c.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	if text, _ := io.ReadAll(c.in); len(text) > 0 {
		t.Errorf("answered %q", text)
	}
}

// Fewer bytes than a method has, and then the end, are no request after an answer; net/http
// closes the connection.
func TestTheEndAfterAnAnswer(t *testing.T) {
	for _, rest := range []string{"", "G", "GET"} {
		s := newStand(t, listenHere(t), nil).serve(t)
		c := dialStand(t, s, false)
		c.send(hitOf("acme", buyersList))
		c.receive()
		c.send(rest)
		if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(c.in); len(text) > 0 {
			t.Errorf("%q is answered with %q", rest, text)
		}
	}
}

// A connection of HTTP/2 in clear text is net/http's, which reads it in one goroutine and tells of its
// state in another. The race detector is what judges here.
func TestHTTP2IsHandedOver(t *testing.T) {
	s := newStand(t, listenHere(t), nil).serve(t)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	for range 200 {
		r, _ := http.NewRequest(http.MethodGet, "http://"+s.listener.Addr().String()+buyersList, nil)
		r.Header.Set("Authorization", "Bearer key-of-acme")
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			t.Fatal(resp.Status, resp.Proto)
		}
	}
	if n := s.inLane(t); n != 0 {
		t.Errorf("the lane answered %d", n)
	}
}

// After a request with Transfer-Encoding, which others may frame in another way, the
// connection is closed. net/http does not even see that of HTTP/1.0.
func TestCodedRequestsCloseTheConnection(t *testing.T) {
	const body = "5\r\nhello\r\n0\r\n\r\n"
	for _, tt := range []struct {
		request string
		closes  bool
	}{
		{hitOf("acme", buyersList, "Transfer-Encoding: chunked") + body, true},
		{hitOf("acme", "/docs", "Transfer-Encoding: chunked") + body, true},
		{strings.Replace(hitOf("acme", buyersList, "Connection: keep-alive", "Transfer-Encoding: chunked"), "HTTP/1.1", "HTTP/1.0", 1) + body, true},
		{strings.Replace(hitOf("acme", buyersList, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1), true},
		{hitOf("acme", buyersList, "Content-Length: 5") + "hello", false},
	} {
		s := newStand(t, listenHere(t), nil).serve(t)
		c := dialStand(t, s, false)
		c.send(tt.request)
		if !tt.closes {
			resp, err := http.ReadResponse(c.in, nil)
			if err != nil || resp.Close {
				t.Errorf("%q: the connection is closed: %v", tt.request, err)
			}
			continue
		}
		all, err := io.ReadAll(c.in)
		if text := string(all); err != nil || strings.Count(text, "HTTP/1.") != 1 || !strings.Contains(text, "\r\nConnection: close\r\n") {
			t.Errorf("%q: %.600q, %v", tt.request, text, err)
		}
	}
}

// "OPTIONS *" and a query without a name get the envelope, with an id.
func TestOddRequestsGetTheEnvelope(t *testing.T) {
	s := newStand(t, listenHere(t), nil)
	s.server.DisableGeneralOptionsHandler = true // as the program has it
	s.serve(t)
	for text, want := range map[string]string{
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n": `"status":"404"`,
		hitOf("acme", buyersList+"?=x"):         `"source":{"parameter":""}`,
	} {
		c := dialStand(t, s, false)
		c.send(text)
		if _, header, body := c.receive(); !strings.Contains(body, want) || len(header.Get("X-Request-Id")) != 32 {
			t.Errorf("%q: %v %s", text, header, body)
		}
	}
}

// The lane is switched by a reload, for connections that are open too.
func TestLaneIsSwitched(t *testing.T) {
	s := newStand(t, listenHere(t), nil).serve(t)
	c := dialStand(t, s, false)
	off := New(Options{Auth: s.gateway.opts.Auth, Lists: s.lists})
	for i, tt := range []struct {
		gateway *Gateway
		lane    int // what it has answered by then
	}{
		{s.gateway, 0}, {s.gateway, 1}, {s.gateway, 2},
		{off, 2}, {off, 2}, // net/http has the connection now
		{s.gateway, 2}, {s.gateway, 2},
	} {
		s.current.Set(tt.gateway, time.Second, true)
		c.send(hitOf("acme", buyersList))
		c.receive()
		if got := s.inLane(t); got != tt.lane {
			t.Errorf("after %d requests the lane has answered %d", i+1, got)
		}
	}
}

// slowLists holds a look-up until it is told to go on.
type slowLists struct {
	Lists
	entered, goOn chan struct{}
}

func (l slowLists) Lookup(k cache.Key) (cache.Result, bool) {
	r, ok := l.Lists.Lookup(k)
	return r, ok
}

func (l slowLists) Served(k cache.Key, r cache.Result) {
	l.Lists.Served(k, r)
	l.entered <- struct{}{}
	<-l.goOn
}

// A stop waits for the answer that the lane is sending, no longer than it may, and the
// caller gets it whole.
func TestStopDuringAnAnswerOfTheLane(t *testing.T) {
	for _, patient := range []bool{true, false} {
		t.Run(fmt.Sprint("long enough ", patient), func(t *testing.T) {
			slow := slowLists{entered: make(chan struct{}), goOn: make(chan struct{})}
			s := newStand(t, listenHere(t), func(o *Options) { slow.Lists = o.Lists; o.Lists = slow }).serve(t)
			c := dialStand(t, s, false)
			c.send(hitOf("acme", buyersList)) // a fill
			c.receive()
			c.send(hitOf("acme", buyersList))
			<-slow.entered
			stopped, grace := make(chan error), time.Minute
			if !patient {
				grace = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), grace)
			defer cancel()
			go func() { stopped <- errors.Join(s.listener.Stop(ctx), s.server.Shutdown(ctx)) }()
			if patient {
				select {
				case err := <-stopped:
					t.Fatalf("the stop did not wait: %v", err)
				case <-time.After(50 * time.Millisecond):
				}
				close(slow.goOn)
				if status, _, body := c.receive(); status != http.StatusOK || len(body) < 100 {
					t.Errorf("%d %q", status, body)
				}
			}
			if err := <-stopped; (err == nil) != patient {
				t.Errorf("stopped with %v", err)
			}
			if !patient {
				close(slow.goOn)
			}
			if _, err := c.in.ReadByte(); err == nil {
				t.Error("the connection is still open")
			}
		})
	}
}

// While the gateway drains, an answer of the lane closes its connection.
func TestLaneDrains(t *testing.T) {
	s := newStand(t, listenHere(t), nil).serve(t)
	c := dialStand(t, s, false)
	c.send(hitOf("acme", buyersList))
	c.receive()
	s.gateway.opts.Draining.Store(true)
	c.send(hitOf("acme", buyersList))
	text, err := io.ReadAll(c.in)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200 OK\r\n") || !strings.Contains(string(text), "\r\nConnection: close\r\n") || s.inLane(t) != 1 {
		t.Errorf("%q, %v", text, err)
	}
}

// panickyLists has a bug in what an answer of the lane passes.
type panickyLists struct{ Lists }

func (panickyLists) Served(cache.Key, cache.Result) { panic("boom") }

// A panic ends its connection only.
func TestPanicInTheLane(t *testing.T) {
	s := newStand(t, listenHere(t), func(o *Options) { o.Lists = panickyLists{o.Lists} }).serve(t)
	other := dialStand(t, s, false)
	c := dialStand(t, s, false)
	c.send(hitOf("acme", buyersList)) // a fill
	c.receive()
	c.send(hitOf("acme", buyersList))
	if text, err := io.ReadAll(c.in); len(text) > 0 || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	other.send(hitOf("acme", "/nowhere"))
	if status, _, _ := other.receive(); status != http.StatusNotFound {
		t.Error(status)
	}
	<-s.idle
	if n := testutil.ToFloat64(s.gateway.metrics.panics); n != 1 {
		t.Errorf("%v panics are counted", n)
	}
	if n := testutil.ToFloat64(s.gateway.metrics.inFlight); n != 0 {
		t.Errorf("%v requests are in flight", n)
	}
	if text := s.logs.take(); !bytes.Contains(text, []byte("panic in the hit lane")) || !bytes.Contains(text, []byte("front_test.go")) {
		t.Errorf("logged %s", text)
	}
}

// countingSampler records every second trace, and counts how often it is asked.
type countingSampler struct{ asked atomic.Int64 }

func (c *countingSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if c.asked.Add(1)%2 == 0 {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return sdktrace.NeverSample().ShouldSample(p)
}

func (*countingSampler) Description() string { return "every second" }

// Of each request it is decided once whether its trace is recorded. Those that are
// have all of their spans, and the others are the lane's.
func TestLaneAndTraces(t *testing.T) {
	spans, sampler := tracetest.NewSpanRecorder(), &countingSampler{}
	s := newStand(t, listenHere(t), func(o *Options) {
		o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	}).serve(t)
	c := dialStand(t, s, false)
	const n = 21 // the first one is not recorded
	for range n {
		c.send(hitOf("acme", buyersList, "Traceparent: "+foreignParent))
		c.receive()
	}
	if got := sampler.asked.Load(); got != n {
		t.Errorf("it was decided %d times for %d requests", got, n)
	}
	if got := len(spans.Ended()); got != n/2 {
		t.Errorf("%d spans", got)
	}
	if got := s.inLane(t); got != n/2 {
		t.Errorf("the lane answered %d", got)
	}
	for _, span := range spans.Ended() {
		if len(span.Attributes()) < 5 || len(span.Links()) != 1 {
			t.Errorf("a span has only %v, %v", span.Attributes(), span.Links())
		}
	}
}

// pipedStand serves one connection without a network, whose deadlines follow the clock
// of a test, until the test ends.
func pipedStand(t *testing.T) (*stand, *handCaller) {
	l := newMemoryListener()
	s := newStand(t, l, nil)
	s.serve(t)
	caller, server := net.Pipe()
	l.conns <- server
	return s, &handCaller{caller, bufio.NewReader(caller), t}
}

// A connection that is used stays; one that is not is closed when it was idle for the
// server's time, whoever answered it last.
func TestIdleConnectionsOfTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pipedStand(t)
		for range 6 { // in all longer than the server's time
			c.send(hitOf("acme", buyersList))
			c.receive()
			synctest.Wait()
			time.Sleep(50 * time.Second)
		}
		if got := s.inLane(t); got != 5 {
			t.Errorf("the lane answered %d", got)
		}
		start := time.Now()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%v", err)
		}
		if idle := 50*time.Second + time.Since(start); idle < 59*time.Second || idle > 61*time.Second {
			t.Errorf("closed after %v", idle)
		}
	})
}

// A header that stops in the middle has as long as ever.
func TestSlowHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pipedStand(t)
		for range 3 {
			c.send(hitOf("acme", buyersList))
			c.receive()
			synctest.Wait()
		}
		c.send("GET /api/v1")
		start := time.Now()
		if text, err := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.1 400 ") || err != nil { // as net/http says
			t.Errorf("%q, %v", text, err)
		}
		if took := time.Since(start); took != s.server.ReadHeaderTimeout {
			t.Errorf("closed after %v", took)
		}
	})
}
