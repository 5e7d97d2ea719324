package ttllab

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A change of a ttl is a test of the report: it has said what that ttl does, and the
// real cache then shows it. Both are about the same nodes and count the same things:
// look-ups that waited for the legacy or failed, and fills.

const (
	keptTTLChanges = 16 // of a group
	// A change settles first: lists that were filled before it are served or refreshed by
	// the new ttl.
	settleTTLs, settleLeast   = 2, time.Minute
	measureTTLs, measureLeast = 3, 2 * time.Minute
	// The measuring goes on until chance makes less than surePoints of the figures, with
	// 95 % confidence.
	surePoints     = 1
	fewestMeasured = 500 // look-ups
)

// What has become of a TTLChange.
const (
	StateSettling  = "settling"
	StateMeasuring = "measuring"
	StateDone      = "done"
	StateReplaced  = "replaced" // by the next change, before it was measured
)

// TTLChange is a change of a group's ttl: what the report had said about the new one, and
// what then happened.
type TTLChange struct {
	At        time.Time   `json:"at"`
	From      float64     `json:"from_seconds"`
	To        float64     `json:"to_seconds"`
	State     string      `json:"state"`
	Predicted *TTLFigures `json:"predicted"` // null: nothing was looked up before, or other rules have changed, too
	Measured  *TTLFigures `json:"measured"`  // null until it is done
	Error     *TTLError   `json:"error"`     // null unless both are known
}

// TTLFigures are what a ttl does, or is said to do.
type TTLFigures struct {
	HitRatio float64 `json:"hit_ratio"`           // share of the look-ups that did not wait for the legacy
	Requests float64 `json:"requests_per_lookup"` // to the legacy, refreshes included, re-checks not
}

// TTLError is the measured figures less the predicted ones, in points: of 100 look-ups.
type TTLError struct {
	Hits     float64 `json:"hit_ratio_points"`
	Requests float64 `json:"requests_points"`
	Margin   float64 `json:"margin_points"` // what chance makes of the measured ones, with 95 % confidence
}

// changes are the changes of a group's ttl, oldest first. Only the newest may be open.
type changes struct {
	all   []TTLChange
	begun int64  // when the newest began to settle or to be measured, Unix ns
	from  counts // when the measuring began
}

// foresee notes what the report says about the ttl of p, which is about to come into
// force.
func (g *groupState) foresee(p Policy, now int64) {
	old := g.rules.policy
	if p.TTL == old.TTL {
		return
	}
	c := &g.changes
	if t := c.open(); t != nil {
		t.State = StateReplaced
	}
	next := TTLChange{At: time.Unix(0, now).UTC(), From: old.TTL.Seconds(), To: p.TTL.Seconds(), State: StateSettling}
	k := g.report(now)
	k.TTL = next.To
	if t := k.today(); t != nil && p.TTL >= candidates[0] && p.StaleWhileRevalidate == old.StaleWhileRevalidate && p.Jitter == old.Jitter {
		next.Predicted = &TTLFigures{t.HitRatio, (t.Upstream - k.RechecksPerSecond) / k.LookupsPerSecond}
	}
	if c.all = append(c.all, next); len(c.all) > keptTTLChanges {
		c.all = c.all[1:]
	}
	c.begun = now
}

// open is the change that is under way, or nil.
func (c *changes) open() *TTLChange {
	if n := len(c.all); n > 0 && (c.all[n-1].State == StateSettling || c.all[n-1].State == StateMeasuring) {
		return &c.all[n-1]
	}
	return nil
}

// follow takes the change that is under way further. It is to be called about once a
// second.
func (c *changes) follow(g *groupState, now int64) {
	t := c.open()
	if t == nil {
		return
	}
	ttl, elapsed := g.rules.policy.TTL, time.Duration(now-c.begun)
	if t.State == StateSettling {
		if elapsed >= max(settleTTLs*ttl, settleLeast) {
			t.State, c.begun, c.from = StateMeasuring, now, g.ever
		}
		return
	}
	d := g.ever.minus(c.from)
	if elapsed < max(measureTTLs*ttl, measureLeast) || d.Lookups < fewestMeasured {
		return
	}
	lookups := float64(d.Lookups)
	is := &TTLFigures{1 - float64(d.Waited+d.Failed)/lookups, float64(d.Fills) / lookups}
	chance := 196 * math.Sqrt(max(is.HitRatio*(1-is.HitRatio), is.Requests*(1-is.Requests), 0)/lookups)
	if chance > surePoints {
		return
	}
	t.State, t.Measured = StateDone, is
	if t.Predicted != nil {
		t.Error = &TTLError{100 * (is.HitRatio - t.Predicted.HitRatio), 100 * (is.Requests - t.Predicted.Requests), chance}
	}
}

// wrong is by how much the newest prediction that was measured is off; nil: none was.
func (c *changes) wrong() *TTLError {
	for i := len(c.all) - 1; i >= 0; i-- {
		if e := c.all[i].Error; e != nil {
			return e
		}
	}
	return nil
}

// describe says it for a person, on a line.
func (t *TTLChange) describe(b *strings.Builder) {
	fmt.Fprintf(b, "  ttl %s to %s at %s: ", short(t.From), short(t.To), t.At.Format(time.DateOnly+" "+clockFormat))
	said := func(f *TTLFigures, how string) {
		if f == nil {
			b.WriteString("nothing " + how)
			return
		}
		fmt.Fprintf(b, "%.2f %% hits and %.2f requests per 100 look-ups %s", 100*f.HitRatio, 100*f.Requests, how)
	}
	said(t.Predicted, "predicted")
	if t.Measured == nil {
		b.WriteString(", " + t.State + "\n")
		return
	}
	b.WriteString(", ")
	said(t.Measured, "measured")
	if t.Error != nil {
		fmt.Fprintf(b, ": off by %+.2f and %+.2f points (+-%.2f)", t.Error.Hits, t.Error.Requests, t.Error.Margin)
	}
	b.WriteString("\n")
}
