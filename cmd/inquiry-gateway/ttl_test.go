package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/cache/ttllab"
)

// The lab's table, asked of the running gateway and computed from its log, and
// both tell of the same requests.
func TestTTL(t *testing.T) {
	p := start(t, setup{yaml: "log: {access_keys: hashed}\ncache: {goals: {max_outdated: 0.05}, buyer: {by_status: {pending: {ttl: 5s}}}}"})
	for range 50 {
		p.get(buyerList, "buyer")
		p.get(buyerList+"?status=pending", "other-buyer")
	}
	out, errOut, code := command(t, "ttl", "--ops", p.app.OpsURL(), "--json")
	var live ttllab.Report
	if err := json.Unmarshal([]byte(out), &live); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, errOut)
	}
	if len(live.Kinds) != 3 || live.Kinds[1].Kind != "buyer status=pending" || live.Kinds[1].TTL != 5 || len(live.Kinds[0].Candidates) != 24 {
		t.Errorf("live: %.600s", out)
	}
	if got := live.Goals.MaxOutdated; got != 0.05 {
		t.Errorf("the goal is %v", got)
	}
	commandSays(t, 0, "buyer status=pending", "ttl", "--ops", p.app.OpsURL())
	p.eventually("every request has its record", func() bool { return strings.Count(p.logs.String(), `"key":"`) == 100 })
	p.write("requests.log", p.logs.String())
	out, errOut, code = command(t, "ttl", "--log", filepath.Join(p.dir, "requests.log"), "--json")
	var logged ttllab.Report
	if err := json.Unmarshal([]byte(out), &logged); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, errOut)
	}
	if logged.Log == nil || logged.Log.Lookups != 100 || logged.Log.Bad != 0 {
		t.Errorf("log: %+v", logged.Log)
	}
	if logged.Kinds[0].Keys != 2 {
		t.Errorf("%v keys in the log, want 2", logged.Kinds[0].Keys)
	}
	p.write("empty.log", "")
	commandSays(t, 1, "access_keys", "ttl", "--log", filepath.Join(p.dir, "empty.log"))
}

// A ttl that a reload brings is recorded with what was predicted: in the report, as text
// and in the metric, which has no verdict so soon.
func TestTTLChangesAreRecorded(t *testing.T) {
	p := start(t, setup{pollFiles: onlyWhenTold, yaml: "cache: {buyer: {ttl: 7s}}"})
	p.get(buyerList, "buyer")
	p.get(buyerList, "buyer")
	p.edit("ttl: 7s", "ttl: 1m")
	p.reload()
	out, errOut, code := command(t, "ttl", "--ops", p.app.OpsURL(), "--json")
	var report ttllab.Report
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, errOut)
	}
	changes := report.Kinds[0].TTLChanges
	if len(changes) != 1 || len(report.Kinds[1].TTLChanges) != 0 || changes[0].From != 7 || changes[0].To != 60 || changes[0].State != ttllab.StateSettling ||
		changes[0].Predicted.HitRatio != 0.5 || changes[0].Predicted.Requests != 0.5 || changes[0].Error != nil {
		t.Errorf("%+v", changes)
	}
	if out, _, _ := command(t, "ttl", "--ops", p.app.OpsURL()); !strings.Contains(out, "\n  ttl 7s to 1m at ") || !strings.Contains(out, "50.00 % hits and 50.00 requests per 100 look-ups predicted, settling\n") {
		t.Error(out)
	}
	if metrics := string(p.ops("/metrics").body); !strings.Contains(metrics, `inquiry_gateway_cache_ttl_prediction_error_points{figure="hits",kind="buyer"} NaN`) {
		t.Error("the metric is missing")
	}
}

// Filters that the gateway applies itself are one list to the legacy, and values that
// cannot exist are none. The log says so, too.
func TestTTLKnowsWhatTheLegacyIsAskedFor(t *testing.T) {
	p := start(t, setup{yaml: "log: {access_keys: hashed}\ncache: {goals: {max_upstream_per_second: 1000000}}"})
	for range 10 {
		for _, query := range []string{"", "?status=pending", "?status=answered", "?status=nonsense"} {
			p.get(sellerList+query, "seller")
		}
	}
	p.eventually("every request has its record", func() bool { return strings.Count(p.logs.String(), `"endpoint":"seller_inquiries"`) == 40 })
	p.write("requests.log", p.logs.String())
	reports := map[string]ttllab.Report{}
	for name, args := range map[string][]string{"live": {"--ops", p.app.OpsURL()}, "log": {"--log", filepath.Join(p.dir, "requests.log")}} {
		out, errOut, code := command(t, append([]string{"ttl", "--json"}, args...)...)
		var r ttllab.Report
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, errOut)
		}
		k := r.Kinds[len(r.Kinds)-1]
		if k.Kind != "seller" || k.Keys != 1 || k.WatchedKeys != 1 || k.LookupsPerSecond*k.Observed < 29.5 || k.LookupsPerSecond*k.Observed > 30.5 {
			t.Errorf("%s: %+v, want 30 look-ups of one list", name, k)
		}
		if c := k.Candidates[len(k.Candidates)-1]; c.HitRatio.Value < 0.96 || c.HitRatio.Value > 0.97 {
			t.Errorf("%s: %v at 24h, want 29 of 30", name, c.HitRatio)
		}
		reports[name] = r
	}
	if n := reports["log"].Log.Skipped; n < 10 {
		t.Errorf("%d records of no list", n)
	}
	out, _, _ := command(t, "ttl", "--ops", p.app.OpsURL())
	if !strings.Contains(out, "\n  + keeps cache.goals") {
		t.Errorf("no row is marked in\n%s", out)
	}
}

// A list that was selected from another one is compared with itself.
func TestRechecksOfSelectedLists(t *testing.T) {
	p := start(t, setup{yaml: "cache: {rechecks_per_second: 50, seller: {ttl: 1h}}"})
	p.eventually("a selected list was compared", func() bool {
		p.get(sellerList+"?status=pending", "seller")
		metrics := string(p.ops("/metrics").body)
		if !strings.Contains(metrics, `inquiry_gateway_cache_rechecked_answers_total{kind="seller",result="outdated"} 0`) {
			t.Fatal("a list that has not changed is outdated")
		}
		return !strings.Contains(metrics, `inquiry_gateway_cache_rechecks_total{kind="seller",result="same"} 0`)
	})
}

// A list that was served and has changed since is noticed by the re-checks.
func TestRechecksNoticeOutdatedLists(t *testing.T) {
	p := start(t, setup{yaml: "cache: {rechecks_per_second: 50, buyer: {ttl: 1h}}"})
	p.get(buyerList, "buyer")
	if !p.system.Answer("acme") {
		t.Fatal("the list cannot change")
	}
	p.eventually("an outdated list is counted", func() bool {
		p.gets(http.StatusOK, buyerList, "buyer")
		metrics := string(p.ops("/metrics").body)
		return strings.Contains(metrics, `inquiry_gateway_cache_rechecks_total{kind="buyer",result="outdated"}`) &&
			!strings.Contains(metrics, `inquiry_gateway_cache_rechecks_total{kind="buyer",result="outdated"} 0`)
	})
}

// What is off has no series; a reload turns it on and off.
func TestOutdatedAnswersAndTheirGoalAreExposed(t *testing.T) {
	p := start(t, setup{yaml: "cache: {seller: {ttl: 10s}}"})
	has := func(series string) bool { return strings.Contains(string(p.ops("/metrics").body), "\n"+series) }
	if has("inquiry_gateway_cache_rechecks_total") || has("inquiry_gateway_cache_goal_outdated_ratio") {
		t.Fatal("re-checks or a goal without being configured")
	}
	p.edit("cache: {", "cache: {rechecks_per_second: 100, goals: {max_outdated: 0.02}, ")
	p.eventually("the goal is exposed", func() bool { return has("inquiry_gateway_cache_goal_outdated_ratio 0.02\n") })
	p.get(buyerList, "buyer")
	p.eventually("a served list is compared", func() bool {
		p.get(buyerList, "buyer")
		return has(`inquiry_gateway_cache_rechecks_total{kind="buyer",result="same"} `) && !has(`inquiry_gateway_cache_rechecks_total{kind="buyer",result="same"} 0`)
	})
	p.edit("goals: {max_outdated: 0.02}", "goals: {max_outdated: 0}")
	p.eventually("the goal is gone", func() bool { return !has("inquiry_gateway_cache_goal_outdated_ratio") })
}
