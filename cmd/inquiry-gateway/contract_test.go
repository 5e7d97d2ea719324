package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/testkit/contract"
	"inquiry-gateway/upstream/legacy"
)

// refusal is one row of the public error table, shown live. What callers do wrong, and the
// fields of these answers, are cases of internal/conformance; here each code is seen once.
type refusal struct {
	name     string
	method   string // empty: GET
	target   string // empty: the buyers' list
	key      string // by key id
	header   string // value of a header field
	fault    legacy.Fault
	yaml     string   // as in setup, with a program of its own; so is the next
	upstream []string // as in setup
	prepare  func(*program)
	status   int
	code     string
}

// shortTimeouts make a quick test of what hangs; whoever asks for them needs no answer in time.
var shortTimeouts = []string{"timeout: 2s", "timeout: 300ms"}

func refusals() []refusal {
	ofLegacy := func(name string, status int, code string, f legacy.Fault) refusal {
		return refusal{name: name, key: "buyer", fault: f, status: status, code: code}
	}
	const failed, invalid, denied = "upstream_error", "upstream_invalid_response", "upstream_sign_in_failed"
	return []refusal{
		{name: "no key", status: 401, code: "missing_api_key"},
		{name: "revoked key", key: "revoked", status: 401, code: "invalid_api_key"},
		{name: "seller's key for buyers", key: "seller", status: 403, code: "wrong_key_kind"},
		{name: "no scope", key: "no-scope", status: 403, code: "insufficient_scope"},
		{name: "not paid", key: "unpaid", status: 403, code: "api_access_required"},
		{name: "unknown parameter", key: "buyer", target: buyerList + "?page=2", status: 400, code: "invalid_parameter"},
		{name: "path of another account", key: "buyer", target: "/api/v1/buyer/globex/inquiries", status: 404, code: "not_found"},
		{name: "POST", method: "POST", key: "buyer", status: 405, code: "method_not_allowed"},
		{name: "large header", header: strings.Repeat("x", 17_000), key: "buyer", status: 431, code: "header_fields_too_large"},
		ofLegacy("legacy 500", 502, failed, legacy.Fault{Name: legacy.FaultStatus}),
		ofLegacy("legacy 404", 502, invalid, legacy.Fault{Name: legacy.FaultStatus, Code: 404}),
		ofLegacy("legacy redirects", 502, invalid, legacy.Fault{Name: legacy.FaultStatus, Code: 302}),
		ofLegacy("legacy 403", 502, denied, legacy.Fault{Name: legacy.FaultStatus, Code: 403}),
		ofLegacy("legacy hangs up", 502, failed, legacy.Fault{Name: legacy.FaultRefuse}),
		ofLegacy("legacy cuts off", 502, failed, legacy.Fault{Name: legacy.FaultTruncate}),
		ofLegacy("login page", 502, denied, legacy.Fault{Name: legacy.FaultHTML}),
		ofLegacy("garbage", 502, invalid, legacy.Fault{Name: legacy.FaultGarbage}),
		ofLegacy("foreign record", 502, invalid, legacy.Fault{Name: legacy.FaultWrongOwner}),
		{name: "foreign record of a seller", key: "seller", target: sellerList, status: 502, code: invalid,
			yaml: "request_timeout: 30s", upstream: []string{"timeout: 2s", "timeout: 20s"}, // the list is long
			fault: legacy.Fault{Name: legacy.FaultWrongOwner}},
		{name: "account that is no number", key: "buyer", status: 501, code: "account_unsupported",
			upstream: []string{"path: /v2/tickets", "path: /v2/tickets\n    method: POST\n    body: {n: \"{account:number}\"}"}},
		{name: "missing field", key: "buyer", upstream: []string{"title: subject", "title: nosuch"}, status: 502, code: invalid},
		{name: "too many records", key: "buyer", upstream: []string{"max_records: 10000", "max_records: 10"}, status: 502, code: invalid},
		{name: "legacy too slow", key: "buyer", fault: legacy.Fault{Name: legacy.FaultDelay, Delay: 10 * time.Second},
			upstream: shortTimeouts, status: 504, code: "upstream_timeout"},
		{name: "over the rate", key: "buyer", yaml: "rate_limit: {per_second: 0.1, burst: 1}",
			prepare: func(p *program) { p.get(buyerList, "buyer") }, status: 429, code: "rate_limited"},
		{name: "breaker open", key: "buyer", target: buyerList + "?" + filterQuery(15), upstream: []string{"max_records: 10000", "max_records: 10000\n  breaker: {min_requests: 2}"}, yaml: "max_connections: 100", fault: legacy.Fault{Name: legacy.FaultStatus},
			prepare: openBreaker, status: 503, code: "upstream_unavailable"}, // of a list that has not failed itself
	}
}

// filterQuery is one of sixteen pairs of filters. A list that has failed rests, and then the
// legacy system is not asked for it.
func filterQuery(i int) string {
	statuses, types := [...]string{"", "pending", "answered", "closed"}, [...]string{"", "product", "delivery", "refund"}
	query := url.Values{}
	for name, value := range map[string]string{"status": statuses[i%4], "inquiry_type": types[i/4%4]} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query.Encode()
}

// openBreaker asks a legacy system that fails until the breaker opens, which no account can do alone.
func openBreaker(p *program) {
	asked := 0
	p.eventually("the breaker opens", func() bool {
		for _, key := range []string{"buyer", "other-buyer"} {
			p.get(buyerList+"?"+filterQuery(asked), key)
		}
		asked++
		return p.part("upstream_buyer") == "open"
	})
}

// documented checks an answer against the OpenAPI document.
func documented(t *testing.T, checker *contract.Checker, r *http.Request, a answer) {
	t.Helper()
	response := &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))}
	if err := checker.Check(r, response); err != nil {
		t.Errorf("not as documented: %v", err)
	}
}

// Each error is the documented one and says nothing of the legacy system, of keys or of records.
func TestEveryRefusal(t *testing.T) {
	t.Parallel()
	checker, err := contract.New(v1.OpenAPIYAML())
	must(t, err)
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
				commandSays(t, 0, "purged", "purge", "--ops", p.app.OpsURL(), "--kind", "buyer") // else the error of the row before is answered
				p.fault(row.fault)
				defer p.system.ClearFaults("")
			}
			if row.prepare != nil {
				row.prepare(p)
			}
			r := p.request(cmp.Or(row.method, http.MethodGet), cmp.Or(row.target, buyerList), row.key, "X-Large", row.header)
			a := p.do(r)
			checkRefusal(t, p, row, a)
			documented(t, checker, r, a)
		})
	}
	// What needs a part that fails at random moments is shown by the tests of
	// package gateway.
	for _, c := range checker.Unseen() {
		if !slices.Contains([]string{"invalid_request", "internal_error", "auth_unavailable"}, c) {
			t.Errorf("%s is documented, but no request here has it", c)
		}
	}
	r := shared.request(http.MethodGet, sellerList, "seller")
	for range 2 { // from the legacy system, from the cache
		a := shared.do(r)
		documented(t, checker, r, a)
		documented(t, checker, r, shared.get(sellerList, "seller", "If-None-Match", a.header.Get("Etag")))
	}
}

func checkRefusal(t *testing.T, p *program, row refusal, a answer) {
	t.Helper()
	var envelope struct {
		Data   []any
		Meta   map[string]any
		Errors []struct{ ID, Code string }
	}
	if err := json.Unmarshal(a.body, &envelope); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if a.status != row.status || len(envelope.Errors) != 1 || envelope.Errors[0].Code != row.code {
		t.Fatalf("got %d %s, want %d %s", a.status, a.body, row.status, row.code)
	}
	if envelope.Data == nil || len(envelope.Data)+len(envelope.Meta) != 0 || envelope.Errors[0].ID != a.header.Get("X-Request-Id") {
		t.Errorf("the envelope is %s", a.body)
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Vary") != "Authorization" || a.header.Get("Server")+a.header.Get("Set-Cookie")+a.header.Get("X-Powered-By") != "" {
		t.Errorf("headers: %v", a.header)
	}
	if id := idFinder(p.system)(a); id != "" {
		t.Errorf("%q of the legacy is in the reply", id)
	}
	// explain says of a key what a request with that key gets.
	if row.key != "" && row.target == "" && row.method == "" && (a.status == 401 || a.status == 403) {
		x := p.explained("--key-id", row.key, "--kind", "buyer")
		if x.Access.Code != row.code || x.Access.HTTPStatus != a.status || x.Prediction.Code != row.code {
			t.Errorf("explained %+v %+v", x.Access, x.Prediction)
		}
	}
	if key := p.keys[row.key]; key != "" && strings.Contains(string(a.body)+p.logs.String(), key) {
		t.Error("the key is in the reply or in the log")
	}
}
