package ttllab

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

// A change of a TTL is a test of the report: it has said what that TTL does, and the
// real cache then shows it. Both are about the same nodes and count the same things:
// look-ups that waited for the legacy or failed, and fills.

const (
	// keptTTLChanges of a group are kept.
	keptTTLChanges = 16
	// A change settles first: lists that were filled before it are served or refreshed
	// by the new TTL. In a measuring time of some TTLs it matters little that all were
	// filled at about the same moment.
	settleTTLs, settleLeast   = 2, time.Minute
	measureTTLs, measureLeast = 3, 2 * time.Minute
	// The measuring goes on until chance makes less than surePoints of the figures, with
	// 95 % confidence, and ends without a verdict after mostTTLs, or measureMost.
	mostTTLs, measureMost = 6, time.Hour
	surePoints            = 1
	fewestMeasured        = 500 // look-ups
	mostFailed            = 0.01
	// verdictsCount for the metric so long.
	verdictsCount = 24 * time.Hour
)

// What has become of a TTLChange.
const (
	StateSettling  = "settling"
	StateMeasuring = "measuring"
	StateDone      = "done"
	StateAbandoned = "abandoned" // Why says why
)

// TTLChange is a change of a group's TTL: what the report had said about the new one, and
// what then happened.
type TTLChange struct {
	At    time.Time `json:"at"`
	From  float64   `json:"from_seconds"`
	To    float64   `json:"to_seconds"`
	State string    `json:"state"`
	// Until is when the state ends at the earliest, or when the last one has ended.
	Until time.Time `json:"until"`
	// Why this is no verdict on the prediction. Empty with StateDone: it is one.
	Why       string      `json:"why,omitempty"`
	Predicted *TTLFigures `json:"predicted,omitempty"`
	Measured  *TTLFigures `json:"measured,omitempty"`
	Error     *TTLError   `json:"error,omitempty"` // null until it is done
	Lookups   float64     `json:"lookups"`         // measured ones, in so many seconds
	Seconds   float64     `json:"seconds"`
}

// TTLFigures are what a TTL does, or is said to do.
type TTLFigures struct {
	HitRatio float64 `json:"hit_ratio"`           // share of the look-ups that did not wait for the legacy
	Requests float64 `json:"requests_per_lookup"` // to the legacy, refreshes included, re-checks not
}

// TTLError is the measured figures less the predicted ones, in points: of 100 look-ups.
type TTLError struct {
	Hits     float64 `json:"hit_ratio_points"`
	Requests float64 `json:"requests_points"`
	Margin   float64 `json:"margin_points"` // what chance makes of them, with 95 % confidence
}

// calibration follows the newest change: it settles, is measured, and is done or abandoned.
// What disturbs the measuring has it settle again; a second change abandons the first.
type calibration struct {
	mu      sync.Mutex
	changes []TTLChange // oldest first
	begun   int64       // when it began to settle or to be measured, Unix ns
	delayed string      // why it settled again
	from    counts      // of all nodes, when the measuring began
	own     uint64      // look-ups of this node, then
	failed  uint64      // of these
	stdErr  float64     // of the prediction, by the sample
}

// foresee notes what the report says about the TTL of p, which is about to come into
// force.
func (lab *kindLab) foresee(p Policy, now time.Time) {
	old := lab.rules.Load().policy
	sameTTL, sameRules := p.TTL == old.TTL, p.StaleWhileRevalidate == old.StaleWhileRevalidate && p.Jitter == old.Jitter
	var k KindReport
	var ends string // the change that is under way
	switch {
	case !sameTTL:
		ends, k = "the ttl has changed again", lab.report(now.UnixNano())
	case !sameRules:
		ends = "stale_while_revalidate or jitter has changed"
	default:
		return
	}
	c := &lab.calibration
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abandon(now, ends); sameTTL {
		return
	}
	next := TTLChange{At: now, From: k.TTL, To: p.TTL.Seconds(), State: StateSettling, Until: now.Add(settling(p.TTL))}
	k.TTL = next.To
	var why string
	if early := k.early(next.To); early != "" {
		why = "it came too early: " + early
	}
	switch {
	case p.TTL < candidates[0]:
		why = "no ttl below 1s is simulated"
	case !sameRules:
		why = "stale_while_revalidate or jitter has changed, too"
	case len(k.Candidates) == 0:
		why = "nothing was looked up before"
	default:
		next.Predicted, next.Why = k.figures(), why
		c.stdErr = k.today(func(c Candidate) float64 { return c.HitRatio.StdErr }, 0)
	}
	if c.changes = append(c.changes, next); len(c.changes) > keptTTLChanges {
		c.changes = c.changes[1:]
	}
	if c.begun, c.delayed = now.UnixNano(), ""; next.Predicted == nil {
		c.abandon(now, why)
	}
}

// figures are those of the report's TTL.
func (k *KindReport) figures() *TTLFigures {
	requests := (k.today(Candidate.load, 0) - k.RechecksPerSecond) / k.LookupsPerSecond
	return &TTLFigures{k.today(func(c Candidate) float64 { return c.HitRatio.Value }, 0), requests}
}

// settling is for how long a new TTL is not measured yet.
func settling(ttl time.Duration) time.Duration { return max(settleTTLs*ttl, settleLeast) }

// open is the change that is under way, or nil. It needs the lock.
func (c *calibration) open() *TTLChange {
	if n := len(c.changes); n > 0 && (c.changes[n-1].State == StateSettling || c.changes[n-1].State == StateMeasuring) {
		return &c.changes[n-1]
	}
	return nil
}

// abandon ends the change that is under way. It needs the lock.
func (c *calibration) abandon(now time.Time, why string) {
	if t := c.open(); t != nil {
		t.State, t.Until, t.Why, t.Measured = StateAbandoned, now, why, nil
	}
}

// all is a copy, oldest first.
func (c *calibration) all() []TTLChange {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]TTLChange(nil), c.changes...)
}

// calibrate follows the changes of TTLs. It is to be called about once a second.
func (e *estimator) calibrate(now time.Time, healthy bool) {
	for _, lab := range e.kinds {
		c := &lab.calibration
		c.mu.Lock()
		c.follow(lab, now, healthy)
		c.mu.Unlock()
	}
}

// follow takes the change that is under way further.
func (c *calibration) follow(lab *kindLab, now time.Time, healthy bool) {
	t := c.open()
	if t == nil {
		return
	}
	ttl := lab.rules.Load().policy.TTL
	least := max(measureTTLs*ttl, measureLeast)
	if differed := lab.differed.Load(); differed > c.begun {
		c.settleAgain(t, time.Unix(0, differed), ttl, "other nodes have another ttl")
	}
	if !healthy {
		c.settleAgain(t, now, ttl, "the legacy system was in trouble")
	}
	elapsed := time.Duration(now.UnixNano() - c.begun)
	switch {
	case t.State == StateSettling && elapsed >= settling(ttl):
		t.State, t.Until, c.begun = StateMeasuring, now.Add(least), now.UnixNano()
		c.from, c.own, c.failed = lab.all(), lab.own().Lookups, lab.failed.Load()
	case t.State == StateMeasuring && elapsed >= least && c.measure(lab, t, elapsed):
		t.State, t.Until = StateDone, now
		return
	}
	if now.Sub(t.At) > settling(ttl)+max(mostTTLs*ttl, measureMost) {
		why := fmt.Sprintf("too little traffic: %d look-ups in %s", lab.all().minus(c.from).Lookups, elapsed.Round(time.Second))
		if c.delayed != "" {
			why = c.delayed
		}
		c.abandon(now, why)
	}
}

// settleAgain begins anew, because what would be measured is not what was predicted.
func (c *calibration) settleAgain(t *TTLChange, now time.Time, ttl time.Duration, why string) {
	t.State, t.Until, c.begun, c.delayed = StateSettling, now.Add(settling(ttl)), now.UnixNano(), why
}

// measure compares; false: it is not sure enough yet.
func (c *calibration) measure(lab *kindLab, t *TTLChange, elapsed time.Duration) bool {
	d := lab.all().minus(c.from)
	if d.Lookups < fewestMeasured {
		return false
	}
	lookups := float64(d.Lookups)
	is := &TTLFigures{1 - float64(d.Unserved)/lookups, float64(d.Fills) / lookups}
	chance := max(is.HitRatio*(1-is.HitRatio), is.Requests*(1-is.Requests), 0) / lookups
	if 196*math.Sqrt(chance) > surePoints {
		return false
	}
	t.Measured, t.Lookups, t.Seconds = is, lookups, elapsed.Seconds()
	t.Error = &TTLError{100 * (is.HitRatio - t.Predicted.HitRatio), 100 * (is.Requests - t.Predicted.Requests), 196 * math.Sqrt(chance+c.stdErr*c.stdErr)}
	if failed := float64(lab.failed.Load()-c.failed) / float64(lab.own().Lookups-c.own); failed > mostFailed {
		t.Why = fmt.Sprintf("%.1f %% of the look-ups failed", 100*failed)
	}
	return true
}

// clockFormat is for a person.
const clockFormat = "15:04:05 UTC"

// worstErrors are those of late by kind, NaN without any; lists of a status count with
// their kind.
func (e *estimator) worstErrors(now time.Time) map[string]TTLError {
	worst := map[string]TTLError{}
	for _, lab := range e.kinds {
		w, ok := worst[lab.kind]
		if !ok {
			w = TTLError{Hits: math.NaN(), Requests: math.NaN()}
		}
		for _, t := range lab.calibration.all() {
			if t.State == StateDone && t.Why == "" && now.Sub(t.Until) < verdictsCount {
				w = TTLError{Hits: larger(w.Hits, t.Error.Hits), Requests: larger(w.Requests, t.Error.Requests)}
			}
		}
		worst[lab.kind] = w
	}
	return worst
}

// larger is the larger one, whatever the sign of b; a is none if it is not a number.
func larger(a, b float64) float64 {
	if math.IsNaN(a) {
		return math.Abs(b)
	}
	return max(a, math.Abs(b))
}

// describeChanges writes a line for each change of the TTL.
func (k *KindReport) describeChanges(b *strings.Builder) {
	for i := range k.TTLChanges {
		k.TTLChanges[i].describe(b)
	}
}

// describe says it for a person, on a line.
func (t *TTLChange) describe(b *strings.Builder) {
	fmt.Fprintf(b, "  ttl %s to %s at %s: ", short(t.From), short(t.To), t.At.UTC().Format(time.DateOnly+" "+clockFormat))
	switch {
	case t.State == StateAbandoned:
		b.WriteString("no verdict, ")
	case t.Error == nil:
		fmt.Fprintf(b, "%.2f %% hits and %.2f requests per 100 look-ups predicted, %s until %s at least", 100*t.Predicted.HitRatio, 100*t.Predicted.Requests, t.State, t.Until.UTC().Format(clockFormat))
	default:
		fmt.Fprintf(b, "%.2f %% hits predicted, %.2f %% measured (off by %+.2f points, +-%.2f)", 100*t.Predicted.HitRatio, 100*t.Measured.HitRatio, t.Error.Hits, t.Error.Margin)
		fmt.Fprintf(b, "; %.2f requests per 100 look-ups predicted, %.2f measured (%+.2f)", 100*t.Predicted.Requests, 100*t.Measured.Requests, t.Error.Requests)
	}
	if t.Why != "" && t.State != StateAbandoned {
		b.WriteString("; no verdict, ")
	}
	b.WriteString(t.Why + "\n")
}
