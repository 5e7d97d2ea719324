package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/testkit/contract"
	"inquiry-gateway/upstream/legacy"
)

// refusal is one row of the public error table, shown live.
type refusal struct {
	name     string
	method   string // empty: GET
	target   string // empty: the buyers' list
	key      string // by key id; empty: no Authorization header
	headers  []string
	fault    legacy.Fault
	yaml     string   // as in setup, with a program of its own; so is the next
	upstream []string // as in setup
	prepare  func(*program)
	status   int
	code     string
	want     map[string]string // headers and their values
	source   string            // the parameter or header at fault
}

// shortTimeouts make a quick test of what hangs; whoever asks for them needs no answer in time.
var shortTimeouts = []string{"timeout: 2s", "timeout: 300ms"}

func refusals() []refusal {
	authorization := func(value string) []string { return []string{"Authorization", value} }
	challenge := func(more string) map[string]string {
		return map[string]string{"Www-Authenticate": `Bearer realm="inquiries"` + more}
	}
	allow := map[string]string{"Allow": "GET, HEAD"}
	bad, none := challenge(`, error="invalid_token"`), challenge("")
	limited := map[string]string{"Retry-After": "10", "Ratelimit-Policy": `"default";q=1;w=10`, "Ratelimit": `"default";r=0;t=10`}
	parameter := func(name, query, source string) refusal {
		return refusal{name: name, key: "buyer", target: buyerList + query, status: 400, code: "invalid_parameter", source: source}
	}
	ofLegacy := func(name string, status int, code string, f legacy.Fault) refusal {
		return refusal{name: name, key: "buyer", fault: f, status: status, code: code}
	}
	const failed, invalid = "upstream_error", "upstream_invalid_response"
	return []refusal{
		{name: "no key", status: 401, code: "missing_api_key", want: none},
		{name: "another scheme", headers: authorization("Basic YTpi"), status: 401, code: "missing_api_key", want: none},
		{name: "empty key", headers: authorization("Bearer "), status: 401, code: "missing_api_key", want: none},
		{name: "key in the URL", target: buyerList + "?api_key=x", status: 401, code: "missing_api_key"},
		{name: "two keys", key: "buyer", headers: authorization("Bearer other"), status: 400, code: "invalid_request",
			want: challenge(`, error="invalid_request"`), source: "Authorization"},
		{name: "malformed key", headers: authorization("Bearer a b"), status: 401, code: "invalid_api_key", want: bad},
		{name: "unknown key", headers: authorization("Bearer nobody-knows-me"), status: 401, code: "invalid_api_key", want: bad},
		{name: "expired key", key: "expired", status: 401, code: "invalid_api_key", want: bad},
		{name: "revoked key", key: "revoked", status: 401, code: "invalid_api_key", want: bad},
		{name: "seller's key for buyers", key: "seller", status: 403, code: "wrong_key_kind"},
		{name: "buyer's key for sellers", key: "buyer", target: sellerList, status: 403, code: "wrong_key_kind"},
		{name: "no scope", key: "no-scope", status: 403, code: "insufficient_scope",
			want: challenge(`, error="insufficient_scope", scope="inquiries:read"`)},
		{name: "not paid", key: "unpaid", status: 403, code: "api_access_required"},
		parameter("unknown parameter", "?page=2", "page"),
		parameter("repeated parameter", "?status=a&status=a", "status"),
		parameter("bad escape", "?status=%zz", "status"),
		parameter("bad value", "?inquiry_type=a/b", "inquiry_type"),
		{name: "unknown path", key: "buyer", target: "/api/v1/buyer/inquiries/", status: 404, code: "not_found"},
		{name: "root", target: "/", status: 404, code: "not_found"},
		{name: "path of another account", key: "buyer", target: "/api/v1/buyer/globex/inquiries", status: 404, code: "not_found"},
		{name: "POST", method: "POST", key: "buyer", status: 405, code: "method_not_allowed", want: allow},
		{name: "DELETE", method: "DELETE", key: "buyer", target: sellerList, status: 405, code: "method_not_allowed", want: allow},
		{name: "OPTIONS", method: "OPTIONS", status: 405, code: "method_not_allowed", want: allow},
		ofLegacy("legacy 500", 502, failed, legacy.Fault{Name: legacy.FaultStatus}),
		ofLegacy("legacy 404", 502, failed, legacy.Fault{Name: legacy.FaultStatus, Code: 404}),
		ofLegacy("legacy redirects", 502, failed, legacy.Fault{Name: legacy.FaultStatus, Code: 302}),
		ofLegacy("legacy hangs up", 502, failed, legacy.Fault{Name: legacy.FaultRefuse}),
		ofLegacy("legacy cuts off", 502, failed, legacy.Fault{Name: legacy.FaultTruncate}),
		ofLegacy("login page", 502, invalid, legacy.Fault{Name: legacy.FaultHTML}),
		ofLegacy("foreign record", 502, invalid, legacy.Fault{Name: legacy.FaultWrongOwner}),
		{name: "foreign record of a seller", key: "seller", target: sellerList, status: 502, code: invalid,
			fault: legacy.Fault{Name: legacy.FaultWrongOwner}},
		{name: "missing field", key: "buyer", upstream: []string{"title: subject", "title: nosuch"}, status: 502, code: invalid},
		{name: "too many records", key: "buyer", upstream: []string{"max_records: 10000", "max_records: 10"}, status: 502, code: invalid},
		{name: "legacy too slow", key: "buyer", fault: legacy.Fault{Name: legacy.FaultDelay, Delay: 10 * time.Second},
			upstream: shortTimeouts, status: 504, code: "upstream_timeout"},
		{name: "over the rate", key: "buyer", yaml: "rate_limit: {per_second: 0.1, burst: 1}",
			prepare: func(p *program) { p.get(buyerList, "buyer") }, status: 429, code: "rate_limited", want: limited},
		{name: "breaker open", key: "buyer", yaml: "max_connections: 100", fault: legacy.Fault{Name: legacy.FaultStatus},
			prepare: openBreaker, status: 503, code: "upstream_unavailable", want: map[string]string{"Retry-After": "5"}},
	}
}

// openBreaker asks a legacy system that fails until the breaker gives up on it.
func openBreaker(p *program) {
	p.eventually("the breaker opens", func() bool {
		p.get(buyerList, "buyer")
		return p.part("upstream_buyer") == "open"
	})
}

func TestEveryRefusal(t *testing.T) {
	t.Parallel()
	checker := newChecker(t)
	// What goes wrong for one row is forgotten before the next: nothing is cached,
	// and no breaker opens.
	shared := start(t, setup{
		yaml:     "cache: {buyer: {ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 0s}}",
		upstream: []string{"max_records: 10000", "max_records: 10000\n  breaker: {min_requests: 1000}"},
	})
	for _, row := range refusals() {
		t.Run(row.name, func(t *testing.T) {
			p := shared
			if row.yaml != "" || row.upstream != nil {
				p = start(t, setup{yaml: row.yaml, upstream: row.upstream})
			}
			if row.fault.Name != "" {
				p.fault(row.fault)
				defer p.system.ClearFaults("")
			}
			if row.prepare != nil {
				row.prepare(p)
			}
			r := p.request(cmp.Or(row.method, http.MethodGet), cmp.Or(row.target, buyerList), row.key, row.headers...)
			a := p.do(r)
			checkRefusal(t, p, row, a)
			if err := checker.Check(r, a.response()); err != nil {
				t.Errorf("not as documented: %v", err)
			}
		})
	}
	// What needs a part that fails at random moments is shown by the tests of
	// package gateway.
	for _, c := range checker.Unseen() {
		if !slices.Contains([]string{"internal_error", "auth_unavailable"}, c) {
			t.Errorf("%s is documented, but no request here has it", c)
		}
	}
}

func checkRefusal(t *testing.T, p *program, row refusal, a answer) {
	t.Helper()
	var envelope struct {
		Data   []any
		Meta   map[string]any
		Errors []struct {
			ID, Status, Code, Title, Detail string
			Source                          struct{ Parameter, Header string }
		}
	}
	if err := json.Unmarshal(a.body, &envelope); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if a.status != row.status || len(envelope.Errors) != 1 || envelope.Errors[0].Code != row.code {
		t.Fatalf("got %d %s, want %d %s", a.status, a.body, row.status, row.code)
	}
	if envelope.Data == nil || len(envelope.Data) != 0 || envelope.Meta == nil || len(envelope.Meta) != 0 {
		t.Errorf("data and meta are not empty: %s", a.body)
	}
	e := envelope.Errors[0]
	if e.ID != a.header.Get("X-Request-Id") || e.ID == "" || e.Title == "" || e.Detail == "" {
		t.Errorf("the error object is not whole: %s", a.body)
	}
	if e.Source.Parameter+e.Source.Header != row.source {
		t.Errorf("source is %+v, want %q", e.Source, row.source)
	}
	for name, value := range row.want {
		if got := a.header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("headers: %v", a.header)
	}
	if id := idFinder(p.system)(a); id != "" {
		t.Errorf("%q of the legacy is in the reply", id)
	}
	if key := p.keys[row.key]; key != "" && strings.Contains(string(a.body)+p.logs.String(), key) {
		t.Error("the key is in the reply or in the log")
	}
	for _, name := range []string{"Set-Cookie", "X-Powered-By", "Server"} {
		if a.header.Get(name) != "" {
			t.Errorf("header %s: %v", name, a.header[name])
		}
	}
}

// A failing request is refused by the first check it fails, whatever else is
// wrong with it.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	p := start(t, setup{onlyWhenTold: true})
	unpaid := auth.Account{ID: "unpaid", APIAccess: auth.AccessNone}
	p.writeKeys(caller{kind: "seller", account: unpaid, record: auth.KeyRecord{ID: "wrong-kind-no-scope-unpaid"}},
		caller{kind: "buyer", account: unpaid, record: auth.KeyRecord{ID: "no-scope-unpaid"}})
	p.reload()
	for _, step := range []struct{ key, code string }{
		{"", "missing_api_key"},
		{"expired", "invalid_api_key"},
		{"wrong-kind-no-scope-unpaid", "wrong_key_kind"},
		{"no-scope-unpaid", "insufficient_scope"},
		{"unpaid", "api_access_required"},
		{"buyer", "invalid_parameter"},
	} {
		if a := p.get(buyerList+"?page=%zz", step.key); !strings.Contains(string(a.body), `"code":"`+step.code+`"`) {
			t.Errorf("key %q: got %s, want %s", step.key, a.body, step.code)
		}
	}
}

// response is the answer as a checker wants to read it.
func (a answer) response() *http.Response {
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))}
}

func newChecker(t *testing.T) *contract.Checker {
	t.Helper()
	checker, err := contract.New(v1.OpenAPIYAML())
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

// A list has the documented headers, from the legacy system and from the cache.
func TestSuccessHeaders(t *testing.T) {
	t.Parallel()
	p, checker := start(t, setup{}), newChecker(t)
	miss := p.get(buyerList, "buyer")
	hit := p.get(buyerList, "buyer")
	for name, a := range map[string]answer{"miss": miss, "hit": hit} {
		for header, want := range map[string]string{
			"Content-Type": "application/json; charset=utf-8", "Cache-Control": "private, no-cache",
			"Vary": "Authorization, Accept-Encoding", "X-Content-Type-Options": "nosniff", "Age": "0", "Content-Encoding": "",
		} {
			if got := a.header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
		if a.status != 200 || !bytes.Equal(a.body, truth(p.system, "buyer", legacy.BuyerTypical, "", "")) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if err := checker.Check(p.request(http.MethodGet, buyerList, "buyer"), a.response()); err != nil {
			t.Errorf("%s: not as documented: %v", name, err)
		}
	}
	if got := miss.header.Get("Cache-Status"); got != "inquiry-gateway; fwd=miss; stored" {
		t.Errorf("miss: Cache-Status is %q", got)
	}
	if got := hit.header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit; ttl=") {
		t.Errorf("hit: Cache-Status is %q", got)
	}
	if n := p.system.Requests().Buyer; n != 1 {
		t.Errorf("the legacy was asked %d times", n)
	}
}

// HEAD has the headers of GET, and a list that the caller has already is a 304.
func TestHeadAndConditions(t *testing.T) {
	t.Parallel()
	p, checker := start(t, setup{}), newChecker(t)
	get := p.get(buyerList, "buyer", "Accept-Encoding", "gzip")
	head := p.do(p.request(http.MethodHead, buyerList, "buyer", "Accept-Encoding", "gzip"))
	if head.status != 200 || len(head.body) != 0 {
		t.Fatalf("HEAD: %d with %d bytes", head.status, len(head.body))
	}
	for _, name := range []string{"Content-Length", "Content-Type", "Content-Encoding", "Etag", "Cache-Control", "Vary"} {
		if head.header.Get(name) != get.header.Get(name) || get.header.Get(name) == "" {
			t.Errorf("%s: HEAD %q, GET %q", name, head.header.Get(name), get.header.Get(name))
		}
	}
	etag := get.header.Get("Etag")
	for _, tag := range []string{etag, "*", `"other", ` + etag, strings.TrimPrefix(etag, "W/")} {
		a := p.get(buyerList, "buyer", "If-None-Match", tag)
		if a.status != http.StatusNotModified || len(a.body) != 0 || a.header.Get("Etag") != etag ||
			a.header.Get("Cache-Control") == "" || a.header.Get("Vary") == "" {
			t.Errorf("If-None-Match: %s: %d %v", tag, a.status, a.header)
		}
		if err := checker.Check(p.request(http.MethodGet, buyerList, "buyer"), a.response()); err != nil {
			t.Errorf("304: not as documented: %v", err)
		}
	}
	if a := p.get(buyerList, "buyer", "If-None-Match", `"other"`); a.status != 200 {
		t.Errorf("another tag: %d", a.status)
	}
	// A caller that is not allowed learns nothing, not even that nothing changed.
	p.gets(http.StatusForbidden, buyerList, "unpaid", "If-None-Match", "*")
}
