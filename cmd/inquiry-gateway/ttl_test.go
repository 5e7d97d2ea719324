package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/cache/ttllab"
)

// ttl is the report that the command gives.
func (p *program) ttl(args ...string) (r ttllab.Report) {
	p.t.Helper()
	out, errOut, code := command(p.t, append([]string{"ttl", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		p.t.Fatalf("exit code %d, %v: %s", code, err, errOut)
	}
	return r
}

// The lab's table, asked of the running gateway and computed from its log: both tell of the same
// requests. Filters that the gateway applies itself are one list to the legacy, and values that
// cannot exist are none.
func TestTTL(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: "log: {access_keys: hashed}\n" +
		"cache: {goals: {max_upstream_per_second: 1000000}, buyer: {by_status: {pending: {ttl: 5s}}}}"})
	for range 10 {
		p.get(buyerList, "buyer")
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
	for name, r := range map[string]ttllab.Report{"live": live, "log": logged} {
		k := r.Groups[len(r.Groups)-1]
		if n := k.LookupsPerSecond * k.Observed; k.Group != "seller" || k.Lists != 1 || k.WatchedLists != 1 || n < 29.5 || n > 30.5 {
			t.Errorf("%s: %+v, want 30 look-ups of one list", name, k)
		}
		if c := k.Candidates[len(k.Candidates)-1]; c.HitRatio.Value < 0.96 || c.HitRatio.Value > 0.97 {
			t.Errorf("%s: %v at 24h, want 29 of 30", name, c.HitRatio)
		}
	}
	if said := commandSays(t, 0, "buyer status=pending", "ttl", "--ops", p.app.OpsURL()); !strings.Contains(said, "\n  + keeps cache.goals") {
		t.Errorf("no row is marked in\n%s", said)
	}
}

// Re-checks compare lists that were served with the legacy system: one that has changed is
// noticed, one that was selected from another is compared with itself. What is off has no series;
// a reload turns it on and off.
func TestRechecks(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: "cache: {buyer: {ttl: 1h}, seller: {ttl: 1h}}"})
	has := func(series string) bool { return strings.Contains(string(p.ops("/metrics").body), "\n"+series) }
	if has("inquiry_gateway_cache_rechecks_total") || has("inquiry_gateway_cache_goal_outdated_ratio") {
		t.Fatal("re-checks or a goal without being configured")
	}
	p.edit("cache: {", "cache: {rechecks_per_second: 100, goals: {max_outdated: 0.02}, ")
	p.eventually("the goal is exposed", func() bool { return has("inquiry_gateway_cache_goal_outdated_ratio 0.02\n") })
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
	p.edit("goals: {max_outdated: 0.02}", "goals: {max_outdated: 0}")
	p.eventually("the goal is gone", func() bool { return !has("inquiry_gateway_cache_goal_outdated_ratio") })
}
