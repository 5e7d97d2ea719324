package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the page of a run. chart is the path of the SVG beside it.
func Markdown(w io.Writer, r Run, chart string) error {
	var b strings.Builder
	b.WriteString("# What a request costs\n\nWritten by `make bench`; the samples are in `results.json`.\n\n")
	if r.Quick {
		b.WriteString("**A quick run: rounds are few and short, so these figures only show that everything works.**\n\n")
	}
	fmt.Fprintf(&b, "%s, %s. Interleaved rounds: %d of %s s each; medians, and in parentheses the lowest and highest round. "+
		"Load over loopback on the same cores: %s keys with 4 filters each, drawn at random; bodies of a hit are %s on average. "+
		"CPU is the time of the server's own processes, user and system, per request.\n\n",
		r.Machine, r.Machine.Date, r.Rounds, number(r.Seconds), Count(r.Keys), Bytes(r.Bytes))
	fmt.Fprintf(&b, "![CPU time per request](%s)\n", chart)
	for _, group := range r.groups() {
		writeGroup(&b, r, group)
	}
	for _, t := range r.Growth {
		t.markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeGroup(b *strings.Builder, r Run, group string) {
	fmt.Fprintf(b, "\n## %s\n\n", group)
	b.WriteString("| | CPU per request | × bare | p50 / p99 | requests/s | resident (peak) | GC share of CPU | allocated per request | goal |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	var notes []string
	for _, row := range r.of(group) {
		if row.Note != "" {
			notes = append(notes, fmt.Sprintf("%s: %s.", row.Name, row.Note))
		}
		if len(row.Samples) == 0 {
			fmt.Fprintf(b, "| %s | %s | | | | | | | |\n", row.Name, row.Missing)
			continue
		}
		base := r.row(row.Base)
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			row.Name, cpuCell(row), ratioCell(row, base), latencyCell(row),
			number(row.column(func(s Sample) float64 { return s.Rate }).Median),
			memoryCell(row), goCells(row), goalCell(row, base))
	}
	if len(notes) > 0 {
		b.WriteString("\n- " + strings.Join(notes, "\n- ") + "\n")
	}
}

func cpuCell(r Row) string {
	s := r.CPU()
	cell := fmt.Sprintf("**%s** (%s–%s)", micros(s.Median), micros(s.Min), micros(s.Max))
	if r.Helper != "" {
		cell += fmt.Sprintf(" + %s %s", micros(r.column(func(s Sample) float64 { return s.Helper }).Median), r.Helper)
	}
	return cell
}

func ratioCell(r, base Row) string {
	if len(base.Samples) == 0 {
		return ""
	}
	s := r.Ratio(base)
	return fmt.Sprintf("**%.2f** (%.2f–%.2f)", s.Median, s.Min, s.Max)
}

func latencyCell(r Row) string {
	return micros(r.column(func(s Sample) float64 { return s.P50 }).Median) + " / " +
		micros(r.column(func(s Sample) float64 { return s.P99 }).Median)
}

func memoryCell(r Row) string {
	const mib = 1 << 20
	return Bytes(mib*r.column(func(s Sample) float64 { return s.RSS }).Median) + " (" +
		Bytes(mib*r.column(func(s Sample) float64 { return s.Peak }).Max) + ")"
}

// goCells are the two cells that only Go programs have.
func goCells(r Row) string {
	for _, s := range r.Samples {
		if s.Go == nil {
			return " | "
		}
	}
	return fmt.Sprintf("%.1f %% | %s in %s",
		100*r.column(func(s Sample) float64 { return s.Go.GCShare }).Median,
		Bytes(r.column(func(s Sample) float64 { return s.Go.Bytes }).Median),
		number(r.column(func(s Sample) float64 { return s.Go.Objects }).Median))
}

func goalCell(r, base Row) string {
	reached, ok := r.Verdict(base)
	if !ok {
		return ""
	}
	goal := fmt.Sprintf("≤ %.2f ×", r.Goal.Ratio)
	if r.Goal.CPU > 0 {
		goal = "≤ " + micros(r.Goal.CPU)
	}
	if reached {
		return goal + ": reached"
	}
	return goal + ": **missed**"
}

func (t Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", t.Title, t.Text)
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(t.Header, " | "), strings.Repeat("---|", len(t.Header)))
	for _, row := range t.Rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}
