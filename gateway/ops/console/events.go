package console

import (
	"math"
	"slices"
)

// mark is a moment that charts show by a line: a reload, a purge, the first of some
// hints, a breaker that opened or closed, or a node that started.
type mark struct {
	At   int64  `json:"t"`    // seconds since 1970
	Kind string `json:"kind"` // reload, purge, hint, breaker, start or deploy
	Text string `json:"text"`
}

// note keeps what a sample tells of such moments and of the canary, and forgets
// marks that charts do not show any more. A breaker is open from the first failure
// to the first good probe: the probes between are no marks. The caller holds mu.
func (s *sampler) note(next *sample) {
	add := func(when bool, kind, text string) {
		if when {
			s.marks = append(s.marks, mark{next.at.Unix(), kind, text})
		}
	}
	// Of a counter the value is its increase, of a gauge the state.
	value := func(of *sample, name string) float64 { return of.values[s.readings.index[name]] }
	add(value(next, "reloads.ok") > 0, "reload", "configuration reloaded")
	add(value(next, "reloads.failed") > 0, "reload", "reload failed")
	add(value(next, "purges") > 0, "purge", "purge on this node")
	if n := len(s.samples); n > 1 {
		// Where the legacy system tells of each change there is one mark for all.
		add(value(next, "hints") > 0 && value(s.samples[n-2], "hints") == 0, "hint", "the legacy system told of changes")
		for _, name := range append(perKind("breaker"), "breaker.redis") {
			before, after := value(s.samples[n-2], name), value(next, name)
			add(after > 0 && before == 0, "breaker", name[len("breaker."):]+" breaker opened")
			add(after == 0 && before > 0, "breaker", name[len("breaker."):]+" breaker closed")
		}
	}
	for len(s.marks) > 0 && s.marks[0].At < s.samples[0].at.Unix() {
		s.marks = s.marks[1:]
	}
	for i := range s.canary {
		for _, result := range canaryResults {
			if row := &s.canary[i]; value(next, "canary."+row.Check+"."+result+"."+row.Kind) > 0 {
				row.State, row.At = result, next.at.Unix()
			}
		}
	}
}

// canaryRow is one check of one kind on the page. panels.js knows what checks are
// called.
type canaryRow struct {
	Check  string  `json:"check"`
	Kind   string  `json:"kind"`
	State  string  `json:"state"`  // a result, "not yet", or "off"
	At     int64   `json:"t"`      // of the last result, seconds since 1970; 0: none yet
	Failed float64 `json:"failed"` // rounds in the last 15 minutes
	// Reasons are those of the last failure, while it is that of the last 15 minutes.
	Reasons []string `json:"reasons,omitempty"`
}

// newCanaryRows are in the order in which the page shows them.
func newCanaryRows() (rows []canaryRow) {
	for _, check := range canaryChecks {
		for _, kind := range kinds {
			rows = append(rows, canaryRow{Check: check, Kind: kind, State: "not yet"})
		}
	}
	return rows
}

// canaryRows adds to the last results what windows tell. The caller holds mu.
func (s *sampler) canaryRows(w windows) []canaryRow {
	rows := slices.Clone(s.canary)
	for i := range rows {
		row := &rows[i]
		if row.Failed = w.rare.sum("canary." + row.Check + ".failed." + row.Kind); row.Failed > 0 {
			row.Reasons = s.opts.Canary(row.Kind, row.Check)
		}
		if math.IsNaN(w.point.gauge("canary.round." + row.Kind)) {
			row.State, row.At = "off", 0
		}
	}
	return rows
}
