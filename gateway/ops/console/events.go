package console

import (
	"math"
	"time"
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
	for _, c := range canaryCases() {
		for _, result := range canaryResults {
			if value(next, "canary."+c.check+"."+result+"."+c.kind) > 0 {
				s.canary[c] = canaryState{result, next.at}
			}
		}
	}
}

// Start is a process of the gateway that began to serve, on any node that this one
// knows of.
type Start struct {
	At            time.Time
	Node, Version string
}

// startMarks are of the starts of the last hour. all are in their order. A start with
// another version than the start before it is a deploy.
func startMarks(all []Start, now time.Time) (marks []mark) {
	for i, s := range all {
		m := mark{s.At.Unix(), "start", s.Node + " started, version " + s.Version}
		if i > 0 && all[i-1].Version != s.Version {
			m.Kind, m.Text = "deploy", m.Text+" after "+all[i-1].Version
		}
		if now.Sub(s.At) < kept {
			marks = append(marks, m)
		}
	}
	return marks
}

// canaryCase is one check of one kind of list.
type canaryCase struct{ check, kind string }

// canaryState is how a check ended last.
type canaryState struct {
	result string
	at     time.Time
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

// canaryCases are in the order in which the page shows them.
func canaryCases() (all []canaryCase) {
	for _, check := range canaryChecks {
		for _, kind := range kinds {
			all = append(all, canaryCase{check, kind})
		}
	}
	return all
}

// canaryRows are all checks. The caller holds mu.
func (s *sampler) canaryRows(w windows) (rows []canaryRow) {
	for _, c := range canaryCases() {
		row := canaryRow{Check: c.check, Kind: c.kind, State: "not yet", Failed: w.rare.sum("canary." + c.check + ".failed." + c.kind)}
		if last, ok := s.canary[c]; ok {
			row.State, row.At = last.result, last.at.Unix()
		}
		if row.Failed > 0 {
			row.Reasons = s.opts.Canary(c.kind, c.check)
		}
		if math.IsNaN(w.point.gauge("canary.round." + c.kind)) {
			row.State, row.At = "off", 0
		}
		rows = append(rows, row)
	}
	return rows
}
