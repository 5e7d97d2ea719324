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

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
)

// inBubble runs a test with a stand and one caller in virtual time, in clear text and with TLS.
func inBubble(t *testing.T, c setting, test func(*testing.T, *stand, *caller)) {
	for name, config := range map[string]*tls.Config{"clear": nil, "TLS": secureConfig(t)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.tls = config
				s := newStand(t, c)
				test(t, s, s.call(t))
			})
		})
	}
}

// The front answers fresh hits, and with the engine what else is asked of a list. At the first
// request that is not of its form the connection is net/http's, for ever.
func TestWhatTheFrontAnswers(t *testing.T) {
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
		inBubble(t, setting{}, func(t *testing.T, s *stand, c *caller) {
			for range 2 { // a fill and a hit
				if _, _, body := c.get("acme", buyersList); body != string(bodyOf(cache.Key{Kind: "buyer", Account: "acme"})) {
					t.Errorf("the list is %s", body)
				}
			}
			before := s.byFront(t)
			c.send(tt.text)
			for _, want := range tt.statuses {
				if status, _, _ := c.receive(); status != want {
					t.Errorf("%s: %d, want %d", name, status, want)
				}
			}
			between := s.byFront(t)
			if c.get("acme", buyersList); before != 1 || (s.byFront(t) > between) != tt.stays {
				t.Errorf("after %s the front has answered %d, then %d and %d", name, before, between, s.byFront(t))
			}
		})
	}
}

// A reload switches the front, on open connections too.
func TestFrontIsSwitched(t *testing.T) {
	inBubble(t, setting{}, func(t *testing.T, s *stand, c *caller) {
		off := New(Options{Auth: s.gateway.opts.Auth, Lists: s.lists})
		var answered []int
		for _, g := range []*Gateway{s.gateway, s.gateway, s.gateway, off, off, s.gateway} {
			s.live.Set(g)
			c.get("acme", buyersList)
			answered = append(answered, s.byFront(t))
		}
		if !slices.Equal(answered, []int{0, 1, 2, 2, 2, 2}) { // net/http keeps the connection
			t.Errorf("the front has answered %v", answered)
		}
	})
}

// A stop waits for the answer that the front is sending, no longer than it may, and for a
// request that is on its way.
func TestStopOfTheFront(t *testing.T) {
	for _, tt := range []struct {
		answer, grace time.Duration
		idle          time.Duration // before the request comes
		whole         bool
	}{
		{answer: 9 * time.Second, grace: time.Minute, whole: true}, // the write timeout is 10 s
		{answer: 10 * time.Second, grace: time.Second},
		{idle: 200 * time.Millisecond, grace: time.Minute, whole: true},
		{idle: 300 * time.Millisecond, grace: time.Minute},
	} {
		var answer time.Duration
		slow := func(o *Options) { o.Lists = served{o.Lists, func() { time.Sleep(answer) }} }
		inBubble(t, setting{options: slow}, func(t *testing.T, s *stand, c *caller) {
			c.get("acme", buyersList)
			answer = tt.answer
			stop := make(chan error)
			ctx, cancel := context.WithTimeout(t.Context(), tt.grace)
			defer cancel()
			if tt.idle == 0 {
				c.send(hitOf("acme", buyersList))
				synctest.Wait()
			}
			begin := time.Now()
			go func() { stop <- errors.Join(s.listener.Stop(ctx), s.server.Shutdown(ctx)) }()
			if tt.idle > 0 {
				time.Sleep(tt.idle)
				_, _ = io.WriteString(c.conn, hitOf("acme", buyersList))
			}
			text, _ := io.ReadAll(c.in)
			if whole := strings.Contains(string(text), "\r\nConnection: close\r\n") && strings.HasSuffix(string(text), "}"); whole != tt.whole {
				t.Errorf("%+v: answered %q", tt, text)
			}
			_ = c.conn.Close()
			err, took := <-stop, time.Since(begin)
			if cut := tt.answer > tt.grace; (err != nil) != cut || took > min(tt.grace, max(tt.answer, tt.idle))+time.Second {
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
				s := newStand(t, setting{tls: config, options: func(o *Options) { o.Front = front }})
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

func (b bug) Coded(e *cache.Entry, c cache.Coding) *cache.Variant {
	b.meet("render")
	return b.Lists.Coded(e, c)
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
				o.Front, o.Auth, o.Lists, o.Rate = front, b, b, b
			}
			inBubble(t, setting{options: options}, func(t *testing.T, s *stand, other *caller) {
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
				hits := map[bool]float64{true: 2}[front] // of both callers, one before the panic and one after it
				if front && place == "write" {
					hits++ // it is counted before it is written
				}
				for name, want := range map[string]float64{
					"panics_total ": 1, "requests_total 500buyer_inquiries": 1, "requests_in_flight ": 0, "hit_lane_answers_total ": hits,
				} {
					name, labels, _ := strings.Cut(name, " ")
					if got := s.counted(t, "http_"+name, labels); got != want {
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
	s := newStand(t, setting{options: func(o *Options) {
		o.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
	}})
	c := s.call(t)
	const n = 21 // the first one is not recorded
	for range n {
		c.get("acme", buyersList, "Traceparent: "+foreignParent)
	}
	if asked, ended, answered := sampler.asked.Load(), len(spans.Ended()), s.byFront(t); asked != n || ended != n/2 || answered != n-1 {
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
		inBubble(t, setting{}, func(t *testing.T, s *stand, c *caller) {
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
			if !strings.HasPrefix(string(text), want.answer) || err != nil || s.byFront(t) != 6 {
				t.Errorf("after %q: %q, %v", rest, text, err)
			}
		})
	}
}

// A connection on which nobody has authenticated is closed soon after it is idle,
// whether it has had a request or not; one with a caller's stays.
func TestStrangersAreIdleForShorter(t *testing.T) {
	for _, first := range []string{"", "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", hitOf("nobody", buyersList)} {
		inBubble(t, setting{strangerIdle: 5 * time.Second}, func(t *testing.T, s *stand, c *caller) {
			c.get("acme", buyersList)
			begin, stranger := time.Now(), s.call(t)
			stranger.send(first)
			if _, err := io.Copy(io.Discard, stranger.in); err != nil || time.Since(begin) != 5*time.Second {
				t.Errorf("%q: closed after %v, %v", first, time.Since(begin), err)
			}
			time.Sleep(10 * time.Second)
			c.get("acme", buyersList)
		})
	}
}

// Where as many connections are open as may be, idle ones give way: those of strangers, and
// of these the one that has been idle for longest. Of known callers no more do than must.
func TestStrangersGiveWay(t *testing.T) {
	inBubble(t, setting{}, func(t *testing.T, s *stand, c *caller) {
		s.listener.SetMax(3)
		c.get("acme", buyersList)
		var strangers []*caller
		for range 9 {
			time.Sleep(2 * time.Second)
			one := s.call(t)
			one.get("nobody", buyersList)
			strangers = append(strangers, one)
		}
		c.get("acme", buyersList)
		for _, one := range strangers[len(strangers)-2:] {
			one.get("nobody", buyersList)
		}

		s.listener.SetMax(2 * evictShare)
		known := []*caller{c}
		for len(known) < 2*evictShare-1 {
			known = append(known, s.call(t))
			known[len(known)-1].get("acme", buyersList)
		}
		time.Sleep(2 * time.Second)
		s.call(t)
		s.call(t).get("nobody", buyersList)
		for _, one := range known {
			one.get("acme", buyersList)
		}
	})
}

// evictShare is as the front's.
const evictShare = 64

// A connection is idle from the end of its last answer, however long that took: a known caller's does
// not give way right after a slow one, be it the front's or net/http's.
func TestIdleFromTheEndOfAnAnswer(t *testing.T) {
	const slow = buyersList + "?status=slow"
	for _, request := range []string{hitOf("acme", slow), strings.Replace(hitOf("acme", slow), "GET", "HEAD", 1)} {
		options := func(o *Options) {
			lists := o.Lists
			o.Lists = scripted{Lists: lists, get: func(ctx context.Context, k cache.Key) (cache.Result, error) {
				time.Sleep(3 * time.Second)
				return lists.Get(ctx, k)
			}}
		}
		inBubble(t, setting{options: options}, func(t *testing.T, s *stand, c *caller) {
			s.listener.SetMax(1)
			c.send(request)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			for _, wait := range []time.Duration{0, 900 * time.Millisecond, 200 * time.Millisecond} {
				time.Sleep(wait)
				other := s.call(t)
				synctest.Wait()
				other.conn.Close()
			}
			answer, err := http.ReadResponse(c.in, &http.Request{Method: request[:4]})
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", answer, err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			refused, evicted := s.counted(t, "http_connections_refused_total", ""), s.counted(t, "http_connections_evicted_total", "")
			if refused != 2 || evicted != 1 {
				t.Errorf("%.4s: of 3 connections within 1.1 s %v were refused, and %v were closed for them", request, refused, evicted)
			}
		})
	}
}

// Over HTTP/2, too, which is net/http's from the first byte.
func TestStrangersOverHTTP2(t *testing.T) {
	inBubble(t, setting{strangerIdle: 5 * time.Second}, func(t *testing.T, s *stand, _ *caller) {
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
			time.Sleep(10 * time.Second)
		}
		ask("nobody")
		for range 3 {
			ask("acme")
		}
		if opened != 2 || s.byFront(t) != 0 {
			t.Errorf("%d connections were opened, want 2; the front answered %d", opened, s.byFront(t))
		}
	})
}

// Over HTTP/2 one connection can wait for many answers without reading any. Those of
// strangers are bounded in number and in time, and hold no copies of what they answer.
func TestStreamsOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 200 // of each connection
		s := newStand(t, setting{options: func(o *Options) { o.LogRefusals = 1 }})
		s.ask("GET", "/openapi.json")
		memory := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapInuse + m.StackInuse)
		}
		before, all := memory(), 0
		for all < maxStrangerStreams+streams {
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
		if inFlight != maxStrangerStreams {
			t.Errorf("%d of %d requests are in flight", inFlight, all)
		}
		if each := (memory() - before) / inFlight; each > 32<<10 {
			t.Errorf("each holds %d KiB", each>>10)
		}
		time.Sleep(strangerTime)
		synctest.Wait()
		if n := s.counted(t, "http_requests_in_flight", ""); n != 0 {
			t.Errorf("%v are in flight later", n)
		}
		// One is of ask. The gateway has reset all streams: no caller has left.
		for code, want := range map[string]int{"200": maxStrangerStreams + 1, "429": all - maxStrangerStreams, "499": 0} {
			if n := s.counted(t, "http_requests_total", code+"openapi"); int(n) != want {
				t.Errorf("%v requests are counted as %s, want %d", n, code, want)
			}
		}
	})
}

// Header and body of an answer of the front leave with one write of both, be it a fill or a
// hit; with TLS its records do, as far as there is room for them.
func TestAnswerLeavesInOneWrite(t *testing.T) {
	inBubble(t, setting{}, func(t *testing.T, s *stand, c *caller) {
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
		s := newStand(t, setting{})
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
