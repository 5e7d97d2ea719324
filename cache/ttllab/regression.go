package ttllab

import "math"

// Estimate is a figure with the standard error of the sample it comes from; 95 %
// of the time the truth about the watched traffic is within two of them. 0: no
// key was left out.
type Estimate struct {
	Value  float64 `json:"value"`
	StdErr float64 `json:"std_err"`
}

// regression estimates totals over all keys from a sample in which each key is
// included with a known probability, independently (Poisson sampling, which is
// what a hash threshold does). x are per-key figures whose totals over all keys
// are known: look-ups and fills.
type regression struct {
	pi    []float64    // inclusion probabilities
	x     [][2]float64 // by key
	gap   [2]float64   // known totals of x less what the sample says
	inv   [2][2]float64
	scale float64 // of the variance, for the two figures fitted
}

// minFitted keys are the least to fit anything to.
const minFitted = 20

// newRegression fits nothing to fewer than minFitted keys: totals are then the sample's,
// scaled up.
func newRegression(pi []float64, x [][2]float64, totals [2]float64) *regression {
	r := &regression{pi: pi, x: x, scale: 1}
	if len(pi) < minFitted {
		return r
	}
	r.scale = float64(len(pi)) / float64(len(pi)-2)
	var a [2][2]float64
	r.gap = totals
	for i, p := range pi {
		q := (1 - p) / (p * p)
		for j := range 2 {
			r.gap[j] -= x[i][j] / p
			for l := range 2 {
				a[j][l] += q * x[i][j] * x[i][l]
			}
		}
	}
	det := a[0][0]*a[1][1] - a[0][1]*a[1][0]
	switch {
	case det > 1e-9*a[0][0]*a[1][1]:
		r.inv = [2][2]float64{{a[1][1] / det, -a[0][1] / det}, {-a[1][0] / det, a[0][0] / det}}
	case a[0][0] > 0: // fills run in step with look-ups, or there are none
		r.inv[0][0] = 1 / a[0][0]
	}
	return r
}

// total estimates the sum of y over all keys: the sample's, scaled up, plus what
// the known totals tell about the keys that are not in it. With every key in the
// sample it is the sum itself.
func (r *regression) total(y []float64) Estimate {
	var sum float64
	var b [2]float64
	for i, p := range r.pi {
		sum += y[i] / p
		q := (1 - p) / (p * p)
		b[0] += q * r.x[i][0] * y[i]
		b[1] += q * r.x[i][1] * y[i]
	}
	slope := [2]float64{
		r.inv[0][0]*b[0] + r.inv[0][1]*b[1],
		r.inv[1][0]*b[0] + r.inv[1][1]*b[1],
	}
	var variance float64
	for i, p := range r.pi {
		rest := y[i] - slope[0]*r.x[i][0] - slope[1]*r.x[i][1]
		variance += (1 - p) / (p * p) * rest * rest
	}
	value := sum
	if slope != ([2]float64{}) {
		value += slope[0]*r.gap[0] + slope[1]*r.gap[1]
	}
	return Estimate{max(value, 0), math.Sqrt(variance * r.scale)}
}
