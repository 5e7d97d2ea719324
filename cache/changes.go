package cache

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache/redistier"
)

const (
	// changeLife is how long Redis remembers a purge or a hint. It is longer than any list can
	// live, so a list never outlives the purge that hides it.
	changeLife = maxLifetime + 24*time.Hour
	// knownFor is how much longer than a list can be of use a node remembers its changes.
	knownFor = 2 * time.Minute
	// maxKnown bounds the changes that a node remembers, each in 160 bytes. With more than that it
	// forgets the older half, and asks again for all lists that were filled before those.
	maxKnown = 1 << 17
	// maxPending bounds the purges that wait for Redis. With more than that they become one of
	// both kinds.
	maxPending = 1024
)

// mark is where a fill stands among the purges and hints of its list: those with a later epoch came
// after it.
type mark struct {
	account string // hashed
	epoch   uint64 // of the fleet's newest change that its node knew of when it began
	serial  uint64 // how many purges its node had begun then; 0 where another node has filled it
}

// changes is what this node knows of the fleet's purges and hints, which the code calls
// changes where it treats them alike. It is safe for concurrent use.
//
// All of the fleet have one order: each has an epoch, given out by Redis. A list is outdated
// by one with a later epoch than that of its mark, be it heard of early or late, once or twice,
// before or after others. So what this node knows is a set that grows until all in it is of no
// interest any more, or too much, and it is well if Redis has the same: see poll.
//
// A purge that Redis has not taken has no epoch yet. Until then it hides, on this node, what the
// node had filled before it, and all that others have filled.
type changes struct {
	version atomic.Uint64 // grows with all that may outdate a list

	mu        sync.RWMutex
	known     map[redistier.Change]change
	pending   map[string]pending // purges that Redis has not taken, by whose they are
	serial    uint64             // how many purges this node has begun
	epoch     uint64             // the newest one known
	life      time.Duration      // how long a change can be of interest
	trimmed   time.Time
	overflows int    // how many times there were too many
	floor     uint64 // of those the last: what was filled before it may be purged for all that is known

	lost   atomic.Bool // Redis has said so, and is to be given back what it lacks
	synced bool        // known is all that is of interest
	cursor uint64      // up to here changes were read from Redis
	oldest uint64      // only those from here on are of interest
}

// change is one that is known, by its epoch, and its moment on this node's clock.
type change struct {
	epoch uint64
	at    time.Time
}

// pending is a purge that Redis has not taken.
type pending struct {
	serial  uint64 // its number among those of this node
	forPoll bool   // who asked for it waits no longer, so that the next poll gives it to Redis
}

func newChanges(life time.Duration) *changes {
	c := &changes{known: map[redistier.Change]change{}, pending: map[string]pending{}, life: life}
	c.version.Store(1) // an entry's clean is 0 before it was looked at
	return c
}

// keepFor has changes remembered for as long as a list can be of use by any policy that there
// was: an old list may be of use again after a reload.
func (c *changes) keepFor(life time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life = max(c.life, life)
}

// interest is how long a change can be of interest.
func (c *changes) interest() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.life
}

// mark is that of a fill that begins now.
func (c *changes) mark(account string) mark {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return mark{account, max(c.epoch, c.oldest), c.serial} // also if there was no change since the oldest of interest
}

// after is what has come after a mark for lists of a kind.
func (c *changes) after(kind string, m *mark, now time.Time) (found marks) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var hint time.Time
	if m.epoch < c.floor {
		return marks{purged: true}
	}
	for _, of := range [...]string{kind, m.account} {
		if c.known[redistier.Change{Of: of, Hard: true}].epoch > m.epoch || c.pending[of].serial > m.serial {
			return marks{purged: true}
		}
		if soft := c.known[redistier.Change{Of: of}]; soft.epoch > m.epoch {
			found.hinted = true
			if soft.at.After(hint) {
				hint = soft.at
			}
		}
	}
	if found.hinted {
		found.ago = max(now.Sub(hint), 0)
	}
	return found
}

// text is that of FillInfo.Changes, for a kind and a hashed account.
func (c *changes) text(kind, account string) string {
	epoch := max(c.last(kind), c.last(account))
	c.mu.RLock()
	defer c.mu.RUnlock()
	return fmt.Sprint(epoch, max(c.pending[kind].serial, c.pending[account].serial), c.overflows)
}

// last is the epoch of the newest purge or hint of a kind, or of an account by its hash.
func (c *changes) last(of string) uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return max(c.known[redistier.Change{Of: of}].epoch, c.known[redistier.Change{Of: of, Hard: true}].epoch)
}

// afterFill is what has come after the fill of an entry. Mostly that is nothing, and the entry
// remembers it.
func (c *changes) afterFill(e *Entry, now time.Time) marks {
	version := c.version.Load()
	if e.clean.Load() == version {
		return marks{}
	}
	m := c.after(e.Kind, &e.mark, now)
	if m == (marks{}) {
		e.clean.Store(version)
	}
	return m
}

// newer tells whether a is a newer answer of the legacy's than b, of one list; nil is oldest. A
// slow fill that began before a change does not replace one that began after it. Two entries with
// one stamp are of one fill, whatever the clocks say.
func (c *changes) newer(a, b *Entry) bool {
	if a == nil || b == nil {
		return a != nil
	}
	now := time.Time{}
	if outdatedA, outdatedB := c.afterFill(a, now) != (marks{}), c.afterFill(b, now) != (marks{}); outdatedA != outdatedB {
		return outdatedB
	}
	return a.stamp != b.stamp && a.AnsweredAt.After(b.AnsweredAt)
}

// learn takes in a change, which may be known. c.mu is held.
func (c *changes) learn(what redistier.Change, epoch uint64, at, now time.Time) {
	if now.Sub(c.trimmed) > time.Minute {
		c.trimmed = now
		c.forget(func(one change) bool { return now.Sub(one.at) > c.life+knownFor })
	}
	if epoch <= max(c.known[what].epoch, c.floor) {
		return
	}
	c.known[what] = change{epoch, at}
	if len(c.known) > maxKnown {
		epochs := make([]uint64, 0, len(c.known))
		for _, one := range c.known {
			epochs = append(epochs, one.epoch)
		}
		slices.Sort(epochs)
		c.forget(func(one change) bool { return one.epoch <= epochs[len(epochs)/2] })
		c.overflows++
	}
	c.epoch = max(c.epoch, epoch)
	c.version.Add(1)
}

// forget forgets changes. c.mu is held.
func (c *changes) forget(which func(change) bool) {
	for what, one := range c.known {
		if which(one) {
			delete(c.known, what)
			c.floor = max(c.floor, one.epoch)
		}
	}
}

// begin begins purges on this node, and returns the serial number of all of them. They are pending
// until done is called with it.
func (c *changes) begin(of []string) (serial uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serial++
	for _, one := range of {
		c.pending[one] = pending{serial: c.serial}
	}
	if len(c.pending) > maxPending {
		clear(c.pending)
		for _, kind := range kindNames {
			c.pending[kind] = pending{c.serial, true}
		}
	}
	c.version.Add(1)
	return c.serial
}

// leaveToPoll leaves purges that Redis has not taken to the next poll.
func (c *changes) leaveToPoll(of []string, serial uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range of {
		if p, ok := c.pending[one]; ok && p.serial == serial {
			c.pending[one] = pending{serial, true}
		}
	}
}

// done takes in changes to which an epoch was given. No purge of them is pending any more, but for
// one that was begun after serial.
func (c *changes) done(all []redistier.Change, epoch, serial uint64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range all {
		c.learn(one, epoch, now, now)
		if one.Hard && c.pending[one.Of].serial <= serial {
			delete(c.pending, one.Of)
		}
	}
}

// forPoll are the purges that a poll has to give to Redis.
func (c *changes) forPoll() (all []redistier.Change, serial uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for of, p := range c.pending {
		if p.forPoll {
			all = append(all, redistier.Change{Of: of, Hard: true})
		}
	}
	return all, c.serial
}

// take takes in what was found in Redis, at a moment of which redis is the time there.
func (c *changes) take(n redistier.News, now, redis time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, epoch := range n.Changes {
		c.learn(what, epoch, now.Add(time.UnixMicro(int64(epoch)).Sub(redis)), now)
	}
	if n.Last > n.Oldest {
		c.epoch = max(c.epoch, n.Last)
	}
	c.cursor, c.oldest = n.Last, n.Oldest
	c.synced = c.synced || !n.More
}

// polled is how far changes were read; false: they never were.
func (c *changes) polled() (cursor uint64, synced bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.cursor, c.synced
}

// lacking are the known changes that are not among those.
func (c *changes) lacking(those redistier.Epochs) redistier.Epochs {
	c.mu.RLock()
	defer c.mu.RUnlock()
	lost := redistier.Epochs{}
	for what, one := range c.known {
		if one.epoch >= c.oldest && one.epoch > those[what] {
			lost[what] = one.epoch
		}
	}
	return lost
}
