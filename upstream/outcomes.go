package upstream

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxAccounts bounds how many accounts' failures are remembered. Those of more are counted.
	maxAccounts = 10_000
	// oneEpisode after a list, or less, a failure belongs to the episode before: where lists and
	// failures alternate, there is one episode.
	oneEpisode = 30 * time.Second
	// rememberFor is how long an episode that is over is known, and an account that nobody asks for.
	rememberFor = 12 * time.Hour
	// maxOver bounds how many episodes that are over are known.
	maxOver = 20
)

// outcomes are how fetches ended. [Client.State] gives them, and the log, as callers do not see a
// failure while lists are served stale.
type outcomes struct {
	mu       sync.Mutex
	worked   time.Time           // the newest list of all
	accounts map[string]*outcome // that were asked for
	episodes map[cause]*episode  // the newest of each cause
	over     []Failing           // older ones, the newest last

	logs   map[Failure]*minuteLog // of single lists, in the log
	since  time.Time              // the system's first failure since then
	failed int                    // fetches that it has failed since; 0: it is well
}

// cause is whose failure it is, and whether it is that of single accounts only.
type cause struct {
	Failure
	some bool
}

// outcome is of one account.
type outcome struct {
	asked    time.Time // last
	failures map[Failure]*accountFailure
}

// accountFailure is how an account has failed since its last list.
type accountFailure struct {
	some        bool // other accounts' lists came meanwhile
	first, last time.Time
	err         *Error
}

// episode is one cause of failures, from the first one to a list. Any account's list ends it. Where
// only some accounts fail, the lists of all of these do.
type episode struct {
	Failing
	single   bool           // all failures are of one account
	reasons  map[string]int // how often
	reopened time.Time      // the last failure that came soon after a list; zero: none has
	peak     int            // the most accounts at a time
	before   int            // fetches that had failed until then
}

func newOutcomes() *outcomes {
	return &outcomes{accounts: map[string]*outcome{}, episodes: map[cause]*episode{}, logs: map[Failure]*minuteLog{}}
}

// State is what is known of the lists of a kind.
type State struct {
	Worked  time.Time // the newest list came; zero: none has
	Failing []Failing // what is not over
	Over    []Failing // what is, of the last 12 hours, the newest last
}

// Failing is one episode of failures.
type Failing struct {
	Failure      Failure
	Some         bool // lists of other accounts come, or the failure is always an account's own
	First, Last  time.Time
	Ended        time.Time // a list came; zero: none has since Last
	Remapped     bool      // no list came, but another mapping was taken over
	Fetches      int       // that failed
	NotAsked     int       // that were not made because the breaker was open
	Accounts     int       // that have failed so and had no list since
	Of           int       // that were asked for since the first of these failures
	Account      string    // of the last one
	Err          *Error    // the last one
	Usual        *Error    // the last one of the most frequent reason, of which there were UsualFetches
	UsualFetches int
}

// isOver tells whether a list has ended the episode. Where lists and failures have alternated, it is
// over when nothing has failed for a while.
func (e *episode) isOver(now time.Time) bool {
	return !e.Ended.IsZero() && (e.reopened.IsZero() || now.Sub(e.reopened) >= oneEpisode || now.Sub(e.Last) >= oneEpisode)
}

// addFailure adds a failure.
func (o *outcomes) addFailure(account string, e *Error, now time.Time) {
	whose := e.Failure()
	one := o.account(account)
	one.asked = now
	wide := o.episodes[cause{whose, false}]
	if e.Reason == reasonBreaker { // a consequence, and no cause
		if system := o.episodes[cause{FailureSystem, false}]; system != nil && system.Ended.IsZero() {
			system.NotAsked++
		}
		return
	}
	mine := one.failures[whose]
	always := whose == FailureMapping || whose == FailureAccount
	others := wide != nil && wide.Ended.IsZero() // fail as well
	switch {
	case mine == nil || !mine.some && !always && o.worked.After(mine.last) && others:
		mine = &accountFailure{some: always, first: now}
		one.failures[whose] = mine
	case !mine.some && o.worked.After(mine.last): // and nobody else has failed since
		mine.some = true
		if wide != nil && wide.single && wide.Account == account {
			o.episodes[cause{whose, true}] = wide // it was this account's from the beginning
			wide.Some, wide.Ended = true, time.Time{}
			delete(o.episodes, cause{whose, false})
		}
	}
	mine.last, mine.err = now, e
	o.episode(cause{whose, mine.some}, mine.first, now).add(account, e, now)
}

// account is what is known of one. Where there are too many it is not remembered.
func (o *outcomes) account(name string) *outcome {
	one := o.accounts[name]
	if one == nil {
		one = &outcome{failures: map[Failure]*accountFailure{}}
		if len(o.accounts) >= maxAccounts { // those that work first; what fails will be back
			maps.DeleteFunc(o.accounts, func(_ string, other *outcome) bool { return len(other.failures) == 0 })
		}
		if len(o.accounts) < maxAccounts {
			o.accounts[strings.Clone(name)] = one
		}
	}
	return one
}

// episode is the one that a failure belongs to.
func (o *outcomes) episode(c cause, first, now time.Time) *episode {
	e := o.episodes[c]
	switch {
	case e == nil:
	case e.Ended.IsZero():
		if !e.reopened.IsZero() && now.Sub(e.reopened) >= oneEpisode { // no list comes in between any more
			e.First, e.Fetches, e.UsualFetches = e.reopened, e.Fetches-e.before, 0
			e.reopened, e.reasons = time.Time{}, map[string]int{}
		}
		return e
	case e.isOver(now) && now.Sub(e.Ended) >= oneEpisode:
		o.keepOver(e)
		first = now
	default:
		e.Ended, e.reopened, e.before = time.Time{}, now, e.Fetches
		return e
	}
	e = &episode{Failing: Failing{Failure: c.Failure, Some: c.some, First: first}, single: true, reasons: map[string]int{}}
	o.episodes[c] = e
	return e
}

// keepOver remembers an episode whose place another one takes.
func (o *outcomes) keepOver(e *episode) {
	o.over = append(o.over[max(0, len(o.over)-maxOver+1):], e.Failing)
}

// add counts a failure.
func (e *episode) add(account string, err *Error, now time.Time) {
	e.single = e.single && cmp.Or(e.Account, account) == account
	e.Fetches++
	e.Last, e.Account, e.Err = now, strings.Clone(account), err
	e.reasons[err.Reason]++
	if n := e.reasons[err.Reason]; n >= e.UsualFetches {
		e.Usual, e.UsualFetches = err, n
	}
}

// count counts the accounts that were asked for since the episode began, and those of them that
// still fail.
func (o *outcomes) count(e *episode) {
	e.Accounts, e.Of = 0, 0
	for _, one := range o.accounts {
		if one.asked.Before(e.First) {
			continue
		}
		e.Of++
		if mine := one.failures[e.Failure]; mine != nil && mine.some == e.Some && !mine.last.Before(e.First) {
			e.Accounts++
		}
	}
	e.Accounts, e.Of = max(1, e.Accounts), max(1, e.Of) // some were too many to be known
	e.peak = max(e.peak, e.Accounts)
}

// own tells whether a failure is the account's own: other accounts were asked for lately, and none of
// them fails.
func (o *outcomes) own(account string, now time.Time) bool {
	asked := false
	for name, other := range o.accounts {
		if name != account && now.Sub(other.asked) < BreakerWindow {
			asked = true
			for _, failed := range other.failures {
				if verdictOf(failed.err) == saysFault {
					return false
				}
			}
		}
	}
	return asked
}

// noteFailure notes a fetch that failed. A refresh in the background that is refused is no failure.
func (o *outcomes) noteFailure(log *slog.Logger, want Request, e *Error, now time.Time) {
	whose := e.Failure()
	if whose == FailureCanceled || whose == FailureBug || e.Refused() && want.Background {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addFailure(want.Account, e, now)
	attrs := func() []any {
		all := []any{"kind", want.Kind, "account", want.Account, "failure", whose, "reason", e.Reason, "error", e.Error()}
		if whose == FailureMapping {
			word := "'" + strings.ReplaceAll(want.Account, "'", `'\''`) + "'" // of a shell
			all = append(all, "run", "inquiry-gateway probe -c FILE --"+want.Kind+" "+word)
		}
		return all
	}
	switch {
	case e.Refused():
	case verdictOf(e) == saysFault && !o.own(want.Account, now):
		if o.failed++; o.failed == 1 {
			o.since = now
			log.Warn("fetches from the legacy system begin to fail", attrs()...)
		}
	default:
		if o.logs[whose] == nil {
			o.logs[whose] = &minuteLog{}
		}
		if all := o.logs[whose].add(want.Account, 1, now); all != nil {
			log.Warn("a list cannot be fetched from the legacy system", append(attrs(), all...)...)
		}
	}
}

// noteList notes a fetch that gave a list.
func (o *outcomes) noteList(log *slog.Logger, want Request, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.account(want.Account)
	for c, e := range o.episodes {
		mine := one.failures[c.Failure]
		if !e.Ended.IsZero() || c.some && (mine == nil || !mine.some) {
			continue
		}
		if o.count(e); !c.some || e.Accounts == 1 {
			e.Ended, e.Accounts = now, max(e.Accounts, min(e.peak, e.Of))
		}
	}
	clear(one.failures)
	one.asked, o.worked = now, now
	if o.failed > 0 {
		log.Info("fetches from the legacy system work again", "kind", want.Kind, "failed", o.failed, "seconds", now.Sub(o.since).Seconds())
		o.failed = 0
	}
}

// remapped ends the failures that another mapping may have mended. Else they would seem to last
// until somebody asks for their accounts again.
func (o *outcomes) remapped(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, whose := range [...]Failure{FailureMapping, FailureAccount} {
		c := cause{whose, true}
		if e := o.episodes[c]; e != nil {
			if e.Ended.IsZero() {
				o.count(e)
				e.Ended, e.Remapped = now, true
			}
			o.keepOver(e)
			delete(o.episodes, c)
		}
		for _, one := range o.accounts {
			delete(one.failures, whose)
		}
	}
}

// recentlyAsked bounds how long ago an account was asked for that [outcomes.recent] counts.
const recentlyAsked = 2 * time.Minute

// recent counts the accounts that were asked for lately, and those of them whose last fetch the
// legacy system failed.
func (o *outcomes) recent(now time.Time) (asked, failing int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range o.accounts {
		if now.Sub(one.asked) <= recentlyAsked {
			if asked++; one.failures[FailureSystem] != nil {
				failing++
			}
		}
	}
	return asked, failing
}

// state is what is known now. It forgets accounts that nobody has asked for since rememberFor.
func (o *outcomes) state(now time.Time) State {
	o.mu.Lock()
	defer o.mu.Unlock()
	long := func(at time.Time) bool { return now.Sub(at) >= rememberFor }
	maps.DeleteFunc(o.accounts, func(_ string, one *outcome) bool { return long(one.asked) })
	maps.DeleteFunc(o.episodes, func(_ cause, e *episode) bool { return long(e.Last) })
	s := State{Worked: o.worked}
	for _, e := range o.episodes {
		if e.isOver(now) {
			s.Over = append(s.Over, e.Failing)
			continue
		}
		if e.Ended.IsZero() {
			o.count(e)
		}
		s.Failing = append(s.Failing, e.Failing)
	}
	for _, f := range o.over {
		if !long(f.Last) {
			s.Over = append(s.Over, f)
		}
	}
	order := func(a, b Failing) int {
		return cmp.Or(a.Ended.Compare(b.Ended), strings.Compare(string(a.Failure), string(b.Failure)), a.First.Compare(b.First))
	}
	slices.SortFunc(s.Failing, order)
	slices.SortFunc(s.Over, order)
	return s
}

// lastFailure is what the newest fetch of an account failed with, unless that is over.
func (o *outcomes) lastFailure(account string) *Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.accounts[account]
	if one == nil {
		return nil
	}
	var last *accountFailure
	for whose, mine := range one.failures {
		e := o.episodes[cause{whose, mine.some}]
		if e != nil && e.Ended.IsZero() && (last == nil || mine.last.After(last.last)) {
			last = mine
		}
	}
	if last == nil {
		return nil
	}
	return last.err
}
