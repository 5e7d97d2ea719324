package console

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// countedFor is how long fetches are counted before TopAccounts starts again.
	countedFor = 5 * time.Minute
	// maxCounted accounts are told apart in that time.
	maxCounted = 10_000
)

// TopAccounts counts fetches from the legacy system by account, over the last five to ten minutes.
// It is safe for concurrent use.
type TopAccounts struct {
	mu                sync.Mutex
	current, previous counted
}

// counted are the fetches of one period.
type counted struct {
	since time.Time
	of    map[string]int
	all   int
}

// Account is one of the accounts with the most fetches.
type Account struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"per_second"` // fetches
	Share     float64 `json:"share"`      // of all fetches, 0 to 1
}

// NewTopAccounts makes one that has counted nothing.
func NewTopAccounts() *TopAccounts { return &TopAccounts{} }

// Filled counts one fetch from the legacy system. It keeps a copy of the name.
func (t *TopAccounts) Filled(account string) { t.count(account, time.Now()) }

func (t *TopAccounts) count(account string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextPeriod(now)
	t.current.all++
	if _, ok := t.current.of[account]; ok || len(t.current.of) < maxCounted {
		t.current.of[strings.Clone(account)]++
	}
}

// nextPeriod begins a new period when the current one is over.
func (t *TopAccounts) nextPeriod(now time.Time) {
	age := now.Sub(t.current.since)
	if age < countedFor {
		return
	}
	t.previous = t.current
	if age >= 2*countedFor { // nothing was fetched meanwhile
		t.previous = counted{since: now}
	}
	t.current = counted{now, map[string]int{}, 0}
}

// top returns the n accounts with the most fetches, in that order.
func (t *TopAccounts) top(n int, now time.Time) []Account {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextPeriod(now)
	all, seconds := t.current.all+t.previous.all, now.Sub(t.previous.since).Seconds()
	if t.previous.all == 0 {
		seconds = now.Sub(t.current.since).Seconds()
	}
	sums, list := maps.Clone(t.current.of), []Account{}
	for account, count := range t.previous.of {
		sums[account] += count
	}
	for account, count := range sums {
		list = append(list, Account{account, float64(count) / max(seconds, 1), float64(count) / float64(all)})
	}
	slices.SortFunc(list, func(a, b Account) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), strings.Compare(a.Name, b.Name))
	})
	return list[:min(n, len(list))]
}
