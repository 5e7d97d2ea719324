package report

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

// Row is one line of the table: a server answering one kind of request.
type Row struct {
	Name    string   `json:"name"`
	Group   string   `json:"group"`
	Own     bool     `json:"own,omitempty"`  // the gateway's, not one that it is compared with
	Base    string   `json:"base,omitempty"` // name of the row that this one is compared with
	Note    string   `json:"note,omitempty"`
	Helper  string   `json:"helper,omitempty"`  // who else works for a request
	Missing string   `json:"missing,omitempty"` // why there are no samples
	Goal    Goal     `json:"goal,omitzero"`
	Samples []Sample `json:"samples"`
}

// Goal is what a row should reach; zero fields ask for nothing.
type Goal struct {
	Ratio float64 `json:"ratio,omitempty"`  // at most, to the base row's CPU time
	CPU   float64 `json:"cpu_us,omitempty"` // at most, microseconds per request
}

// column is the spread of one value over a row's samples.
func (r Row) column(value func(Sample) float64) Spread {
	values := make([]float64, len(r.Samples))
	for i, s := range r.Samples {
		values[i] = value(s)
	}
	return SpreadOf(values)
}

// CPU is the spread of the CPU time per request.
func (r Row) CPU() Spread { return r.column(func(s Sample) float64 { return s.CPU }) }

// Ratio compares the CPU time per request with another row's, round by round:
// both were measured seconds apart, so what disturbs the machine for longer
// disturbs both.
func (r Row) Ratio(base Row) Spread {
	n := min(len(r.Samples), len(base.Samples))
	values := make([]float64, 0, n)
	for i := range n {
		if b := base.Samples[i].CPU; b > 0 {
			values = append(values, r.Samples[i].CPU/b)
		}
	}
	return SpreadOf(values)
}

// Verdict tells whether a row reaches its goal; ok is false for a row without
// one or without samples.
func (r Row) Verdict(base Row) (reached, ok bool) {
	switch {
	case len(r.Samples) == 0:
		return false, false
	case r.Goal.CPU > 0:
		return r.CPU().Median <= r.Goal.CPU, true
	case r.Goal.Ratio > 0 && len(base.Samples) > 0:
		return r.Ratio(base).Median <= r.Goal.Ratio, true
	}
	return false, false
}

// Table is a table of growth: how a cost follows the work.
type Table struct {
	Title  string     `json:"title"`
	Text   string     `json:"text"` // what was done, and the slope in words
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
}

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

func (r Run) row(name string) Row {
	for _, row := range r.Rows {
		if row.Name == name {
			return row
		}
	}
	return Row{}
}

// Groups are the groups of the rows in their order.
func (r Run) groups() []string {
	var groups []string
	for _, row := range r.Rows {
		if len(groups) == 0 || groups[len(groups)-1] != row.Group {
			groups = append(groups, row.Group)
		}
	}
	return groups
}

func (r Run) of(group string) []Row {
	var rows []Row
	for _, row := range r.Rows {
		if row.Group == group {
			rows = append(rows, row)
		}
	}
	return rows
}
