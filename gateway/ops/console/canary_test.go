package console

import (
	"math"
	"testing"
)

// row is a check as the page gets it.
func (s *steps) row(check, kind string) canaryRow {
	for _, r := range s.state().Canary {
		if r.Check == check && r.Kind == kind {
			return r
		}
	}
	return canaryRow{}
}

func TestCanaryStates(t *testing.T) {
	s := newSteps()
	s.gauge("canary_last_round_timestamp_seconds", 0, "buyer")
	s.next()
	for want, got := range map[string]string{"not yet": s.row("contract", "buyer").State, "off": s.row("contract", "seller").State} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, result := range []string{"ok", "failed", "unavailable", "empty"} {
		s.count("canary_checks_total", 3, "buyer", "cross_read", result)
		s.next()
		at := s.at
		s.next() // nothing new leaves the state as it is
		if got := s.row("cross_read", "buyer"); got.State != result || got.At != at.Unix() {
			t.Errorf("%s: %+v", result, got)
		}
	}
	if got := s.row("cross_read", "buyer").Failed; got != 3 {
		t.Errorf("failed %v times", got)
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
	if got := s.row("keys", "buyer"); got.State != "failed" {
		t.Errorf("%+v", got)
	}
}

func TestServedOutdated(t *testing.T) {
	s := newSteps()
	if got := s.state().Outdated; len(got) != 0 {
		t.Errorf("no series: %+v", got)
	}
	s.outdated(0, 0, .25)
	s.next()
	if got := s.state().Outdated; len(got) != 1 || got["buyer"].Checked != 0 || !math.IsNaN(float64(got["buyer"].Share)) || got["buyer"].Goal != .25 {
		t.Errorf("nothing re-checked yet: %+v", got)
	}
	s.outdated(50, 0, .25)
	s.next()
	s.at = s.at.Add(kept)
	s.outdated(50, 20, .25)
	s.next()
	if got := s.state().Outdated["buyer"]; got.Checked != 50 || math.Abs(float64(got.Share)-.36) > 1e-9 || got.Goal != .25 {
		t.Errorf("%+v: what is older than an hour does not count", got)
	}
}

// Before the first sample nothing is said to be well.
func TestStateBeforeTheFirstSample(t *testing.T) {
	s := newSampler(newFeed().options(Options{}))
	if got := s.state(); got.At != 0 || got.Incident.Level != levelWarn || got.Incident.Name != "No figures yet" {
		t.Errorf("%+v", got)
	}
}
