package main

import (
	"strings"
	"testing"
)

// What is off has no series; a reload turns it on and off.
func TestOutdatedAnswersAndTheirGoalAreExposed(t *testing.T) {
	p := start(t, setup{yaml: "cache: {seller: {ttl: 10s}}"})
	has := func(series string) bool { return strings.Contains(string(p.ops("/metrics").body), "\n"+series) }
	if has("inquiry_gateway_cache_rechecks_total") || has("inquiry_gateway_cache_outdated_seconds_total") || has("inquiry_gateway_cache_goal_outdated_ratio") {
		t.Fatal("re-checks or a goal without being configured")
	}
	p.edit("cache: {", "cache: {recheck: {budget_per_second: 100}, goals: {max_outdated: 0.02}, ")
	p.eventually("the goal is exposed", func() bool { return has("inquiry_gateway_cache_goal_outdated_ratio 0.02\n") })
	p.get(buyerList, "buyer")
	p.eventually("a served list is compared", func() bool {
		p.get(buyerList, "buyer")
		return has(`inquiry_gateway_cache_rechecks_total{kind="buyer",result="same"} `) && !has(`inquiry_gateway_cache_rechecks_total{kind="buyer",result="same"} 0`)
	})
	p.edit("goals: {max_outdated: 0.02}", "goals: {max_outdated: 0}")
	p.eventually("the goal is gone", func() bool { return !has("inquiry_gateway_cache_goal_outdated_ratio") })
}
