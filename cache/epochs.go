package cache

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"
)

// epochs knows which purges this node has heard of. A purge raises the epoch of
// a kind or of an account; an entry carries the epochs that held when its fill
// began, and is served only while both still do. It is safe for concurrent use.
type epochs struct {
	kinds [kindCount]cell
	// doubt grows whenever this node may have missed a purge. A cell that was
	// not read from Redis since is asked for again before its entries are
	// served. Without Redis it stays 0.
	doubt atomic.Uint64

	mu sync.Mutex
	// accounts finds an account's cell while an entry or a flight holds it, so
	// the map is never larger than the tier.
	accounts map[string]weak.Pointer[cell]
}

// cell is one epoch.
type cell struct {
	epoch    atomic.Uint64
	verified atomic.Uint64 // the doubt at which Redis confirmed it
}

func newEpochs() *epochs { return &epochs{accounts: make(map[string]weak.Pointer[cell])} }

// of returns the one cell of an account, named by its hash.
func (e *epochs) of(account string) *cell {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.accounts[account].Value(); c != nil {
		return c
	}
	c := new(cell)
	e.accounts[account] = weak.Make(c)
	runtime.AddCleanup(c, e.forget, account)
	return c
}

// forget drops a cell that nobody holds any more.
func (e *epochs) forget(account string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.accounts[account].Value() == nil {
		delete(e.accounts, account)
	}
}

// known returns the cell of an account if anything in this process depends on it.
func (e *epochs) known(account string) *cell {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accounts[account].Value()
}

// rise moves a cell forward, never back: a message may be late.
func (c *cell) rise(epoch uint64) {
	for {
		old := c.epoch.Load()
		if epoch <= old || c.epoch.CompareAndSwap(old, epoch) {
			return
		}
	}
}

// learn takes what Redis said while the doubt was as given. It returns true when
// Redis knows less than this node: it has lost a purge, in a fail-over or with
// its memory, and must be told again.
func (c *cell) learn(read, doubt uint64) (lost bool) {
	c.rise(read)
	c.verified.Store(doubt)
	return read < c.epoch.Load()
}

// current tells whether no purge that this node knows of is younger than the
// entry.
func (e *epochs) current(i kindIndex, x *Entry) bool {
	return x.cell != nil && x.tag.kind == e.kinds[i].epoch.Load() && x.tag.account == x.cell.epoch.Load()
}

// certain tells whether this node has no reason to think that it missed a purge
// of the entry: Redis has confirmed the account since, or the fill began since.
func (e *epochs) certain(x *Entry) bool {
	doubt := e.doubt.Load()
	return x.doubt == doubt || x.cell.verified.Load() == doubt
}

// tag is what a fill that begins now belongs to.
func (e *epochs) tag(i kindIndex, c *cell) tag {
	return tag{kind: e.kinds[i].epoch.Load(), account: c.epoch.Load()}
}
