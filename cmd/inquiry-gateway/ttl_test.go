package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/cache/ttl"
)

// ttl is the report that the command gives.
func (p *program) ttl(args ...string) (r ttl.Report) {
	p.t.Helper()
	out, errOut, code := command(p.t, append([]string{"ttl", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		p.t.Fatalf("exit code %d, %v: %s", code, err, errOut)
	}
	return r
}

// The table, asked of two running gateways, of one, and computed from a log: all tell of the same
// requests. Filters that the gateway applies itself are one list to the legacy, and values that
// cannot exist are none.
func TestTTL(t *testing.T) {
	t.Parallel()
	yaml := "log: {access_keys: hashed}\ncache: {buyer: {by_status: {pending: {ttl: 5s}}}}"
	p, other := start(t, setup{yaml: yaml}), start(t, setup{yaml: yaml})
	for range 10 {
		p.get(buyerList, "buyer")
		other.get(buyerList, "buyer")
		for _, query := range []string{"", "?status=pending", "?status=answered", "?status=nonsense"} {
			p.get(sellerList+query, "seller")
		}
	}
	p.eventually("every request has its record", func() bool { return strings.Count(p.logs.String(), `"endpoint":`) == 50 })
	p.write("requests.log", p.logs.String())
	live, logged := p.ttl("--ops", p.app.OpsURL()), p.ttl("--log", filepath.Join(p.dir, "requests.log"))
	if k := live.Groups; len(k) != 3 || k[1].Group != "buyer status=pending" || k[1].TTL != 5 {
		t.Errorf("live: %+v", live)
	}
	if l := logged.Log; l == nil || l.Lookups != 40 || l.Bad != 0 || l.Skipped < 10 {
		t.Errorf("log: %+v", logged.Log)
	}
	for name, r := range map[string]ttl.Report{"live": live, "log": logged} {
		k := r.Groups[len(r.Groups)-1]
		if n := k.LookupsPerSecond * k.Observed; k.Group != "seller" || k.Lists != 1 || n < 29.5 || n > 30.5 {
			t.Errorf("%s: %+v, want 30 look-ups of one list", name, k)
		}
		if c := k.Candidates[len(k.Candidates)-1]; c.HitRatio.Value < 0.96 || c.HitRatio.Value > 0.97 {
			t.Errorf("%s: %v at 24h, want 29 of 30", name, c.HitRatio)
		}
	}
	if both := p.ttl("--ops", p.app.OpsURL(), "--ops", other.app.OpsURL()); both.Sources != 2 || both.Groups[0].LookupsPerSecond*both.Groups[0].Observed < 18 {
		t.Errorf("both: %+v", both.Groups[0])
	}
	said := commandSays(t, 0, "buyer status=pending", "ttl", "--ops", p.app.OpsURL(), "--max-upstream-per-second", "1000000")
	if !strings.Contains(said, "\n  + keeps the goals") || !strings.Contains(said, "from one node, since ") {
		t.Errorf("no row is marked in\n%s", said)
	}
	commandSays(t, 2, "give one --ops URL", "explain", "--key-id", "buyer", "--ops", p.app.OpsURL(), "--ops", other.app.OpsURL())
	commandSays(t, 2, "a share from 0 to 1", "ttl", "--ops", p.app.OpsURL(), "--max-outdated", "2")
	if page := p.ops("/ops/ttl"); !strings.Contains(string(page.body), `"sources":1`) {
		t.Errorf("/ops/ttl: %s", page.body)
	}
}

// Re-checks compare lists that were served with the legacy system: one that has changed is
// noticed, one that was selected from another is compared with itself. What is off has no series;
// a reload turns it on and off.
func TestRechecks(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: "cache: {buyer: {ttl: 1h}, seller: {ttl: 1h}}"})
	has := func(series string) bool { return strings.Contains(string(p.ops("/metrics").body), "\n"+series) }
	if has("inquiry_gateway_cache_rechecks_total") {
		t.Fatal("re-checks without being configured")
	}
	p.edit("cache: {", "cache: {rechecks_per_second: 100, ")
	p.eventually("re-checks are on", func() bool { return has("inquiry_gateway_cache_rechecks_total") })
	rechecked := func(kind, result, target string) {
		t.Helper()
		p.eventually("a list of the "+kind+" is "+result, func() bool {
			p.gets(http.StatusOK, target, kind)
			return p.metric(`inquiry_gateway_cache_rechecks_total{kind="`+kind+`",result="`+result+`"}`) > 0
		})
	}
	rechecked("seller", "same", sellerList+"?status=pending")
	rechecked("buyer", "same", buyerList)
	if n := p.metric(`inquiry_gateway_cache_rechecked_answers_total{kind="seller",result="outdated"}`); n != 0 {
		t.Errorf("%v lists that have not changed are outdated", n)
	}
	if !p.system.Answer("acme") {
		t.Fatal("the list cannot change")
	}
	rechecked("buyer", "outdated", buyerList)
	p.edit("rechecks_per_second: 100", "rechecks_per_second: 0")
	p.eventually("re-checks are off", func() bool { return !has("inquiry_gateway_cache_rechecks_total") })
}
