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

// failures keep the newest error of each kind of list, and of "redis" and "reload": what
// the console says is the cause. Its zero value has none. Safe for concurrent use.
type failures struct {
	mu   sync.Mutex
	last map[string]console.Failure

	notInForce, waiting []string // see console.Facts
}

// reloaded notes what is not in force after a reload.
func (f *failures) reloaded(notInForce, waiting []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notInForce, f.waiting = notInForce, waiting
}

// note takes an error that happened at a moment, or now where that is zero.
func (f *failures) note(what, account string, at time.Time, err error) {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > maxFailureText {
		text = text[:maxFailureText] + "..."
	}
	if at.IsZero() {
		at = time.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]console.Failure{}
	}
	f.last[what] = console.Failure{Text: strings.ToValidUTF8(text, "?"), Account: strings.Clone(account), At: at}
}

// fetched notes why the legacy system gave no list. That the gateway did not ask, and that
// the caller left, is no failure of it.
func (f *failures) fetched(r upstream.Request, err error) {
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok || failed.Refused() || errors.Is(err, context.Canceled) {
		return
	}
	if failed.Err != nil {
		err = failed.Err // "status 503", without what it counts as
	}
	f.note(r.Kind, r.Account, time.Time{}, err)
}

// tell puts all that is known into facts.
func (f *failures) tell(facts *console.Facts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	facts.Last, facts.NotInForce, facts.Waiting = maps.Clone(f.last), f.notInForce, f.waiting
}
