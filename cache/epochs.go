package cache

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"inquiry-gateway/cache/redistier"
)

// epochs knows which purges this node has heard of. A purge raises the epoch of
// a kind or of an account; an entry carries the epochs that held when its fill
// began, and is served only while both still do. It is safe for concurrent use.
type epochs struct {
	kinds [kindCount]cell
	// suspectEpoch grows whenever this node may have missed a purge. A cell that was
	// not read from Redis since is asked for again before its entries are
	// served. Without Redis it stays 0.
	suspectEpoch atomic.Uint64

	mu sync.Mutex
	// accounts finds an account's cell while an entry or a flight holds it, so
	// the map is never larger than the tier.
	accounts map[string]weak.Pointer[cell]
	// synced, last, missed and lost are what this node knows of the fleet's purges, which
	// are numbered: whether it has polled, the number of the last one that it has heard
	// of or polled, whether it has missed some since, and whether Redis has forgotten
	// some and was not given them back yet.
	synced       bool
	last         uint64
	missed, lost bool
	// recent are the accounts that were purged last, oldest first. Their cells
	// stay, so that a list of before is refused even if Redis, having lost the
	// purge, brings it back.
	recent []recentPurge
}

// recentPurges bounds what a node remembers of purged accounts, about 200 bytes
// each.
const recentPurges = 1024

type recentPurge struct {
	account string // hashed
	cell    *cell
	own     bool // this node made it, and gives it back to a Redis that lost it
}

// cell is one epoch.
type cell struct {
	epoch    atomic.Uint64
	verified atomic.Uint64 // the suspectEpoch at which Redis confirmed it
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

// remember keeps the cell of a purged account; an empty account is a kind's, which
// is kept anyway.
func (e *epochs) remember(account string, c *cell, own bool) {
	if account == "" {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := slices.IndexFunc(e.recent, func(r recentPurge) bool { return r.cell == c }); i >= 0 {
		own = own || e.recent[i].own
		e.recent = slices.Delete(e.recent, i, i+1)
	} else if len(e.recent) == recentPurges {
		e.recent = slices.Delete(e.recent, 0, 1)
	}
	e.recent = append(e.recent, recentPurge{account, c, own})
}

// own are the recent purges of accounts that this node made.
func (e *epochs) own() (made []recentPurge) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.recent {
		if r.own {
			made = append(made, r)
		}
	}
	return made
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

// learn takes what Redis said at the given suspectEpoch. It returns true when
// Redis knows less than this node: it has lost a purge, in a fail-over or with
// its memory, and must be told again.
func (c *cell) learn(read, suspectEpoch uint64) (lost bool) {
	c.rise(read)
	c.verified.Store(suspectEpoch)
	return read < c.epoch.Load()
}

// current tells whether no purge that this node knows of is younger than the
// entry.
func (e *epochs) current(i kindIndex, x *Entry) bool {
	return x.cell != nil && x.tag.kind == e.kinds[i].epoch.Load() && x.tag.account == x.cell.epoch.Load()
}

// confirmed tells whether this node has no reason to think that it missed a purge
// of the entry: Redis has confirmed the account since, or the fill began since.
func (e *epochs) confirmed(x *Entry) bool {
	suspectEpoch := e.suspectEpoch.Load()
	return x.suspectEpoch == suspectEpoch || x.cell.verified.Load() == suspectEpoch
}

// tag is what a fill that begins now belongs to.
func (e *epochs) tag(i kindIndex, c *cell) tag {
	return tag{kind: e.kinds[i].epoch.Load(), account: c.epoch.Load()}
}

// suspectAll makes the epochs of all accounts suspect: a purge may have been missed.
func (e *epochs) suspectAll() { e.suspectEpoch.Add(1) }

// heard takes a purge that Redis has told of; if others came before it, they were
// missed.
func (e *epochs) heard(n redistier.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.synced && n.Before != e.last && n.Seq != e.last { // the latter: polled already
		e.suspectAll()
		e.lost = e.lost || n.Before < e.last && n.Seq > e.last
	}
	e.last = max(e.last, n.Seq)
}

// polled takes the number of the last purge. If it is not the one heard of, purges
// were missed.
func (e *epochs) polled(seq uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.synced || seq != e.last {
		e.suspectAll()
	}
	// A higher number is a message that was lost, or the first purge after Redis has
	// lost its memory: whoever gives it out does not know the one before.
	e.missed = e.missed || e.synced && seq > e.last
	e.lost = e.lost || seq < e.last
	e.synced, e.last = true, seq
}

// losses tells whether this node has missed purges, and whether Redis has forgotten
// some, since it was last asked.
func (e *epochs) losses() (missed, lost bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	missed, lost = e.missed, e.lost
	e.missed, e.lost = false, false
	return missed, lost
}

// setLost notes that Redis has forgotten purges.
func (e *epochs) setLost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = true
}
