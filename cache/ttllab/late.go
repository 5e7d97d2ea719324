package ttllab

import (
	"fmt"
	"math"
	"strings"
)

// Lateness is the promise "answers older than X: y per million". An answer is late if the
// list that it shows had changed at the legacy system longer than cache.goals.late_after
// before it was given. Age is something else: it counts from the legacy system's answer,
// changed or not, so that an old answer is right as long as nothing changes.
//
// It is measured where "served outdated" is, by the same comparisons: an answer that still
// equals the list is not late. One that differs is late with the chance that the first
// change since its fill came early enough. That change lies between the fill and now; where
// the lab has seen the body in between, on this side of it or on that. Within, it is as
// likely as changes that come at random at the list's own rate make it.
//
// Not measured: what changed and changed back; answers while the legacy system is in
// trouble, as nobody can compare then; another account's view. Who waited for the legacy
// system got what it said, and counts as not late.

// window is when the first change since a fill was: after from, at to at the latest, Unix
// ns, with changes at this rate, in changes per second.
type window struct {
	from, to int64
	rate     float64
}

// known uses that a body was seen at a moment in between.
func (w *window) known(s sighting, served uint64) {
	switch {
	case s.at <= w.from || s.at >= w.to:
	case s.body == served:
		w.from = s.at
	default:
		w.to = s.at
	}
}

// narrow makes w as narrow as what earlier re-checks of the same fill have seen, and
// keeps what this one, now, has. A zero window is of none.
func (seen *window) narrow(w *window, now sighting, same bool) {
	w.from = max(w.from, seen.from)
	if seen.to != 0 {
		w.to = min(w.to, seen.to)
	}
	if same {
		seen.from = max(seen.from, now.at)
	} else {
		*seen = *w
	}
}

// until is the chance that the change came before a moment, Unix ns.
func (w window) until(moment int64) float64 {
	whole, part := float64(w.to-w.from)*1e-9, float64(moment-w.from)*1e-9
	switch {
	case part <= 0:
		return 0
	case part >= whole:
		return 1
	case w.rate*whole < 1e-6:
		return part / whole
	}
	return math.Expm1(-w.rate*part) / math.Expm1(-w.rate*whole)
}

// Late is how a promise is kept.
type Late struct {
	After      float64 `json:"after_seconds"` // cache.goals.late_after
	PerMillion float64 `json:"per_million"`   // of all answers with a list, estimated
	// Low and High bound it with 95 % confidence, the error by chance alone.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Most float64 `json:"most"` // cache.goals.max_late_per_million
}

// promise adds what is promised; nothing is, and there is no figure.
func (s *Served) promise(g GoalsConfig) {
	if g.LateAfter == 0 {
		s.Late = nil
	} else if s.Late != nil {
		s.Late.After, s.Late.Most = g.LateAfter.Seconds(), g.MaxLatePerMillion
	}
}

// describe says whether the promise is kept, as far as chance lets one know.
func (l *Late) describe(b *strings.Builder) {
	kept := "kept"
	switch {
	case l.Low > l.Most:
		kept = "broken"
	case l.High > l.Most:
		kept = "not sure: too few re-checks"
	}
	fmt.Fprintf(b, "  changed more than %s before: %.0f of a million answers (%.0f to %.0f), at most %.0f promised: %s\n", age(l.After), l.PerMillion, l.Low, l.High, l.Most, kept)
}
