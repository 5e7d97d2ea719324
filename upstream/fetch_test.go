package upstream

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.opentelemetry.io/otel/codes"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/mapping"
)

func TestFetch(t *testing.T) {
	var got *http.Request
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Set-Cookie", "session=1; Path=/")
		serveJSON(`{"result":{"items":[`+testkit.SampleTicket+`]}}`)(w, r)
	}, func(c *Config) { c.Headers = map[string]string{"X-Tenant": "acme"} })
	before := time.Now()
	for range 2 {
		list, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "pending", RequestID: "req-1"})
		if err != nil || len(list.Inquiries) != 1 || list.Unasked || list.AnsweredAt.Before(before) {
			t.Fatalf("%+v %v", list, err)
		}
	}
	if want := "/v2/tickets?customer=acme&state=N"; got.RequestURI != want {
		t.Errorf("asked for %s, want %s", got.RequestURI, want)
	}
	for name, want := range map[string]string{
		"Via": "1.1 inquiry-gateway", "User-Agent": "inquiry-gateway", "X-Tenant": "acme", "X-Request-Id": "req-1",
		"Accept": "application/json", "Accept-Encoding": "gzip", "Cookie": "", "Authorization": "",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
	if f.metric(t, "requests_total", "buyer", "ok") != 2 || f.metric(t, "request_duration_seconds", "buyer") != 2 || f.metric(t, "in_flight") != 0 {
		t.Error("metrics do not show two good fetches")
	}
	if f.log.Len() > 0 {
		t.Errorf("logged %s", f.log.String())
	}
}

// A POST is a search by its configuration: it is repeated as a GET is, and sent again
// where the legacy closes the connection that is about to be used.
func TestPostIsRepeated(t *testing.T) {
	var seen sync.Map
	asked := 0
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"customer":"acme","state":"N"}` || r.ContentLength != int64(len(body)) || r.Header.Get("Content-Type") != "application/vnd.search+json" ||
			r.Header.Get("SOAPAction") != `"list"` || r.Header["Idempotency-Key"] != nil || r.Method != http.MethodPost {
			t.Errorf("got %s %s %v", r.Method, body, r.Header)
		}
		if _, again := seen.LoadOrStore(r.RemoteAddr, true); again {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close()
			}
			return
		}
		if asked++; asked == 1 {
			status(503)(w, r)
			return
		}
		serveJSON(`{"result":{"items":[`+testkit.SampleTicket+`]}}`)(w, r)
	}, func(c *Config) {
		c.Buyer.Method, c.Buyer.Query = http.MethodPost, nil
		c.Buyer.Body = map[string]any{"customer": "{account}", "state": "{status}"}
		c.Buyer.Headers = map[string]string{"soapaction": `"list"`, "content-type": "application/vnd.search+json"}
	})
	for range 3 {
		if _, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "pending"}); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 4 || f.metric(t, "retries_total", "status_503") != 1 {
		t.Errorf("%d requests, %v repeats", asked, f.metric(t, "retries_total", "status_503"))
	}
}

func TestFetchUnasked(t *testing.T) {
	f := newFixture(t, serveJSON(`{}`))
	list, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", Status: "nosuch"})
	if err != nil || !list.Unasked || list.Inquiries == nil || len(list.Inquiries) != 0 || list.AnsweredAt.IsZero() || f.calls.Load() != 0 {
		t.Errorf("%+v %v after %d calls", list, err, f.calls.Load())
	}
	if _, err := f.Fetch(t.Context(), Request{Kind: "admin"}); err == nil {
		t.Error("an unknown kind was accepted")
	}
}

// badReplies is every way a legacy can answer wrongly.
func badReplies() []badReply {
	head := `{"result":{"items":[`
	return []badReply{
		{"500", status(500), "upstream", "status_5xx", ""},
		{"504", status(504), "upstream", "status_5xx", ""},
		{"404", status(404), "upstream", "status_4xx", "name it in reply.empty_statuses"},
		{"429", status(429), "unavailable", "throttled", ""},
		{"206", status(206), "upstream", "status_2xx", ""},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "upstream", "status_2xx", ""},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "upstream", "status_3xx", ""},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, head)
		}, "upstream", "truncated", ""},
		{"closed before the head", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		}, "upstream", "truncated", ""},
		{"login page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>login</html>")
		}, "invalid", "media_type", ""},
		{"XML", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/xml") }, "invalid", "media_type", "reply.format: xml reads it"},
		{"no media type", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, head+"]}}")
		}, "invalid", "media_type", ""},
		{"login page called JSON", serveJSON("<html>login</html>"), "invalid", "json", ""},
		{"empty body", serveJSON(""), "invalid", "json", ""},
		{"wrong JSON", serveJSON(`{"error":"x"}`), "invalid", "items", ""},
		{"duplicate names", serveJSON(head + `],"items":[]}}`), "invalid", "json", ""},
		{"deep", serveJSON(strings.Repeat("[", 5000)), "invalid", "json", ""},
		{"not UTF-8", serveJSON(head + "]},\"x\":\"\xc3\x28\"}"), "invalid", "json", ""},
		{"too large", serveJSON(head + strings.Repeat(" ", 100_000) + "]}}"), "invalid", "too_large", ""},
		{"too large, chunked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 100 {
				_, _ = io.WriteString(w, strings.Repeat(" ", 1000))
				_ = http.NewResponseController(w).Flush()
			}
		}, "invalid", "too_large", ""},
		{"too many", serveJSON(testkit.SampleTickets(31)), "invalid", "too_many", ""},
		{"foreign coding", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			serveJSON("x")(w, r)
		}, "invalid", "encoding", ""},
		{"gzip that is none", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			serveJSON("this is no gzip stream")(w, r)
		}, "invalid", "encoding", ""},
		{"gzip bomb", serveGzip(strings.Repeat(" ", 10<<20), 0), "invalid", "too_large", ""},
		{"gzip cut off", serveGzip(head+"]}}", 12), "upstream", "truncated", ""},
		{"huge header", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Huge", strings.Repeat("x", 200_000))
			serveJSON(head+"]}}")(w, r)
		}, "upstream", "read", ""},
	}
}

type badReply struct {
	name         string
	serve        http.HandlerFunc
	kind, reason string
	says         string
}

// Each reply that is wrong in its own way is one word for metrics and spans, and nothing
// of it is in errors, logs and spans.
func TestFetchFailures(t *testing.T) {
	for _, tc := range badReplies() {
		t.Run(tc.name, func(t *testing.T) {
			spans, opts := traced()
			f := newFixtureWith(t, opts, tc.serve,
				func(c *Config) { c.MaxResponseBytes, c.MaxRecords = 50_000, 30 })
			e := failed(t, f, t.Context(), tc.kind, tc.reason)
			if f.calls.Load() != 1 || f.metric(t, "requests_total", "buyer", tc.kind) != 1 || !strings.Contains(e.Error(), tc.says) {
				t.Errorf("%v after %d requests", e, f.calls.Load())
			}
			told := e.Error() + strings.ReplaceAll(f.log.String(), `"account":"acme"`, "") // whose list it was
			for _, s := range spans.Ended() {
				told += spanText(s)
				if s.Name() == "upstream.fetch" && (s.Status().Code != codes.Error || s.Status().Description != tc.reason) {
					t.Errorf("status %+v", s.Status())
				}
			}
			for _, secret := range []string{"acme", "s3cr3t", "login", "elsewhere", "127.0.0.1/"} {
				if strings.Contains(told, secret) {
					t.Errorf("%q shows in %s", secret, told)
				}
			}
		})
	}
}

// serveGzip sends the body compressed, without its last cut bytes.
func serveGzip(body string, cut int) http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.legacy+json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b.Bytes()[:b.Len()-cut])
	}
}

func TestFetchGzip(t *testing.T) {
	f := newFixture(t, serveGzip(testkit.SampleTickets(25), 0))
	for range 3 {
		if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 25 {
			t.Fatalf("%d %v", len(list.Inquiries), err)
		}
	}
}

func TestFetchRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	f := newFixture(t, serveJSON(""), func(c *Config) { c.BaseURL = "http://" + address })
	failed(t, f, t.Context(), "upstream", "connect")
	if f.metric(t, "retries_total", "buyer", "connect") != 1 {
		t.Error("a refused connection was not tried again")
	}
}

func TestFetchTimeout(t *testing.T) {
	for name, part := range map[string]string{"header": "", "body": `{"result":`} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, hang(part), func(c *Config) { c.Timeout = 300 * time.Millisecond })
			e := failed(t, f, t.Context(), "timeout", "timeout")
			if f.calls.Load() != 1 {
				t.Errorf("%v after %d calls", e, f.calls.Load())
			}
		})
	}
	f := newFixture(t, hang(""))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if e := failed(t, f, ctx, "timeout", "timeout"); !errors.Is(e, context.DeadlineExceeded) {
		t.Errorf("cause %v", e.Err)
	}
}

// upstream.timeout is of one attempt: a list of several requests may take longer, as
// long as its caller waits.
func TestTimeoutIsOfOneAttempt(t *testing.T) {
	const timeout = time.Second
	legacy := pagedLegacy{total: 30, size: 10}
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(timeout * 2 / 5)
		legacy.ServeHTTP(w, r)
	}, func(c *Config) {
		c.Timeout = timeout
		c.Buyer.Paging = mapping.PagingConfig{Style: "next_url", Next: "next"}
	})
	if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 30 {
		t.Errorf("%d records, %v", len(list.Inquiries), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	failed(t, f, ctx, "timeout", "timeout")
}

func TestLogsHaveNoContent(t *testing.T) {
	clock := testkit.NewClock(time.Now())
	quoting := strings.Replace(testkit.SampleTicket, "Where is it?", "6f1c2a34-1111-4222-8333-944455566677", 1)
	stranger := strings.Replace(testkit.SampleTicket, `"id":"acme"`, `"id":"zorg"`, 1)
	f := newFixtureAt(t, clock, serveJSON(`{"result":{"items":[`+quoting+`]}}`))
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	g := newFixtureAt(t, clock, serveJSON(`{"result":{"items":[`+quoting+","+stranger+`]}}`))
	for range 30 {
		failed(t, g, t.Context(), "invalid", "owner")
		clock.Add(4 * time.Second)
	}
	if g.metric(t, "foreign_records_total") != 30 || f.metric(t, "internal_ids_removed_total", "content") != 1 {
		t.Error("not counted")
	}
	// An event of security is told at once, and then once a minute with how many were not.
	event := `"security":{"event":"foreign_record","kind":"buyer","account":"acme","records":1,"not_told_before":`
	if g.logged(event) != 2 || g.logged(event+"0}") != 1 || g.logged(event+"14}") != 1 {
		t.Errorf("logged %q", g.log.String())
	}
	for _, log := range []string{f.log.String(), g.log.String()} {
		if log == "" || strings.Contains(log, "6f1c") || strings.Contains(log, "zorg") || strings.Contains(log, "Late") {
			t.Errorf("logged %q", log)
		}
	}
}

// Of a configuration with one list the other is not asked for, and a reload may add it.
func TestOneListOnly(t *testing.T) {
	f := newFixture(t, serveJSON(`{"items":[]}`), func(c *Config) { c.Seller = DefaultConfig().Seller })
	if _, err := f.Fetch(t.Context(), Request{Kind: "seller", Account: "a"}); err == nil || len(f.Fingerprints()) != 1 {
		t.Errorf("the list that there is not: %v; lists %v", err, f.Fingerprints())
	}
	both := f.cfg
	both.Seller = configFrom(t, testkit.SampleYAML).Seller
	next, err := New(both, Options{Before: f.Client})
	if err != nil || next.BreakerState("seller") != "closed" {
		t.Errorf("with both: %v", err)
	}
	if both.Buyer, both.Seller = DefaultConfig().Buyer, DefaultConfig().Seller; both.Validate() == nil {
		t.Error("a configuration without a list is good")
	}
}

func TestFingerprint(t *testing.T) {
	a := newFixture(t, serveJSON(""), func(c *Config) { c.BaseURL = "http://a" })
	b := newFixture(t, serveJSON(""), func(c *Config) { c.BaseURL = "http://a"; c.Timeout = time.Second })
	c := newFixture(t, serveJSON(""), func(c *Config) { c.BaseURL = "http://a"; c.Buyer.Fields.Title.Path = mapping.Paths{"x"} })
	if a.Fingerprints()["buyer"] == "" || a.Fingerprints()["buyer"] != b.Fingerprints()["buyer"] {
		t.Error("the timeout must not change the fingerprint")
	}
	if a.Fingerprints()["buyer"] == c.Fingerprints()["buyer"] || a.Fingerprints()["seller"] != c.Fingerprints()["seller"] || a.Fingerprints()["buyer"] == a.Fingerprints()["seller"] {
		t.Error("a field must change its kind's fingerprint, and only that")
	}
	if a.Fingerprints()["x"] != "" || a.BreakerState("x") != "" {
		t.Error("unknown kinds have neither")
	}
}

// ownTickets is a reply in which every text names its account.
func ownTickets(account string, n int) string {
	one := strings.NewReplacer(`"acme"`, `"`+account+`"`, "Late", "Late\\n"+account, "Where is it?", "by "+account+" 6f1c2a34-1111-4222-8333-944455566677", "On its way", "to "+account).Replace(testkit.SampleTicket)
	return `{"result":{"items":[` + strings.Join(slices.Repeat([]string{one}, n), ",") + `]}}`
}

// checkOwn tells what in a list is not the account's.
func checkOwn(list []Inquiry, account string, n int) error {
	if list == nil || len(list) != n {
		return fmt.Errorf("%d records for %s, want %d", len(list), account, n)
	}
	for i, inq := range list {
		if inq.Title != "Late\n"+account || inq.Content != "by "+account+" [removed]" || len(inq.Responses) != 1 || inq.Responses[0].Content != "to "+account {
			return fmt.Errorf("record %d for %s: %+v", i, account, inq)
		}
	}
	return nil
}

// Lists that are fetched at the same time have nothing of each other's.
func TestListsOfManyAccountsAreTheirOwn(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		account := r.URL.Query().Get("customer")
		serveJSON(ownTickets(account, len(account)))(w, r)
	})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 40 {
				account := strings.Repeat(string(rune('k'+g)), (i*7+g)%50+1)
				list, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: account})
				if err == nil {
					err = checkOwn(list.Inquiries, account, len(account))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// A path that vanishes is hidden by the field's default: the counter tells it.
func TestDefaultsAreCounted(t *testing.T) {
	record := testkit.SampleTicket
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		serveJSON(`{"result":{"items":[`+record+","+record+`]}}`)(w, r)
	})
	fetch := func() float64 {
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			t.Fatal(err)
		}
		return f.metric(t, "defaulted_total", "buyer", "inquiry_type")
	}
	if n := fetch(); n != 0 {
		t.Errorf("%v defaults in whole records", n)
	}
	record = strings.Replace(testkit.SampleTicket, `"category":"`, `"kategory":"`, 1)
	if n := fetch(); n != 2 {
		t.Errorf("%v defaults counted, want 2", n)
	}
}

// However the bytes arrive and whatever was announced, all of them are read, or
// the reply is refused.
func TestReadAll(t *testing.T) {
	const max = 300_000
	broken := errors.New("broken")
	for _, n := range []int{0, 1, 4095, 4096, 4097, 65535, 65536, 131073, max, max + 1, 2 * max} {
		want := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"as it is":          func(r io.Reader) io.Reader { return r },
			"in halves":         iotest.HalfReader,
			"end with the data": iotest.DataErrReader,
			"broken":            func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(broken)) },
		} {
			for _, size := range []int64{int64(n), -1, 0, 10, int64(n) + 5000} {
				got, err := readAll(wrap(strings.NewReader(want)), size, newAllowance(max))
				var e *Error
				switch {
				case n > max || size > max:
					if !errors.As(err, &e) || e.Reason != "too_large" {
						t.Errorf("%d %s, announced %d: %v", n, name, size, err)
					}
				case name == "broken":
					if !errors.Is(err, broken) {
						t.Errorf("%d %s, announced %d: %v", n, name, size, err)
					}
				case err != nil || got != want:
					t.Errorf("%d %s, announced %d: %d bytes, %v", n, name, size, len(got), err)
				}
			}
		}
	}
}
