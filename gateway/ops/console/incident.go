package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// level says how bad something is. The page shows it as a word and a shape too.
type level string

const (
	levelGood level = "good"
	levelWarn level = "warning"
	levelBad  level = "bad"
)

// finding is one thing that is not as it should be.
type finding struct {
	Level   level  `json:"level"`
	Name    string `json:"name"`    // two or three words, for the title
	Text    string `json:"text"`    // a sentence, with figures
	Press   string `json:"press"`   // what to do first, with commands between backticks and [links](#id) to parts of the page
	Target  string `json:"target"`  // id of the part of the page that shows it
	Chapter string `json:"chapter"` // of the runbook
	Since   int64  `json:"since"`   // seconds since 1970
}

// incident is the line on top of the page: the worst finding, and what callers
// notice. All findings are its evidence, the worst first.
type incident struct {
	finding
	Hit      string    `json:"hit"` // how many answers failed, and the share of all
	Get      string    `json:"get"` // what those callers got; empty: nothing failed
	Evidence []finding `json:"evidence"`
}

// judge asks every rule and keeps since when each has had something to say. The
// caller holds mu. An error of the gathering is a finding too.
func (s *sampler) judge(w windows, gathering error) {
	now, since := w.point.samples[len(w.point.samples)-1].at, map[string]time.Time{}
	found := []finding{} // "[]" in JSON, not "null"
	for _, r := range append(rules(), unreadable(gathering)) {
		l, text := r.judge(w)
		if text == "" {
			continue
		}
		since[r.id] = now
		if before, ok := s.since[r.id]; ok {
			since[r.id] = before
		}
		found = append(found, finding{l, r.name, text, r.press, r.target, r.chapter, since[r.id].Unix()})
	}
	s.since = since
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(a.Level, b.Level) }) // "bad" before "warning"
	// Without a finding the line says that all is well, and why.
	s.incident = incident{finding: finding{Level: levelGood, Name: "All well", Text: "Nothing fails, and no breaker is open."}, Evidence: found}
	if len(found) > 0 {
		s.incident.finding = found[0]
	}
	s.incident.Hit, s.incident.Get = w.minute.callers(len(found) == 0) // a longer window would blame what is over
}

// callers tells how many answers failed, and what these callers got. That nobody is
// hit is said of a gateway that is well only: a mixed-up list is a 200.
func (w window) callers(well bool) (hit, get string) {
	all, failed, span := w.sum("answers"), w.sum("answers.failed"), w.span()
	old := w.sum(perKind("lookups.stale-error")...)
	switch {
	case all == 0:
		return "No caller asked " + span + ".", ""
	case failed == 0 && old == 0 && well:
		return "No caller is hit: none of " + count(all) + " answers failed " + span + ".", ""
	case failed == 0:
		hit = "None of " + count(all) + " answers failed " + span + "."
	default:
		hit = fmt.Sprintf("%s answers failed %s, %s of all %s.", count(failed), span, percent(failed/all), count(all))
	}
	var parts []string
	// Codes are counted by name: a 502 may be a legacy system that failed or one that
	// cannot be understood.
	for _, c := range errorCodes {
		if n := w.sum("errors." + c[0]); n > 0 {
			parts = append(parts, c[1]+" "+c[0]+" ("+count(n)+")")
		}
	}
	if old > 0 {
		parts = append(parts, "lists older than their TTL ("+count(old)+", "+percent(old/all)+")")
	}
	if len(parts) == 0 {
		return hit, ""
	}
	return hit, "Callers get " + strings.Join(parts, ", ") + "."
}

// count writes a whole number with commas: 1,267.
func count(n float64) string {
	s := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent writes a share with two digits that count, and never as 0 or 100 what
// is not quite that.
func percent(share float64) string {
	switch p := 100 * share; {
	case p > 99.9 && p < 100:
		return ">99.9 %"
	case p > 0 && p < 0.01:
		return "<0.01 %"
	case p < 10:
		s := strconv.FormatFloat(p, 'g', 2, 64)
		return strings.TrimSuffix(s, ".0") + " %"
	default:
		return strconv.FormatFloat(math.Trunc(p), 'f', 0, 64) + " %"
	}
}

// duration writes whole seconds, minutes from two on.
func duration(seconds float64) string {
	if seconds < 120 {
		return strconv.Itoa(int(seconds)) + " s"
	}
	return strconv.Itoa(int(seconds/60)) + " min"
}
