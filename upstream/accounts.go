package upstream

import "sync"

// accounts bounds what each account may have under way, so that none can take
// all places of the bulkhead. An account with nothing under way takes no memory.
// It is safe for concurrent use.
type accounts struct {
	most int // fetches of one account

	mu       sync.Mutex
	underWay map[string]int
}

// enter counts a fetch, unless the account has all that it may have. Each true
// is ended by leave.
func (a *accounts) enter(account string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay[account] >= a.most {
		return false
	}
	a.underWay[account]++
	return true
}

func (a *accounts) leave(account string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay[account]--; a.underWay[account] == 0 {
		delete(a.underWay, account)
	}
}
