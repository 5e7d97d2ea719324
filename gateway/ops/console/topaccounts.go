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
	mu    sync.Mutex
	size  int
	heavy map[string]*counter // by account
	all   float64
	since time.Time // when everything was scaled last; zero: never
}

// counter is how often an account was counted; over is by how much that may be
// too high, because the account took the place of another.
type counter struct{ count, over float64 }

// Account is one of the accounts that cause most load.
type Account struct {
	Name      string  `json:"name"`
	PerSecond float64 `json:"per_second"` // fetches, averaged over the last minutes
	AtLeast   float64 `json:"at_least"`   // what PerSecond is at least; the same unless there are more accounts than counters
	Share     float64 `json:"share"`      // of all fetches, 0 to 1
}

// NewTopAccounts makes one with so many counters; below 1 counts as 1. Any
// account with more than a size-th of all fetches is among them.
func NewTopAccounts(size int) *TopAccounts {
	return &TopAccounts{size: max(size, 1), heavy: map[string]*counter{}}
}

// Filled counts one fetch from the legacy system. It keeps a copy of the name.
func (t *TopAccounts) Filled(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	c := t.heavy[account]
	if c == nil {
		c = &counter{}
		if len(t.heavy) == t.size { // it takes the place of the lightest
			lightest, least := "", math.Inf(1)
			for other, o := range t.heavy {
				if o.count < least {
					lightest, least = other, o.count
				}
			}
			delete(t.heavy, lightest)
			*c = counter{least, least}
		}
		t.heavy[strings.Clone(account)] = c
	}
	c.count++
}

// fade lets older fetches count less. The first call only notes the time.
func (t *TopAccounts) fade(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.since.IsZero() && now.After(t.since) {
		factor := math.Exp2(-now.Sub(t.since).Seconds() / halfLife.Seconds())
		t.all *= factor
		for _, c := range t.heavy {
			c.count *= factor
			c.over *= factor
		}
	}
	t.since = now
}

// top gives the n heaviest, the heaviest first.
func (t *TopAccounts) top(n int) []Account {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A steady rate r has the weight r*halfLife/ln 2 in the long run.
	perSecond := math.Ln2 / halfLife.Seconds()
	list := make([]Account, 0, len(t.heavy))
	for account, c := range t.heavy {
		list = append(list, Account{Name: account, PerSecond: c.count * perSecond, AtLeast: (c.count - c.over) * perSecond, Share: ratio(c.count, t.all)})
	}
	slices.SortFunc(list, func(a, b Account) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), strings.Compare(a.Name, b.Name))
	})
	return list[:min(n, len(list))]
}
