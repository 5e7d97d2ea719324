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
	heavy []counter
	index map[string]int // in heavy, by account
	all   float64
	since time.Time // when everything was scaled last; zero: never
}

// counter is how often an account was counted; over is by how much that may be
// too high, because the account took the place of another.
type counter struct {
	account     string
	count, over float64
}

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
	return &TopAccounts{size: max(size, 1), index: map[string]int{}}
}

// Filled counts one fetch from the legacy system. It keeps a copy of the name.
func (t *TopAccounts) Filled(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	if i, ok := t.index[account]; ok {
		t.heavy[i].count++
		return
	}
	name, i := strings.Clone(account), len(t.heavy)
	if i < t.size {
		t.heavy = append(t.heavy, counter{})
	} else { // it takes the place of the lightest
		i = 0
		for other := range t.heavy {
			if t.heavy[other].count < t.heavy[i].count {
				i = other
			}
		}
		delete(t.index, t.heavy[i].account)
	}
	least := t.heavy[i].count
	t.heavy[i], t.index[name] = counter{name, least + 1, least}, i
}

// fade lets older fetches count less. The first call only notes the time.
func (t *TopAccounts) fade(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.since.IsZero() && now.After(t.since) {
		factor := math.Exp2(-now.Sub(t.since).Seconds() / halfLife.Seconds())
		t.all *= factor
		for i := range t.heavy {
			t.heavy[i].count *= factor
			t.heavy[i].over *= factor
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
	for _, c := range t.heavy {
		list = append(list, Account{Name: c.account, PerSecond: c.count * perSecond, AtLeast: (c.count - c.over) * perSecond, Share: ratio(c.count, t.all)})
	}
	slices.SortFunc(list, func(a, b Account) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), strings.Compare(a.Name, b.Name))
	})
	return list[:min(n, len(list))]
}
