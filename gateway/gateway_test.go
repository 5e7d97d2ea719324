package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/testkit/contract"
	"inquiry-gateway/upstream"
)

// Every error that the parts may return, and a panic, as the caller gets it.
func TestErrorTable(t *testing.T) {
	checker, err := contract.New(v1.OpenAPIYAML())
	if err != nil {
		t.Fatal(err)
	}
	var failure error
	errPanic := errors.New("secret panic")
	s := newTestGateway(t, setting{options: func(o *Options) {
		o.Lists = scripted{Lists: o.Lists, get: func(context.Context, cache.Key) (cache.Result, error) {
			if failure == errPanic {
				panic(failure)
			}
			return cache.Result{}, failure
		}}
	}})
	for _, tc := range []struct {
		err        error
		status     int
		code       string
		retryAfter string
	}{
		{auth.ErrUnavailable, 503, "auth_unavailable", "2"},
		{fmt.Errorf("redis: %w", auth.ErrUnavailable), 503, "auth_unavailable", "2"},
		{fmt.Errorf("%w: %w", auth.ErrUnavailable, context.DeadlineExceeded), 503, "auth_unavailable", "2"},
		{&auth.TooManyInvalidKeys{RetryAfter: 3 * time.Second}, 429, "rate_limited", "3"},
		{auth.ErrMissingKey, 401, "missing_api_key", ""},
		{auth.ErrMultipleCredentials, 400, "invalid_request", ""},
		{auth.ErrInvalidKey, 401, "invalid_api_key", ""},
		{auth.ErrWrongKind, 403, "wrong_key_kind", ""},
		{auth.ErrInsufficientScope, 403, "insufficient_scope", ""},
		{auth.ErrAccessRequired, 403, "api_access_required", ""},
		{&upstream.Error{Reason: "timeout"}, 504, "upstream_timeout", "5"},
		{&upstream.Error{Reason: "status_5xx"}, 502, "upstream_error", "5"},
		{&upstream.Error{Reason: "overloaded", Wait: 7 * time.Second}, 503, "upstream_unavailable", "7"},
		{&upstream.Error{Reason: "json"}, 502, "upstream_invalid_response", "5"},
		{&upstream.Error{Reason: "denied"}, 502, "upstream_sign_in_failed", "60"},
		{&upstream.Error{Reason: "auth"}, 502, "upstream_sign_in_failed", "60"},
		{&upstream.Error{Reason: "record"}, 502, "upstream_invalid_response", "5"},
		{&upstream.Error{Reason: "status_4xx"}, 502, "upstream_invalid_response", "5"},
		{&upstream.Error{Reason: "changed"}, 502, "upstream_invalid_response", "5"},
		{&upstream.Error{Reason: "account"}, 501, "account_unsupported", ""},
		{&upstream.Error{Reason: "breaker_open", Wait: 1200 * time.Millisecond}, 503, "upstream_unavailable", "2"},
		{&upstream.Error{Reason: "throttled"}, 503, "upstream_unavailable", "1"},
		{&cache.BackoffError{Err: &upstream.Error{Reason: "throttled", Wait: 30 * time.Second}, Left: 11500 * time.Millisecond}, 503, "upstream_unavailable", "12"},
		{&cache.BackoffError{Err: &upstream.Error{Reason: "denied"}, Left: time.Second}, 502, "upstream_sign_in_failed", "60"},
		{&upstream.Error{Reason: "canceled"}, 500, "internal_error", ""},
		{fmt.Errorf("fill: %w", &upstream.Error{Reason: "timeout"}), 504, "upstream_timeout", "5"},
		{context.DeadlineExceeded, 504, "upstream_timeout", "5"},
		{cache.ErrFillPanicked, 500, "internal_error", ""},
		{errors.New("secret cause"), 500, "internal_error", ""},
		{errPanic, 500, "internal_error", ""},
	} {
		failure = tc.err
		w := s.ask("GET", buyersList)
		body := w.Body.String()
		if w.Code != tc.status || !strings.Contains(body, `"code":"`+tc.code+`"`) || w.Header().Get("Retry-After") != tc.retryAfter {
			t.Errorf("%v: %d %v %s", tc.err, w.Code, w.Header(), body)
		}
		if strings.Contains(body, "secret") {
			t.Errorf("the cause is shown to the caller: %s", body)
		}
		r := httptest.NewRequest(http.MethodGet, buyersList, nil)
		if err := checker.Check(r, w.Result()); err != nil {
			t.Errorf("%v: %v", tc.err, err)
		}
		if tc.err == errPanic && !strings.Contains(s.logs.String(), "gateway_test.go") {
			t.Errorf("the log does not tell where it panicked: %s", s.logs)
		}
		if all := s.lines(t); len(all) != 1 || all[0].Code != tc.code || !strings.HasSuffix(all[0].Cause, tc.err.Error()) {
			t.Errorf("%v: recorded %+v", tc.err, all)
		}
	}
	if n := s.counted(t, "panics_total", "handler"); n != 1 {
		t.Errorf("counted %v panics", n)
	}
}

// The last line before a caller: a list that is not theirs is a bug, and no answer, of the
// front and of the engine.
func TestListOfAnotherAccountIsNeverSent(t *testing.T) {
	var foreign cache.Result
	s := newTestGateway(t, setting{options: func(o *Options) { o.Lists = scripted{Lists: o.Lists, found: &foreign} }})
	var err error
	if foreign, err = s.lists.Get(t.Context(), cache.Key{Kind: "buyer", Account: "globex"}); err != nil {
		t.Fatal(err)
	}
	foreign.Outcome = cache.Hit
	status, _, body := s.call(t).get("acme", buyersList)
	w := s.ask("GET", buyersList)
	if status != 500 || w.Code != 500 || strings.Contains(body+w.Body.String(), "globex") {
		t.Errorf("answered %d %s, and %d %s", status, body, w.Code, w.Body)
	}
}

// What a look-up is asked for comes from the key and the filter alone, and it ends with the
// request.
func TestLookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked cache.Key
		s := newTestGateway(t, setting{options: func(o *Options) {
			o.RequestTimeout = time.Minute
			o.Lists = scripted{Lists: o.Lists, get: func(ctx context.Context, k cache.Key) (cache.Result, error) {
				asked = k
				<-ctx.Done()
				return cache.Result{}, ctx.Err()
			}}
		}})
		begin := time.Now()
		w := s.ask("GET", buyersList+"?status=pending&inquiry_type=refund")
		if took := time.Since(begin); w.Code != http.StatusGatewayTimeout || took != time.Minute {
			t.Errorf("%d after %v", w.Code, took)
		}
		if asked != (cache.Key{Kind: "buyer", Account: "acme", Status: "pending", InquiryType: "refund"}) {
			t.Errorf("asked for %+v", asked)
		}
	})
}

// A caller that left, which HTTP/2 tells, is neither an error of the gateway's nor of the
// legacy's. Its connection is dropped.
func TestCallerThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestGateway(t, setting{options: func(o *Options) {
			o.LogRefusals = 3
			o.Lists = scripted{Lists: o.Lists, get: func(ctx context.Context, _ cache.Key) (cache.Result, error) {
				<-ctx.Done()
				return cache.Result{}, ctx.Err()
			}}
		}})
		ask := func(path string) (dropped bool) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r := httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx)
			r.ProtoMajor = 2
			r.Header.Set("Authorization", "Bearer key-of-acme")
			w := httptest.NewRecorder()
			defer func() { dropped = recover() == http.ErrAbortHandler && w.Body.Len() == 0 }()
			s.gateway.ServeHTTP(w, r)
			return false
		}
		if !ask(buyersList) {
			t.Error("the connection stays")
		}
		counted := s.counted(t, "http_requests_total", "499buyer_inquiries")
		if all := s.lines(t); len(all) != 1 || all[0].Status != 499 || all[0].Level != "INFO" || counted != 1 {
			t.Errorf("recorded %+v, counted %v", all, counted)
		}
		for range 20 { // without a key, so that anybody chooses how many there are
			ask("/nowhere")
		}
		if all := s.lines(t); len(all) != 3 {
			t.Errorf("%d records of clients without a key", len(all))
		}
	})
}

// The id and the address of a request are those that trusted proxies tell, as far as they are
// such; what a untrusted wrote before them is not read.
func TestRequestIDAndClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.0.0.0/8")}
	s := newTestGateway(t, setting{options: func(o *Options) { o.TrustedProxies = proxies }})
	const untrusted, proxy = "From: 198.51.100.1:1", "From: 192.0.2.1:1"
	for _, tc := range []struct {
		from, forwarded string
		address         string
	}{
		{untrusted, "203.0.113.9", "198.51.100.1"},
		{proxy, "203.0.113.9", "203.0.113.9"},
		{proxy, "1.1.1.1, 203.0.113.9, 10.1.1.1", "203.0.113.9"},
		{proxy, "1.1.1.1,203.0.113.9:4711", "203.0.113.9"},
		{proxy, "x, 10.1.1.1", "10.1.1.1"},
		{proxy, "203.0.113.9:x", "192.0.2.1"},
		{proxy, `fe80::1%a"b`, "fe80::1"},
		{proxy, "[2001:db8::7]:4711", "2001:db8::7"},
		{proxy, "[2001:db8::7]", "2001:db8::7"},
		{proxy, `[fe80::1%a"b]:1`, "fe80::1"},
		{proxy, "::ffff:203.0.113.9", "203.0.113.9"},
	} {
		s.ask("GET", buyersList, tc.from, "X-Forwarded-For: "+tc.forwarded)
		if all := s.lines(t); len(all) != 1 || all[0].Client != tc.address {
			t.Errorf("%s, %s: %+v, want %s", tc.from, tc.forwarded, all, tc.address)
		}
	}
	s.ask("GET", buyersList, proxy, "X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9")
	if all := s.lines(t); all[0].Client != "203.0.113.9" {
		t.Errorf("of two fields: %+v", all)
	}
	for _, tc := range []struct{ from, id, want string }{
		{untrusted, "mine-1", ""},
		{proxy, "theirs-1", "theirs-1"},
		{proxy, `a b"`, ""},
		{proxy, strings.Repeat("a", 65), ""},
	} {
		got := s.ask("GET", buyersList, tc.from, "X-Request-Id: "+tc.id).Header().Get("X-Request-Id")
		if all := s.lines(t); got != tc.want && (tc.want != "" || len(got) != 32) || all[0].RequestID != got {
			t.Errorf("%s, %q: the id is %q, recorded %+v", tc.from, tc.id, got, all)
		}
	}
}

func TestCacheStatus(t *testing.T) {
	for want, r := range map[string]cache.Result{
		"hit; ttl=12":                          {Outcome: cache.Hit, TTL: 12*time.Second + 999*time.Millisecond},
		"hit; ttl=0":                           {Outcome: cache.Hit, TTL: time.Millisecond},
		"hit; ttl=86400":                       {Outcome: cache.Hit, TTL: 24 * time.Hour},
		"hit; ttl=-1; detail=stale-revalidate": {Outcome: cache.StaleRevalidate, TTL: -time.Millisecond},
		"hit; ttl=-2; detail=stale-error":      {Outcome: cache.StaleError, TTL: -1001 * time.Millisecond},
		"hit; ttl=-3600; detail=stale-error":   {Outcome: cache.StaleError, TTL: -time.Hour},
		"fwd=miss; stored":                     {Outcome: cache.Miss, Stored: true},
		"fwd=miss":                             {Outcome: cache.Miss},
		"fwd=miss; collapsed":                  {Outcome: cache.Collapsed},
		"fwd=stale; stored":                    {Outcome: cache.Miss, Stored: true, TooOld: true},
		"fwd=stale":                            {Outcome: cache.Miss, TooOld: true},
		"fwd=stale; collapsed":                 {Outcome: cache.Collapsed, TooOld: true},
		"detail=impossible":                    {Outcome: cache.Impossible},
	} {
		if got := cacheStatus(&r); got != "inquiry-gateway; "+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := inSeconds(90 * time.Minute); got != "5400" {
		t.Errorf("age %s", got)
	}
}

// codedLists have some codings of a list only.
type codedLists struct {
	Lists
	has []cache.Coding
}

func (l codedLists) Encoded(_ *cache.Entry, c cache.Coding) *cache.Representation {
	if !slices.Contains(l.has, c) {
		return nil
	}
	return &cache.Representation{Body: []byte("coded"), Length: []string{"5"}}
}

// Where a list lacks the coding that a caller prefers, it gets the next one that it takes.
// What callers prefer is in internal/conformance.
func TestCodingsThatAListLacks(t *testing.T) {
	lists := &codedLists{}
	s := newTestGateway(t, setting{options: func(o *Options) { lists.Lists, o.Lists = o.Lists, lists }})
	for _, tc := range []struct {
		accept string
		has    []cache.Coding
		want   string
	}{
		{"gzip;q=0.8, zstd;q=0.9", []cache.Coding{cache.Gzip, cache.Zstd}, "zstd"},
		{"gzip;q=0.8, zstd;q=0.9", []cache.Coding{cache.Gzip}, "gzip"},
		{"identity;q=0.5, zstd;q=0.6, gzip;q=0.4", []cache.Coding{cache.Gzip}, "gzip"},
		{"gzip, *", []cache.Coding{cache.Zstd}, ""},
		{"zstd", []cache.Coding{cache.Gzip}, ""},
		{"gzip, zstd", nil, ""},
	} {
		lists.has = tc.has
		w := s.ask("GET", buyersList, "Accept-Encoding: "+tc.accept)
		if coded := w.Body.String() == "coded"; w.Header().Get("Content-Encoding") != tc.want || coded != (tc.want != "") {
			t.Errorf("%s of %v: %v", tc.accept, tc.has, w.Header())
		}
	}
}
