// Package report turns the samples of a run into what people read: medians with
// their range, goals, a Markdown page and JSON.
package report

import (
	"slices"

	"golang.org/x/perf/benchmath"
)

// Run is everything that one run has found.
type Run struct {
	Machine Machine `json:"machine"`
	Quick   bool    `json:"quick,omitempty"` // too short to rely on
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"seconds"` // of each measurement
	Keys    int     `json:"keys"`
	Bytes   float64 `json:"body_bytes"` // mean of the bodies of a hit
	Rows    []Row   `json:"rows"`
	Growth  []Table `json:"growth"`
}

// Row is a server that answers one kind of request.
type Row struct {
	Name    string   `json:"name"` // no two rows have the same
	Group   string   `json:"group"`
	Base    string   `json:"base,omitempty"` // name of the row that this one is compared with
	Goals   []Goal   `json:"goals,omitempty"`
	Note    string   `json:"note,omitempty"`
	Helper  string   `json:"helper,omitempty"`  // who else works for a request
	Missing string   `json:"missing,omitempty"` // why there are no samples
	Samples []Sample `json:"samples"`           // one for each round
}

// Goal is the highest ratio of a row's CPU time to that of another row.
type Goal struct {
	Base  string  `json:"base"` // the other row's name
	Ratio float64 `json:"ratio"`
}

// Sample is one measurement of one row. Times are microseconds.
type Sample struct {
	Requests int     `json:"requests"`
	CPU      float64 `json:"cpu_us"`                  // of the server's processes per request
	Helper   float64 `json:"helper_cpu_us,omitempty"` // of a process beside it, such as Redis, per request
	Rate     float64 `json:"requests_per_second"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	RSS      float64 `json:"resident_mib"`
	Peak     float64 `json:"resident_peak_mib"`
	Go       *Go     `json:"go,omitempty"` // nil: not a Go program
}

// Go is what only a Go process can tell.
type Go struct {
	GCShare float64 `json:"gc_share"` // of the process's CPU time
	Bytes   float64 `json:"allocated_bytes"`
	Objects float64 `json:"allocated_objects"` // both per request
}

// Table is a table of growth: how a cost follows the work.
type Table struct {
	Title  string     `json:"title"`
	Text   string     `json:"text"` // what was done, and the slope in words
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

// Spread is the median of some rounds, the lowest and the highest one. All are
// 0 when there are no rounds.
type Spread struct{ Median, Min, Max float64 }

// spreadOf sorts the values. The median of an even number of them lies in the middle
// of two.
func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	const confidence = 0.95 // the interval is not shown: from six rounds on it is the range
	thresholds := benchmath.DefaultThresholds
	s := benchmath.NewSample(values, &thresholds) // sorts
	return Spread{benchmath.AssumeNothing.Summary(s, confidence).Center, s.Values[0], s.Values[len(s.Values)-1]}
}

// spread is over one number of each round.
func (r Row) spread(value func(Sample) float64) Spread {
	values := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		values[i] = value(s)
	}
	return spreadOf(values)
}

// CPU is the CPU time per request in microseconds.
func (r Row) CPU() Spread { return r.spread(func(s Sample) float64 { return s.CPU }) }

// Ratio compares the CPU time per request with another row's, round by round.
// The two were measured seconds apart, so what disturbs the machine for longer
// disturbs both.
func (r Row) Ratio(base Row) Spread {
	var values []float64
	for i := range min(len(r.Samples), len(base.Samples)) {
		if b := base.Samples[i].CPU; b > 0 {
			values = append(values, r.Samples[i].CPU/b)
		}
	}
	return spreadOf(values)
}

// Row finds a row by its name. A name that is not there gives a row without
// samples.
func (r Run) Row(name string) Row {
	if i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Name == name }); i >= 0 {
		return r.Rows[i]
	}
	return Row{}
}
