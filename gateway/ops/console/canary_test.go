package console

import (
	"strings"
	"testing"
	"time"
)

// cell is the state of a check as the page shows it.
func (s *steps) cell(check, kind string) canaryCell {
	v := s.canary()
	for i, row := range v.Rows {
		for j := range kinds {
			if canaryChecks[i] == check && kinds[j] == kind {
				return row.Cells[j]
			}
		}
	}
	return canaryCell{}
}

func TestCanaryStates(t *testing.T) {
	s := newSteps()
	if v := s.canary(); len(v.Rows) != 0 {
		t.Errorf("off: %+v", v)
	}
	s.gauge("canary_last_round_timestamp_seconds", 0, "buyer")
	s.next()
	for want, got := range map[string]string{"not yet": s.cell("contract", "buyer").State, "off": s.cell("contract", "seller").State} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	at := time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC)
	s.gauge("canary_last_round_timestamp_seconds", float64(at.Unix())+.25, "buyer")
	for result, want := range map[string]canaryCell{
		"ok": {State: "ok", Level: levelGood}, "failed": {State: "failed", Level: levelBad},
		"unavailable": {State: "unavailable", Level: levelWarn}, "empty": {State: "empty list", Level: levelWarn},
	} {
		s.count("canary_checks_total", 3, "buyer", "cross_read", result)
		s.next()
		s.next() // nothing new leaves the state as it is
		if got := s.cell("cross_read", "buyer"); got.State != want.State || got.Level != want.Level {
			t.Errorf("%s: %+v", result, got)
		}
	}
	got := s.cell("cross_read", "buyer").Counts
	if len(got) != 4 || got[3] != (canaryCount{`inquiry_gateway_canary_checks_total{check="cross_read",kind="buyer",result="failed"}`, "3", "failed"}) {
		t.Errorf("counts %+v", got)
	}
	if k := s.canary().Kinds; moment(k[0].At) != "03:04:05" || !k[1].At.IsZero() {
		t.Errorf("rounds %+v", k)
	}
}

// A reload begins the counters again; what they grow to then is the last result.
func TestCanaryStateAfterAReload(t *testing.T) {
	s := newSteps()
	s.gauge("canary_last_round_timestamp_seconds", 1, "buyer")
	s.count("canary_checks_total", 5, "buyer", "keys", "ok")
	s.next()
	s.counters["canary_checks_total"].Reset()
	s.count("canary_checks_total", 1, "buyer", "keys", "failed")
	s.next()
	if got := s.cell("keys", "buyer"); got.State != "failed" {
		t.Errorf("%+v", got)
	}
}

func TestServedOutdated(t *testing.T) {
	s := newSteps()
	if v := s.outdated("buyer"); v == nil || !v.Off {
		t.Errorf("no series: %+v", v)
	}
	if v := s.outdated("buyer status=pending"); v != nil {
		t.Errorf("lists of a status count with their kind: %+v", v)
	}
	s.count("cache_rechecks_total", 0, "buyer", "same")
	s.next()
	if v := s.outdated("buyer"); v.Off || v.All != "" || v.Over {
		t.Errorf("nothing re-checked yet: %+v", v)
	}
	s.count("cache_rechecks_total", 50, "buyer", "same")
	s.at = s.at.Add(kept)
	s.next()
	s.count("cache_rechecks_total", 30, "buyer", "same")
	s.count("cache_rechecks_total", 20, "buyer", "outdated")
	s.at = s.at.Add(kept - time.Second)
	s.next()
	if v := s.outdated("buyer"); *v != (outdatedView{Recent: "40 %", Checked: "50", Share: "20 %", All: "100"}) {
		t.Errorf("%+v", v)
	}
	s.gauge("cache_goal_outdated_ratio", .25)
	s.next()
	if v := s.outdated("buyer"); v.Goal != "25 %" || !v.Over {
		t.Errorf("over the goal: %+v", v)
	}
}

// The page says in words what the canary found, and where re-checks are off.
func TestCanaryOnThePage(t *testing.T) {
	c, f := newConsole(t, Options{TTL: sampleReport})
	body := func() string { return ask(c, request()).Body.String() }
	if !strings.Contains(body(), "<p>No figures yet</p>") {
		t.Error("before the first sample the canary is said to be off")
	}
	c.sampler.take()
	if got := body(); !strings.Contains(got, `<strong class="state">off</strong> No keys are configured`) || strings.Count(got, "re-checks are off") != 2 {
		t.Error("off is not said")
	}
	remember(c, f, &clock{})
	got := body()
	for _, want := range []string{
		`<th scope="row">No cross-read <span class="note">`, `<strong class="state good">ok</strong>`, `<strong class="state warning">unavailable</strong>`,
		`buyer lists <span class="note">last round 03:15:00</span>`, "Served outdated: <strong>", "over the goal", "The goal is at most 2 %",
		"The canary&#39;s check freshness of buyer lists failed within a quarter of an hour.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page has not %s", want)
		}
	}
}
