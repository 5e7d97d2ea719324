package console

import (
	"math"
	"strconv"
	"time"
)

// canaryView is what the canary callers found out on this node.
type canaryView struct {
	Kinds []canaryKind
	Rows  []canaryRow // none: the canary is off
}

// canaryKind is a kind of list with the end of the last round; zero: there was
// none yet.
type canaryKind struct {
	Kind string
	At   time.Time
}

// canaryRow is one check with its state for each kind.
type canaryRow struct {
	Label, Help string
	Cells       []canaryCell
}

type canaryCell struct {
	State  string
	Level  level // empty: nothing is known
	Counts []canaryCount
}

// canaryCount is how many rounds ended in one way, as /metrics has it.
type canaryCount struct{ Series, Rounds, Result string }

// canaryLabels are what a check is called, and what it holds.
var canaryLabels = map[string][2]string{
	"cross_read": {"No cross-read", "no record of one account in the other's list, and no 304 for its entity tag"},
	"access":     {"Refusals", "no key, an invented one and one of the other kind are refused"},
	"contract":   {"Contract", "status, headers and bodies are as documented"},
	"freshness":  {"Freshness", "no list is older than the configuration allows"},
	"keys":       {"Keys", "the canary's keys are good, and of different accounts"},
}

// canaryStates are how a check is doing, by its last result.
var canaryStates = map[string]canaryCell{
	"ok":          {State: "ok", Level: levelGood},
	"empty":       {State: "empty list", Level: levelWarn},
	"unavailable": {State: "unavailable", Level: levelWarn},
	"failed":      {State: "failed", Level: levelBad},
	"":            {State: "not yet"},
	"off":         {State: "off"},
}

// canary gives the state of each check. The caller holds mu and has made sure of
// a sample.
func (s *sampler) canary() *canaryView {
	v, newest, on := &canaryView{}, s.span(0), false
	for _, kind := range kinds {
		round := canaryKind{Kind: kind}
		if seconds := newest.gauge("canary.round." + kind); seconds > 0 {
			round.At = time.UnixMilli(int64(seconds * 1000))
		}
		on = on || !math.IsNaN(newest.gauge("canary.round."+kind))
		v.Kinds = append(v.Kinds, round)
	}
	if !on {
		return v
	}
	for _, check := range canaryChecks {
		row := canaryRow{Label: canaryLabels[check][0], Help: canaryLabels[check][1]}
		for _, kind := range kinds {
			row.Cells = append(row.Cells, s.canaryCell(newest, kind, check))
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

func (s *sampler) canaryCell(newest span, kind, check string) canaryCell {
	if math.IsNaN(newest.gauge("canary.round." + kind)) {
		return canaryStates["off"]
	}
	cell := canaryStates[s.lastResult(kind, check)]
	for _, result := range canaryResults(check) {
		if n := newest.gauge(canaryReading(kind, check, result)); n > 0 {
			series := prefix + `canary_checks_total{check="` + check + `",kind="` + kind + `",result="` + result + `"}`
			cell.Counts = append(cell.Counts, canaryCount{series, strconv.FormatFloat(n, 'f', -1, 64), result})
		}
	}
	return cell
}

// lastResult is that of the counter which grew last, be it after a reload began
// it again; empty: none has since the console looks.
func (s *sampler) lastResult(kind, check string) string {
	for i := s.samples.len() - 1; i > 0; i-- {
		for _, result := range canaryResults(check) {
			at := s.schema.index[canaryReading(kind, check, result)]
			if after := s.samples.at(i).gauges[at]; after > 0 && after != s.samples.at(i - 1).gauges[at] {
				return result
			}
		}
	}
	return ""
}
