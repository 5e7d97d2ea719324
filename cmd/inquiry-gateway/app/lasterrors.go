package app

import (
	"maps"
	"sync"
	"time"

	"inquiry-gateway/gateway/ops/console"
)

// lastErrors are the newest error of "redis" and of "reload", and what a reload could not bring
// into force: what the console says is the cause. The zero value has none. Safe for concurrent use.
type lastErrors struct {
	mu    sync.Mutex
	facts console.Facts // Last, NotInForce and Waiting
}

// reloaded notes what is not in force after a reload, and why; nil: all is, or waits for a restart.
func (e *lastErrors) reloaded(notInForce, waiting []string, err error) {
	if err != nil {
		e.note("reload", time.Time{}, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.facts.NotInForce, e.facts.Waiting = notInForce, waiting
}

// note takes an error that happened at a moment, or now where that is zero.
func (e *lastErrors) note(what string, at time.Time, err error) {
	if at.IsZero() {
		at = time.Now()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.facts.Last == nil {
		e.facts.Last = map[string]console.Failure{}
	}
	e.facts.Last[what] = console.Failure{Text: err.Error(), At: at}
}

// known are all that was noted; the caller may change them.
func (e *lastErrors) known() console.Facts {
	e.mu.Lock()
	defer e.mu.Unlock()
	facts := e.facts
	if facts.Last = maps.Clone(facts.Last); facts.Last == nil {
		facts.Last = map[string]console.Failure{}
	}
	return facts
}
