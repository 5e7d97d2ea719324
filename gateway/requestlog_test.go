package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
)

// A record is what slog would have written, whatever the strings in it.
func TestRecordIsAsSlogWritesIt(t *testing.T) {
	g := New(Options{})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `a"b\c`, "\x00\n", "한글", "\xff"}))
		micros := rapid.Int64Range(0, int64(24*time.Hour/time.Microsecond))
		x := &request{
			gateway: g, http: &http.Request{Method: http.MethodGet, RemoteAddr: "192.0.2.1:1"},
			begin:  time.Unix(1700000000, 123456789).UTC(),
			status: rapid.IntRange(200, 599).Draw(t, "status"), sent: rapid.IntRange(0, 1<<30).Draw(t, "bytes"),
			principal: auth.Principal{Account: "a" + text.Draw(t, "account"), KeyID: text.Draw(t, "key")},
			list:      cache.Result{Outcome: cache.Hit, Tier: cache.TierLocal, Age: time.Duration(micros.Draw(t, "age")) * time.Microsecond},
			problem:   text.Draw(t, "problem"), cause: errors.New(text.Draw(t, "cause")),
		}
		x.endpoint = g.newEndpoint("e", "", nil)
		x.id.set("0123abcd")
		level := slog.LevelInfo
		if x.status >= 500 {
			level = slog.LevelError
		}
		record := slog.NewRecord(x.begin, level, "request", 0)
		record.Add("request_id", x.id.String(), "method", "GET", "endpoint", "e", "status", x.status, "duration_seconds", 0.0, "bytes", x.sent,
			"client_address", "192.0.2.1", "account", x.principal.Account, "key_id", x.principal.KeyID, "auth_seconds", 0.0,
			"cache", "hit", "tier", "local", "age_seconds", float64(x.list.Age.Microseconds())/1e6, "list_seconds", 0.0)
		if x.problem != "" {
			record.Add("error_code", x.problem)
		}
		record.Add("cause", x.cause.Error())
		var want bytes.Buffer
		if err := slog.NewJSONHandler(&want, nil).Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if got := g.appendLine(nil, x); !reflect.DeepEqual(parsed(t, got), parsed(t, want.Bytes())) || bytes.Count(got, []byte("\n")) != 1 {
			t.Fatalf("got  %s\nwant %s", got, want.Bytes())
		}
	})
}

func parsed(t *rapid.T, line []byte) (m map[string]any) {
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	return m
}

// Hits are sampled; whatever else happens always has its record. What the lab reads a list
// by does not say whose it is.
func TestSampledHits(t *testing.T) {
	s := newTestGateway(t, setting{options: func(o *Options) { o.SampleHits = 100 }})
	const n = 5000
	for range n {
		s.ask("GET", buyersList)
	}
	all := s.lines(t)
	if len(all) < 2 || len(all) > n/20 {
		t.Errorf("%d of %d hits have a record", len(all), n)
	}
	if r := all[len(all)-1]; r.Kind != "buyer" || len(r.Key) != 16 || len(r.ETag) != 16 || r.Key != all[0].Key {
		t.Errorf("recorded %+v", r)
	}
	for range 10 {
		s.ask("GET", "/nowhere")
		func() {
			defer func() { _ = recover() }() // net/http cuts the connection
			s.handler.ServeHTTP(&gone{header: http.Header{}}, s.request("GET", buyersList))
		}()
	}
	if all := s.lines(t); len(all) != 20 || all[19].Status != statusClientClosedRequest {
		t.Errorf("of 10 errors and 10 hits that were cut off there are %d records: %+v", len(all), all)
	}
}

// gone is a caller that has left.
type gone struct{ header http.Header }

func (g *gone) Header() http.Header       { return g.header }
func (g *gone) WriteHeader(int)           {}
func (g *gone) Write([]byte) (int, error) { return 0, net.ErrClosed }

// A proxy that speaks the PROXY protocol gets errors for all its requests: the log says what to do.
func TestPROXYProtocolIsNamedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []setting{{}, {tls: secureConfig(t)}} {
			s := newTestGateway(t, c)
			for i, first := range []string{"PROXY TCP4 192.0.2.7 192.0.2.8 4711 80\r\n", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + strings.Repeat("\x01", 12)} {
				conn := s.network.connect(peers[i])
				_, _ = io.WriteString(conn, first+"GET "+buyersList+" HTTP/1.1\r\nHost: gateway\r\n\r\n")
				synctest.Wait()
				_ = conn.Close()
				text := s.logs.Take()
				if strings.Count(text, "\n") != 1 || !strings.Contains(text, "PROXY protocol") || !strings.Contains(text, "gateway.trusted_proxies") {
					t.Errorf("%q is logged as %s", first, text)
				}
			}
		}
	})
}

// Unauthenticated clients choose how many connections fail, too.
func TestRecordsOfFailedConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestGateway(t, setting{tls: secureConfig(t), logErrors: 3})
		for i := range 50 {
			c := s.network.connect(peers[i%2])
			text := "GET / HTTP/1.1\r\n\r\n"
			if i < 20 { // HTTP/2 that does not begin as such
				over := tls.Client(c, trusting("h2"))
				_, _ = over.Write([]byte(strings.Repeat("x", 100)))
			} else {
				_, _ = c.Write([]byte(text))
			}
			synctest.Wait()
			_ = c.Close()
		}
		if text := s.logs.Take(); strings.Count(text, "\n") != 2*3 || strings.Count(text, "TLS handshake error from") != 3 || strings.Count(text, "bogus greeting") != 3 {
			t.Errorf("logged %s", text)
		}
	})
}

// Clients whose requests are refused choose how many there are, but not how many records: each reason has so many per
// second. Documents are no refusals, and errors of theirs are as all others.
func TestRecordsOfRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestGateway(t, setting{options: func(o *Options) { o.LogRefusals = 3 }})
		for _, c := range []struct {
			method, target, key string
			n, lines            int
		}{
			{"GET", "/nowhere", "", 100, 3},
			{"GET", "/docs/nowhere", "", 2, 0}, // for the same reason
			{"POST", buyersList, "", 4, 3},
			{"GET", "/docs/", "", 15, 15},
			{"GET", buyersList, "Bearer nobody", 1, 1},
			{"GET", buyersList, "Bearer key-of-acme", 20, 20},
			{"GET", buyersList, "Bearer key-of-tight", 5 + 50, 5 + 3}, // a burst, then over its rate
			{"GET", buyersList, "Bearer key-of-unpaid", 50, 3},
		} {
			for range c.n {
				s.ask(c.method, c.target, "Authorization: ", "Authorization: "+c.key)
			}
			if got := len(s.lines(t)); got != c.lines {
				t.Errorf("%+v: %d lines", c, got)
			}
		}
		if n := s.counted(t, "http_requests_total", "404docsnot_found"); n != 2 {
			t.Errorf("%v errors of the documents are counted", n)
		}
		if n := s.counted(t, "log_suppressed_total", ""); n != 97+2+1+47+47 {
			t.Errorf("counted %v without a record", n)
		}
		time.Sleep(time.Second)
		for range 10 {
			s.ask("GET", "/nowhere")
		}
		if got := len(s.lines(t)); got != 3 {
			t.Errorf("%d records a second later, want 3", got)
		}
	})
}

// unavailable authenticates nobody: its key store cannot be reached.
type unavailable struct{}

func (unavailable) AuthenticateFrom(context.Context, []string, auth.Caller) (*auth.Grant, error) {
	return nil, auth.ErrUnavailable
}

// However many requests fail with 5xx, each has its record: callers quote its id to support.
func TestEveryServerErrorHasARecord(t *testing.T) {
	s := newTestGateway(t, setting{options: func(o *Options) { o.LogRefusals, o.Auth = 3, unavailable{} }})
	for range 20 {
		s.ask("GET", buyersList)
	}
	if text := s.logs.Take(); strings.Count(text, `"status":503`) != 20 || strings.Count(text, "\n") != 20 {
		t.Errorf("want 20 records and no summary:\n%s", text)
	}
}
