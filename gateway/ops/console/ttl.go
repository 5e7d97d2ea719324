package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
)

// ttlReport is the part of the what-if report that is shown, by the names that
// the report has in JSON. Times are in seconds, shares from 0 to 1.
type ttlReport struct {
	Kinds []ttlKind `json:"kinds"`
}

type ttlKind struct {
	Kind        string         `json:"kind"`
	TTL         float64        `json:"ttl_seconds"`
	Observed    float64        `json:"observed_seconds"`
	PerSecond   float64        `json:"lookups_per_second"`
	WatchedKeys int            `json:"watched_keys"`
	Candidates  []ttlCandidate `json:"candidates"`
	Advice      []ttlAdvice    `json:"advice"`
}

type ttlCandidate struct {
	TTL      float64      `json:"ttl_seconds"`
	HitRatio ttlEstimate  `json:"hit_ratio"`
	Upstream ttlEstimate  `json:"upstream_per_second"`
	MeanAge  ttlEstimate  `json:"mean_age_seconds"`
	P99Age   float64      `json:"p99_age_seconds"`
	Outdated *ttlEstimate `json:"outdated"`
	Current  bool         `json:"current"`
	Settled  bool         `json:"settled"`
}

type ttlEstimate struct {
	Value  float64 `json:"value"`
	StdErr float64 `json:"std_err"`
}

type ttlAdvice struct {
	Goal   string  `json:"goal"`
	TTL    float64 `json:"ttl_seconds"`
	Reason string  `json:"reason"`
}

// ttlView is one kind's part of the page.
type ttlView struct {
	Kind, ID, TTL, Observed, PerSecond string
	WatchedKeys                        int
	Rows                               []ttlRow
	Advice                             []adviceView
	Outdated                           *outdatedView // nil: it is told with all lists of the kind
}

// outdatedView is the share of the served lists that had changed by then, as the
// re-checks found it.
type outdatedView struct {
	Recent, Checked string // in the quarter of an hour
	Share, All      string // since the start; empty: nothing was re-checked yet
	Goal            string // empty: none
	Off, Over       bool   // re-checks are off; the recent share is above the goal
}

// outdated reads the re-checks of a kind; nil for a name that is none.
func (s *sampler) outdated(kind string) *outdatedView {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !slices.Contains(kinds[:], kind) || s.samples.len() == 0 {
		return nil
	}
	all := s.span(kept)
	checked, ever, goal := all.increase("rechecks."+kind), all.gauge("rechecks.all."+kind), all.gauge("outdated.goal")
	if math.IsNaN(ever) {
		return &outdatedView{Off: true}
	}
	recent := ratio(all.increase("outdated."+kind), checked)
	v := &outdatedView{Recent: format(recent, unitRatio), Checked: format(checked, unitCount), Over: recent > goal}
	if !math.IsNaN(goal) {
		v.Goal = percent(goal)
	}
	if ever > 0 {
		v.Share, v.All = percent(all.gauge("rechecks.outdated."+kind)/ever), format(ever, unitCount)
	}
	return v
}

type ttlRow struct {
	TTL, HitRatio, Upstream, MeanAge, P99Age, Outdated string
	Current, Settled, Advised                          bool
}

type adviceView struct{ Goal, TTL, Reason string }

// ttl gives the report for the charts and the parts of the page that show it.
func (c *Console) ttl(w http.ResponseWriter, r *http.Request) {
	if c.opts.TTL == nil {
		http.NotFound(w, r)
		return
	}
	views, report, err := c.ttlViews()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer := struct {
		Report ttlReport         `json:"report"`
		Parts  map[string]string `json:"parts"`
	}{report, map[string]string{}}
	for _, v := range views {
		for _, part := range []string{"ttl-advice", "ttl-rows"} {
			var b bytes.Buffer
			if err := c.pages.ExecuteTemplate(&b, part, v); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer.Parts[part+"-"+v.ID] = b.String()
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the browser left; nobody to tell
}

// ttlViews asks for the report. A kind is whatever has a TTL of its own: buyer,
// seller, and the statuses of either that are configured.
func (c *Console) ttlViews() ([]ttlView, ttlReport, error) {
	var report ttlReport
	body, err := json.Marshal(c.opts.TTL())
	if err == nil {
		err = json.Unmarshal(body, &report)
	}
	if err != nil {
		return nil, ttlReport{}, fmt.Errorf("console: the TTL report: %w", err)
	}
	var views []ttlView
	for _, k := range report.Kinds {
		v := k.view()
		v.Outdated = c.sampler.outdated(k.Kind)
		views = append(views, v)
	}
	return views, report, nil
}

func (k ttlKind) view() ttlView {
	v := ttlView{Kind: k.Kind, ID: idOf(k.Kind), TTL: shortTTL(k.TTL), Observed: duration(k.Observed), PerSecond: format(k.PerSecond, unitRate), WatchedKeys: k.WatchedKeys}
	advised := map[float64]bool{}
	for _, a := range k.Advice {
		advised[a.TTL] = true
		shown := adviceView{Goal: a.Goal, Reason: a.Reason, TTL: "no TTL"}
		if a.TTL > 0 {
			shown.TTL = shortTTL(a.TTL)
		}
		v.Advice = append(v.Advice, shown)
	}
	for _, c := range k.Candidates {
		r := ttlRow{
			TTL: shortTTL(c.TTL), HitRatio: c.HitRatio.write(unitRatio), Upstream: c.Upstream.write(unitRate),
			MeanAge: c.MeanAge.write(unitSeconds), P99Age: duration(c.P99Age), Outdated: "not known yet",
			Current: c.Current, Settled: c.Settled, Advised: advised[c.TTL],
		}
		if c.Outdated != nil {
			r.Outdated = c.Outdated.write(unitRatio)
		}
		v.Rows = append(v.Rows, r)
	}
	return v
}

// idOf makes an element's id of a kind's name.
func idOf(kind string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(kind))
}

// write adds the standard error where there is one.
func (e ttlEstimate) write(unit string) string {
	text := format(e.Value, unit)
	if e.StdErr > 0 {
		text += " ± " + format(e.StdErr, unit)
	}
	return text
}

// shortTTL writes a TTL as the configuration does: 90s, 5m, 24h.
func shortTTL(seconds float64) string {
	whole := int(seconds)
	switch {
	case seconds != float64(whole) || whole == 0:
		return fmt.Sprintf("%gs", seconds)
	case whole%3600 == 0:
		return fmt.Sprintf("%dh", whole/3600)
	case whole%60 == 0:
		return fmt.Sprintf("%dm", whole/60)
	}
	return fmt.Sprintf("%ds", whole)
}
