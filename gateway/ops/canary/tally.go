package canary

import (
	"fmt"
	"slices"
)

// check is one of the things that a round finds out about a kind of list.
type check int

const (
	keys      check = iota // the keys are good, and of different accounts
	crossRead              // no record of one account is in another's list
	contract               // every answer is as documented
	freshness              // no list is older than the policy allows
	access                 // who must be refused is refused
	checkCount
)

// checkNames are labels.
var checkNames = [checkCount]string{"keys", "cross_read", "contract", "freshness", "access"}

// result is how a check ended; of several the greatest counts.
type result int

const (
	ok          result = iota
	empty              // there was nothing to compare
	unavailable        // the gateway gave no list, and said so
	failed
	resultCount
)

var resultNames = [resultCount]string{"ok", "empty", "unavailable", "failed"}

// maxReasons bounds what one round says of one check.
const maxReasons = 8

// tally is what a round has found out.
type tally [checkCount]struct {
	result   result
	reasons  []string // of the result; they hold no key and nothing of a record
	more     int      // reasons that were left out
	requests []string // ids of the requests concerned
}

// noteAll notes several failures at one answer of who.
func (t *tally) noteAll(c check, a *answer, who string, reasons []string) {
	for _, one := range reasons {
		t.note(c, failed, []*answer{a}, "%s%s", who, one)
	}
}

// note notes a result with its reason, for the answers concerned; nil ones are left out.
func (t *tally) note(c check, r result, concerned []*answer, format string, args ...any) {
	n := &t[c]
	// A failure is not made less by what could not be found out.
	if r < n.result {
		return
	}
	if r > n.result {
		n.result, n.reasons, n.more, n.requests = r, nil, 0, nil
	}
	reason := fmt.Sprintf(format, args...)
	switch {
	case slices.Contains(n.reasons, reason):
	case len(n.reasons) == maxReasons:
		n.more++
	default:
		n.reasons = append(n.reasons, reason)
	}
	for _, a := range concerned {
		if a != nil && a.id != "" && len(n.requests) < 2*maxReasons && !slices.Contains(n.requests, a.id) {
			n.requests = append(n.requests, a.id)
		}
	}
}
