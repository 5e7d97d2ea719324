package console

import (
	"math"
	"time"
)

// canaryState is how a check ended last.
type canaryState struct {
	result string
	at     time.Time
}

// canaryRow is one check of one kind on the page. panels.js
// knows what checks are called.
type canaryRow struct {
	Check  string  `json:"check"`
	Kind   string  `json:"kind"`
	State  string  `json:"state"`  // a result, "not yet", or "off"
	At     int64   `json:"t"`      // of the last result, seconds since 1970; 0: none yet
	Failed float64 `json:"failed"` // rounds in the last 15 minutes
}

// noteCanary keeps the result that each check had last. The caller holds mu.
func (s *sampler) noteCanary(next *sample) {
	for _, kind := range kinds {
		for _, check := range canaryChecks {
			for _, result := range canaryResults {
				if next.values[s.readings.index["canary."+check+"."+result+"."+kind]] > 0 {
					s.canary[check+"."+kind] = canaryState{result, next.at}
				}
			}
		}
	}
}

// canaryRows are all checks, kind by kind. The caller holds mu.
func (s *sampler) canaryRows(w windows) []canaryRow {
	var rows []canaryRow
	for _, check := range canaryChecks {
		for _, kind := range kinds {
			row := canaryRow{Check: check, Kind: kind, State: "not yet", Failed: w.rare.sum("canary." + check + ".failed." + kind)}
			if last, ok := s.canary[check+"."+kind]; ok {
				row.State, row.At = last.result, last.at.Unix()
			}
			if math.IsNaN(w.point.gauge("canary.round." + kind)) {
				row.State, row.At = "off", 0
			}
			rows = append(rows, row)
		}
	}
	return rows
}
