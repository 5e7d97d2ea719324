package cache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/redisclient"
)

const (
	// epochLife is how long Redis remembers a purge. It is longer than any entry
	// can live, so an entry never outlives the purge that hides it.
	epochLife = maxLifetime + 24*time.Hour
	// pollEvery bounds how long a lost message can hide a purge. With the time that
	// the breaker takes to let a poll through it stays under the promised second.
	pollEvery = 250 * time.Millisecond
	// messageDelay is how long a message may be on its way after its number was polled.
	messageDelay = 20 * time.Millisecond
	maxEarly     = 256 // notices that wait for others
	// recentPurges bounds what a node remembers of purged accounts, about 200 bytes
	// each. Where Redis has taken none of that many, the oldest becomes a purge of both kinds.
	recentPurges = 1024
)

// changes knows which purges and hints this node has heard of. Both raise the epoch
// of a kind or of an account; an entry carries the epochs that held when its fill
// began. It is fresh only while both still do, and served at all only while no purge
// is later. It is safe for concurrent use.
type changes struct {
	kinds [kindCount]cell
	// suspectEpoch grows whenever this node may have missed a purge. A cell that was
	// not read from Redis since is asked for again before its entries are
	// served. Without Redis it stays 0.
	suspectEpoch atomic.Uint64
	began        time.Time // moments are counted from here, on the monotonic clock

	// accounts finds an account's cell, by its hash, while an entry or a flight holds it, so
	// there are never more than in the tier.
	accounts localcache.Weak[cell]

	mu sync.Mutex
	// synced, last, missed and lost are what this node knows of the fleet's notices, which
	// are numbered: whether it has polled, the number of the last one that it has heard
	// of or polled, whether it has missed some since, and whether Redis lost some that we
	// still have to write again.
	synced       bool
	last         uint64
	missed, lost bool
	early        map[uint64]uint64 // numbers heard of before those between them and last, by the number before
	// recent are the accounts that were purged last, oldest first. Their cells
	// stay, so that a list of before is refused even if Redis, having lost the
	// purge, brings it back.
	recent []recentPurge

	finishing chan struct{} // capacity 1: who holds it gives Redis the purges that it has not taken
}

// recentPurge is a purge of an account that this node has made or heard of.
type recentPurge struct {
	account string // hashed
	cell    *cell
	own     bool // this node made it, and gives it back to a Redis that lost it
}

// cell is the epoch of a kind or of an account.
type cell struct {
	epoch     atomic.Uint64
	floor     atomic.Uint64 // of the last purge
	changed   atomic.Int64  // the moment when the lists last changed
	confirmed atomic.Uint64 // the suspectEpoch at which Redis confirmed it
	// pending: Redis has not taken a purge of this node, so what it has of the lists is
	// refused. What this node fetches is told from what it had by the epoch.
	pending atomic.Bool

	// Guarded by changes.mu: how many purges this node was asked for, how many of them are
	// in Redis, and of how many the nodes were told.
	asked, raised, told uint32
}

func newChanges(began time.Time) *changes {
	return &changes{
		began: began, early: map[uint64]uint64{}, finishing: make(chan struct{}, 1),
	}
}

// moment is a time as cells have it.
func (l *Lists) moment(now time.Time) int64 { return int64(now.Sub(l.changes.began)) }

// remember keeps the cell of a purged account; an empty account is a kind's, which
// is kept anyway. c.mu is held.
func (c *changes) remember(account string, x *cell, own bool, at int64) {
	if account == "" {
		return
	}
	if i := slices.IndexFunc(c.recent, func(r recentPurge) bool { return r.cell == x }); i >= 0 {
		own = own || c.recent[i].own
		c.recent = slices.Delete(c.recent, i, i+1)
	} else if len(c.recent) == recentPurges {
		i := max(slices.IndexFunc(c.recent, func(r recentPurge) bool { return r.cell.told == r.cell.asked }), 0)
		if oldest := c.recent[i].cell; oldest.told != oldest.asked {
			for k := range c.kinds {
				c.purge("", &c.kinds[k], at)
			}
			oldest.pending.Store(false)
		}
		c.recent = slices.Delete(c.recent, i, i+1)
	}
	c.recent = append(c.recent, recentPurge{account, x, own})
}

// raise sets a to n unless it is more already: a message may be late.
func raise[N int64 | uint64, A interface {
	Load() N
	CompareAndSwap(old, now N) bool
}](a A, n N) {
	for old := a.Load(); n > old && !a.CompareAndSwap(old, n); old = a.Load() {
	}
}

// raise moves a cell forward, never back, to what Redis said at a moment.
func (x *cell) raise(e redistier.Epoch, at int64) {
	raise(&x.floor, e.Floor)
	if e.Last > x.epoch.Load() {
		raise(&x.changed, at-int64(e.Since))
	}
	raise(&x.epoch, e.Last)
}

func (x *cell) known() redistier.Epoch {
	return redistier.Epoch{Last: x.epoch.Load(), Floor: x.floor.Load()}
}

// learn takes what Redis said at a moment. before is what was known before it was asked,
// and suspectEpoch held then. It returns true when Redis knows less than that: it has
// lost a purge, in a fail-over or with its memory, and must be told again.
func (x *cell) learn(read, before redistier.Epoch, at int64, suspectEpoch uint64) (lost bool) {
	x.raise(read, at)
	x.confirmed.Store(suspectEpoch)
	return !x.pending.Load() && (read.Last < before.Last || read.Floor < before.Floor)
}

// raiseHere raises the epoch, whatever the fleet knows.
func (x *cell) raiseHere(at int64, soft bool) {
	raise(&x.changed, at)
	if n := x.epoch.Add(1); !soft {
		raise(&x.floor, n)
	}
}

// purged tells whether a purge that this node knows of is younger than the entry, or may be:
// an epoch that this node has raised by itself says nothing of what others have filled.
func (c *changes) purged(i kindIndex, e *Entry) bool {
	return e.cell == nil || e.tag.kind < c.kinds[i].floor.Load() || e.tag.account < e.cell.floor.Load() ||
		e.suspectEpoch == 0 && (c.kinds[i].pending.Load() || e.cell.pending.Load())
}

// suspect tells whether this node may have missed a purge of the entry: neither has Redis
// confirmed the account since, nor did the fill begin since.
func (c *changes) suspect(e *Entry) bool {
	now := c.suspectEpoch.Load()
	return e.suspectEpoch != now && e.cell.confirmed.Load() != now
}

// marksOf is what is known of an entry.
func (c *changes) marksOf(i kindIndex, e *Entry, now time.Time) marks {
	if c.purged(i, e) {
		return marks{purged: true}
	}
	m, at := marks{suspect: c.suspect(e)}, int64(0)
	if k := &c.kinds[i]; e.tag.kind < k.epoch.Load() {
		m.hinted, at = true, k.changed.Load()
	}
	if e.tag.account < e.cell.epoch.Load() {
		if a := e.cell.changed.Load(); !m.hinted || a > at {
			at = a
		}
		m.hinted = true
	}
	if m.hinted {
		m.since = max(now.Sub(c.began)-time.Duration(at), 0)
	}
	return m
}

// tag is what a fill that begins now belongs to.
func (c *changes) tag(i kindIndex, x *cell) tag {
	return tag{kind: c.kinds[i].epoch.Load(), account: x.epoch.Load()}
}

// suspectAll makes the epochs of all accounts suspect: a purge may have been missed.
func (c *changes) suspectAll() { c.suspectEpoch.Add(1) }

// heard takes the number of a notice that was applied. One that others came before waits for
// them: they may be on their way, as nodes announce at the same time.
func (c *changes) heard(n redistier.Notice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.synced:
		c.last = max(c.last, n.Seq)
	case n.Seq <= c.last: // polled, or heard twice
	case n.Before < c.last:
		c.suspectAll()
		c.last, c.lost = n.Seq, true
	case n.Before > c.last && len(c.early) < maxEarly:
		c.early[n.Before] = n.Seq
	default:
		if n.Before > c.last {
			c.suspectAll()
			c.missed = true
		}
		for seq, ok := n.Seq, true; ok; seq, ok = c.early[c.last] {
			delete(c.early, c.last)
			c.last = seq
		}
	}
}

// number is that of the last notice, with none missing before it.
func (c *changes) number() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// polled takes the number of the last notice. before was known before it was asked for:
// a lower number shows that Redis has forgotten some, a higher one than is known now
// that this node has missed some. It returns what has to be written again: the recent
// purges of accounts that this node made, if there were losses, and whether the nodes are
// told of all of them.
func (c *changes) polled(before, seq uint64) (own []recentPurge, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missed, lost := c.synced && seq > c.last, seq < before
	if !c.synced || missed || lost {
		c.suspectAll()
		clear(c.early)
		c.last = seq
	}
	// A higher number is a message that was lost, or the first notice after Redis has
	// lost its memory: whoever gives it out does not know the one before.
	missed, lost = c.missed || missed, c.lost || lost
	c.synced, c.missed, c.lost = true, false, false
	if !missed && !lost {
		return nil, false
	}
	for _, r := range c.recent {
		if r.own {
			own = append(own, r)
		}
	}
	return own, lost
}

// polledOnce tells whether polled was ever called. What is filled before is suspect after.
func (c *changes) polledOnce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced
}

// setLost notes that Redis has forgotten purges, so that the next poll writes them again.
func (c *changes) setLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = true
}

// watch runs until the cache is closed: one goroutine polls, one listens.
func (l *Lists) watch() {
	l.watchers.Go(func() {
		ctx := redisclient.Probing(l.life)
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			// Errors are counted, and the next tick is the retry. Of a Cluster one may work
			// where the other does not.
			_ = l.poll(ctx)
			if n, _ := l.finishPurges(ctx); n > 0 {
				l.opts.Logger.Info("purges that had waited for Redis are known to the fleet", "purges", n)
			}
			select {
			case <-l.life.Done():
				return
			case <-tick.C:
			}
		}
	})
	l.watchers.Go(func() { l.redis.Listen(l.life, l.applyNotice) })
}

// applyNotice takes in a notice of another node. The epochs come before the number: who
// sees the number must see what it counts.
func (l *Lists) applyNotice(n redistier.Notice) {
	at := l.moment(l.opts.Now())
	for _, c := range n.Changes {
		x := l.cellOf(c)
		if x.raise(c.Epoch, at); c.Floor == c.Last {
			l.changes.mu.Lock()
			l.changes.remember(c.Account, x, false, at)
			l.changes.mu.Unlock()
		}
	}
	l.changes.heard(n)
}

// poll reads the kinds' epochs and the number of the last notice. When it moved
// without a message, every account's epoch is suspect.
func (l *Lists) poll(ctx context.Context) (err error) {
	defer l.opts.Panics.Catch(func(p any) { err = fmt.Errorf("cache: panic: %v", p) })
	number, suspectEpoch := l.changes.number(), l.changes.suspectEpoch.Load()
	var before [kindCount]redistier.Epoch
	for i := range before {
		before[i] = l.changes.kinds[i].known()
	}
	seq, kinds, err := l.redis.Poll(ctx, kindNames[:])
	if err != nil {
		return err
	}
	at := l.moment(l.opts.Now())
	var lost []redistier.Change
	for i := range kinds {
		if x := &l.changes.kinds[i]; x.learn(kinds[i], before[i], at, suspectEpoch) {
			lost = append(lost, l.changeOf(kindNames[i], "", x))
		}
	}
	for start := time.Now(); l.redis.Connected() && l.changes.number() < seq && time.Since(start) < messageDelay; {
		time.Sleep(messageDelay / 10)
	}
	own, all := l.changes.polled(number, seq) // after the kinds: the number stands for all that it counts
	for _, r := range own {
		lost = append(lost, l.changeOf("", r.account, r.cell))
	}
	return l.restore(ctx, lost, all)
}

// restoreLost gives the purge of an account back to a Redis that has lost it. There may be
// more.
func (l *Lists) restoreLost(account string, x *cell) {
	l.changes.setLost()
	if err := l.restore(l.life, []redistier.Change{l.changeOf("", account, x)}, false); err != nil {
		l.opts.Logger.Warn("a purge that Redis has lost could not be given back", "error", err)
	}
}

// restore gives epochs to a Redis that may have lost them, and announces those that it
// had lost, or all: other nodes may have missed them. After an error the next poll tries
// again.
func (l *Lists) restore(ctx context.Context, some []redistier.Change, all bool) error {
	if len(some) == 0 {
		return nil
	}
	lost, err := l.redis.Restore(ctx, some)
	if len(lost) > 0 {
		l.opts.Logger.Warn("Redis had lost purges and has them back", "purges", len(lost))
	}
	if all {
		lost = some
	}
	if err == nil && len(lost) > 0 {
		err = l.announce(ctx, lost)
	}
	if err != nil {
		l.changes.setLost()
	}
	return err
}

// announce tells the nodes of changes. This node counts as told at once: its message, and
// the number in Redis, may be lost before it has read either.
func (l *Lists) announce(ctx context.Context, some []redistier.Change) error {
	n, err := l.redis.Announce(ctx, some, l.changes.number())
	if err == nil {
		l.changes.heard(n)
	}
	return err
}

// cellOf is where this node keeps the epoch of a change.
func (l *Lists) cellOf(c redistier.Change) *cell {
	if i, ok := indexOf(c.Kind); ok {
		return &l.changes.kinds[i]
	}
	return l.changes.accounts.Of(c.Account)
}

// changeOf is what is known of a cell now.
func (l *Lists) changeOf(kind, account string, x *cell) redistier.Change {
	e := x.known()
	e.Since = max(time.Duration(l.moment(l.opts.Now())-x.changed.Load()), 0)
	return redistier.Change{Kind: kind, Account: account, Epoch: e}
}
