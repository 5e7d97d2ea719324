package main

import (
	"bytes"
	"encoding/json"
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
	prepare  func(*program)
	alone    bool     // with a program of its own, as with the next two
	yaml     string   // as in setup
	upstream []string // as in setup
	status   int
	code     string
	want     map[string]string // headers and their values
	source   string            // the parameter or header at fault
}

const (
	challengeNone  = `Bearer realm="inquiries"`
	challengeToken = `Bearer realm="inquiries", error="invalid_token"`
)

func fault(f legacy.Fault) func(*program) {
	return func(p *program) {
		if err := p.system.SetFault(f); err != nil {
			p.t.Fatal(err)
		}
	}
}

func refusals() []refusal {
	noAuth := func(value string) []string { return []string{"Authorization", value} }
	return []refusal{
		{name: "no key", status: 401, code: "missing_api_key", want: map[string]string{"Www-Authenticate": challengeNone}},
		{name: "another scheme", headers: noAuth("Basic YTpi"), status: 401, code: "missing_api_key", want: map[string]string{"Www-Authenticate": challengeNone}},
		{name: "empty key", headers: noAuth("Bearer "), status: 401, code: "missing_api_key", want: map[string]string{"Www-Authenticate": challengeNone}},
		{name: "key in the URL", target: buyerList + "?api_key=x", status: 401, code: "missing_api_key"},
		{name: "two keys", key: "buyer", headers: noAuth("Bearer other"), status: 400, code: "invalid_request",
			want: map[string]string{"Www-Authenticate": `Bearer realm="inquiries", error="invalid_request"`}, source: "Authorization"},
		{name: "malformed key", headers: noAuth("Bearer a b"), status: 401, code: "invalid_api_key", want: map[string]string{"Www-Authenticate": challengeToken}},
		{name: "unknown key", headers: noAuth("Bearer nobody-knows-me"), status: 401, code: "invalid_api_key", want: map[string]string{"Www-Authenticate": challengeToken}},
		{name: "expired key", key: "expired", status: 401, code: "invalid_api_key", want: map[string]string{"Www-Authenticate": challengeToken}},
		{name: "revoked key", key: "revoked", status: 401, code: "invalid_api_key", want: map[string]string{"Www-Authenticate": challengeToken}},
		{name: "seller's key for buyers", key: "seller", status: 403, code: "wrong_key_kind"},
		{name: "buyer's key for sellers", key: "buyer", target: sellerList, status: 403, code: "wrong_key_kind"},
		{name: "no scope", key: "no-scope", status: 403, code: "insufficient_scope",
			want: map[string]string{"Www-Authenticate": `Bearer realm="inquiries", error="insufficient_scope", scope="inquiries:read"`}},
		{name: "not paid", key: "unpaid", status: 403, code: "api_access_required"},
		{name: "unknown parameter", key: "buyer", target: buyerList + "?page=2", status: 400, code: "invalid_parameter", source: "page"},
		{name: "repeated parameter", key: "buyer", target: buyerList + "?status=a&status=a", status: 400, code: "invalid_parameter", source: "status"},
		{name: "bad escape", key: "buyer", target: buyerList + "?status=%zz", status: 400, code: "invalid_parameter", source: "status"},
		{name: "bad value", key: "buyer", target: buyerList + "?inquiry_type=a/b", status: 400, code: "invalid_parameter", source: "inquiry_type"},
		{name: "unknown path", key: "buyer", target: "/api/v1/buyer/inquiries/", status: 404, code: "not_found"},
		{name: "root", target: "/", status: 404, code: "not_found"},
		{name: "path of another account", key: "buyer", target: "/api/v1/buyer/globex/inquiries", status: 404, code: "not_found"},
		{name: "POST", method: "POST", key: "buyer", status: 405, code: "method_not_allowed", want: map[string]string{"Allow": "GET, HEAD"}},
		{name: "DELETE", method: "DELETE", key: "buyer", target: sellerList, status: 405, code: "method_not_allowed", want: map[string]string{"Allow": "GET, HEAD"}},
		{name: "OPTIONS", method: "OPTIONS", status: 405, code: "method_not_allowed", want: map[string]string{"Allow": "GET, HEAD"}},
		{name: "legacy 500", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultStatus}), status: 502, code: "upstream_error"},
		{name: "legacy 404", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultStatus, Code: 404}), status: 502, code: "upstream_error"},
		{name: "legacy redirects", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultStatus, Code: 302}), status: 502, code: "upstream_error"},
		{name: "legacy hangs up", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultRefuse}), status: 502, code: "upstream_error"},
		{name: "legacy cuts off", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultTruncate}), status: 502, code: "upstream_error"},
		{name: "login page", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultHTML}), status: 502, code: "upstream_invalid_response"},
		{name: "missing field", key: "buyer", upstream: []string{"title: subject", "title: nosuch"}, status: 502, code: "upstream_invalid_response"},
		{name: "too many records", key: "buyer", upstream: []string{"max_records: 10000", "max_records: 10"}, status: 502, code: "upstream_invalid_response"},
		{name: "foreign record", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultWrongOwner}), status: 502, code: "upstream_invalid_response"},
		{name: "legacy too slow", key: "buyer", prepare: fault(legacy.Fault{Name: legacy.FaultDelay, Delay: 10 * time.Second}), upstream: shortTimeouts, status: 504, code: "upstream_timeout"},
		{name: "over the rate", key: "buyer", yaml: "rate_limit: {per_second: 0.1, burst: 1}", prepare: func(p *program) { p.get(buyerList, "buyer") },
			status: 429, code: "rate_limited", want: map[string]string{"Retry-After": "10", "Ratelimit-Policy": `"default";q=1;w=10`, "Ratelimit": `"default";r=0;t=10`}},
		{name: "breaker open", key: "buyer", alone: true, prepare: openBreaker, status: 503, code: "upstream_unavailable", want: map[string]string{"Retry-After": "5"}},
	}
}

// openBreaker has the legacy fail until the breaker gives up on it.
func openBreaker(p *program) {
	fault(legacy.Fault{Name: legacy.FaultStatus})(p)
	p.eventually("the breaker opens", func() bool {
		p.get(buyerList, "buyer")
		return p.part("upstream_buyer") == "open"
	})
}

// shortTimeouts make a quick test of a legacy that hangs; whoever asks for them
// needs no answer in time.
var shortTimeouts = []string{"timeout: 2s", "timeout: 300ms"}

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
			if row.alone || row.yaml != "" || row.upstream != nil {
				p = start(t, setup{yaml: row.yaml, upstream: row.upstream})
			}
			if row.prepare != nil {
				row.prepare(p)
				defer p.system.ClearFaults("")
			}
			if row.target == "" {
				row.target = buyerList
			}
			if row.method == "" {
				row.method = http.MethodGet
			}
			r := p.request(row.method, row.target, row.key, row.headers...)
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
	if row.key != "" && (bytes.Contains(a.body, []byte(p.keys[row.key])) || strings.Contains(p.logs.String(), p.keys[row.key])) {
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
	p := start(t, setup{})
	unpaid := auth.Account{ID: "unpaid", APIAccess: auth.AccessNone}
	p.writeKeys([]caller{
		{kind: "seller", account: unpaid, record: auth.KeyRecord{ID: "wrong-kind-no-scope-unpaid"}},
		{kind: "buyer", account: unpaid, record: auth.KeyRecord{ID: "no-scope-unpaid"}},
	})
	p.reload()
	for _, step := range []struct{ key, code string }{
		{"", "missing_api_key"},
		{"expired", "invalid_api_key"},
		{"wrong-kind-no-scope-unpaid", "wrong_key_kind"},
		{"no-scope-unpaid", "insufficient_scope"},
		{"unpaid", "api_access_required"},
		{"buyer", "invalid_parameter"},
	} {
		if a := p.get(buyerList+"?page=%zz", step.key); !bytes.Contains(a.body, []byte(`"code":"`+step.code+`"`)) {
			t.Errorf("key %q: got %s, want %s", step.key, a.body, step.code)
		}
	}
}

func newChecker(t *testing.T) *contract.Checker {
	t.Helper()
	checker, err := contract.New(v1.OpenAPIYAML())
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

func TestSuccessHeaders(t *testing.T) {
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

func TestHeadAndConditions(t *testing.T) {
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
		if a.status != http.StatusNotModified || len(a.body) != 0 || a.header.Get("Etag") != etag || a.header.Get("Cache-Control") == "" || a.header.Get("Vary") == "" {
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
