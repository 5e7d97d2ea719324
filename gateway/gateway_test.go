package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/testkit/contract"
	"inquiry-gateway/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The doubles below replace what is hard to have fail at a chosen moment. The whole
// program is tested with the real parts in cmd.
type authFunc func() (auth.Principal, error)

func (f authFunc) AuthenticateFrom(context.Context, []string, auth.Caller) (*auth.Grant, error) {
	p, err := f()
	return &auth.Grant{Principal: p}, err
}

func (authFunc) Recall([]string) (*auth.Grant, bool) { return nil, false }
func (authFunc) Accept(context.Context, *auth.Grant) { panic("nothing was recalled") }

type listsFunc func(ctx context.Context, k cache.Key) (cache.Result, error)

func (listsFunc) Lookup(cache.Key) (cache.Result, bool)           { return cache.Result{}, false }
func (listsFunc) Served(cache.Key, cache.Result)                  {}
func (listsFunc) Coded(*cache.Entry, cache.Coding) *cache.Variant { return nil }
func (f listsFunc) Get(ctx context.Context, k cache.Key) (cache.Result, error) {
	return f(ctx, k)
}

func buyer() (auth.Principal, error) {
	return auth.Principal{Kind: "buyer", Account: "acme", KeyID: "k1", Scopes: auth.ScopeInquiriesRead, PaidAccess: true}, nil
}

func entryOf(account string) cache.Result {
	return cache.Result{Outcome: cache.Hit, TTL: time.Second, Entry: &cache.Entry{
		Key: cache.Key{Kind: "buyer", Account: account}, ETag: []string{`W/"x"`},
		Identity: cache.Variant{Body: []byte(`{"data":[],"meta":{},"errors":[]}`), Length: []string{"33"}},
	}}
}

type bench struct {
	gateway  *Gateway
	logs     *bytes.Buffer
	registry *prometheus.Registry
}

func newBench(opts Options) bench {
	b := bench{logs: &bytes.Buffer{}, registry: prometheus.NewRegistry()}
	opts.Logger, opts.RequestLog, opts.Registerer = slog.New(slog.NewJSONHandler(b.logs, nil)), b.logs, b.registry
	if opts.Auth == nil {
		opts.Auth = authFunc(buyer)
	}
	b.gateway = New(opts)
	return b
}

func (b bench) get(headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/buyer/inquiries", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.gateway.ServeHTTP(w, r)
	return w
}

// Every error that the parts may return, as the caller gets it.
func TestErrorTable(t *testing.T) {
	checker, err := contract.New(v1.OpenAPIYAML())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		err        error
		status     int
		code       string
		retryAfter string
	}{
		{auth.ErrUnavailable, 503, "auth_unavailable", "2"},
		{fmt.Errorf("redis: %w", auth.ErrUnavailable), 503, "auth_unavailable", "2"},
		{fmt.Errorf("%w: %w", auth.ErrUnavailable, context.DeadlineExceeded), 503, "auth_unavailable", "2"},
		{&auth.TooManyAttempts{RetryAfter: 3 * time.Second}, 429, "rate_limited", "3"},
		{auth.ErrMissingKey, 401, "missing_api_key", ""},
		{auth.ErrMultipleCredentials, 400, "invalid_request", ""},
		{auth.ErrInvalidKey, 401, "invalid_api_key", ""},
		{auth.ErrWrongKind, 403, "wrong_key_kind", ""},
		{auth.ErrInsufficientScope, 403, "insufficient_scope", ""},
		{auth.ErrAccessRequired, 403, "api_access_required", ""},
		{&upstream.Error{Kind: upstream.KindTimeout}, 504, "upstream_timeout", "5"},
		{&upstream.Error{Kind: upstream.KindFailed}, 502, "upstream_error", "5"},
		{&upstream.Error{Kind: upstream.KindInvalid}, 502, "upstream_invalid_response", "5"},
		{&upstream.Error{Kind: upstream.KindNotAsked, Wait: 1200 * time.Millisecond}, 503, "upstream_unavailable", "2"},
		{&upstream.Error{Kind: upstream.KindThrottled}, 503, "upstream_unavailable", "1"},
		{fmt.Errorf("fill: %w", &upstream.Error{Kind: upstream.KindTimeout}), 504, "upstream_timeout", "5"},
		{context.DeadlineExceeded, 504, "upstream_timeout", "5"},
		{cache.ErrFillPanicked, 500, "internal_error", ""},
		{errors.New("secret cause"), 500, "internal_error", ""},
	} {
		t.Run(tc.err.Error(), func(t *testing.T) {
			b := newBench(Options{Lists: listsFunc(func(context.Context, cache.Key) (cache.Result, error) { return cache.Result{}, tc.err })})
			w := b.get()
			if w.Code != tc.status || !strings.Contains(w.Body.String(), `"code":"`+tc.code+`"`) || w.Header().Get("Retry-After") != tc.retryAfter {
				t.Fatalf("got %d %v %s", w.Code, w.Header(), w.Body)
			}
			if strings.Contains(w.Body.String(), "secret") {
				t.Error("the cause is shown to the caller")
			}
			if !strings.Contains(b.logs.String(), tc.code) || !strings.Contains(b.logs.String(), `"cause":`) {
				t.Errorf("the log does not tell why: %s", b.logs)
			}
			if err := checker.Check(httptest.NewRequest(http.MethodGet, "/api/v1/buyer/inquiries", nil), w.Result()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPanicIsAWholeAnswer(t *testing.T) {
	b := newBench(Options{Lists: listsFunc(func(context.Context, cache.Key) (cache.Result, error) { panic("boom") })})
	w := b.get()
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "internal_error") || strings.Contains(w.Body.String(), "boom") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if !strings.Contains(b.logs.String(), "boom") || !strings.Contains(b.logs.String(), "gateway_test.go") {
		t.Errorf("the log does not tell where: %s", b.logs)
	}
	if n := testutil.ToFloat64(b.gateway.metrics.panics); n != 1 {
		t.Errorf("counted %v panics", n)
	}
}

// A handler that somebody adds sees each request for a list, whether it is cached or not,
// and may answer it.
func TestMiddlewareSeesEveryRequest(t *testing.T) {
	seen := map[string]int{}
	s := newStand(t, listenHere(t), func(o *Options) {
		o.Middleware = []gin.HandlerFunc{func(c *gin.Context) {
			seen[c.Request.URL.Path]++
			c.Header("X-Added", "by the middleware")
			if c.Query("teapot") != "" {
				c.AbortWithStatusJSON(http.StatusTeapot, gin.H{"mine": true})
			}
		}}
	}).serve(t)
	c := dialStand(t, s, false)
	for key, target := range map[string]string{"acme": "/api/v1/buyer/inquiries", "vendor": "/api/v1/seller/inquiries", "tight": "/nowhere"} {
		for i := range 3 {
			c.send(hitOf(key, target))
			if _, header, _ := c.receive(); header.Get("X-Added") == "" || seen[target] != i+1 || header.Get("X-Request-Id") == "" {
				t.Errorf("%s, request %d: seen %v, %v", target, i, seen, header)
			}
			<-s.idle
		}
	}
	s.logs.take()
	c.send(hitOf("acme", "/api/v1/buyer/inquiries?teapot=1"))
	if status, header, body := c.receive(); status != http.StatusTeapot || body != `{"mine":true}` || header.Get("X-Request-Id") == "" {
		t.Errorf("%d %v %s", status, header, body)
	}
	<-s.idle
	if text := s.logs.take(); !bytes.Contains(text, []byte(`"status":418`)) {
		t.Errorf("logged %s", text)
	}
}

// The path of a kind that is not served is as unknown as any other.
func TestOneKindOnly(t *testing.T) {
	for i, served := range v1.Kinds() {
		b := newBench(Options{Lists: warm{entryOf("acme")}, Docs: true, Kinds: map[string]v1.Words{served.Name: {}}})
		other := v1.Kinds()[1-i]
		for _, method := range []string{"GET", "POST"} {
			if w := b.ask(method, other.Path, "192.0.2.1:1"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "the list is "+served.Path+".") {
				t.Errorf("%s %s: %d %s", method, other.Path, w.Code, w.Body)
			}
		}
		if w := b.ask("GET", served.Path, "192.0.2.1:1"); w.Code == http.StatusNotFound {
			t.Errorf("%s is not served", served.Path)
		}
		if w := b.ask("GET", "/openapi.json", "192.0.2.1:1"); strings.Contains(w.Body.String(), `"`+other.Path+`":`) || !strings.Contains(w.Body.String(), `"`+served.Path+`":`) {
			t.Error("the document has other paths than are served")
		}
	}
}

func TestAbortReachesTheServer(t *testing.T) {
	b := newBench(Options{Lists: listsFunc(func(context.Context, cache.Key) (cache.Result, error) { panic(http.ErrAbortHandler) })})
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("net/http was not told to drop the connection")
		}
	}()
	b.get()
}

// The last line before a caller: a list that is not theirs is a bug, not an answer.
func TestListOfAnotherAccountIsNeverSent(t *testing.T) {
	b := newBench(Options{Lists: listsFunc(func(context.Context, cache.Key) (cache.Result, error) { return entryOf("globex"), nil })})
	if w := b.get(); w.Code != http.StatusInternalServerError {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// The key of a look-up comes from the Principal and the filter alone.
func TestKeyOfALookUp(t *testing.T) {
	var asked cache.Key
	var deadline time.Time
	b := newBench(Options{RequestTimeout: time.Minute, Lists: listsFunc(func(ctx context.Context, k cache.Key) (cache.Result, error) {
		asked = k
		deadline, _ = ctx.Deadline()
		if requestIDOf(ctx) == "" {
			t.Error("the fill would not know its request")
		}
		return entryOf("acme"), nil
	})})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/buyer/inquiries?status=pending&inquiry_type=refund", nil)
	b.gateway.ServeHTTP(httptest.NewRecorder(), r)
	if asked != (cache.Key{Kind: "buyer", Account: "acme", Status: "pending", InquiryType: "refund"}) {
		t.Errorf("asked for %+v", asked)
	}
	if left := time.Until(deadline); left <= 0 || left > time.Minute {
		t.Errorf("the look-up may take %v", left)
	}
}

// A caller that left is neither an error of the gateway's nor of the legacy's.
func TestCallerThatLeft(t *testing.T) {
	b := newBench(Options{Lists: listsFunc(func(ctx context.Context, _ cache.Key) (cache.Result, error) {
		<-ctx.Done()
		return cache.Result{}, ctx.Err()
	})})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/buyer/inquiries", nil).WithContext(ctx)
	r.ProtoMajor = 2 // over HTTP/1 it is noticed when the answer is written
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if cause := recover(); cause != http.ErrAbortHandler {
				t.Errorf("the connection stays: %v", cause)
			}
		}()
		b.gateway.ServeHTTP(w, r)
	}()
	if w.Body.Len() != 0 {
		t.Errorf("sent %q", w.Body)
	}
	if !strings.Contains(b.logs.String(), `"status":499`) || strings.Contains(b.logs.String(), "ERROR") {
		t.Errorf("log: %s", b.logs)
	}
	if n := testutil.ToFloat64(b.gateway.metrics.requests.WithLabelValues("buyer_inquiries", "499")); n != 1 {
		t.Errorf("counted %v", n)
	}
}

// "PRI * HTTP/2.0" is a request of HTTP/1, whose caller may have closed its half of the connection.
func TestHalfClosedPRI(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequest("PRI", "/", nil).WithContext(ctx)
	r.ProtoMajor, r.ProtoMinor = 2, 0
	w := httptest.NewRecorder()
	if newBench(Options{}).gateway.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusNotFound {
		t.Errorf("answered %d", w.Code)
	}
}

func TestRequestIDAndClientAddress(t *testing.T) {
	lists := listsFunc(func(context.Context, cache.Key) (cache.Result, error) { return entryOf("acme"), nil })
	trusted := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.0.0.0/8")} // httptest's peer is 192.0.2.1
	for _, tc := range []struct {
		name    string
		proxies []netip.Prefix
		headers []string
		id      string // empty: a new one
		address string
	}{
		{"stranger", nil, []string{"X-Request-Id", "mine", "X-Forwarded-For", "203.0.113.9"}, "", "192.0.2.1"},
		{"proxy", trusted, []string{"X-Request-Id", "theirs-1", "X-Forwarded-For", "203.0.113.9"}, "theirs-1", "203.0.113.9"},
		{"proxy with a bad id", trusted, []string{"X-Request-Id", "a b\"", "X-Forwarded-For", "203.0.113.9"}, "", "203.0.113.9"},
		{"spoofed hop", trusted, []string{"X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.1.1.1"}, "", "203.0.113.9"},
		{"two headers", trusted, []string{"X-Forwarded-For", "1.1.1.1", "X-Forwarded-For", "203.0.113.9"}, "", "203.0.113.9"},
		{"garbage", trusted, []string{"X-Forwarded-For", "x, 10.1.1.1"}, "", "10.1.1.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(Options{Lists: lists, TrustedProxies: tc.proxies})
			w := b.get(tc.headers...)
			id := w.Header().Get("X-Request-Id")
			if tc.id != "" && id != tc.id || tc.id == "" && (len(id) != 32 || strings.Contains(strings.Join(tc.headers, " "), id)) {
				t.Errorf("id %q", id)
			}
			if !strings.Contains(b.logs.String(), `"client_address":"`+tc.address+`"`) || !strings.Contains(b.logs.String(), id) {
				t.Errorf("log: %s", b.logs)
			}
		})
	}
}

func TestCacheStatus(t *testing.T) {
	h := newHeaders()
	for want, r := range map[string]cache.Result{
		"inquiry-gateway; hit; ttl=12":                          {Outcome: cache.Hit, TTL: 12*time.Second + 999*time.Millisecond},
		"inquiry-gateway; hit; ttl=0":                           {Outcome: cache.Hit, TTL: time.Millisecond},
		"inquiry-gateway; hit; ttl=86400":                       {Outcome: cache.Hit, TTL: 24 * time.Hour},
		"inquiry-gateway; hit; ttl=-1; detail=stale-revalidate": {Outcome: cache.StaleRevalidate, TTL: -time.Millisecond},
		"inquiry-gateway; hit; ttl=-2; detail=stale-error":      {Outcome: cache.StaleError, TTL: -1001 * time.Millisecond},
		"inquiry-gateway; hit; ttl=-3600; detail=stale-error":   {Outcome: cache.StaleError, TTL: -time.Hour},
		"inquiry-gateway; fwd=miss; stored":                     {Outcome: cache.Miss, Stored: true},
		"inquiry-gateway; fwd=miss":                             {Outcome: cache.Miss},
		"inquiry-gateway; fwd=miss; collapsed":                  {Outcome: cache.Collapsed},
		"inquiry-gateway; fwd=stale; stored":                    {Outcome: cache.Miss, Stored: true, Expired: true},
		"inquiry-gateway; fwd=stale":                            {Outcome: cache.Miss, Expired: true},
		"inquiry-gateway; fwd=stale; collapsed":                 {Outcome: cache.Collapsed, Expired: true},
	} {
		if got := h.cacheStatus(&r)[0]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := h.ageOf(90 * time.Minute)[0]; got != "5400" {
		t.Errorf("age %s", got)
	}
}

func TestFillProjectsWhatTheLegacyAnswered(t *testing.T) {
	answered := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var asked upstream.Request
	fill := NewFill(func(_ context.Context, r upstream.Request) (upstream.List, error) {
		asked = r
		return upstream.List{AnsweredAt: answered, Unasked: true, Inquiries: []upstream.Inquiry{{Title: "t", CompanyName: "c", CreatedAt: answered}}}, nil
	}, nil)
	content, err := fill(withRequestID(context.Background(), "id-1"), cache.Key{Kind: "seller", Account: "a", Status: "s", InquiryType: "i"})
	if err != nil {
		t.Fatal(err)
	}
	if asked != (upstream.Request{Kind: "seller", Account: "a", Status: "s", InquiryType: "i", RequestID: "id-1"}) {
		t.Errorf("asked for %+v", asked)
	}
	want := `{"data":[{"title":"t","status":"","inquiry_type":null,"company_name":"c","created_at":"2026-01-02T03:04:05.000Z"}],"meta":{},"errors":[]}`
	if string(content.Body) != want || !content.AnsweredAt.Equal(answered) || !content.NoStore {
		t.Errorf("got %s, %+v", content.Body, content)
	}
	if _, err := fill(context.Background(), cache.Key{Kind: "admin"}); err == nil {
		t.Error("a kind without a projection was rendered")
	}
}
