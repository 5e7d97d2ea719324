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
	facts console.Facts // Last and NotInForce
}

// reloaded records what is not in force after a reload, and why; nil: all is.
func (e *lastErrors) reloaded(notInForce []string, err error) {
	if err != nil {
		e.record("reload", time.Time{}, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.facts.NotInForce = notInForce
}

// record takes an error that happened at a moment; zero means now.
func (e *lastErrors) record(what string, at time.Time, err error) {
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

// snapshot returns all that was recorded; the caller may change it.
func (e *lastErrors) snapshot() console.Facts {
	e.mu.Lock()
	defer e.mu.Unlock()
	facts := e.facts
	if facts.Last = maps.Clone(facts.Last); facts.Last == nil {
		facts.Last = map[string]console.Failure{}
	}
	return facts
}
