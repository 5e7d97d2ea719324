package console

import (
	"math"

	dto "github.com/prometheus/client_model/go"
)

// histogram is a classic histogram: how many observations were at most each
// bound. The last count is that of all observations. Its zero value is empty.
type histogram struct {
	bounds []float64
	counts []float64
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
			if h.counts[i] == below { // only a rank of 0 falls into an empty bucket
				return lower
			}
			return lower + (upper-lower)*(rank-below)/(h.counts[i]-below)
		}
		lower, below = upper, h.counts[i]
	}
	return lower
}

// total is how many observations there are.
func (h histogram) total() float64 {
	if len(h.counts) == 0 {
		return 0
	}
	return h.counts[len(h.counts)-1]
}

// accumulate adds the counts of another histogram of the same family, times factor.
func (h *histogram) accumulate(other histogram, factor float64) {
	if len(other.counts) == 0 {
		return
	}
	if h.counts == nil {
		*h = histogram{other.bounds, make([]float64, len(other.counts))}
	}
	for i, n := range other.counts {
		h.counts[i] += factor * n
	}
}
