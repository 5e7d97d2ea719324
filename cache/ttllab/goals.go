package ttllab

import (
	"fmt"
	"math"
	"time"

	"inquiry-gateway/cache"
)

// A report is about too little before so many look-ups, and before so much time: what
// came first was all misses.
const (
	enoughLookups  = 1000
	enoughObserved = 5 * time.Minute
)

// mark tells of each candidate whether all goals are kept by it, while the other kinds
// stay at their TTLs.
func (r *Report) mark() {
	if r.Goals == (cache.GoalsConfig{}) {
		return
	}
	for i := range r.Kinds {
		others := 0.0
		for j := range r.Kinds {
			if j != i {
				others += r.Kinds[j].today(Candidate.load, r.Kinds[j].FillsPerSecond+r.Kinds[j].RechecksPerSecond)
			}
		}
		for c := range r.Kinds[i].Candidates {
			row := &r.Kinds[i].Candidates[c]
			keeps := r.Goals.MaxUpstreamPerSecond == 0 || row.Upstream.Value+others <= r.Goals.MaxUpstreamPerSecond
			keeps = keeps && (r.Goals.MaxOutdated == 0 || row.Outdated != nil && row.Outdated.Value <= r.Goals.MaxOutdated)
			row.KeepsGoals = &keeps
		}
	}
}

func (c Candidate) load() float64 { return c.Upstream.Value }

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
