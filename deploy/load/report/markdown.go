package report

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"golang.org/x/perf/benchunit"
)

//go:embed results.md
var page string

// Markdown writes the page of a run.
func Markdown(w io.Writer, r Run) error {
	t, err := template.New("results.md").Funcs(template.FuncMap{"bytes": Bytes, "join": strings.Join, "groups": groups}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// groups cuts the rows where the group changes.
func groups(rows []Row) [][]Row {
	var all [][]Row
	for i, row := range rows {
		if i == 0 || row.Group != rows[i-1].Group {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], row)
	}
	return all
}

// Cells are the cells of a row's line.
func (r Run) Cells(row Row) []string {
	if len(row.Samples) == 0 {
		return []string{row.Name, row.Missing, "", "", "", "", "", "", ""}
	}
	median := func(value func(Sample) float64) float64 { return row.spread(value).Median }
	cpu := row.CPU()
	used := fmt.Sprintf("**%s** (%s–%s)", Micros(cpu.Median), Micros(cpu.Min), Micros(cpu.Max))
	if row.Helper != "" {
		used += fmt.Sprintf(" + %s %s", Micros(median(func(s Sample) float64 { return s.Helper })), row.Helper)
	}
	compared := ""
	if base := r.Row(row.Base); len(base.Samples) > 0 {
		s := row.Ratio(base)
		compared = fmt.Sprintf("**%.2f** (%.2f–%.2f) × %s", s.Median, s.Min, s.Max, row.Base)
	}
	gc, allocated := "", ""
	if row.Samples[0].Go != nil {
		gc = fmt.Sprintf("%.1f %%", 100*median(func(s Sample) float64 { return s.Go.GCShare }))
		allocated = fmt.Sprintf("%s in %.1f", Bytes(median(func(s Sample) float64 { return s.Go.Bytes })), median(func(s Sample) float64 { return s.Go.Objects }))
	}
	const mib = 1 << 20
	return []string{
		row.Name, used, compared,
		Micros(median(func(s Sample) float64 { return s.P50 })) + " / " + Micros(median(func(s Sample) float64 { return s.P99 })),
		fmt.Sprintf("%.0f", median(func(s Sample) float64 { return s.Rate })),
		Bytes(mib*median(func(s Sample) float64 { return s.RSS })) + " (" + Bytes(mib*row.spread(func(s Sample) float64 { return s.Peak }).Max) + ")",
		gc, allocated, r.goals(row),
	}
}

// goals tells of each goal whether the median reaches it. A goal against a row
// that was not measured is left out.
func (r Run) goals(row Row) string {
	var cells []string
	for _, g := range row.Goals {
		base := r.Row(g.Base)
		if len(base.Samples) == 0 {
			continue
		}
		cell := fmt.Sprintf("≤ %.2f × %s: ", g.Ratio, g.Base)
		if got := row.Ratio(base).Median; got <= g.Ratio {
			cell += fmt.Sprintf("reached (%.2f)", got)
		} else {
			cell += fmt.Sprintf("**missed** (%.2f)", got)
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, "; ")
}

// Micros writes a number of microseconds in the unit that reads best.
func Micros(us float64) string { return benchunit.Scale(us*1e-6, benchunit.Decimal) + "s" }

// Bytes writes a size in the unit that reads best.
func Bytes(n float64) string { return benchunit.Scale(n, benchunit.Binary) + "B" }
