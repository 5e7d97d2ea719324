package console

import (
	"math"
)

// state is everything that an open page shows and that changes with each sample.
// Times are seconds since 1970, durations are in seconds, shares from 0 to 1.
type state struct {
	At       int64               `json:"t"` // of the newest sample; 0: there is none yet
	Point    map[string]number   `json:"point"`
	Figures  figures             `json:"figures"`
	Incident incident            `json:"incident"`
	Marks    []mark              `json:"marks"`
	Canary   []canaryRow         `json:"canary"`
	Outdated map[string]outdated `json:"outdated"` // by kind; a kind without re-checks is missing
	Accounts []Account           `json:"accounts,omitempty"`
}

// figures are over the last five minutes, or as long as there are samples.
type figures struct {
	Seconds float64           `json:"seconds"`
	Counts  map[string]int    `json:"counts"`
	Values  map[string]number `json:"values"`
}

// outdated is the share of all answers of the last hour that were outdated, as the
// re-checks found it.
type outdated struct {
	Checked float64 `json:"checked"`
	Share   number  `json:"share"` // null: nothing was re-checked
	Goal    number  `json:"goal"`  // null: none
}

// state is what the newest sample shows. Before the first one nothing is said to be
// well.
func (s *sampler) state() state {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.samples) == 0 {
		return state{Incident: incident{finding: finding{Level: levelWarn, Name: "No figures yet"}, Evidence: []finding{}}}
	}
	// All of it is of one moment: what is computed here holds the lock.
	newest, w := s.samples[len(s.samples)-1], s.windows()
	out := state{
		At: newest.at.Unix(), Point: map[string]number{}, Figures: s.figuresOf(w.figure), Incident: s.incident,
		Marks: append([]mark{}, s.marks...), Canary: s.canaryRows(w), Outdated: map[string]outdated{},
	}
	for i, c := range s.columns {
		out.Point[c.id] = number(newest.point[i])
	}
	for _, kind := range kinds {
		if !math.IsNaN(s.last.values[s.readings.index["rechecks."+kind]]) {
			out.Outdated[kind] = outdated{w.hour.sum("rechecks." + kind), number(w.hour.outdated(kind)), number(w.hour.gauge("outdated.goal"))}
		}
	}
	return out
}

// figuresOf has every counter's increase, and every column as if one of its
// points covered the whole window.
func (s *sampler) figuresOf(w window) figures {
	f := figures{Seconds: w.seconds, Counts: map[string]int{}, Values: map[string]number{}}
	for _, r := range s.readings.list {
		if r.counter() {
			f.Counts[r.name] = int(w.sum(r.name))
		}
	}
	for _, c := range s.columns {
		f.Values[c.id] = number(c.value(windows{point: w, minute: w}))
	}
	return f
}

// history is every point by column; "t" holds seconds since 1970.
func (s *sampler) history() map[string]any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all, times := map[string]any{}, make([]int64, len(s.samples))
	for i, c := range s.columns {
		values := make([]number, len(s.samples))
		for j, sample := range s.samples {
			values[j] = number(sample.point[i])
		}
		all[c.id] = values
	}
	for j, sample := range s.samples {
		times[j] = sample.at.Unix()
	}
	all["t"] = times
	return all
}

// state adds what does not come from the metrics.
func (c *Console) state() state {
	s := c.sampler.state()
	s.Accounts = c.opts.TopAccounts.top(shownTop)
	return s
}
