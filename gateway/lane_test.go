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

// Of the hits of one connection that waits for its answers, net/http gets the first
// and the lane all others. Where this fails after an upgrade of Go, net/http reads in
// another way, and httpwire must learn it.
func TestShareOfTheLane(t *testing.T) {
	const n = 50
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			s := newStand(t, listenHere(t), nil)
			serveStand(t, s, secure)
			c := dialStand(t, s, secure)
			for i := range n {
				c.send(hitOf("acme", buyersList+"?status=pending"))
				if status, _, body := c.receive(); status != http.StatusOK || body != string(bodyOf(cache.Key{Kind: "buyer", Account: "acme", Status: "pending"})) {
					t.Fatal(status, body)
				}
				if i == 0 {
					<-s.idle
				}
			}
			if got := s.inLane(t); got != n-1 {
				t.Errorf("the lane answered %d of %d", got, n)
			}
		})
	}
}

// What is not in the lane's form is net/http's, and the next request is the lane's
// again; after one whose end is not certain it is off for the connection.
func TestLaneAfterOtherRequests(t *testing.T) {
	for _, tt := range []struct {
		name, other string
		answers     int
		back        bool
	}{
		{"an unknown path", hitOf("acme", "/nowhere"), 1, true},
		{"a list that is not there yet", hitOf("acme", buyersList+"?status=new"), 1, true},
		{"another key's kind", hitOf("vendor", buyersList), 1, true},
		{"HEAD", "HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 0, true},
		{"two at once", hitOf("acme", buyersList) + hitOf("acme", buyersList), 2, false},
		{"an empty body", hitOf("acme", buyersList, "Content-Length: 0"), 1, false},
		{"a body", hitOf("acme", buyersList, "Content-Length: 3") + "abc", 1, false},
		{"a folded field", hitOf("acme", buyersList, "X: a", " b"), 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStand(t, listenHere(t), nil).serve(t)
			c := dialStand(t, s, false)
			ask := func(text string, answers int) {
				c.send(text)
				for range answers {
					c.receive()
				}
				if answers == 0 {
					_, _ = http.ReadResponse(c.in, &http.Request{Method: http.MethodHead})
				}
				for range max(answers, 1) {
					<-s.idle
				}
			}
			ask(hitOf("acme", buyersList), 1)
			ask(tt.other, tt.answers)
			before := s.inLane(t)
			c.send(hitOf("acme", buyersList))
			c.receive()
			if got := s.inLane(t) - before; (got == 1) != tt.back {
				t.Errorf("the lane answered %d", got)
			}
		})
	}
}

// A connection of HTTP/2 in clear text is net/http's, which reads it in one goroutine and tells of its
// state in another. The race detector is what judges here.
func TestTheLaneLeavesHTTP2Alone(t *testing.T) {
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
		{s.gateway, 0}, {s.gateway, 1},
		{off, 1}, {off, 1}, // the lane looks at the request, and does not take it
		{s.gateway, 1}, {s.gateway, 2}, // net/http waits for the first one
	} {
		s.current.Set(tt.gateway, time.Second, true)
		c.send(hitOf("acme", buyersList))
		c.receive()
		if got := s.inLane(t); got != tt.lane {
			t.Errorf("after %d requests the lane has answered %d", i+1, got)
		}
		if i == 0 || i >= 2 && i <= 4 {
			<-s.idle
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
			<-s.idle
			c.send(hitOf("acme", buyersList))
			<-slow.entered
			stopped, grace := make(chan error), time.Minute
			if !patient {
				grace = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), grace)
			defer cancel()
			go func() { stopped <- errors.Join(s.server.Shutdown(ctx), s.listener.Drain(ctx)) }()
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
	<-s.idle
	s.gateway.opts.Draining.Store(true)
	c.send(hitOf("acme", buyersList))
	text, err := io.ReadAll(c.in)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ") || s.inLane(t) != 1 {
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
	<-s.idle
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
	if text := s.logs.take(); !bytes.Contains(text, []byte("panic in the hit lane")) || !bytes.Contains(text, []byte("lane_test.go")) {
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
	for i := range n {
		c.send(hitOf("acme", buyersList, "Traceparent: "+foreignParent))
		c.receive()
		if i == 0 || i%2 == 1 { // it was net/http's
			<-s.idle
		}
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
func TestSlowHeaderInTheLane(t *testing.T) {
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
