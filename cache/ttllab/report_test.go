package ttllab

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cache"
)

var update = flag.Bool("update", false, "write testdata/report anew")

// curve is a report of one kind with 10/ttl requests a second and a chance of
// ttl/1000 of an outdated answer.
func curve(kind string, ttl float64) GroupReport {
	k := GroupReport{Group: kind, TTL: ttl, FillsPerSecond: 12, Observed: 1000, LookupsPerSecond: 100}
	for _, d := range candidates {
		s := d.Seconds()
		k.Candidates = append(k.Candidates, Candidate{
			TTL: s, HitRatio: Estimate{Value: s / (s + 10)}, Upstream: Estimate{Value: 10 / s}, Outdated: &Estimate{Value: min(s/1000, 1)},
		})
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
	const says = "buyer lists, ttl 30s: 75.0 % of the look-ups do not wait, 0.333 requests/s go to the legacy system, 3.00 % of the answers are outdated"
	load, outdated := func(most float64) cache.GoalsConfig { return cache.GoalsConfig{MaxUpstreamPerSecond: most} }, cache.GoalsConfig{MaxOutdated: 0.02}
	for name, tt := range map[string]struct {
		kind    GroupReport
		goals   cache.GoalsConfig
		keeps   *Range
		summary string
	}{
		"load":               {curve("buyer", 30), load(1 + 10/30.), &Range{10, 86400}, says + "; 10s to 24h keep the goals (at most 1.33 requests/s of all kinds)."},
		"load, not sure":     {unsure, load(1 + 10/30.), &Range{30, 86400}, says + "; 30s to 24h keep"},
		"load of the others": {curve("buyer", 30), load(0.1), nil, says + "; no ttl keeps the goals (at most 0.1 requests/s of all kinds)."},
		"outdated":           {curve("buyer", 30), outdated, &Range{1, 20}, says + "; 1s to 20s keep the goals (at most 2 % outdated)."},
		"both": {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30., MaxOutdated: 0.01}, &Range{10, 10},
			says + "; 10s keeps the goals (at most 1.33 requests/s of all kinds, at most 1 % outdated)."},
		"both, too strict": {curve("buyer", 30), cache.GoalsConfig{MaxUpstreamPerSecond: 1 + 10/30., MaxOutdated: 0.005}, nil, says + "; no ttl"},
		"not known":        {unseen, outdated, nil, "legacy system, how many answers are outdated is not known yet; no ttl"},
		"too early":        {early, outdated, &Range{1, 20}, " Too early to act on: 2000 look-ups in 20s."},
		"no goals":         {curve("buyer", 30), cache.GoalsConfig{}, nil, says + "."},
		"no look-up":       {GroupReport{Group: "buyer"}, outdated, nil, "buyer lists, ttl 0s: no look-up yet."},
	} {
		r := Report{Goals: tt.goals, Groups: []GroupReport{tt.kind, curve("seller", 30)}}
		r.mark()
		k := r.Groups[0]
		for _, c := range k.Candidates {
			want := tt.keeps != nil && c.TTL >= tt.keeps.From && c.TTL <= tt.keeps.To
			if (c.KeepsGoals == nil) != (tt.goals == cache.GoalsConfig{}) || c.KeepsGoals != nil && *c.KeepsGoals != want {
				t.Errorf("%s: ttl %gs: %v, want %v", name, c.TTL, c.KeepsGoals, want)
			}
		}
		if !reflect.DeepEqual(k.KeepsGoals, tt.keeps) || !strings.Contains(k.Summary, tt.summary) {
			t.Errorf("%s: %+v: %s\nwant %s", name, k.KeepsGoals, k.Summary, tt.summary)
		}
	}
}

// Between two candidates today's figures are between theirs; without a ttl each look-up is a
// fill.
func TestTheRateAtTodaysTTL(t *testing.T) {
	for _, tt := range []struct{ ttl, low, high float64 }{
		{0, 12, 12}, {1, 10, 10}, {30, 10 / 30., 10 / 30.}, {37, 10 / 45., 10 / 30.}, {1e6, 10 / 86400., 10 / 86400.},
	} {
		k := curve("buyer", tt.ttl)
		if got := k.today().Upstream; got < tt.low-1e-9 || got > tt.high+1e-9 {
			t.Errorf("ttl %gs: %g/s, want %g to %g", tt.ttl, got, tt.low, tt.high)
		}
	}
}

// What a person reads is testdata/report, and what a program reads survives JSON.
func TestTheReportIsWritten(t *testing.T) {
	p := Group{Terms: cache.Terms{TTL: 30 * time.Second, StaleWhileRevalidate: 30 * time.Second}}
	n := newNode(p, 64)
	c := cache.Config{RechecksPerSecond: 1, Goals: cache.GoalsConfig{MaxUpstreamPerSecond: 1, MaxOutdated: 0.5}}
	n.SetConfig(groupsOf(p), c)
	n.bodies = func(_ int, at time.Duration) uint64 { return uint64(at / (200 * time.Second)) }
	for i := range 600 {
		steps(time.Duration(i)*time.Second, n)
		n.ask(1, time.Duration(i)*time.Second)
	}
	p.TTL = time.Minute
	n.SetConfig(groupsOf(p), c)
	n.clock = 10 * time.Minute
	r := n.Report()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("the report does not survive JSON: %v\n%+v\n%+v", err, back, r)
	}
	r.Log = &LogSummary{Lines: 9, Lookups: 5, Late: 1, Bad: 3, FirstBad: []BadLine{{4, "no JSON"}}}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/report", []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile("testdata/report"); err != nil || b.String() != string(want) {
		t.Errorf("%v; testdata/report should be:\n%s", err, b.String())
	}
	broken := errors.New("pipe")
	if err := r.WriteTable(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
