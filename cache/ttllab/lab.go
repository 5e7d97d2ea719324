// Package ttllab tells what another ttl would do.
//
// A [Lab] observes the look-ups and fills of a cache, and runs a bounded sample of the
// lists through 24 candidate ttls at once by the rules of the real cache. [FromLog] does the
// same with a log of look-ups.
//
// # Note, batch, apply
//
// A look-up only notes (intake.go). Once a second a node's notes become a batch, which is
// applied some seconds later, in the order of time (state.go). Nodes with one Redis are one
// cache to the legacy: who finds its list stale reads the newest of all nodes before it asks.
// So they send each other their batches through a stream of Redis (exchange.go), and each
// applies all of them with the stream's ids as time. Nodes that have applied the same batches
// hold the same state, whatever their clocks say. A node that noted nothing sends nothing.
//
// # Sampling
//
// A list is watched when its hash is below a threshold that falls as more lists are seen,
// so that at most 4,096 of a group are watched (SHARDS: Waldspurger, Park, Garthwaite,
// Ahmad: "Efficient MRC Construction with SHARDS", FAST 2015). All look-ups of a watched
// list are noted, so its history is whole, and a list that leaves takes its counts with it.
// A quarter of the places is for the lists that the look-ups themselves keep turning up:
// these hot lists stand for nobody but themselves (sample.go). Figures are scaled up by the
// inverse of the sampling rate and then corrected with what is known exactly about all lists,
// the look-ups and the fills (estimate.go). Without either, one hot list more or less in the
// sample would decide the hit ratio.
//
// The standard errors are those of this sampling. They tell how well the sample stands for
// the traffic that was watched, not how well that traffic stands for tomorrow's. Where every
// list is watched they are zero. In the first thousands of look-ups, before the hot lists are
// found, they can be too small by half.
//
// # What it does not know
//
// Entries that are evicted for want of space, purges and stale-if-error: an estimate is
// about a legacy in health. In a fleet a node may serve an older copy than the newest one
// while it refreshes it, which the ages do not have. How often lists change: see changes.go.
package ttllab

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
)

// fleetNotes is how many notes all nodes together may put into their batches in a second,
// so that one goroutine of each can apply them. More are lost.
const fleetNotes = 16_000

// Group is the lists that have a ttl of their own, those of a kind, or those of one status
// where that status has its own times, and what the real cache does with them. The candidates
// take the place of TTL; the rest holds for all of them. StaleIfError only decides how long an
// entry stays in Redis.
type Group struct {
	Name   string // in reports and logs
	Kind   string // of the gateway
	Status string // empty: all of the kind that are in no other group
	cache.Terms
	Jitter float64 // the share, 0 to 1, by which a ttl is shortened at most
}

// GroupsOf are the groups of a configuration: the kinds by name, each followed by its
// statuses that override it.
func GroupsOf(c cache.Config) (groups []Group) {
	add := func(name, kind, status string, of cache.Terms) {
		groups = append(groups, Group{name, kind, status, of, c.Jitter})
	}
	for kind, of := range map[string]cache.KindConfig{cache.KindBuyer: c.Buyer, cache.KindSeller: c.Seller} {
		add(kind, kind, "", of.Terms)
		for status := range of.ByStatus {
			add(kind+" status="+status, kind, status, of.For(status))
		}
	}
	slices.SortFunc(groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

// Lab is an observer of a cache whose policy may change. It is safe for concurrent use.
type Lab struct {
	now      func() time.Time
	exchange Exchange // nil: this node is alone
	intake   atomic.Pointer[intake]
	rechecks *rechecker

	mu     sync.Mutex // guards what follows; no look-up and no fill takes it
	goals  cache.GoalsConfig
	state  *state
	sent   []counts // what batches had of each group
	unsent uint64   // look-ups of batches that could not be sent, until one can
}

// NewLab makes a Lab for groups of lists. Of c it follows goals and rechecks_per_second. now is
// the clock of the cache; nil: the system's. exchange is how the nodes of a fleet send each
// other their batches; nil: this one is alone.
func NewLab(groups []Group, c cache.Config, now func() time.Time, exchange Exchange) *Lab {
	if now == nil {
		now = time.Now
	}
	l := &Lab{now: now, exchange: exchange, goals: c.Goals, rechecks: newRechecker(c.RechecksPerSecond)}
	l.begin(groups)
	return l
}

// begin forgets everything.
func (l *Lab) begin(groups []Group) {
	l.state, l.sent = newState(groups, defaultLists, defaultHalfLife), make([]counts, len(groups))
	l.intake.Store(newIntake(groups))
}

// SetConfig follows a new policy. What was learnt is kept while the groups are the same.
func (l *Lab) SetConfig(groups []Group, c cache.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.goals = c.Goals
	l.rechecks.setBudget(c.RechecksPerSecond)
	if l.state.layout != layoutOf(groups) {
		l.begin(groups)
		return
	}
	l.catchUp()
	for i, g := range groups {
		l.state.groups[i].follow(g)
	}
}

// Report is the what-if table as of now; in a fleet, of some seconds ago.
func (l *Lab) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.catchUp()
	r := l.state.report(l.goals)
	r.LostLookups += l.unsent
	return r
}

// Answered takes in a look-up that got a list.
func (l *Lab) Answered(e *cache.Entry, o cache.Outcome, at time.Time) {
	in := l.intake.Load()
	g := in.group(e.Kind, e.Status)
	if g == nil {
		return
	}
	hash, body := e.Source()
	number := g.lookup(in.ring.Load(), hash, at.UnixNano())
	if o == cache.Miss || o == cache.Collapsed {
		g.waited.Add(1)
	} else if share, ok := l.rechecks.drawn(number); ok {
		l.rechecks.offer(pick{group: g, key: e.Key, list: hash, body: e.Sum(), selected: e.Sum() != body, answered: e.AnsweredAt.UnixNano(), share: share})
	}
}

// Failed takes in a look-up that got none.
func (l *Lab) Failed(kind, status string, list uint64, at time.Time) {
	in := l.intake.Load()
	if g := in.group(kind, status); g != nil {
		g.lookup(in.ring.Load(), list, at.UnixNano())
		g.failed.Add(1)
	}
}

// Filled takes in a fill.
func (l *Lab) Filled(e *cache.Entry, took time.Duration) {
	g := l.intake.Load().group(e.Kind, e.Status)
	if g == nil {
		return
	}
	g.filled.Add(1)
	g.took.Add(int64(took))
	if hash, body := e.Source(); g.watched.Load().has(hash) {
		g.fills.add(fill{Hash: hash, Body: body, At: l.now().UnixNano(), Answered: e.AnsweredAt.UnixNano(), Size: uint32(e.Size())})
	}
}

// Run makes a batch each second and applies what there is, until ctx ends. A panic costs a
// batch.
func (l *Lab) Run(ctx context.Context, p *telemetry.Catcher) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			func() {
				defer p.Catch(nil)
				l.step(ctx)
			}()
		}
	}
}

// step makes a batch of what was noted, sends it, and applies what there is.
func (l *Lab) step(ctx context.Context) {
	l.mu.Lock()
	b, layout := l.batch(), l.state.layout
	l.mu.Unlock()
	var received Received
	var err error
	if l.exchange != nil {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		received, err = l.exchange(ctx, layout, b.encode())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case layout != l.state.layout: // there are other groups by now
	case l.exchange == nil:
		l.state.add(b, b.Now)
		l.state.advance(b.Now - int64(holdBack))
	case err != nil:
		for i := range b.groups {
			l.unsent += b.groups[i].Counts.Lookups
		}
	default:
		l.unsent = 0
		l.state.receive(received)
	}
	l.watch()
}

// catchUp applies what was noted until now, where no other node has a say.
func (l *Lab) catchUp() {
	if l.exchange == nil {
		b := l.batch()
		l.state.add(b, b.Now)
		l.state.advance(b.Now)
	}
}

// batch takes what was noted since the last one.
func (l *Lab) batch() *batch {
	in := l.intake.Load()
	b := &batch{Now: l.now().UnixNano(), groups: make([]groupBatch, len(in.groups))}
	for i, g := range in.groups {
		c := g.counts()
		b.groups[i] = groupBatch{Counts: c.minus(l.sent[i]), Below: g.watched.Load().below, fills: g.fills.take(), rechecks: g.rechecks.take()}
		l.sent[i] = c
	}
	room, over := fleetNotes/l.state.nodes, uint64(0)
	lost := in.drain(func(group uint8, n note) {
		if room--; room < 0 {
			over += uint64(n.N)
			return
		}
		b.groups[group].notes = append(b.groups[group].notes, n)
	})
	b.Lost = l.unsent + over + lost
	return b
}

// watch has look-ups note what is watched by now.
func (l *Lab) watch() {
	hits := uint64(0)
	for i, g := range l.intake.Load().groups {
		g.watched.Store(l.state.groups[i].watched(g.watched.Load(), l.state.nodes))
		sent := l.sent[i]
		hits += sent.Lookups - min(sent.Lookups, sent.Waited+sent.Failed)
	}
	l.rechecks.tune(hits)
}
