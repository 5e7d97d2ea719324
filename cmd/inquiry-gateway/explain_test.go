package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// explained asks the running gateway through the command.
func (p *program) explained(args ...string) ops.Explanation {
	p.t.Helper()
	out, errOut, code := command(p.t, append([]string{"explain", "--ops", p.app.OpsURL(), "--json"}, args...)...)
	var x ops.Explanation
	if err := json.Unmarshal([]byte(out), &x); err != nil || code != 0 {
		p.t.Fatalf("explain %v: exit code %d, %v: %s%s", args, code, err, out, errOut)
	}
	return x
}

// What explain says of a key is what a request with that key gets.
func TestExplainForetellsAuthorization(t *testing.T) {
	p := start(t, setup{})
	for keyID, reason := range map[string]string{
		"buyer": "", "other-buyer": "", "seller": "", "unpaid": "paid", "no-scope": "scope", "expired": "expired", "revoked": "revoked",
	} {
		for _, kind := range []string{"buyer", "seller"} {
			x := p.explained("--key-id", keyID, "--kind", kind)
			a := p.get(listOf(kind), keyID)
			var envelope struct{ Errors []struct{ Code string } }
			if err := json.Unmarshal(a.body, &envelope); err != nil {
				t.Fatal(err)
			}
			code := ""
			if len(envelope.Errors) > 0 {
				code = envelope.Errors[0].Code
			}
			if x.Prediction.HTTPStatus != a.status || x.Access.HTTPStatus != a.status || x.Access.Code != code || x.Prediction.Code != code {
				t.Errorf("%s at the %s list: explained %+v, got %d %s", keyID, kind, x.Access, a.status, code)
			}
		}
		if x := p.explained("--key-id", keyID); !strings.Contains(x.Access.Reason, reason) || (reason == "") != (x.Access.Verdict == "allowed") {
			t.Errorf("%s: %+v", keyID, x.Access)
		}
	}
	if metrics := string(p.ops("/metrics").body); !strings.Contains(metrics, `inquiry_gateway_auth_requests_total{result="revoked"} 2`) {
		t.Error("explaining was counted as authentication, or requests were not")
	}
}

// The outcome that explain foretells is the one that the next request has.
func TestExplainForetellsTheOutcome(t *testing.T) {
	p := start(t, setup{yaml: "cache: {jitter: 0.1, buyer: {ttl: 1h, by_status: {pending: {ttl: 10s}}}}\nrate_limit: {per_second: 50, plans: {pro: {per_second: 100, burst: 7}}}"})
	list := []string{"--account", legacy.BuyerTypical, "--kind", "buyer"}
	x := p.explained(list...)
	if x.Prediction.Outcome != "miss" || x.Cache.Tier != "" || x.Cache.Policy != "cache.buyer" || x.Cache.TTL != 3600 || x.Access != nil || x.Upstream.Breaker != "closed" || x.Cache.Redis != "off" {
		t.Errorf("cold: %+v", x)
	}
	if p.system.Requests().Buyer != 0 {
		t.Error("explaining asked the legacy system")
	}
	p.get(buyerList, "buyer")
	if x = p.explained("--key-id", "buyer"); x.Prediction.Outcome != "hit" || x.Cache.Tier != "local" || x.Cache.Bytes == 0 || x.Cache.Left < 3000 || x.Cache.AnsweredAt.IsZero() || x.RateLimit.From != "rate_limit" {
		t.Errorf("warm: %+v", x)
	}
	if got := p.get(buyerList, "buyer").header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit") {
		t.Errorf("the request: %s", got)
	}
	person := regexp.MustCompile(`^hit: 200\nserved from the cache(.*\n)*cache\n  key\n    kind: buyer\n    account: acme\n(.*\n)*  policy: cache\.buyer\n  ttl_seconds: 3600\n`)
	if out, _, _ := command(t, "explain", "--ops", p.app.OpsURL(), "--key-id", "buyer"); !person.MatchString(out) || strings.Contains(out, p.keys["buyer"]) || strings.Contains(out, "sha256") {
		t.Errorf("for a person: %s", out)
	}
	if x = p.explained(append(list, "--status", "pending")...); x.Prediction.Outcome != "miss" || x.Cache.Policy != "cache.buyer.by_status.pending" || x.Cache.TTL != 10 || x.Cache.Key.Status != "pending" {
		t.Errorf("filtered: %+v", x)
	}
	if x = p.explained(append(list, "--status", "unheard-of")...); x.Prediction.HTTPStatus != http.StatusOK || !strings.Contains(x.Prediction.Text, "without asking") {
		t.Errorf("a value that cannot be: %+v", x.Prediction)
	}
	if a := p.get(buyerList+"?status=unheard-of", "buyer"); a.status != http.StatusOK || p.system.Requests().Buyer != 1 {
		t.Errorf("the request for it: %d, and the legacy was asked %d times", a.status, p.system.Requests().Buyer)
	}
	commandSays(t, 0, "epoch 1", "purge", "--ops", p.app.OpsURL(), "--account", legacy.BuyerTypical)
	if x = p.explained(list...); x.Prediction.Outcome != "miss" || x.Cache.AccountEpoch != 1 {
		t.Errorf("purged: %+v", x)
	}
}

// A list that another node has filled is found in Redis, and its entry there is
// what explain tells of.
func TestExplainSeesBothTiers(t *testing.T) {
	address := redistest.Start(t).Addr
	shared := setup{yaml: `redis: {addrs: ["` + address + `"]}`}
	one := start(t, shared)
	shared.prepare = func(p *program) { p.write("gateway.yaml", one.read("gateway.yaml")) } // one legacy system
	other := start(t, shared)
	one.gets(http.StatusOK, buyerList, "buyer")
	list := []string{"--account", legacy.BuyerTypical, "--kind", "buyer"}
	if x := one.explained(list...); x.Cache.Tier != "local" || x.Cache.Redis != "ok" {
		t.Errorf("the node that filled it: %+v", x.Cache)
	}
	other.eventually("the entry is in Redis", func() bool { return other.explained(list...).Cache.Tier == "redis" })
	if x := other.explained(list...); x.Prediction.Outcome != "hit" || x.Cache.Bytes == 0 {
		t.Errorf("the other node: %+v %+v", x.Prediction, x.Cache)
	}
	if got := other.get(buyerList, "buyer").header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit") {
		t.Errorf("the request: %s", got)
	}
}

// With the breaker open the answer is 503, and explain says so.
func TestExplainWithTheBreakerOpen(t *testing.T) {
	p := start(t, setup{upstream: []string{"upstream:\n", "upstream:\n  breaker: {min_requests: 2, failure_ratio: 0.5, open_for: 1m}\n"}})
	if err := p.system.SetFault(legacy.Fault{Name: legacy.FaultStatus, Code: http.StatusInternalServerError}); err != nil {
		t.Fatal(err)
	}
	p.eventually("the breaker opens", func() bool { return p.get(buyerList, "buyer").status == http.StatusServiceUnavailable })
	x := p.explained("--key-id", "other-buyer")
	if a := p.get(buyerList, "other-buyer"); x.Prediction.HTTPStatus != a.status || x.Prediction.Code != "upstream_unavailable" || x.Upstream.Breaker != "open" {
		t.Errorf("explained %+v %+v, got %d", x.Prediction, x.Upstream, a.status)
	}
}

// The commands find the ops listener and its token in the configuration.
func TestOpsCommandsAgainstAToken(t *testing.T) {
	p := start(t, setup{prepare: func(p *program) {
		p.write("ops-token", "s3cret\n")
		p.write("gateway.yaml", strings.Replace(p.read("gateway.yaml"), "ops: {listen: 127.0.0.1:0}", "ops: {listen: 127.0.0.1:0, token_file: ops-token}", 1))
	}})
	token := filepath.Join(p.dir, "ops-token")
	address := strings.TrimPrefix(p.app.OpsURL(), "http://")
	p.write("same.yaml", strings.Replace(p.read("gateway.yaml"), "ops: {listen: 127.0.0.1:0", "ops: {listen: "+address, 1))
	same := filepath.Join(p.dir, "same.yaml")
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"purge", "-c", same, "--kind", "seller"}, 0, "all lists of the kind seller; epoch 1"},
		{[]string{"purge", "-c", same, "--account", "acme", "--json"}, 0, `{"account":"acme","epoch":1}`},
		{[]string{"purge", "--ops", p.app.OpsURL(), "--token-file", token, "--kind", "buyer"}, 0, "epoch 1"},
		{[]string{"purge", "--ops", p.app.OpsURL(), "--kind", "buyer"}, 1, "wants a token"},
		{[]string{"purge", "-c", filepath.Join(p.dir, "gateway.yaml"), "--kind", "buyer"}, 1, "any free port"},
		{[]string{"purge", "-c", same}, 2, "--account ID or --kind"},
		{[]string{"purge", "-c", same, "--kind", "buyer", "--account", "a"}, 2, "--account ID or --kind"},
		{[]string{"purge", "-c", same, "--kind", "admin"}, 2, "buyer or seller"},
		{[]string{"purge", "--kind", "buyer"}, 2, "which gateway"},
		{[]string{"purge", "-c", same, "--token-file", token, "--kind", "buyer"}, 2, "--token-file goes with --ops"},
		{[]string{"purge", "--ops", "http://127.0.0.1:1", "--kind", "buyer"}, 1, "does not answer"},
		{[]string{"explain", "-c", same, "--key-id", "buyer"}, 0, "miss: 200"},
		{[]string{"explain", "-c", same, "--key-id", "nobody"}, 1, "no such key"},
		{[]string{"explain", "-c", same, "--account", "acme"}, 2, "account and kind"},
		{[]string{"explain", "-c", same, "--account", "acme", "--kind", "buyer", "--status", "a b"}, 2, "status must be"},
	} {
		commandSays(t, tc.code, tc.says, tc.args...)
	}
	if out, errOut, code := command(t, "check", "-c", same, "--against", p.app.OpsURL(), "--token-file", token); code != 1 || !strings.Contains(out, "ops.listen") {
		t.Errorf("check --against: %d %s%s", code, out, errOut)
	}
}

func (p *program) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
