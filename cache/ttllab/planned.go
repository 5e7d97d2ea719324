package ttllab

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Plan is what the controller does, or would do.
type Plan struct {
	Mode string `json:"mode"`
	// Now is what the TTLs that count now make by the same reckoning, Planned what those
	// of the plan do.
	Now     Figures `json:"now"`
	Planned Figures `json:"planned"`
	// Limit is what decides: one of the two goals, or the shortest or longest TTL that
	// is allowed. LimitMaxTTL: the budget cannot be kept.
	Limit string `json:"limit"`
	// Correction is how many times the expected load the measured one was of late.
	Correction float64 `json:"correction"`
	// Rechecks and New, the first requests for lists that nobody had looked up before, are
	// part of any load.
	Rechecks float64 `json:"rechecks_per_second"`
	New      float64 `json:"new_lists_per_second"`
	// Lists have a TTL of their own.
	Lists  int         `json:"lists"`
	Groups []PlanGroup `json:"groups"`
}

// What decides a plan, beside the goals.
const (
	LimitMinTTL = "min_ttl"
	LimitMaxTTL = "max_ttl"
)

// Figures are what TTLs make.
type Figures struct {
	Load     float64 `json:"upstream_per_second"` // re-checks included
	HitRatio float64 `json:"hit_ratio"`
	Outdated float64 `json:"outdated"` // share of all answers
}

// PlanGroup is the plan of one group of lists.
type PlanGroup struct {
	Kind string `json:"kind"`
	Figures
	// TTLs are the shortest, the first quartile, the median, the third quartile and the
	// longest, of look-ups; seconds.
	TTLs [5]float64 `json:"ttls_seconds"`
	// Rest is that of the lists that have none of their own, seconds.
	Rest float64 `json:"rest_ttl_seconds"`
}

// notes say it for a person.
func (p *Plan) notes() []string {
	verb := "keep would give"
	if p.Mode == ModeKeep {
		verb = "keep gives"
	}
	all := []string{fmt.Sprintf("cache.goals: %s %d lists a ttl of their own: %s, by %s", verb, p.Lists, p.Planned.String(), p.Limit)}
	if p.Mode != ModeKeep {
		all[0] += "; now " + p.Now.String()
	}
	if p.Limit == LimitMaxTTL {
		all = append(all, fmt.Sprintf("cache.goals: the load is more than max_upstream_per_second even at max_ttl; %.3g requests/s are for lists that nobody had looked up before", p.New))
	}
	for _, g := range p.Groups {
		all = append(all, fmt.Sprintf("  %s: a quarter of the look-ups each between ttls of %s, %s, %s, %s and %s; %s for other lists",
			g.Kind, age(g.TTLs[0]), age(g.TTLs[1]), age(g.TTLs[2]), age(g.TTLs[3]), age(g.TTLs[4]), age(g.Rest)))
	}
	return all
}

// String says it for a person.
func (f Figures) String() string {
	return fmt.Sprintf("%.3g requests/s to the legacy system, %.2f %% hits, %.2f %% outdated", f.Load, 100*f.HitRatio, 100*f.Outdated)
}

// figures corrects a cost by what was measured.
func (p *Plan) figures(c cost) Figures {
	answers := max(c.answers, slowest)
	return Figures{c.load*p.Correction + p.Rechecks + p.New, 1 - c.waits/answers, c.outdated / answers}
}

// describe adds the groups that have watched lists, with how their TTLs lie: weighed by
// look-ups, because a list that is asked for often matters more.
func (plan *Plan) describe(e *estimator, p *planner, policy Policy) {
	plan.Lists = len(p.lists)
	jitter := policy.mean(time.Second)
	for g, lab := range e.kinds {
		group := PlanGroup{Kind: lab.name, Figures: plan.figures(p.cost(g)), Rest: p.rest[g] / jitter}
		type share struct{ ttl, asked float64 }
		var all []share
		sum := 0.0
		for i := range p.lists {
			if d := &p.lists[i]; d.group == g {
				all = append(all, share{p.ttl[i] / jitter, d.asked})
				sum += d.asked
			}
		}
		if len(all) == 0 {
			continue
		}
		slices.SortFunc(all, func(a, b share) int { return cmp.Compare(a.ttl, b.ttl) })
		i, below := 0, all[0].asked
		for q := range group.TTLs {
			for i < len(all)-1 && below < sum*float64(q)/4 {
				i++
				below += all[i].asked
			}
			group.TTLs[q] = all[i].ttl
		}
		group.TTLs[4] = all[len(all)-1].ttl
		plan.Groups = append(plan.Groups, group)
	}
}
