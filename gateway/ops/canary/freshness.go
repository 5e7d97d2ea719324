package canary

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Policy is how old a list may be. All times count from the moment at which the
// legacy system answered.
type Policy struct {
	TTL                  time.Duration
	StaleWhileRevalidate time.Duration // beyond the ttl
	StaleIfError         time.Duration // beyond the ttl
	Jitter               float64       // the greatest share by which the ttl is shortened
}

// slack is what may pass between the decision to serve a list and the moment
// for which its Age is told, on a busy machine.
const slack = time.Second

// skew is how far clocks of two nodes may differ: an entry from the future of
// the node that serves it counts as new.
const skew = 2 * time.Second

// cacheStatus is a Cache-Status field (RFC 9211) as the gateway writes it.
type cacheStatus struct {
	hit       bool
	left      time.Duration // of a hit's ttl, in whole seconds rounded down; negative: stale
	detail    string        // of a stale hit: stale-revalidate or stale-error
	collapsed bool          // of a miss: fetched for another request
}

var cacheStatusForm = regexp.MustCompile(`^inquiry-gateway; (?:hit; ttl=(-?[0-9]{1,9})(?:; detail=(stale-revalidate|stale-error))?|fwd=(?:miss|stale)(?:; stored)?(; collapsed)?)$`)

// parseCacheStatus takes nothing but what is documented: a fresh hit, a stale
// one with the reason, or a miss.
func parseCacheStatus(value string) (s cacheStatus, ok bool) {
	m := cacheStatusForm.FindStringSubmatch(value)
	if m == nil {
		return s, false
	}
	if m[1] == "" {
		return cacheStatus{collapsed: m[3] != ""}, true
	}
	seconds, err := strconv.Atoi(m[1])
	s = cacheStatus{hit: true, left: time.Duration(seconds) * time.Second, detail: m[2]}
	return s, err == nil && (s.left < 0) == (s.detail != "")
}

// judge compares the age of a list with the policy. Age and what is left of the
// ttl are cut to whole seconds, so together they are up to two seconds less than
// the ttl that they were made from.
func (p Policy) judge(a *answer) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	age, sum := a.age, a.age+a.from.left
	// A list that was fetched for this request is as new as the request; one that was
	// fetched for another may have been under way before.
	if !a.from.hit {
		if most := a.received.Sub(a.sent) + slack; !a.from.collapsed && age > most {
			say("a list that was just fetched is %s old", age)
		} else if most = max(most, p.TTL) + skew; age > most {
			say("a list that was fetched for another request is %s old, more than the ttl of %s", age, p.TTL)
		}
		return problems
	}
	// Whatever its age, a list never had more than the ttl to begin with.
	if sum > p.TTL {
		say("%s old with %s of the ttl left is more than the ttl of %s", age, a.from.left, p.TTL)
	}
	// Nor less than the ttl without the most that jitter takes off.
	shortest := p.TTL - time.Duration(p.Jitter*float64(p.TTL))
	early := a.from.left < 0 // its refresh has failed, or the legacy has told that it changed
	if sum <= shortest-2*time.Second && !early {
		say("%s old with %s of the ttl left is less than the ttl of %s and its jitter", age, a.from.left, p.TTL)
	}
	switch a.from.detail {
	case "stale-revalidate":
		if age > p.TTL+p.StaleWhileRevalidate+slack {
			say("%s old while it is refreshed, more than ttl and stale_while_revalidate together", age)
		}
	case "stale-error":
		if age > p.TTL+max(p.StaleWhileRevalidate, p.StaleIfError)+slack {
			say("%s old while the legacy system fails, more than ttl and stale window together", age)
		}
	}
	return problems
}

// olderThan tells whether a list was surely answered before another that was
// served earlier.
func (a *answer) olderThan(before *answer) bool {
	after, _ := before.answeredBetween()
	_, upTo := a.answeredBetween()
	return !upTo.After(after)
}
