package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/internal/testkit"
)

// A record is what slog would have written, whatever the strings in it.
func TestRecordIsAsSlogWritesIt(t *testing.T) {
	g := New(Options{})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `a"b\c`, "\x00\n", "한글", "\xff"}))
		micros := rapid.Int64Range(0, int64(24*time.Hour/time.Microsecond))
		x := &exchange{
			gateway: g, request: &http.Request{Method: http.MethodGet, RemoteAddr: "192.0.2.1:1"},
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
	s := newStand(t, setting{options: func(o *Options) { o.SampleHits = 100 }})
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
			s.live.ServeHTTP(&gone{header: http.Header{}}, s.request("GET", buyersList))
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
			s := newStand(t, c)
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
		s := newStand(t, setting{tls: secureConfig(t), logErrors: 3})
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
		if text := s.logs.Take(); strings.Count(text, "\n") != 4*3 || strings.Count(text, "TLS handshake error from 192.0.2.9") != 3 || strings.Count(text, "bogus greeting") != 2*3 {
			t.Errorf("logged %s", text)
		}
		time.Sleep(refusalWindow)
		synctest.Wait()
		if text := s.logs.Take(); strings.Count(text, "\n") != 4 || strings.Count(text, `"reason":"http: TLS handshake","suppressed":12}`) != 2 {
			t.Errorf("logged %s", text)
		}
	})
}

// Whoever is refused chooses how many requests there are, but not how many records: each client
// without a good key, and each account, has some for each reason, and a window ends with one
// that counts the others. Errors of the documents are as all others.
func TestRecordsWithoutAKeyAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, setting{options: func(o *Options) { o.LogRefusals = 3; o.TrustedProxies = nil }})
		recorded := func(n int, method, target, from, key string) (lines int) {
			for range n {
				s.ask(method, target, "From: "+from, "Authorization: ", "Authorization: "+key)
			}
			return len(s.lines(t))
		}
		for _, c := range []struct {
			method, target, from, key string
			n, lines                  int
		}{
			{"GET", "/nowhere", "192.0.2.1:1", "", 100, 3},
			{"GET", "/docs/nowhere", "192.0.2.1:2", "", 2, 0}, // for the same reason
			{"POST", buyersList, "192.0.2.1:3", "", 4, 3},
			{"GET", "/docs/", "192.0.2.1:4", "", 15, 3},
			{"GET", buyersList, "192.0.2.1:5", "Bearer nobody", 1, 1},
			{"GET", buyersList, "192.0.2.1:6", "Bearer key-of-acme", 20, 20},
			{"GET", buyersList, "192.0.2.1:7", "Bearer key-of-tight", 5 + 3, 5 + 3}, // a burst, then over its rate
			{"GET", buyersList, "192.0.2.3:1", "Bearer key-of-tight", 50, 0},
			{"GET", buyersList, "192.0.2.1:8", "Bearer key-of-unpaid", 50, 3},
			{"GET", "/nowhere", "192.0.2.2:1", "", 1, 1},
			{"GET", "/nowhere", "[2001:db8::1]:1", "", 3, 3},
			{"GET", "/nowhere", "[2001:db8::2]:1", "", 5, 0}, // of the same network
			{"GET", "/nowhere", "[2001:db8:0:1::2]:1", "", 1, 1},
		} {
			if got := recorded(c.n, c.method, c.target, c.from, c.key); got != c.lines {
				t.Errorf("%+v: %d lines", c, got)
			}
		}
		if n := s.counted(t, "http_errors_total", "docsnot_found"); n != 2 {
			t.Errorf("%v errors of the documents are counted", n)
		}
		summaries := func(want ...string) {
			t.Helper()
			text := s.logs.Take()
			for _, w := range want {
				if !strings.Contains(text, w) || strings.Count(text, "\n") != len(want) {
					t.Errorf("%d records, want %d with %s:\n%s", strings.Count(text, "\n"), len(want), w, text)
				}
			}
		}
		time.Sleep(refusalWindow)
		synctest.Wait()
		summaries(`"account":"tight","security":{"event":"refused_suppressed","reason":"rate_limited","suppressed":50}`,
			`"account":"unpaid","security":{"event":"refused_suppressed","reason":"api_access_required","suppressed":47}`,
			`"client_address":"192.0.2.1","security":{"event":"unauthenticated_suppressed","reason":"not_found","suppressed":99}`,
			`"client_address":"192.0.2.1","security":{"event":"unauthenticated_suppressed","reason":"method_not_allowed","suppressed":1}`,
			`"client_address":"192.0.2.1","endpoint":"docs","suppressed":12}`,
			`"client_address":"2001:db8::/64","security":{"event":"unauthenticated_suppressed","reason":"not_found","suppressed":5}`)
		if got := recorded(4, "GET", "/nowhere", "192.0.2.1:1", ""); got != 3 {
			t.Errorf("%d records in the next window, want 3", got)
		}
		s.gateway.Close()
		summaries(`"suppressed":1}`)
		time.Sleep(2 * refusalWindow)
		if n := s.counted(t, "log_suppressed_total", ""); n != 215 || s.logs.Take() != "" {
			t.Errorf("counted %v, want 215 and no more records", n)
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
	s := newStand(t, setting{options: func(o *Options) { o.LogRefusals, o.Auth = 3, unavailable{} }})
	for range 20 {
		s.ask("GET", buyersList)
	}
	s.gateway.Close()
	if text := s.logs.Take(); strings.Count(text, `"status":503`) != 20 || strings.Count(text, "\n") != 20 {
		t.Errorf("want 20 records and no summary:\n%s", text)
	}
}

// The clients and accounts that are counted are bounded too. Those beyond are counted together, an
// account whose key is good never among unauthenticated clients.
func TestRefusalsAreBounded(t *testing.T) {
	var log testkit.Log
	r := newRefusals(1, slog.New(slog.NewJSONHandler(&log, nil)), prometheus.NewCounter(prometheus.CounterOpts{Name: "suppressed"}))
	for i := range 2 * maxRefusalCounts {
		r.logged(refusal{client: auth.Network(netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i/256, i%256))), reason: "unknown"})
	}
	for i := range 10 {
		r.logged(refusal{authenticated: true, account: fmt.Sprint("account-", i), reason: "rate_limited"})
	}
	r.flush()
	text := log.String()
	for _, others := range []string{
		`"client_address":"others","security":{"event":"unauthenticated_suppressed","reason":"unknown","suppressed":` + strconv.Itoa(maxRefusalCounts-1),
		`"account":"others","security":{"event":"refused_suppressed","reason":"rate_limited","suppressed":9}`,
	} {
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, others) {
			t.Errorf("no %s in %.500s", others, text)
		}
	}
}
