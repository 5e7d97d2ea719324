package cache

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"inquiry-gateway/cache/redistier"
)

// epochs knows which purges and changes this node has heard of. Both raise the epoch
// of a kind or of an account; an entry carries the epochs that held when its fill
// began. It is fresh only while both still do, and served at all only while no purge
// is later. It is safe for concurrent use.
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
	early        map[uint64]uint64 // numbers heard of before those between them and last, by the number before
	// recent are the accounts that were purged last, oldest first. Their cells
	// stay, so that a list of before is refused even if Redis, having lost the
	// purge, brings it back.
	recent []recentPurge
}

// maxEarly bounds the notices that wait for others.
const maxEarly = 256

// recentPurges bounds what a node remembers of purged accounts, about 200 bytes
// each.
const recentPurges = 1024

// recentPurge is a purge of an account that this node has made or heard of.
type recentPurge struct {
	account string // hashed
	cell    *cell
	own     bool // this node made it, and gives it back to a Redis that lost it
}

// cell is one epoch.
type cell struct {
	epoch    atomic.Uint64
	floor    atomic.Uint64 // of the last purge
	changed  atomic.Int64  // when the lists last changed, on the clock of Redis, Unix ns
	verified atomic.Uint64 // the suspectEpoch at which Redis confirmed it
}

func newEpochs() *epochs {
	return &epochs{accounts: make(map[string]weak.Pointer[cell]), early: map[uint64]uint64{}}
}

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
func (c *cell) rise(e redistier.Epoch) {
	raise(&c.floor, e.Floor)
	raise(&c.changed, e.Changed)
	raise(&c.epoch, e.Last)
}

// raise sets a to n unless it is more already.
func raise[N int64 | uint64, A interface {
	Load() N
	CompareAndSwap(old, now N) bool
}](a A, n N) {
	for old := a.Load(); n > old && !a.CompareAndSwap(old, n); old = a.Load() {
	}
}

// known is all that a cell holds.
func (c *cell) known() redistier.Epoch {
	return redistier.Epoch{Last: c.epoch.Load(), Floor: c.floor.Load(), Changed: c.changed.Load()}
}

// purgeHere hides what this node holds, whatever the fleet knows.
func (c *cell) purgeHere() redistier.Epoch {
	n := c.epoch.Add(1)
	raise(&c.floor, n)
	return c.known()
}

// changeHere makes what this node holds outdated; there is no fleet.
func (c *cell) changeHere(now time.Time) uint64 {
	raise(&c.changed, now.UnixNano())
	return c.epoch.Add(1)
}

// learn takes what Redis said at the given suspectEpoch. It returns true when
// Redis knows less than this node: it has lost a purge, in a fail-over or with
// its memory, and must be told again.
func (c *cell) learn(read redistier.Epoch, suspectEpoch uint64) (lost bool) {
	c.rise(read)
	c.verified.Store(suspectEpoch)
	return read.Last < c.epoch.Load() || read.Floor < c.floor.Load()
}

// current tells whether no purge that this node knows of is younger than the
// entry.
func (e *epochs) current(i kindIndex, x *Entry) bool {
	return x.cell != nil && x.tag.kind >= e.kinds[i].floor.Load() && x.tag.account >= x.cell.floor.Load()
}

// changed tells whether the entry's fill began before its list changed, as far as
// this node knows, and when that was, on the clock of Redis.
func (e *epochs) changed(i kindIndex, x *Entry) (at int64, changed bool) {
	k := &e.kinds[i]
	if x.tag.kind < k.epoch.Load() {
		at, changed = k.changed.Load(), true
	}
	if x.tag.account < x.cell.epoch.Load() {
		at, changed = max(at, x.cell.changed.Load()), true
	}
	return at, changed
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

// heard takes a notice that Redis has told of. One that others came before waits for
// them: they may be on their way, as nodes tell at the same time.
func (e *epochs) heard(n redistier.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.synced:
		e.last = max(e.last, n.Seq)
	case n.Seq <= e.last: // polled, or heard twice
	case n.Before < e.last:
		e.suspectAll()
		e.last, e.lost = n.Seq, true
	case n.Before > e.last && len(e.early) < maxEarly:
		e.early[n.Before] = n.Seq
	default:
		if n.Before > e.last {
			e.suspectAll()
			e.missed = true
		}
		for ok := true; ok; n.Seq, ok = e.early[e.last] {
			delete(e.early, e.last)
			e.last = n.Seq
		}
	}
}

// known is the number of the last notice, with none missing before it.
func (e *epochs) known() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// polled takes the number of the last notice. before was known before it was asked for:
// a lower number shows that Redis has forgotten some, a higher one than is known now
// that this node has missed some.
func (e *epochs) polled(before, seq uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	missed, lost := e.synced && seq > e.last, seq < before
	if !e.synced || missed || lost {
		e.suspectAll()
		clear(e.early)
		e.last = seq
	}
	// A higher number is a message that was lost, or the first purge after Redis has
	// lost its memory: whoever gives it out does not know the one before.
	e.missed, e.lost = e.missed || missed, e.lost || lost
	e.synced = true
}

// polledOnce tells whether polled was ever called. What is filled before is suspect after.
func (e *epochs) polledOnce() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.synced
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
