package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
)

// inBubble runs a test with a testGateway and one caller in virtual time, in clear text and with TLS.
func inBubble(t *testing.T, c setting, test func(*testing.T, *testGateway, *caller)) {
	for name, config := range map[string]*tls.Config{"clear": nil, "TLS": secureConfig(t)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.tls = config
				s := newTestGateway(t, c)
				test(t, s, s.call(t))
			})
		})
	}
}

// Plain requests for lists take the fast path, whatever the answer is. At the first other request
// the connection is net/http's for the rest of its lifetime.
func TestWhatTakesTheFastPath(t *testing.T) {
	for name, tt := range map[string]struct {
		text     string
		statuses []int
		stays    bool
	}{
		"a hit":            {hitOf("acme", buyersList), []int{200}, true},
		"a fill":           {hitOf("acme", buyersList+"?status=new"), []int{200}, true},
		"no parameter":     {hitOf("acme", buyersList+"?a=b"), []int{400}, true},
		"an unknown key":   {hitOf("nobody", buyersList), []int{401}, true},
		"a key of others":  {hitOf("vendor", buyersList), []int{403}, true},
		"another path":     {hitOf("acme", "/nowhere"), []int{404}, false},
		"two at once":      {hitOf("acme", buyersList) + hitOf("acme", buyersList), []int{200, 200}, false},
		"an empty body":    {hitOf("acme", buyersList, "Content-Length: 0"), []int{200}, false},
		"a field too much": {hitOf("acme", buyersList, "X: "+strings.Repeat("x", 5000)), []int{200}, false},
	} {
		inBubble(t, setting{}, func(t *testing.T, s *testGateway, c *caller) {
			for range 2 { // a fill and a hit
				if _, _, body := c.get("acme", buyersList); body != string(bodyOf(cache.Key{Kind: "buyer", Account: "acme"})) {
					t.Errorf("the list is %s", body)
				}
			}
			before := int(s.fast.Load())
			c.send(tt.text)
			for _, want := range tt.statuses {
				if status, _, _ := c.receive(); status != want {
					t.Errorf("%s: %d, want %d", name, status, want)
				}
			}
			between := int(s.fast.Load())
			if c.get("acme", buyersList); before != 2 || (int(s.fast.Load()) > between) != tt.stays {
				t.Errorf("after %s the fast path has taken %d, then %d and %d", name, before, between, int(s.fast.Load()))
			}
		})
	}
}

// A reload switches the fast path on and off, on open connections too.
func TestFastPathIsSwitched(t *testing.T) {
	inBubble(t, setting{}, func(t *testing.T, s *testGateway, c *caller) {
		off := New(Options{Auth: s.gateway.opts.Auth, Lists: s.lists})
		var answered []int
		for _, g := range []*Gateway{s.gateway, s.gateway, s.gateway, off, off, s.gateway} {
			s.handler.Set(g)
			c.get("acme", buyersList)
			answered = append(answered, int(s.fast.Load()))
		}
		if !slices.Equal(answered, []int{1, 2, 3, 3, 3, 3}) { // net/http keeps the connection
			t.Errorf("the fast path has taken %v", answered)
		}
	})
}

// Shutdown waits for the response in flight, no longer than it may, and closes idle connections.
func TestShutdownOfTheFront(t *testing.T) {
	for _, tt := range []struct {
		response, grace time.Duration // zero: the connection is idle
		whole           bool
	}{
		{9 * time.Second, time.Minute, true}, // the write timeout is 10 s
		{10 * time.Second, time.Second, false},
		{0, time.Minute, false},
	} {
		var response time.Duration
		slow := func(o *Options) { o.Lists = served{o.Lists, func() { time.Sleep(response) }} }
		inBubble(t, setting{options: slow}, func(t *testing.T, s *testGateway, c *caller) {
			c.get("acme", buyersList)
			if response = tt.response; response > 0 {
				c.send(hitOf("acme", buyersList))
				synctest.Wait()
			}
			stop := make(chan error)
			ctx, cancel := context.WithTimeout(t.Context(), tt.grace)
			defer cancel()
			begin := time.Now()
			go func() { stop <- errors.Join(s.listener.Shutdown(ctx), s.server.Shutdown(ctx)) }()
			text, _ := io.ReadAll(c.in)
			if whole := strings.HasSuffix(string(text), "}"); whole != tt.whole {
				t.Errorf("%+v: answered %q", tt, text)
			}
			_ = c.conn.Close()
			err, took := <-stop, time.Since(begin)
			if cut := tt.response > tt.grace; (err != nil) != cut || took > min(tt.grace, tt.response)+time.Second {
				t.Errorf("%+v: stopped after %v: %v", tt, took, err)
			}
			time.Sleep(time.Minute) // what the caller left goes on until then
		})
	}
}

// Who sends something else where TLS is due is answered as by net/http.
func TestClearTextWhereTLSIsDue(t *testing.T) {
	config := secureConfig(t)
	for _, first := range []string{hitOf("acme", buyersList), "hello", "\x16\x03\x01\x00\x05hello", ""} {
		synctest.Test(t, func(t *testing.T) {
			var answers, logs [2][]byte
			for i, front := range []bool{true, false} {
				s := newTestGateway(t, setting{tls: config, options: func(o *Options) { o.FastPath = front }})
				c := s.network.connect(peers[0])
				_, _ = io.WriteString(c, first)
				_ = c.CloseWrite()
				answers[i], _ = io.ReadAll(c)
				synctest.Wait()
				logs[i] = []byte(s.logs.Take())
			}
			if !sameText(answers[0], answers[1]) || !sameText(logs[0], logs[1]) {
				t.Errorf("%q: answered %q, logged %s", first, answers, logs)
			}
		})
	}
}

// bug panics where a test says so.
type bug struct {
	Authenticator
	Lists
	Limiter
	at *string
}

func (b bug) meet(place string) {
	if *b.at == place {
		panic("boom")
	}
}

func (b bug) AuthenticateFrom(ctx context.Context, authorization []string, from auth.Caller) (*auth.Grant, error) {
	b.meet("authorize")
	return b.Authenticator.AuthenticateFrom(ctx, authorization, from)
}

func (b bug) Allow(account, plan string) rate.Decision {
	b.meet("rate")
	return b.Limiter.Allow(account, plan)
}

func (b bug) Lookup(k cache.Key) (cache.Result, bool) {
	b.meet("look up")
	return b.Lists.Lookup(k)
}

func (b bug) Encoded(e *cache.Entry, c cache.Coding) *cache.Representation {
	b.meet("render")
	return b.Lists.Encoded(e, c)
}

// Wherever a panic happens the caller gets a 500, or a cut connection where the answer has
// begun; there is one record of the request, one of the panic, and each is counted once.
// Others notice nothing.
func TestPanics(t *testing.T) {
	for _, front := range []bool{true, false} {
		for _, place := range []string{"authorize", "rate", "look up", "render", "write"} {
			at := ""
			options := func(o *Options) {
				b := bug{o.Auth, o.Lists, o.Rate, &at}
				o.FastPath, o.Auth, o.Lists, o.Rate = front, b, b, b
			}
			inBubble(t, setting{options: options}, func(t *testing.T, s *testGateway, other *caller) {
				c := s.call(t)
				const large = buyersList + "?inquiry_type=large"
				other.get("acme", large)
				c.get("acme", large)
				synctest.Wait()
				_ = s.logs.Take()
				coding := "Accept-Encoding: gzip"
				if at = place; place == "write" {
					coding = "Accept-Encoding: identity" // more than net/http keeps until the handler has ended
					s.network.last.Load().broken.Store(true)
				}
				c.send(hitOf("acme", large, coding))
				resp, err := http.ReadResponse(c.in, nil)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				if cut := place == "write"; cut != (err != nil) || !cut && resp.StatusCode != http.StatusInternalServerError {
					t.Errorf("front %v, %s: answered %v, %v", front, place, resp, err)
				}
				synctest.Wait()
				text := s.logs.Take()
				for _, want := range []string{`"panic":"boom"`, "_test.go", `"msg":"request"`, `"status":500`, `"error_code":"internal_error","cause":"panic: boom"`} {
					if !strings.Contains(text, want) || strings.Count(text, "\n") != 2 || requestIDs(text) != 1 {
						t.Fatalf("front %v, %s: no %q in, or not two records of one request:\n%s", front, place, want, text)
					}
				}
				at = ""
				if status, _, _ := other.get("acme", large); status != http.StatusOK {
					t.Errorf("front %v, %s: another caller got %d", front, place, status)
				}
				synctest.Wait()
				for name, want := range map[string]float64{
					"panics_total handler": 1, "http_requests_total 500buyer_inquiriesinternal_error": 1, "http_requests_in_flight ": 0,
				} {
					name, labels, _ := strings.Cut(name, " ")
					if got := s.counted(t, name, labels); got != want {
						t.Errorf("front %v, %s: %s %s: %v, want %v", front, place, name, labels, got, want)
					}
				}
			})
		}
	}
}

// requestIDs is how many requests the records are of.
func requestIDs(lines string) int {
	ids := map[string]bool{}
	for line := range strings.Lines(lines) {
		_, rest, _ := strings.Cut(line, `"request_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		ids[id] = true
	}
	return len(ids)
}

// everySecond records every second trace, and counts how often it is asked.
type everySecond struct{ asked atomic.Int64 }

func (e *everySecond) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if e.asked.Add(1)%2 == 0 {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return sdktrace.NeverSample().ShouldSample(p)
}

func (*everySecond) Description() string { return "every second" }

// Of each request it is decided once whether its trace is recorded. Those that are
// have all of their spans, though the front answers them.
func TestFrontAndTraces(t *testing.T) {
	spans, sampler := tracetest.NewSpanRecorder(), &everySecond{}
	s := newTestGateway(t, setting{options: func(o *Options) {
		o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	}})
	c := s.call(t)
	const n = 21 // the first one is not recorded
	for range n {
		c.get("acme", buyersList, "Traceparent: "+foreignParent)
	}
	if asked, ended, answered := sampler.asked.Load(), len(spans.Ended()), s.fast.Load(); asked != n || ended != n/2 || answered != n {
		t.Errorf("it was decided %d times for %d requests; %d spans, %d answers of the front", asked, n, ended, answered)
	}
	for _, span := range spans.Ended() {
		if len(span.Attributes()) < 5 || len(span.Links()) != 1 {
			t.Errorf("a span has only %v, %v", span.Attributes(), span.Links())
		}
	}
}

// A connection that is used stays. One that is idle, or on which a header stops in the
// middle, has the server's time.
func TestDeadlinesOfTheFront(t *testing.T) {
	for rest, want := range map[string]struct {
		answer string
		after  time.Duration
	}{
		"":           {"", 59 * time.Second}, // a deadline is set again once a second at most
		"GET /api/v": {"HTTP/1.1 400 Bad Request", 30 * time.Second},
	} {
		inBubble(t, setting{}, func(t *testing.T, s *testGateway, c *caller) {
			for range 6 { // in all longer than the server's time
				c.get("acme", buyersList)
				time.Sleep(50 * time.Second)
			}
			c.get("acme", buyersList)
			begin := time.Now()
			c.send(rest)
			text, err := io.ReadAll(c.in)
			if took := time.Since(begin); took < want.after || took > want.after+time.Second {
				t.Errorf("after %q: closed after %v", rest, took)
			}
			if !strings.HasPrefix(string(text), want.answer) || err != nil || s.fast.Load() != 7 {
				t.Errorf("after %q: %q, %v", rest, text, err)
			}
		})
	}
}

// Each request for a list is served by Gin's engine, on the fast path and beside it.
func TestEveryRequestPassesGin(t *testing.T) {
	for _, fast := range []bool{true, false} {
		inBubble(t, setting{options: func(o *Options) { o.FastPath = fast }}, func(t *testing.T, s *testGateway, c *caller) {
			passed := 0
			e := gin.New()
			e.Use(func(*gin.Context) { passed++ })
			s.gateway.routes(e)
			const n = 5 // a miss and hits
			for range n {
				if status, _, _ := c.get("acme", buyersList); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
			}
			c.get("nobody", buyersList)
			if passed != n+1 || (s.fast.Load() > 0) != fast {
				t.Errorf("fast path %t: %d of %d requests passed Gin; %d took the fast path", fast, passed, n+1, s.fast.Load())
			}
		})
	}
}

// At the limit unauthenticated connections give way, the oldest first; those of known callers never do.
func TestUnauthenticatedConnectionsAreEvicted(t *testing.T) {
	inBubble(t, setting{}, func(t *testing.T, s *testGateway, c *caller) {
		s.limit.SetMax(3)
		c.get("acme", buyersList)
		var others []*caller
		for range 9 {
			one := s.call(t)
			one.get("nobody", buyersList)
			others = append(others, one)
		}
		c.get("acme", buyersList)
		for _, one := range others[len(others)-2:] {
			one.get("nobody", buyersList)
		}
		for _, one := range others[len(others)-2:] { // both places are known callers' now
			one.get("acme", buyersList)
		}
		refused := s.call(t)
		if _, err := refused.in.ReadByte(); err == nil {
			t.Error("a connection over the limit stays")
		}
		for _, one := range append(others[len(others)-2:], c) {
			one.get("acme", buyersList)
		}
		if evicted, refused := s.counted(t, "http_connections_evicted_total", "public"), s.counted(t, "http_connections_refused_total", "public"); evicted != 7 || refused != 1 {
			t.Errorf("%v were evicted, want 7; %v were refused, want 1", evicted, refused)
		}
	})
}

// Over HTTP/2 a connection on which a caller has authenticated is kept, too.
func TestEvictionOverHTTP2(t *testing.T) {
	inBubble(t, setting{}, func(t *testing.T, s *testGateway, _ *caller) {
		opened := 0
		dial := func(context.Context, string, string) (net.Conn, error) {
			opened++
			return s.network.connect(peers[0]), nil
		}
		transport := &http.Transport{TLSClientConfig: trusting(), Protocols: new(http.Protocols), DialContext: dial}
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		ask := func(key string) {
			r, _ := http.NewRequest(http.MethodGet, map[bool]string{true: "https", false: "http"}[s.secure]+"://gateway"+buyersList, nil)
			r.Header.Set("Authorization", "Bearer key-of-"+key)
			resp, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.ProtoMajor != 2 || (resp.StatusCode == http.StatusOK) != (key == "acme") {
				t.Errorf("%s: %s over %s", key, resp.Status, resp.Proto)
			}
			synctest.Wait()
		}
		s.limit.SetMax(1)
		ask("nobody")
		s.call(t) // takes its place
		synctest.Wait()
		for range 3 {
			ask("acme")
		}
		if opened != 2 || s.fast.Load() != 0 {
			t.Errorf("%d connections were opened, want 2; %d requests took the fast path", opened, s.fast.Load())
		}
	})
}

// Over HTTP/2 one connection can wait for many answers without reading any. Those of
// unauthenticated clients are bounded in number and in time, and hold no copies of what they answer.
func TestUnauthenticatedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 200 // of each connection
		s := newTestGateway(t, setting{options: func(o *Options) { o.LogRefusals = 1 }})
		s.ask("GET", "/openapi.json")
		memory := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapInuse + m.StackInuse)
		}
		before, all := memory(), 0
		for all < maxUnauthenticatedStreams+streams {
			var text bytes.Buffer
			text.WriteString(http2.ClientPreface)
			framer := http2.NewFramer(&text, nil)
			_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			for i := range uint32(streams) {
				var block bytes.Buffer
				encoder := hpack.NewEncoder(&block)
				for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "gateway"}, {":path", "/openapi.json"}} {
					_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
				}
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
			}
			c := s.network.connect(peers[0])
			defer c.Close()
			_, _ = c.Write(text.Bytes())
			go func() { _, _ = io.Copy(io.Discard, c) }()
			synctest.Wait()
			all += streams
		}
		inFlight := int(s.counted(t, "http_requests_in_flight", ""))
		if inFlight != maxUnauthenticatedStreams {
			t.Errorf("%d of %d requests are in flight", inFlight, all)
		}
		if each := (memory() - before) / inFlight; each > 32<<10 {
			t.Errorf("each holds %d KiB", each>>10)
		}
		time.Sleep(unauthenticatedWriteTime)
		synctest.Wait()
		if n := s.counted(t, "http_requests_in_flight", ""); n != 0 {
			t.Errorf("%v are in flight later", n)
		}
		// One is of ask. The gateway has reset all streams: no caller has left.
		for code, want := range map[string]int{"200openapi": maxUnauthenticatedStreams + 1, "429openapirate_limited": all - maxUnauthenticatedStreams, "499openapi": 0} {
			if n := s.counted(t, "http_requests_total", code); int(n) != want {
				t.Errorf("%v requests are counted as %s, want %d", n, code, want)
			}
		}
	})
}

// Header and body of an answer of the front leave with one write of both, be it a fill or a
// hit; with TLS its records do, as far as there is room for them.
func TestAnswerLeavesInOneWrite(t *testing.T) {
	inBubble(t, setting{}, func(t *testing.T, s *testGateway, c *caller) {
		c.get("acme", buyersList) // the handshake's last records come with the first answer
		conn := s.network.last.Load()
		for _, inquiryType := range []string{"small", "large", "huge", "large", "small"} {
			k := cache.Key{Kind: "buyer", Account: "acme", InquiryType: inquiryType}
			before := conn.writes.Load()
			if _, _, body := c.get("acme", buyersList+"?inquiry_type="+inquiryType); body != string(bodyOf(k)) {
				t.Fatalf("%s: %.300q", inquiryType, body)
			}
			// A socket sends both parts with one call; this connection gets them one by one.
			want := int64(2)
			if s.secure {
				want = 1
			}
			if got := conn.writes.Load() - before; got != want && !(s.secure && inquiryType == "huge") {
				t.Errorf("%s: left in %d parts", inquiryType, got)
			}
		}
	})
}

// The record of an answer that was cut off has the bytes that were sent, not those that
// should have been.
func TestBytesOfACutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestGateway(t, setting{})
		c := s.call(t)
		c.send(hitOf("acme", buyersList+"?inquiry_type=huge"))
		if _, err := io.ReadFull(c.in, make([]byte, 50_000)); err != nil {
			t.Fatal(err)
		}
		_ = c.conn.Close()
		synctest.Wait()
		if all := s.lines(t); len(all) != 1 || all[0].Status != statusClientClosedRequest || all[0].Bytes < 49_000 || all[0].Bytes > 80_000 {
			t.Errorf("recorded %+v", all)
		}
	})
}
