package ttl

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"inquiry-gateway/cache"
)

// Report is what other ttls would have done between From and To.
type Report struct {
	From    time.Time     `json:"from"`
	To      time.Time     `json:"to"`
	Sources int           `json:"sources"` // nodes or logs
	Groups  []GroupReport `json:"kinds"`
	Goals   *Goals        `json:"goals,omitempty"`
	Log     *LogSummary   `json:"log,omitempty"`
}

// GroupReport is the report of one group.
type GroupReport struct {
	Group                string  `json:"kind"`        // the name of the group
	Summary              string  `json:"summary"`     // for a person
	TTL                  float64 `json:"ttl_seconds"` // today's
	StaleWhileRevalidate float64 `json:"stale_while_revalidate_seconds"`
	Observed             float64 `json:"observed_seconds"`
	LookupsPerSecond     float64 `json:"lookups_per_second"` // all, counted
	Lists                float64 `json:"lists"`              // distinct lists, estimated
	SampledLists         int     `json:"sampled_lists"`
	// Intervals is how many times a body was compared with the one of before, and Changes in how many
	// of them it differed.
	Intervals int `json:"intervals"`
	Changes   int `json:"changes"`
	// Today is today's ttl; null before the first look-up.
	Today *Candidate `json:"today"`
	// KeepsGoals are the ttls that keep all goals. Null without goals, and if none does.
	KeepsGoals *Range      `json:"keeps_goals,omitempty"`
	Candidates []Candidate `json:"candidates"` // ascending by ttl; empty before the first look-up
}

// Candidate is what one ttl would have done.
type Candidate struct {
	TTL      float64  `json:"ttl_seconds"`
	HitRatio Estimate `json:"hit_ratio"`           // share of look-ups that did not wait for the legacy
	Upstream Estimate `json:"upstream_per_second"` // requests to the legacy, refreshes included
	MeanAge  Estimate `json:"mean_age_seconds"`    // of the answers
	// Outdated is the share of answers that differ from what the legacy would say. Null: no list
	// was seen twice yet.
	Outdated *Estimate `json:"outdated"`
	Current  bool      `json:"current"` // the candidate nearest to today's ttl
	// Settled: the first ttl, in which the cache was empty, is left out.
	Settled    bool  `json:"settled"`
	KeepsGoals *bool `json:"keeps_goals,omitempty"` // null without goals
}

// Estimate is a figure with its standard error; 95 % of the time the truth about the traffic that was
// seen is within two of them.
type Estimate struct {
	Value  float64 `json:"value"`
	StdErr float64 `json:"std_err"`
}

// Range is ttls, in seconds.
type Range struct {
	From float64 `json:"from_seconds"`
	To   float64 `json:"to_seconds"`
}

// Goals are what a ttl shall keep. Zero: no such goal.
type Goals struct {
	MaxUpstreamPerSecond float64 `json:"max_upstream_per_second"` // of all kinds together
	MaxOutdated          float64 `json:"max_outdated"`            // share of answers, 0 to 1
}

const (
	// In one case of twenty the true figure is more than atWorst standard errors above the estimate.
	atWorst = 1.645
	// A report is about too little before so many look-ups, and before so much time.
	enoughLookups  = 1000
	enoughObserved = 5 * time.Minute
)

// Judge marks the ttls that keep goals with 95 % confidence, while the other groups stay at their
// ttls, and writes the summaries.
func (r *Report) Judge(goals Goals) {
	load := 0.0
	for i := range r.Groups {
		if today := r.Groups[i].Today; today != nil {
			load += today.Upstream.Value
		}
	}
	if goals != (Goals{}) {
		r.Goals = &goals
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		for c := range g.Candidates {
			row := &g.Candidates[c]
			others := load - g.Today.Upstream.Value
			keeps := keeps(goals.MaxUpstreamPerSecond, row.Upstream, others) &&
				(goals.MaxOutdated == 0 || row.Outdated != nil && keeps(goals.MaxOutdated, *row.Outdated, 0))
			if r.Goals != nil {
				row.KeepsGoals = &keeps
			}
			switch {
			case r.Goals == nil || !keeps:
			case g.KeepsGoals == nil:
				g.KeepsGoals = &Range{row.TTL, row.TTL}
			default:
				g.KeepsGoals.To = row.TTL
			}
		}
		g.Summary = g.summary(goals)
	}
}

// keeps tells whether a figure is within its goal, if there is one.
func keeps(goal float64, e Estimate, others float64) bool {
	return goal == 0 || others+e.Value+atWorst*e.StdErr <= goal
}

// summary says in a sentence what today's ttl does and which ttls keep the goals.
func (g *GroupReport) summary(goals Goals) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s lists, ttl %s: ", g.Group, short(g.TTL))
	if g.Today == nil {
		return b.String() + "no look-up yet."
	}
	fmt.Fprintf(&b, "%.1f %% of the look-ups do not wait, %.3g requests/s go to the legacy system, ", 100*g.Today.HitRatio.Value, g.Today.Upstream.Value)
	if g.Today.Outdated != nil {
		fmt.Fprintf(&b, "%.2f %% of the answers are outdated", 100*g.Today.Outdated.Value)
	} else {
		b.WriteString("how many answers are outdated is not known yet")
	}
	if goals != (Goals{}) {
		switch keeps := g.KeepsGoals; {
		case keeps == nil:
			b.WriteString("; no ttl keeps the goals")
		case keeps.From == keeps.To:
			fmt.Fprintf(&b, "; %s keeps the goals", short(keeps.From))
		default:
			fmt.Fprintf(&b, "; %s to %s keep the goals", short(keeps.From), short(keeps.To))
		}
	}
	if observed := cache.Seconds(g.Observed).Duration(); observed < enoughObserved || g.LookupsPerSecond*g.Observed < enoughLookups {
		fmt.Fprintf(&b, ". Too early to act on: %.0f look-ups in %s", g.LookupsPerSecond*g.Observed, observed.Round(time.Second))
	}
	return b.String() + "."
}

// WriteTable writes the report for a person, in a fixed-width font: a sentence for each
// group, then a table for each. The error is the writer's.
func (r Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	for i := range r.Groups {
		b.WriteString(r.Groups[i].Summary + "\n")
	}
	if r.Log != nil {
		r.Log.describe(&b)
	} else {
		nodes := "one node"
		if r.Sources > 1 {
			nodes = fmt.Sprintf("%d nodes", r.Sources)
		}
		fmt.Fprintf(&b, "from %s, since %s UTC\n", nodes, r.From.Format(time.DateTime))
	}
	for i := range r.Groups {
		r.Groups[i].describe(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describe writes the table of a group.
func (g *GroupReport) describe(b *strings.Builder) {
	if len(g.Candidates) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s lists: ttl %s, stale_while_revalidate %s\n", g.Group, short(g.TTL), short(g.StaleWhileRevalidate))
	fmt.Fprintf(b, "  observed %s: %.4g look-ups/s of about %.0f lists (%d sampled)", cache.Seconds(g.Observed).Duration().Round(time.Second), g.LookupsPerSecond, g.Lists, g.SampledLists)
	fmt.Fprintf(b, ", %d changes in %d intervals\n", g.Changes, g.Intervals)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tttl\thits %\t+-\tlegacy/s\t+-\tmean age\toutdated %\t+-\t")
	marks := ""
	for _, c := range g.Candidates {
		mark := ""
		if c.Current {
			mark = "*"
		}
		if c.KeepsGoals != nil && *c.KeepsGoals {
			mark += "+"
		}
		if !c.Settled {
			mark += "~"
		}
		marks += mark
		outdated, stdErr := "?", ""
		if c.Outdated != nil {
			outdated, stdErr = fmt.Sprintf("%.2f", 100*c.Outdated.Value), fmt.Sprintf("%.2f", 100*c.Outdated.StdErr)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%.4g\t%.2g\t%s\t%s\t%s\t\n", mark, short(c.TTL),
			100*c.HitRatio.Value, 100*c.HitRatio.StdErr, c.Upstream.Value, c.Upstream.StdErr, short(c.MeanAge.Value), outdated, stdErr)
	}
	_ = t.Flush() // a strings.Builder takes everything
	for _, legend := range [...]string{
		"* nearest to today's ttl   +- standard error",
		"+ keeps the goals, the other kinds staying at their ttls",
		"~ observed for less than two ttls: the start, when every look-up is a miss, still weighs",
	} {
		if strings.Contains(marks, legend[:1]) {
			b.WriteString("  " + legend + "\n")
		}
	}
}

// short writes seconds with three digits and a unit.
func short(seconds float64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.3gs", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%.3gm", seconds/60)
	}
	return fmt.Sprintf("%.3gh", seconds/3600)
}
