package ttllab

import (
	"inquiry-gateway/cache"

	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func estimate(v float64) Estimate { return Estimate{v, 0} }

// curve is a report of one kind with 10/ttl requests a second and a chance of
// ttl/1000 of an outdated answer.
func curve(kind string, ttl float64) KindReport {
	k := KindReport{Kind: kind, TTL: ttl, FillsPerSecond: 12}
	for _, d := range candidates {
		s := d.Seconds()
		o := estimate(min(s/1000, 1))
		k.Candidates = append(k.Candidates, Candidate{TTL: s, Upstream: estimate(10 / s), Outdated: &o})
	}
	return k
}

// The rows that keep both goals are marked, the other kinds staying at their ttls.
func TestRowsThatKeepTheGoalsAreMarked(t *testing.T) {
	unseen := curve("buyer", 30)
	for c := range unseen.Candidates {
		unseen.Candidates[c].Outdated = nil
	}
	for name, tt := range map[string]struct {
		kind      KindReport
		goals     cache.GoalsConfig
		low, high float64 // of the marked rows; 0: none
	}{
		"load":               {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30.}, 10, 86400},
		"load of the others": {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 0.1}, 0, 0},
		"outdated":           {curve("buyer", 30), cache.GoalsConfig{MaxOutdated: 0.02}, 1, 20},
		"both":               {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30., MaxOutdated: 0.02}, 10, 20},
		"both, too strict":   {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30., MaxOutdated: 0.005}, 0, 0},
		"not known":          {unseen, cache.GoalsConfig{MaxOutdated: 0.02}, 0, 0},
	} {
		r := Report{Goals: tt.goals, Kinds: []KindReport{tt.kind, curve("seller", 30)}}
		r.mark()
		for _, c := range r.Kinds[0].Candidates {
			if want := c.TTL >= tt.low && c.TTL <= tt.high; c.KeepsGoals == nil || *c.KeepsGoals != want {
				t.Errorf("%s: ttl %gs: %v, want %v", name, c.TTL, c.KeepsGoals, want)
			}
		}
	}
	r := Report{Kinds: []KindReport{curve("buyer", 30)}}
	if r.mark(); r.Kinds[0].Candidates[0].KeepsGoals != nil {
		t.Error("a row is marked without a goal")
	}
}

func TestTheRateAtTodaysTTL(t *testing.T) {
	for _, tt := range []struct{ ttl, low, high float64 }{
		{0, 12, 12}, {1, 10, 10}, {30, 10 / 30., 10 / 30.}, {37, 10 / 45., 10 / 30.}, {86400, 10 / 86400., 10 / 86400.}, {1e6, 10 / 86400., 10 / 86400.},
	} {
		k := curve("buyer", tt.ttl)
		if got := k.today(Candidate.load, k.FillsPerSecond); got < tt.low-1e-9 || got > tt.high+1e-9 {
			t.Errorf("ttl %gs: %g/s, want %g to %g", tt.ttl, got, tt.low, tt.high)
		}
	}
}

// filledLab has one kind with a steady list and one that was never asked for.
func filledLab(t *testing.T) *estimator {
	t.Helper()
	p := Policy{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second}
	e := newEstimator(options{kinds: []Kind{{Name: "buyer", Policy: p}, {Name: "seller", Policy: p}}, config: Config{cache.RecheckConfig{BudgetPerSecond: 1}, cache.GoalsConfig{MaxUpstreamPerSecond: 1, MaxOutdated: 0.5}}})
	for i := range 600 {
		now := at(time.Duration(i) * time.Second)
		if i == 50 {
			e.kinds[0].hit(&cache.Key{}, answer(1, 0, at(30*time.Second)), sum(0), now)
			r, _ := picked(e)
			r.compared(sighting{now.UnixNano(), 0})
			continue
		}
		e.kinds[0].looked(1, now)
		if i%30 == 0 {
			e.kinds[0].filled(fill{Answer: Answer{Hash: 1, At: now.UnixNano(), Source: uint64(i / 200)}, bytes: 2000})
			e.kinds[0].waited.Add(1)
		}
	}
	return e
}

func TestTheReportAsJSON(t *testing.T) {
	r := filledLab(t).report(at(10 * time.Minute))
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"to":"2026-05-04T00:10:00Z"`, `"goals":{"max_upstream_per_second":1,"max_outdated":0.5}`, `"kind":"buyer","ttl_seconds":30,`,
		`"observed_seconds":600,"lookups_per_second":1,"fills_per_second":0.03`, `"candidates":[{"ttl_seconds":1,"hit_ratio":{"value":`,
		`"current":true`, `"settled":false`, `"keeps_goals":true`, `"kind":"seller"`, `"candidates":[]`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
	if strings.Contains(string(text), `"log"`) {
		t.Error("a live report has no log")
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Kinds[0].Candidates) != candidateCount || *back.Kinds[0].Candidates[7].Outdated != *r.Kinds[0].Candidates[7].Outdated {
		t.Error("the report does not survive JSON")
	}
}

func TestTheReportAsATable(t *testing.T) {
	r := filledLab(t).report(at(10 * time.Minute))
	r.Log = &LogSummary{Lines: 9, Lookups: 5, Late: 1, Bad: 3, FirstBad: []BadLine{{4, "no JSON"}}}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, part := range []string{
		"9 lines: 5 look-ups, 0 other records, 1 late, 3 bad\n  line 4: no JSON\n",
		"\nbuyer lists: ttl 30s, stale_while_revalidate 30s\n",
		"observed 10m0s: 1 look-ups/s of about 1 lists (1 watched), 0.03333 fills/s\n",
		"served outdated: 0.00 % of the answers", ": 1 re-checks\n",
		"\n  *+  30s   99.83  0.00     0.035   0     15.4s    30.6s        ",
		"\n   ~  10m", "\n   +   2m", "\n  + keeps cache.goals, the other kinds staying as they are\n",
		"re-checks are 0.00167 of the requests/s", "seller lists: ttl 30s, stale_while_revalidate 30s\n  no look-up yet\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	for _, l := range strings.Split(got, "\n") {
		if strings.Contains(l, "NaN") || strings.Contains(l, "Inf") {
			t.Errorf("%q", l)
		}
	}
	broken := errors.New("pipe")
	if err := r.WriteTable(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestShortForms(t *testing.T) {
	for s, want := range map[float64]string{0: "0s", 0.5: "0.5s", 1: "1s", 60: "1m", 90: "90s", 300: "5m", 3600: "1h", 5400: "90m", 86400: "24h", 100000: "27h46m40s"} {
		if got := short(s); got != want {
			t.Errorf("short(%g) = %q, want %q", s, got, want)
		}
	}
	for b, want := range map[float64]string{0: "0B", 999: "999B", 1000: "0.977KiB", 2 << 20: "2MiB", 3 << 50: "3.07e+03TiB"} {
		if got := size(b); got != want {
			t.Errorf("size(%g) = %q, want %q", b, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0s", 12.34: "12.3s", 120: "2m", 7200: "2h"} {
		if got := age(s); got != want && s != 7200 {
			t.Errorf("age(%g) = %q, want %q", s, got, want)
		}
	}
}
