package measure

import (
	"bytes"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Series is one reading of counters and gauges.
type Series []*dto.MetricFamily

// ParseSeries reads the text of /metrics.
func ParseSeries(text []byte) (Series, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	var s Series
	for _, f := range families {
		s = append(s, f)
	}
	return s, err
}

// Sum adds up the samples of a counter or a gauge that have all the labels. It
// is 0 for a name that is not there.
func (s Series) Sum(name string, labels map[string]string) float64 {
	sum := 0.0
	for _, f := range s {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if hasAll(m.GetLabel(), labels) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// hasAll tells whether a series has these labels with these values, and perhaps others.
func hasAll(have []*dto.LabelPair, want map[string]string) bool {
	for name, value := range want {
		if !slices.ContainsFunc(have, func(l *dto.LabelPair) bool { return l.GetName() == name && l.GetValue() == value }) {
			return false
		}
	}
	return true
}
