package ttllab

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes the report for a person: a table per kind, in a fixed-width
// font. The error is the writer's.
func (r Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	if r.Log != nil {
		r.Log.describe(&b)
	}
	switch {
	case r.Log != nil:
	case r.Nodes > 1:
		fmt.Fprintf(&b, "covers %d nodes, which share their look-ups through Redis; re-checks of answers are this node's\n", r.Nodes)
	default:
		b.WriteString("covers this node alone\n")
	}
	if r.LostLookups > 0 {
		fmt.Fprintf(&b, "%d look-ups were too many to be shared and are missing\n", r.LostLookups)
	}
	for i := range r.Kinds {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		r.Kinds[i].describe(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describe says how much of the log was used, and why the rest was not.
func (l *LogSummary) describe(b *strings.Builder) {
	fmt.Fprintf(b, "%d lines: %d look-ups, %d other records, %d late, %d bad\n", l.Lines, l.Lookups, l.Skipped, l.Late, l.Bad)
	for _, bad := range l.FirstBad {
		fmt.Fprintf(b, "  line %d: %s\n", bad.Line, bad.Reason)
	}
	if l.Late > 0 {
		b.WriteString("  late lines were left out; sort the log by time\n")
	}
}

// describe writes what is known of a kind; what is not known yet is left out.
func (k *KindReport) describe(b *strings.Builder) {
	fmt.Fprintf(b, "%s lists: ttl %s, stale_while_revalidate %s\n", k.Kind, short(k.TTL), short(k.StaleWhileRevalidate))
	if len(k.Candidates) == 0 {
		b.WriteString("  no look-up yet\n")
		k.describeChanges(b)
		return
	}
	fmt.Fprintf(b, "  observed %s: %.4g look-ups/s of about %.0f lists (%d watched), %.4g fills/s\n",
		time.Duration(k.Observed*1e9).Round(time.Second), k.LookupsPerSecond, k.Keys, k.WatchedKeys, k.FillsPerSecond)
	if k.RechecksPerSecond > 0 {
		fmt.Fprintf(b, "  re-checks are %.3g of the requests/s to the legacy, whatever the ttl\n", k.RechecksPerSecond)
	}
	if k.Changes.Looks > 0 {
		fmt.Fprintf(b, "  lists change %.3g (+-%.2g) times an hour: %d changes in %d looks\n",
			k.Changes.PerHour.Value, k.Changes.PerHour.StdErr, k.Changes.Changes, k.Changes.Looks)
	}
	if s := k.Served; s.Checks > 0 {
		fmt.Fprintf(b, "  served outdated: %.2f %% of the answers (%.2f to %.2f %%), for %s on average: %d re-checks\n",
			100*s.Outdated, 100*s.Low, 100*s.High, age(s.OutdatedFor), s.Checks)
	}
	k.rows(b)
	k.describeChanges(b)
}

// rows writes a line for each candidate, and what the marks in them mean.
func (k *KindReport) rows(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tttl\thits %\t+-\tlegacy/s\t+-\tmean age\tp99 age\toutdated %\t+-\tRedis\t")
	current, kept, unsettled := false, false, false
	for _, c := range k.Candidates {
		mark := ""
		if c.Current {
			mark, current = "*", true
		}
		if c.KeepsGoals != nil && *c.KeepsGoals {
			mark, kept = mark+"+", true
		}
		if !c.Settled {
			mark, unsettled = mark+"~", true
		}
		outdated, stdErr := "?", ""
		if c.Outdated != nil {
			outdated, stdErr = fmt.Sprintf("%.2f", 100*c.Outdated.Value), fmt.Sprintf("%.2f", 100*c.Outdated.StdErr)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%.4g\t%.2g\t%s\t%s\t%s\t%s\t%s\t\n", mark, short(c.TTL),
			100*c.HitRatio.Value, 100*c.HitRatio.StdErr, c.Upstream.Value, c.Upstream.StdErr,
			age(c.MeanAge.Value), age(c.P99Age), outdated, stdErr, size(c.RedisBytes.Value))
	}
	_ = t.Flush() // a strings.Builder takes everything
	if current {
		b.WriteString("  * nearest to today's ttl   +- standard error of the sample\n")
	}
	if kept {
		b.WriteString("  + keeps cache.goals, the other kinds staying as they are\n")
	}
	if unsettled {
		b.WriteString("  ~ observed for less than four TTLs: the start, when all was a miss, still weighs\n")
	}
}

// age writes seconds in at most four characters or so.
func age(seconds float64) string {
	switch {
	case seconds < 100:
		return fmt.Sprintf("%.3gs", seconds)
	case seconds < 100*60:
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
