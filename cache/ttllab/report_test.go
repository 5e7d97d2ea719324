package ttllab

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cache"
)

// curve is a report of one kind with 10/ttl requests a second and a chance of
// ttl/1000 of an outdated answer.
func curve(kind string, ttl float64) KindReport {
	k := KindReport{Kind: kind, TTL: ttl, FillsPerSecond: 12, Observed: 1000, LookupsPerSecond: 100}
	for _, d := range candidates {
		s := d.Seconds()
		k.Candidates = append(k.Candidates, Candidate{TTL: s, HitRatio: Estimate{Value: s / (s + 10)}, Upstream: Estimate{Value: 10 / s}, Outdated: &Estimate{Value: min(s/1000, 1)}})
	}
	return k
}

// The rows that surely keep both goals are marked, the other kinds staying at their ttls,
// and one sentence says it.
func TestRowsThatKeepTheGoals(t *testing.T) {
	unseen, unsure, early := curve("buyer", 30), curve("buyer", 30), curve("buyer", 30)
	for c := range unseen.Candidates {
		unseen.Candidates[c].Outdated = nil
		unsure.Candidates[c].Upstream.StdErr = unsure.Candidates[c].Upstream.Value // 1.645 of it on top
	}
	early.Observed = 20
	says := "buyer lists, ttl 30s: 75.0 % of the look-ups do not wait, 0.333 requests/s go to the legacy system, 3.00 % of the answers are outdated"
	for name, tt := range map[string]struct {
		kind    KindReport
		goals   cache.GoalsConfig
		keeps   *Range
		summary string
	}{
		"load":               {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30.}, &Range{10, 86400}, says + "; 10s to 24h keep the goals (at most 1.33 requests/s of all kinds)."},
		"load, not sure":     {unsure, cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30.}, &Range{30, 86400}, says + "; 30s to 24h keep"},
		"load of the others": {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 0.1}, nil, says + "; no ttl keeps the goals (at most 0.1 requests/s of all kinds)."},
		"outdated":           {curve("buyer", 30), cache.GoalsConfig{MaxOutdated: 0.02}, &Range{1, 20}, says + "; 1s to 20s keep the goals (at most 2 % outdated)."},
		"both":               {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30., MaxOutdated: 0.01}, &Range{10, 10}, says + "; 10s keeps the goals (at most 1.33 requests/s of all kinds, at most 1 % outdated)."},
		"both, too strict":   {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30., MaxOutdated: 0.005}, nil, says + "; no ttl"},
		"not known":          {unseen, cache.GoalsConfig{MaxOutdated: 0.02}, nil, "legacy system, how many answers are outdated is not known yet; no ttl"},
		"too early":          {early, cache.GoalsConfig{MaxOutdated: 0.02}, &Range{1, 20}, " Too early to act on: 2000 look-ups in 20s."},
		"no goals":           {curve("buyer", 30), cache.GoalsConfig{}, nil, says + "."},
	} {
		r := Report{Goals: tt.goals, Kinds: []KindReport{tt.kind, curve("seller", 30)}}
		r.mark()
		k := r.Kinds[0]
		for _, c := range k.Candidates {
			if want := tt.keeps != nil && c.TTL >= tt.keeps.From && c.TTL <= tt.keeps.To; (c.KeepsGoals == nil) != (tt.goals == cache.GoalsConfig{}) || c.KeepsGoals != nil && *c.KeepsGoals != want {
				t.Errorf("%s: ttl %gs: %v, want %v", name, c.TTL, c.KeepsGoals, want)
			}
		}
		if (k.KeepsGoals == nil) != (tt.keeps == nil) || tt.keeps != nil && *k.KeepsGoals != *tt.keeps || !strings.Contains(k.Summary, tt.summary) {
			t.Errorf("%s: %+v: %s\nwant %s", name, k.KeepsGoals, k.Summary, tt.summary)
		}
	}
	r := Report{Kinds: []KindReport{{Kind: "buyer"}}}
	if r.mark(); r.Kinds[0].Summary != "buyer lists, ttl 0s: no look-up yet." {
		t.Error(r.Kinds[0].Summary)
	}
}

func TestTheRateAtTodaysTTL(t *testing.T) {
	for _, tt := range []struct{ ttl, low, high float64 }{
		{0, 12, 12}, {1, 10, 10}, {30, 10 / 30., 10 / 30.}, {37, 10 / 45., 10 / 30.}, {86400, 10 / 86400., 10 / 86400.}, {1e6, 10 / 86400., 10 / 86400.},
	} {
		k := curve("buyer", tt.ttl)
		if got := k.today().Upstream; got < tt.low-1e-9 || got > tt.high+1e-9 {
			t.Errorf("ttl %gs: %g/s, want %g to %g", tt.ttl, got, tt.low, tt.high)
		}
	}
}

// What a person and what a program reads of the same report.
func TestTheReportIsWritten(t *testing.T) {
	n := newNode(t, Policy{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second}, 64,
		Config{1, cache.GoalsConfig{MaxUpstreamPerSecond: 1, MaxOutdated: 0.5}}, nil)
	n.bodies = func(_ uint64, at time.Duration) uint64 { return uint64(at / (200 * time.Second)) }
	for i := range 600 {
		steps(time.Duration(i)*time.Second, n)
		n.ask(1, time.Duration(i)*time.Second)
	}
	n.reload(Policy{TTL: time.Minute, StaleWhileRevalidate: 30 * time.Second})
	n.clock = 10 * time.Minute
	r := n.Report()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"to":"2026-05-04T00:10:00Z"`, `"goals":{"max_upstream_per_second":1,"max_outdated":0.5}`, `"summary":"buyer lists, ttl 1m: `, `"keeps_goals":{"from_seconds":`,
		`"today":{"hit_ratio":0.9`, `"observed_seconds":600,"lookups_per_second":1,`, `"candidates":[{"ttl_seconds":1,"hit_ratio":{"value":`, `"ttl_changes":[{"at":`,
		`"current":true,"settled":true,"keeps_goals":true`, `"kind":"seller","summary":"seller lists, ttl 30s: no look-up yet."`, `"today":null`, `"candidates":[]`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in\n%s", part, text)
		}
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Kinds[0].Candidates) != candidateCount || *back.Kinds[0].Candidates[7].Outdated != *r.Kinds[0].Candidates[7].Outdated {
		t.Errorf("the report does not survive JSON: %v", err)
	}
	r.Log = &LogSummary{Lines: 9, Lookups: 5, Late: 1, Bad: 3, FirstBad: []BadLine{{4, "no JSON"}}}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, part := range []string{
		"seller lists, ttl 30s: no look-up yet.\n9 lines: 5 look-ups, 0 other records, 1 late, 3 bad\n  line 4: no JSON\n",
		"\nbuyer lists: ttl 1m, stale_while_revalidate 30s\n", "  observed 10m0s: 1 look-ups/s of about 1 lists (1 watched)", "served outdated: ", "re-checks are ",
		"\n  *+   1m   99.8", "\n   +   2m", "\n  + keeps cache.goals", "\n  ~ observed for less than four ttls", "  ttl 30s to 1m at 2026-05-04 00:09:59 UTC: 99.8",
		" requests per 100 look-ups predicted, settling\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") || !strings.HasPrefix(got, "buyer lists, ttl 1m: ") {
		t.Error(got)
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
