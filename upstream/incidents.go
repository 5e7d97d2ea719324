package upstream

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxAccounts bounds the accounts that are counted in an incident, or for a line of the log.
	maxAccounts = 10_000
	// incidentQuiet is how long no fetch must have failed before an incident is over.
	incidentQuiet = 30 * time.Second
	// recentFailure is how long after its last failure an incident counts in the gauge of accounts.
	recentFailure = 2 * time.Minute
)

// Incident is a failure of the lists of one kind that is not over.
type Incident struct {
	Kind     string    `json:"kind"`
	Failure  Failure   `json:"failure"`
	Since    time.Time `json:"since"`           // of the first failed fetch
	Last     time.Time `json:"last"`            // of the last one
	Worked   time.Time `json:"worked,omitzero"` // the first list of any account after Last; zero: none came
	Fetches  int       `json:"fetches"`         // that failed
	Accounts int       `json:"accounts"`        // whose last fetch failed so
	Asked    int       `json:"asked"`           // accounts that were asked for since the incident began; at most 10,000 are counted
	Account  string    `json:"account"`         // of the last failed fetch
	Text     string    `json:"text"`            // of its error, as in the log
	Reason   string    `json:"reason"`          // of its error, a word of a fixed set
	Cause    string    `json:"-"`               // Text without whose failure it is
}

// incidents are the failures of the lists of one kind that are not over. An incident begins with a fetch that fails.
// It is over once a list of any account has come and no fetch has failed for [incidentQuiet].
type incidents struct {
	kind string
	log  *slog.Logger

	mu   sync.Mutex
	open map[Failure]*incident
}

type incident struct {
	Incident
	accounts map[string]accountFailure // that were asked for since the incident began
	lines    minuteLog
}

// accountFailure is how an account last failed in an incident. It is zero after a list.
type accountFailure struct {
	at  time.Time
	err *Error
}

// recordFailure records a failed fetch, and logs one a minute of each failure. A fetch that the breaker rejected is a
// consequence of others, and a refresh in the background that is refused is none.
func (s *incidents) recordFailure(want Request, e *Error, now time.Time) {
	whose := e.Failure()
	if whose == FailureCanceled || whose == FailureBug || e.Reason == reasonBreaker || e.Refused() && want.Background {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.open[whose]
	if i == nil {
		i = &incident{Incident: Incident{Kind: s.kind, Failure: whose, Since: now.UTC()}, accounts: map[string]accountFailure{}}
		s.open[whose] = i
	}
	i.Fetches++
	i.Last, i.Worked, i.Account = now.UTC(), time.Time{}, strings.Clone(want.Account)
	i.Text, i.Reason, i.Cause = e.Error(), e.Reason, e.Cause()
	i.set(want.Account, accountFailure{now, e})
	if e.Refused() {
		return
	}
	line := i.lines.add(want.Account, 1, now)
	if line == nil {
		return
	}
	attrs := []any{"kind", want.Kind, "account", want.Account, "failure", whose, "reason", e.Reason, "error", e.Error()}
	if whose == FailureMapping || whose == FailureForeign {
		word := "'" + strings.ReplaceAll(want.Account, "'", `'\''`) + "'" // of a shell
		attrs = append(attrs, "run", "inquiry-gateway probe -c FILE --"+want.Kind+" "+word)
	}
	s.log.Warn("a list cannot be fetched from the legacy system", append(attrs, line...)...)
}

// recordList records a list of an account.
func (s *incidents) recordList(account string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.open {
		i.set(account, accountFailure{})
		if i.Worked.IsZero() {
			i.Worked = now.UTC()
		}
	}
	s.resolve(now)
}

// set replaces the outcome of an account's last fetch.
func (i *incident) set(account string, f accountFailure) {
	old, known := i.accounts[account]
	if !known && len(i.accounts) >= maxAccounts {
		return
	}
	if old.err != nil {
		i.Accounts--
	}
	if f.err != nil {
		i.Accounts++
	}
	i.accounts[strings.Clone(account)] = f
	i.Asked = len(i.accounts)
}

// resolve ends the incidents that are over.
func (s *incidents) resolve(now time.Time) {
	for whose, i := range s.open {
		if !i.Worked.IsZero() && now.Sub(i.Last) >= incidentQuiet {
			delete(s.open, whose)
			s.log.Info("fetches from the legacy system work again", "kind", s.kind, "failure", whose, "failed", i.Fetches, "seconds", i.Last.Sub(i.Since).Seconds())
		}
	}
}

// list returns the incidents that are not over, the oldest first.
func (s *incidents) list(now time.Time) []Incident {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolve(now)
	all := make([]Incident, 0, len(s.open))
	for _, i := range s.open {
		all = append(all, i.Incident)
	}
	slices.SortFunc(all, func(a, b Incident) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(string(a.Failure), string(b.Failure)))
	})
	return all
}

// accounts counts the accounts of the incident of the legacy system itself, and those of them that fail.
func (s *incidents) accounts(now time.Time) (asked, failing int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.open[FailureSystem]; i != nil && now.Sub(i.Last) <= recentFailure {
		return i.Asked, i.Accounts
	}
	return 0, 0
}

// lastFailure is what the last fetch of an account failed with, unless the incident is over; nil: it did not fail.
func (s *incidents) lastFailure(account string) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last accountFailure
	for _, i := range s.open {
		if f := i.accounts[account]; f.err != nil && !f.at.Before(last.at) {
			last = f
		}
	}
	return last.err
}
