package app

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/gateway/ops/console"
	"inquiry-gateway/upstream"
)

// maxFailureText bounds the text of an error that is shown to people.
const maxFailureText = 300

// lastErrors are the newest error of each kind of list, and of "redis" and "reload", and
// what a reload could not bring into force: what the console says is the cause. The zero value has
// none. Safe for concurrent use.
type lastErrors struct {
	mu    sync.Mutex
	facts console.Facts // Last, NotInForce and Waiting
}

// reloaded notes what is not in force after a reload.
func (e *lastErrors) reloaded(notInForce, waiting []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.facts.NotInForce, e.facts.Waiting = notInForce, waiting
}

// note takes an error that happened at a moment, or now where that is zero.
func (e *lastErrors) note(what, account string, at time.Time, err error) {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxFailureText {
		text = text[:maxFailureText] + "..."
	}
	if at.IsZero() {
		at = time.Now()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.facts.Last == nil {
		e.facts.Last = map[string]console.Failure{}
	}
	e.facts.Last[what] = console.Failure{Text: strings.ToValidUTF8(text, "?"), Account: strings.Clone(account), At: at}
}

// fetched notes why the legacy system gave no list. A fetch that the gateway refused, or whose
// caller left, is no failure of the legacy system.
func (e *lastErrors) fetched(r upstream.Request, err error) {
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok || failed.Refused() || errors.Is(err, context.Canceled) {
		return
	}
	if failed.Err != nil {
		err = failed.Err // "status 503", without what it counts as
	}
	e.note(r.Kind, r.Account, time.Time{}, err)
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
