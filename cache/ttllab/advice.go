package ttllab

import (
	"fmt"
	"math"
	"time"
)

// The goals that an Advice can be about: the configuration's keys.
const (
	GoalUpstream = "max_upstream_per_second"
	GoalOutdated = "max_outdated"
)

// Advice is one TTL for one kind, the other kinds staying as they are.
type Advice struct {
	Goal string `json:"goal"` // GoalUpstream or GoalOutdated
	// TTL in seconds; 0: no candidate meets the goal, and Reason says so.
	TTL    float64 `json:"ttl_seconds"`
	Limit  float64 `json:"limit"`  // the goal as configured
	Reason string  `json:"reason"` // a sentence for a person
	// Provisional: too little was observed to act on it, and Reason says so.
	Provisional bool `json:"provisional"`
}

const (
	// Advice is provisional before so many look-ups, and before so much time: what
	// came first was all misses.
	enoughLookups  = 1000
	enoughObserved = 5 * time.Minute
)

// safety is how many standard errors worse than estimated a candidate may be and
// still meet a goal: 95 % of the time it really does.
const safety = 1.645

// atWorst is what the figure does not exceed in 95 % of the cases.
func (e Estimate) atWorst() float64 { return e.Value + safety*e.StdErr }

// advise answers each goal for one kind: the shortest TTL within the upstream
// budget, which is what the other kinds leave of it at today's TTLs, and the
// longest within the staleness goal.
func (r *Report) advise(i int) {
	k := &r.Kinds[i]
	k.Advice = []Advice{}
	if len(k.Candidates) == 0 {
		return
	}
	left := math.Inf(1)
	if r.Goals.MaxUpstreamPerSecond > 0 {
		left = r.Goals.MaxUpstreamPerSecond
		for j := range r.Kinds {
			if j != i {
				left -= r.Kinds[j].today(Candidate.load, r.Kinds[j].FillsPerSecond+r.Kinds[j].RechecksPerSecond)
			}
		}
		k.Advice = append(k.Advice, k.qualify(k.shortest(left), r.Goals.MaxUpstreamPerSecond))
	}
	if r.Goals.MaxOutdated > 0 {
		k.Advice = append(k.Advice, k.qualify(k.longest(r.Goals.MaxOutdated), r.Goals.MaxOutdated))
	}
	if len(k.Advice) > 0 {
		k.Verdict = k.verdict(left, r.Goals.MaxOutdated)
	}
}

func (c Candidate) load() float64 { return c.Upstream.Value }

// outdated is 0 where nothing is known, so that it breaks no goal.
func (c Candidate) outdated() float64 {
	if c.Outdated == nil {
		return 0
	}
	return c.Outdated.Value
}

// qualify says if an advice comes too early.
func (k *KindReport) qualify(a Advice, limit float64) Advice {
	a.Limit = limit
	if early := k.early(a.TTL); a.TTL > 0 && early != "" {
		a.Provisional = true
		a.Reason += "; too early to act on: " + early
	}
	return a
}

// early says what was observed if that is too little to tell what a TTL does.
func (k *KindReport) early(ttl float64) string {
	settled := true
	for i := len(k.Candidates) - 1; i >= 0 && k.Candidates[i].TTL >= ttl; i-- {
		settled = k.Candidates[i].Settled
	}
	observed := time.Duration(k.Observed * 1e9)
	if settled && observed >= enoughObserved && k.LookupsPerSecond*k.Observed >= enoughLookups {
		return ""
	}
	return fmt.Sprintf("%.0f look-ups in %s are observed", k.LookupsPerSecond*k.Observed, observed.Round(time.Second))
}

// verdict joins the goals: which TTLs meet all of them, and which goal today's breaks. The
// shortest is bounded by the load, the longest by outdated answers.
func (k *KindReport) verdict(load, outdated float64) string {
	low, high := k.Candidates[0].TTL, k.Candidates[len(k.Candidates)-1].TTL
	possible := true
	for _, a := range k.Advice {
		possible = possible && a.TTL > 0
		if a.Goal == GoalUpstream {
			low = a.TTL
		} else {
			high = a.TTL
		}
	}
	text := "no TTL meets all goals"
	switch {
	case possible && low < high:
		text = short(low) + " to " + short(high)
	case possible && low == high:
		text = short(low)
	}
	if k.today(Candidate.load, k.FillsPerSecond+k.RechecksPerSecond) > load {
		text += "; today's " + short(k.TTL) + " breaks " + GoalUpstream
	}
	if outdated > 0 && k.today(Candidate.outdated, 0) > outdated {
		text += "; today's " + short(k.TTL) + " breaks " + GoalOutdated
	}
	return text
}

// shortest looks for the TTL from which on every longer one is within budget too.
func (k *KindReport) shortest(budget float64) Advice {
	a := Advice{Goal: GoalUpstream}
	for c := len(k.Candidates) - 1; c >= 0 && k.Candidates[c].Upstream.atWorst() <= budget; c-- {
		a.TTL = k.Candidates[c].TTL
		a.Reason = fmt.Sprintf("%s is the shortest TTL that keeps the %s lists within %.3g requests/s (estimated %.3g)",
			short(a.TTL), k.Kind, budget, k.Candidates[c].Upstream.Value)
	}
	switch {
	case budget <= 0:
		a.Reason = "the other kinds use up the whole budget at their present TTLs"
	case a.TTL == 0:
		a.Reason = fmt.Sprintf("no TTL up to 24h keeps the %s lists within %.3g requests/s", k.Kind, budget)
	}
	return a
}

// longest looks for the TTL up to which every shorter one meets the goal too.
func (k *KindReport) longest(goal float64) Advice {
	a := Advice{Goal: GoalOutdated}
	if k.Candidates[0].Outdated == nil {
		a.Reason = "no list was seen twice yet, so it is not known how often they change"
		return a
	}
	for c := 0; c < len(k.Candidates) && k.Candidates[c].Outdated.atWorst() <= goal; c++ {
		a.TTL = k.Candidates[c].TTL
		a.Reason = fmt.Sprintf("%s is the longest TTL with at most %.3g %% of the answers outdated (estimated %.3g %%)",
			short(a.TTL), 100*goal, 100*k.Candidates[c].Outdated.Value)
	}
	if a.TTL == 0 {
		a.Reason = fmt.Sprintf("even a TTL of 1s leaves more than %.3g %% of the answers outdated, or that cannot be ruled out yet", 100*goal)
		if k.StaleWhileRevalidate > 0 {
			a.Reason += "; a shorter stale_while_revalidate helps"
		}
	}
	return a
}

// today is a figure at today's TTL: between two candidates, on a line over the
// logarithm of the TTL; below the first it is given.
func (k *KindReport) today(of func(Candidate) float64, below float64) float64 {
	if len(k.Candidates) == 0 || k.TTL < k.Candidates[0].TTL {
		return below
	}
	for c := 1; c < len(k.Candidates); c++ {
		low, high := k.Candidates[c-1], k.Candidates[c]
		if k.TTL <= high.TTL {
			part := math.Log(k.TTL/low.TTL) / math.Log(high.TTL/low.TTL)
			return of(low) + part*(of(high)-of(low))
		}
	}
	return of(k.Candidates[len(k.Candidates)-1])
}

// short writes seconds as 90s, 5m or 24h.
func short(seconds float64) string {
	d := time.Duration(math.Round(seconds * 1e9))
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 10*time.Minute:
		return fmt.Sprintf("%gs", math.Round(seconds*1000)/1000)
	}
	return d.String()
}
