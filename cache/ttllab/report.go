package ttllab

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"inquiry-gateway/cache"
)

// Report is what would have happened at other ttls, as of To. It is a copy and
// belongs to the caller.
type Report struct {
	To     time.Time         `json:"to"`
	Since  *time.Time        `json:"since,omitempty"` // since when this node counts; null: from a log
	Groups []GroupReport     `json:"kinds"`
	Goals  cache.GoalsConfig `json:"goals"`
	// Nodes is how many nodes the figures are about, this one included: those that
	// share their look-ups through Redis.
	Nodes int `json:"nodes"`
	// LostLookups could not be noted, since the start; the figures lack them.
	LostLookups uint64      `json:"lost_lookups,omitempty"`
	Log         *LogSummary `json:"log,omitempty"` // of FromLog
}

// GroupReport is the report of one group.
type GroupReport struct {
	Group string `json:"kind"` // the name of the group
	// Summary says for a person what today's ttl does and which ttls keep the goals.
	Summary              string  `json:"summary"`
	TTL                  float64 `json:"ttl_seconds"` // today's
	StaleWhileRevalidate float64 `json:"stale_while_revalidate_seconds"`
	// Observed is the time that the figures cover. Older parts count less: each
	// half-life halves them.
	Observed         float64 `json:"observed_seconds"`
	LookupsPerSecond float64 `json:"lookups_per_second"` // all, counted
	FillsPerSecond   float64 `json:"fills_per_second"`   // all at today's ttl, counted
	// RechecksPerSecond are requests of the lab's own; they are part of each candidate's.
	RechecksPerSecond float64 `json:"rechecks_per_second"`
	WatchedLists      int     `json:"watched_lists"`
	Lists             float64 `json:"lists"` // distinct lists, estimated

	Today *Today `json:"today"` // null before the first look-up
	// KeepsGoals are the ttls that keep all goals. Null without goals, and where none does.
	KeepsGoals *Range `json:"keeps_goals,omitempty"`

	Changes    Changes     `json:"changes"`
	Served     Served      `json:"served"`
	Candidates []Candidate `json:"candidates"` // ascending by ttl; empty before the first look-up
}

// Today is what today's ttl does, by the estimate.
type Today struct {
	HitRatio float64  `json:"hit_ratio"`
	Upstream float64  `json:"upstream_per_second"`
	Outdated *float64 `json:"outdated"` // null: not known yet
}

// Range is ttls, in seconds.
type Range struct {
	From float64 `json:"from_seconds"`
	To   float64 `json:"to_seconds"`
}

// Changes is how often lists change.
type Changes struct {
	// PerHour is the rate of a list as answers meet it: each list counts as often
	// as it is asked for.
	PerHour Estimate `json:"per_hour"`
	// Intervals is how many times a body was compared with the one of before, back to the 16th
	// last change of each list, and Changes in how many of them it differed.
	Intervals int `json:"intervals"`
	Changes   int `json:"changes"`
}

// Served is what re-checks say about the answers that were really given.
type Served struct {
	Checks int `json:"checks"` // since the start
	// Outdated is the share of all answers with a list, those that waited for the
	// legacy included, that differed from what it said at that moment. Low and High
	// bound it with 95 % confidence.
	Outdated float64 `json:"outdated"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Candidate is what one ttl would have done.
type Candidate struct {
	TTL      float64  `json:"ttl_seconds"`
	HitRatio Estimate `json:"hit_ratio"`           // share of answers that did not wait for the legacy
	Upstream Estimate `json:"upstream_per_second"` // requests to the legacy, refreshes and re-checks included
	MeanAge  Estimate `json:"mean_age_seconds"`    // over all answers
	P99Age   float64  `json:"p99_age_seconds"`     // to within 1/64 of the largest possible age
	// Outdated is the chance that an answer differs from what the legacy would
	// say. Its error includes that of each list's rate of change. Null: no list was seen
	// twice yet.
	Outdated   *Estimate `json:"outdated"`
	RedisBytes Estimate  `json:"redis_bytes"` // as of now, keys and Redis' own overhead included
	// Current marks the candidate nearest to today's ttl.
	Current bool `json:"current"`
	// Settled: at least four ttls were observed. Before that the start, when
	// everything was a miss, still weighs.
	Settled bool `json:"settled"`
	// KeepsGoals: with 95 % confidence all goals are kept at this ttl, while the other
	// kinds stay at theirs. Null without goals.
	KeepsGoals *bool `json:"keeps_goals,omitempty"`
}

const (
	// atWorst standard errors more than estimated a figure has in one case of twenty.
	atWorst = 1.645
	// A report is about too little before so many look-ups, and before so much time: what
	// came first was all misses.
	enoughLookups  = 1000
	enoughObserved = 5 * time.Minute
)

// mark says of each group what today's ttl does, and of each candidate whether the goals
// are kept.
func (r *Report) mark() {
	load := 0.0
	for i := range r.Groups {
		g := &r.Groups[i]
		if g.Today = g.today(); g.Today != nil {
			load += g.Today.Upstream
		} else {
			load += g.FillsPerSecond + g.RechecksPerSecond
		}
	}
	for i := range r.Groups {
		g := &r.Groups[i]
		if r.Goals != (cache.GoalsConfig{}) && g.Today != nil {
			others := load - g.Today.Upstream
			for c := range g.Candidates {
				row := &g.Candidates[c]
				keeps := keeps(r.Goals.MaxUpstreamPerSecond, row.Upstream, others) && (r.Goals.MaxOutdated == 0 || row.Outdated != nil && keeps(r.Goals.MaxOutdated, *row.Outdated, 0))
				row.KeepsGoals = &keeps
				switch {
				case keeps && g.KeepsGoals == nil:
					g.KeepsGoals = &Range{row.TTL, row.TTL}
				case keeps:
					g.KeepsGoals.To = row.TTL
				}
			}
		}
		g.Summary = g.summary(r.Goals)
	}
}

// keeps tells whether a figure is within its goal, if there is one.
func keeps(goal float64, e Estimate, others float64) bool {
	return goal == 0 || others+e.Value+atWorst*e.StdErr <= goal
}

// today is what today's ttl does: between two candidates, on a line over the logarithm of
// the ttl; below the first, what was counted.
func (g *GroupReport) today() *Today {
	if len(g.Candidates) == 0 {
		return nil
	}
	low, high, part := g.Candidates[0], g.Candidates[0], 0.0
	for _, c := range g.Candidates[1:] {
		if low, high = high, c; g.TTL <= c.TTL {
			break
		}
	}
	if g.TTL > low.TTL {
		part = min(math.Log(g.TTL/low.TTL)/math.Log(high.TTL/low.TTL), 1)
	}
	between := func(a, b float64) float64 { return a + part*(b-a) }
	t := &Today{HitRatio: between(low.HitRatio.Value, high.HitRatio.Value), Upstream: between(low.Upstream.Value, high.Upstream.Value)}
	if g.TTL < g.Candidates[0].TTL {
		t.Upstream = g.FillsPerSecond + g.RechecksPerSecond
	}
	if low.Outdated != nil {
		outdated := between(low.Outdated.Value, high.Outdated.Value)
		t.Outdated = &outdated
	}
	return t
}

// summary says it in a sentence.
func (g *GroupReport) summary(goals cache.GoalsConfig) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s lists, ttl %s: ", g.Group, short(g.TTL))
	if g.Today == nil {
		return b.String() + "no look-up yet."
	}
	fmt.Fprintf(&b, "%.1f %% of the look-ups do not wait, %.3g requests/s go to the legacy system, ", 100*g.Today.HitRatio, g.Today.Upstream)
	if g.Today.Outdated != nil {
		fmt.Fprintf(&b, "%.2f %% of the answers are outdated", 100**g.Today.Outdated)
	} else {
		b.WriteString("how many answers are outdated is not known yet")
	}
	switch keeps := g.KeepsGoals; {
	case goals == (cache.GoalsConfig{}):
	case keeps == nil:
		b.WriteString("; no ttl keeps the goals")
	case keeps.From == keeps.To:
		fmt.Fprintf(&b, "; %s keeps the goals", short(keeps.From))
	default:
		fmt.Fprintf(&b, "; %s to %s keep the goals", short(keeps.From), short(keeps.To))
	}
	if goals != (cache.GoalsConfig{}) {
		var all []string
		if goals.MaxUpstreamPerSecond > 0 {
			all = append(all, fmt.Sprintf("at most %.3g requests/s of all kinds", goals.MaxUpstreamPerSecond))
		}
		if goals.MaxOutdated > 0 {
			all = append(all, fmt.Sprintf("at most %.3g %% outdated", 100*goals.MaxOutdated))
		}
		fmt.Fprintf(&b, " (%s)", strings.Join(all, ", "))
	}
	if observed := time.Duration(g.Observed * 1e9); observed < enoughObserved || g.LookupsPerSecond*g.Observed < enoughLookups {
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
	since := ""
	if r.Since != nil {
		since = ", since " + r.Since.Format(time.DateTime+" UTC")
	}
	switch {
	case r.Log != nil:
		r.Log.describe(&b)
	case r.Nodes > 1:
		fmt.Fprintf(&b, "covers %d nodes, which share their look-ups through Redis%s\n", r.Nodes, since)
	default:
		fmt.Fprintf(&b, "covers this node alone%s\n", since)
	}
	if r.LostLookups > 0 {
		fmt.Fprintf(&b, "%d look-ups could not be noted and are missing\n", r.LostLookups)
	}
	for i := range r.Groups {
		r.Groups[i].describe(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describe writes what is known of a group; what is not known yet is left out.
func (g *GroupReport) describe(b *strings.Builder) {
	if len(g.Candidates) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s lists: ttl %s, stale_while_revalidate %s\n", g.Group, short(g.TTL), short(g.StaleWhileRevalidate))
	fmt.Fprintf(b, "  observed %s: %.4g look-ups/s of about %.0f lists (%d watched), %.4g fills/s\n",
		time.Duration(g.Observed*1e9).Round(time.Second), g.LookupsPerSecond, g.Lists, g.WatchedLists, g.FillsPerSecond)
	if g.RechecksPerSecond > 0 {
		fmt.Fprintf(b, "  re-checks are %.3g of the requests/s to the legacy, whatever the ttl\n", g.RechecksPerSecond)
	}
	if g.Changes.Intervals > 0 {
		fmt.Fprintf(b, "  lists change %.3g (+-%.2g) times an hour: %d changes in %d intervals\n",
			g.Changes.PerHour.Value, g.Changes.PerHour.StdErr, g.Changes.Changes, g.Changes.Intervals)
	}
	if s := g.Served; s.Checks > 0 {
		fmt.Fprintf(b, "  served outdated: %.2f %% of the answers (%.2f to %.2f %%) by %d re-checks\n", 100*s.Outdated, 100*s.Low, 100*s.High, s.Checks)
	}
	g.rows(b)
}

// rows writes a line for each candidate, and what the marks in them mean.
func (g *GroupReport) rows(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tttl\thits %\t+-\tlegacy/s\t+-\tmean age\tp99 age\toutdated %\t+-\tRedis\t")
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
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%.4g\t%.2g\t%s\t%s\t%s\t%s\t%s\t\n", mark, short(c.TTL),
			100*c.HitRatio.Value, 100*c.HitRatio.StdErr, c.Upstream.Value, c.Upstream.StdErr,
			short(c.MeanAge.Value), short(c.P99Age), outdated, stdErr, size(c.RedisBytes.Value))
	}
	_ = t.Flush() // a strings.Builder takes everything
	for _, legend := range [...]string{
		"* nearest to today's ttl   +- standard error of the sample",
		"+ keeps cache.goals, the other kinds staying at their ttls",
		"~ observed for less than four ttls: the start, when all was a miss, still weighs",
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

// size writes bytes with three digits and a binary unit.
func size(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for bytes >= 1000 && i < len(units)-1 {
		bytes /= 1024
		i++
	}
	return fmt.Sprintf("%.3g%s", bytes, units[i])
}
