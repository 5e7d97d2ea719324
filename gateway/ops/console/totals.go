package console

import (
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// totalGroup is the series of one family, written as /metrics writes them.
type totalGroup struct {
	Family, Help string
	Rows         []total
	Zero         int // series that were left out because they are 0
}

type total struct{ Series, Value string }

// totalsOf gives every counter and gauge of the gateway's own, sorted as
// gathered; those of the Go runtime are in /metrics.
func totalsOf(families []*dto.MetricFamily) []totalGroup {
	var list []totalGroup
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), prefix) || f.GetType() == dto.MetricType_HISTOGRAM {
			continue
		}
		g := totalGroup{Family: f.GetName(), Help: f.GetHelp()}
		for _, m := range f.GetMetric() {
			value, ok := valueOf(m)
			switch {
			case !ok:
			case value == 0 && m.Counter != nil:
				g.Zero++
			default:
				g.Rows = append(g.Rows, total{seriesName(f.GetName(), m.GetLabel()), strconv.FormatFloat(value, 'f', -1, 64)})
			}
		}
		list = append(list, g)
	}
	slices.SortStableFunc(list, func(a, b totalGroup) int { return strings.Compare(a.Family, b.Family) })
	return list
}

func valueOf(m *dto.Metric) (float64, bool) {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue(), true
	case m.Gauge != nil:
		return m.Gauge.GetValue(), true
	}
	return 0, false
}

// seriesName is the series as Prometheus' text format writes it.
func seriesName(family string, labels []*dto.LabelPair) string {
	if len(labels) == 0 {
		return family
	}
	pairs := make([]string, len(labels))
	for i, l := range labels {
		pairs[i] = l.GetName() + `="` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(l.GetValue()) + `"`
	}
	return family + "{" + strings.Join(pairs, ",") + "}"
}
