package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Sizes of the chart in its own units.
const (
	chartWidth = 860
	labelWidth = 250
	barsWidth  = 430
	rowHeight  = 26
	barHeight  = 14
	headHeight = 44
	margin     = 20
)

// chartStyle has two palettes; the viewer's preference picks one, also where
// the chart is embedded as an image.
const chartStyle = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.page { fill: #ffffff; stroke: #d0d7de }
.value { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
.title { font-size: 14px; font-weight: 600 }
.small { font-size: 11px; fill: #59636e }
.ours { fill: #0969da }
.other { fill: #8c959f }
.spread { stroke: #1f2328; stroke-width: 1.5 }
.base { stroke: #59636e; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .page { fill: #0d1117; stroke: #30363d }
  .value { stroke: #0d1117 }
  .small { fill: #9198a1 }
  .ours { fill: #4493f8 }
  .other { fill: #6e7681 }
  .spread { stroke: #e6edf3 }
  .base { stroke: #9198a1 }
}
</style>
`

// SVG draws the CPU time per request of every row as bars, one panel for each
// group with a scale of its own, with whiskers from the lowest to the highest
// round.
func SVG(w io.Writer, r Run) error {
	var panels strings.Builder
	y := margin
	for _, group := range r.groups() {
		y = panel(&panels, r, group, y)
	}
	height := y + margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="CPU time per request">`+"\n",
		chartWidth, height, chartWidth, height)
	b.WriteString(chartStyle)
	fmt.Fprintf(&b, `<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="6"/>`+"\n", chartWidth-1, height-1)
	b.WriteString(panels.String())
	fmt.Fprintf(&b, `<text class="small" x="%d" y="%d">%s; rounds: %d, median and range</text>`+"\n</svg>\n",
		margin, height-8, html.EscapeString(r.Machine.String()), r.Rounds)
	_, err := io.WriteString(w, b.String())
	return err
}

// panel draws one group from y on and returns where the next one starts.
func panel(b *strings.Builder, r Run, group string, y int) int {
	fmt.Fprintf(b, `<text class="title" x="%d" y="%d">%s: CPU per request</text>`+"\n", margin, y+18, html.EscapeString(group))
	y += headHeight - rowHeight/2
	rows := r.of(group)
	scale := barsWidth / highest(rows)
	for _, row := range rows {
		drawBar(b, row, r.row(row.Base), bar{y, scale})
		y += rowHeight
	}
	return y + rowHeight/2
}

func highest(rows []Row) float64 {
	top := math.SmallestNonzeroFloat32
	for _, row := range rows {
		top = max(top, row.CPU().Max)
	}
	return top
}

type bar struct {
	y     int
	scale float64
}

func drawBar(b *strings.Builder, row, base Row, at bar) {
	mid := at.y + rowHeight/2
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", margin+labelWidth-10, mid+4, html.EscapeString(row.Name))
	left := margin + labelWidth
	if len(row.Samples) == 0 {
		fmt.Fprintf(b, `<text class="small" x="%d" y="%d">%s</text>`+"\n", left, mid+4, html.EscapeString(row.Missing))
		return
	}
	s, class := row.CPU(), "other"
	if row.Own {
		class = "ours"
	}
	x := func(v float64) float64 { return float64(left) + v*at.scale }
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n", class, left, mid-barHeight/2, s.Median*at.scale, barHeight)
	fmt.Fprintf(b, `<line class="spread" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", x(s.Min), mid, x(s.Max), mid)
	label := micros(s.Median)
	if len(base.Samples) > 0 {
		fmt.Fprintf(b, `<line class="base" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", x(base.CPU().Median), at.y, x(base.CPU().Median), at.y+rowHeight)
		label += fmt.Sprintf(" (%.2f × bare)", row.Ratio(base).Median)
	}
	fmt.Fprintf(b, `<text class="value" x="%.1f" y="%d">%s</text>`+"\n", x(s.Max)+8, mid+4, label)
}
