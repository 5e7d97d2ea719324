package console

import (
	"math"

	dto "github.com/prometheus/client_model/go"
)

// sums are the schema's readings at one moment, as gathered.
type sums struct {
	counters   []float64
	gauges     []float64 // NaN: there is no such series
	histograms []histogram
}

// histogram is a classic histogram: how many observations were at most each
// bound. The last count is that of all observations.
type histogram struct {
	bounds []float64
	counts []float64
}

func (s *schema) read(families []*dto.MetricFamily) sums {
	out := sums{make([]float64, len(s.counters)), make([]float64, len(s.gauges)), make([]histogram, len(s.histograms))}
	for i := range out.gauges {
		out.gauges[i] = math.NaN()
	}
	for _, family := range families {
		if wanted := s.byFamily[family.GetName()]; wanted != nil {
			for _, m := range family.GetMetric() {
				s.add(&out, wanted, m)
			}
		}
	}
	return out
}

func (s *schema) add(out *sums, wanted *places, m *dto.Metric) {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	each := func(list []reading, at []int, do func(i int)) {
		for _, i := range at {
			if list[i].matches(labels) {
				do(i)
			}
		}
	}
	asItIs := func(value float64) {
		each(s.gauges, wanted.gauges, func(i int) {
			if math.IsNaN(out.gauges[i]) {
				out.gauges[i] = 0
			}
			out.gauges[i] += value
		})
	}
	switch {
	case m.Counter != nil:
		each(s.counters, wanted.counters, func(i int) { out.counters[i] += m.Counter.GetValue() })
		asItIs(m.Counter.GetValue())
	case m.Gauge != nil:
		asItIs(m.Gauge.GetValue())
	case m.Histogram != nil:
		each(s.histograms, wanted.histograms, func(i int) { out.histograms[i].add(m.Histogram) })
	}
}

// add takes the series of one family, which share their bounds.
func (h *histogram) add(m *dto.Histogram) {
	if h.counts == nil {
		for _, b := range m.GetBucket() {
			if !math.IsInf(b.GetUpperBound(), 1) {
				h.bounds = append(h.bounds, b.GetUpperBound())
			}
		}
		h.counts = make([]float64, len(h.bounds)+1)
	}
	for i, b := range m.GetBucket() {
		if i < len(h.bounds) {
			h.counts[i] += float64(b.GetCumulativeCount())
		}
	}
	h.counts[len(h.bounds)] += float64(m.GetSampleCount())
}

// quantile is what PromQL's histogram_quantile gives: linear inside a bucket,
// the largest bound for what lies beyond it. NaN without observations.
func (h histogram) quantile(q float64) float64 {
	if len(h.bounds) == 0 || h.total() <= 0 {
		return math.NaN()
	}
	rank := q * h.total()
	lower, below := 0.0, 0.0
	for i, upper := range h.bounds {
		if h.counts[i] >= rank && h.counts[i] > 0 {
			if h.counts[i] == below { // only a rank of 0 lands in an empty bucket
				return lower
			}
			return lower + (upper-lower)*(rank-below)/(h.counts[i]-below)
		}
		lower, below = upper, h.counts[i]
	}
	return lower
}

func (h histogram) total() float64 {
	if len(h.counts) == 0 {
		return 0
	}
	return h.counts[len(h.counts)-1]
}

// plus and minus work on histograms of one family; one without counts is zero.
func (h histogram) plus(other histogram) histogram  { return h.combine(other, 1) }
func (h histogram) minus(other histogram) histogram { return h.combine(other, -1) }

func (h histogram) combine(other histogram, sign float64) histogram {
	if len(other.counts) == 0 {
		return h
	}
	out := histogram{bounds: other.bounds, counts: make([]float64, len(other.counts))}
	for i := range out.counts {
		out.counts[i] = sign * other.counts[i]
		if i < len(h.counts) {
			out.counts[i] += h.counts[i]
		}
	}
	return out
}
