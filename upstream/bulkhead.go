package upstream

import (
	"fmt"
	"sync"
	"time"
)

// bulkhead counts the fetches that are under way, of all accounts and of each: no
// account takes all places. A client and those that take its place have one
// together, because the legacy has to bear them all. An account with nothing under
// way takes no memory. It is safe for concurrent use.
type bulkhead struct {
	mu       sync.Mutex
	underWay int
	accounts map[string]int
}

// enter counts a fetch, or refuses it where all or the account's places are taken.
// Without an error leave must be called.
func (b *bulkhead) enter(account string, most, mostPerAccount int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.accounts[account] >= mostPerAccount:
		return refused(reasonAccountFull, "%d fetches of the account are under way", mostPerAccount)
	case b.underWay >= most:
		return refused(reasonFull, "%d fetches are under way", most)
	}
	b.underWay++
	if b.accounts == nil {
		b.accounts = map[string]int{}
	}
	b.accounts[account]++
	return nil
}

func refused(reason, format string, n int) error {
	return &Error{Failure: FailureUnavailable, Reason: reason, RetryAfter: time.Second, Err: fmt.Errorf(format, n)}
}

// leave ends a fetch that enter has counted.
func (b *bulkhead) leave(account string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underWay--
	if b.accounts[account]--; b.accounts[account] == 0 {
		delete(b.accounts, account)
	}
}

// count is how many fetches are under way.
func (b *bulkhead) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.underWay
}
