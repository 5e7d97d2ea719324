package console

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// halfLife is after how long a fetch counts half in TopAccounts.
const halfLife = 5 * time.Minute

// TopAccounts finds the accounts that cause most of the load on the legacy
// system, with a bounded number of counters however many accounts there are
// (space-saving: Metwally, Agrawal, El Abbadi, "Efficient Computation of
// Frequent and Top-k Elements in Data Streams", ICDT 2005). Older fetches count
// less. It is safe for concurrent use.
type TopAccounts struct {
	mu     sync.Mutex
	size   int
	counts map[string]float64 // by account
	all    float64
	since  time.Time // when everything was scaled last; zero: never
}

// Account is one of the accounts that cause most load.
type Account struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"per_second"` // fetches, averaged over the last minutes
	Share     float64 `json:"share"`      // of all fetches, 0 to 1
}

// NewTopAccounts makes one with so many counters. Any account with more than a
// size-th of all fetches is among them.
func NewTopAccounts(size int) *TopAccounts {
	return &TopAccounts{size: size, counts: map[string]float64{}}
}

// Filled counts one fetch from the legacy system. It keeps a copy of the name.
func (t *TopAccounts) Filled(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	if n, ok := t.counts[account]; ok {
		t.counts[account] = n + 1
		return
	}
	least := 0.0
	if len(t.counts) == t.size { // it takes the place of the lightest, and its count
		lightest := ""
		least = math.Inf(1)
		for other, n := range t.counts {
			if n < least {
				lightest, least = other, n
			}
		}
		delete(t.counts, lightest)
	}
	t.counts[strings.Clone(account)] = least + 1
}

// fade lets older fetches count less. The first call only notes the time.
func (t *TopAccounts) fade(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.since.IsZero() && now.After(t.since) {
		factor := math.Exp2(-now.Sub(t.since).Seconds() / halfLife.Seconds())
		t.all *= factor
		for account := range t.counts {
			t.counts[account] *= factor
		}
	}
	t.since = now
}

// top gives the n heaviest, the heaviest first.
func (t *TopAccounts) top(n int) []Account {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Account, 0, len(t.counts))
	for account, count := range t.counts {
		// A steady rate r has the weight r*halfLife/ln 2 in the long run.
		list = append(list, Account{Name: account, PerSecond: count * math.Ln2 / halfLife.Seconds(), Share: count / t.all})
	}
	slices.SortFunc(list, func(a, b Account) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), strings.Compare(a.Name, b.Name))
	})
	return list[:min(n, len(list))]
}
