// Package ttllab tells what another ttl would do.
//
// A [Lab] observes the look-ups and fills of a cache, and runs a bounded sample of the
// lists through 24 candidate ttls at once by the rules of the real cache: freshness counted
// from the legacy's answer, stale-while-revalidate, jitter. [FromLog] does the same with
// a log of look-ups.
//
// # Note, batch, apply
//
// A look-up only notes (note.go). Once a second a node's notes become a batch (batch.go).
// Nodes with one Redis are one cache to the legacy: who finds its list stale reads the
// newest of all nodes before it asks. So their batches go through a stream of Redis, and
// each node applies all of them (state.go) in the stream's order with the stream's ids as
// time; without Redis a node's batches are applied as they are. Nodes that have applied the
// same batches hold the same state, whatever their clocks say. The goroutine of Run, reports
// and reloads take turns with it; look-ups never wait for them.
//
// # Sampling
//
// A list is watched when its hash is below a threshold that falls as more lists are seen,
// so that at most 4,096 of a group are watched (SHARDS: Waldspurger, Park, Garthwaite,
// Ahmad: "Efficient MRC Construction with SHARDS", FAST 2015). All look-ups of a watched
// list are noted and none of the others, so a list's history is whole, and a list that
// leaves takes its counts with it. Figures are scaled up by the inverse of the sampling
// rate and then corrected with what is known exactly about all lists, the look-ups and
// the fills (the regression estimator: Särndal, Swensson, Wretman, "Model Assisted Survey
// Sampling", 1992, 6.4). A quarter of the places is for the lists that the look-ups
// themselves keep turning up: these hot lists stand for nobody but themselves. Without
// either, one hot list more or less in the sample would decide the hit ratio.
//
// The standard errors are those of this sampling. They tell how well the sample
// stands for the traffic that was watched, not how well that traffic stands for
// tomorrow's. Where every list is watched they are zero. In the first thousands
// of look-ups, before the hot lists are found, they can be too small by half.
//
// # How often lists change
//
// Each time a body is seen again its hash tells "changed" or "not changed" since
// the last time: several changes between two looks show as one, and the looks
// come when callers and ttls make them. Counting changes over time would
// therefore be biased low; the rate is the maximum likelihood estimate for
// irregular looks of Cho and Garcia-Molina, "Estimating Frequency of Change",
// ACM TOIT 3(3), 2003, 4.3, with their correction for few looks; each list gets
// its own, drawn towards the mean of its kind while its looks are few. What
// stays: it takes changes to come at random and independently of the look-ups, a
// change that was taken back is not seen, and lists that change many times per
// look give no more than a lower bound. Re-checks look sooner than the ttl does
// and so narrow that gap.
//
// # What it does not know
//
// Entries that are evicted for want of space, purges and stale-if-error: an estimate is
// about a legacy in health. In a fleet a node may serve an older copy than the newest one
// while it refreshes it, which the ages do not have.
package ttllab

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
)

// fleetNotes is how many notes all nodes together may put into their batches in a second,
// so that one goroutine of each can apply them. More are lost.
const fleetNotes = 16_000

// Of a list with more than exactNotes look-ups in a batch, those within noteSpan become one
// note for all of them.
const (
	exactNotes = 8
	noteSpan   = int64(16 * time.Millisecond)
)

// Lab is an observer of a cache whose policy may change. It is safe for concurrent use.
type Lab struct {
	live     atomic.Pointer[[]*group]
	rings    *rings
	rechecks rechecker
	facts    atomic.Pointer[facts]
	now      func() time.Time

	fillsMu sync.Mutex
	fills   []groupedFill // of watched lists, since the last batch

	node   uint64
	shared Exchange // nil: this node is alone

	mu    sync.Mutex // guards what follows; no look-up and no fill takes it
	state *state
	told  []counts      // what batches had of each group
	cool  []groupedFill // of before the last batch: for the next, with the notes of their look-ups
}

// groupedFill is a fill of a group.
type groupedFill struct {
	group uint8
	fill  fill
}

// facts are what the metrics tell of the state.
type facts struct {
	config Config
	nodes  int
	lost   uint64
}

// NewLab makes a Lab for groups of lists that have a ttl of their own. now is the clock of
// the cache; nil: the system's. shared: how the nodes of a fleet exchange batches; nil:
// this one is alone.
func NewLab(kinds []Kind, c Config, now func() time.Time, shared Exchange) *Lab {
	if now == nil {
		now = time.Now
	}
	l := &Lab{
		rings: newRings(), now: now, node: rand.Uint64(), shared: shared,
		rechecks: rechecker{picks: make(chan pick), budget: rate.NewLimiter(0, 1)},
	}
	l.begin(kinds, c)
	return l
}

// begin forgets everything.
func (l *Lab) begin(kinds []Kind, c Config) {
	l.state, l.told = newState(kinds, c, defaultLists, defaultHalfLife), make([]counts, len(kinds))
	live := make([]*group, len(kinds))
	for i, k := range kinds {
		live[i] = &group{index: uint8(i), kind: k.Kind, status: k.Status}
		live[i].watch.Store(l.state.groups[i].watch(nil, 1))
	}
	l.live.Store(&live)
	l.configure(c)
}

func (l *Lab) configure(c Config) {
	l.state.goals = c
	l.rechecks.budget.SetBurst(max(int(c.RechecksPerSecond), 1))
	l.rechecks.budget.SetLimit(rate.Limit(c.RechecksPerSecond))
	l.rechecks.aim()
	l.publish()
}

// SetConfig follows a new policy. What was learnt is kept as long as the same groups of
// lists have a ttl of their own.
func (l *Lab) SetConfig(kinds []Kind, c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.EqualFunc(l.state.kinds, kinds, func(a, b Kind) bool { return a.Name == b.Name }) {
		l.begin(kinds, c)
		return
	}
	l.catchUp()
	for i, k := range kinds {
		g := l.state.groups[i]
		g.setPolicy(k.Policy)
	}
	l.state.kinds = kinds
	l.configure(c)
}

// Report is the what-if table as of now; in a fleet, of some seconds ago.
func (l *Lab) Report() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.catchUp()
	return l.state.report()
}

// group is that of a list; nil: none.
func (l *Lab) group(kind, status string) (found *group) {
	for _, g := range *l.live.Load() {
		switch {
		case g.kind != kind:
		case g.status == status:
			return g
		case g.status == "":
			found = g
		}
	}
	return found
}

// Answered takes in a look-up that got a list.
func (l *Lab) Answered(e *cache.Entry, o cache.Outcome, at time.Time) {
	g := l.group(e.Kind, e.Status)
	if g == nil {
		return
	}
	hash, body := e.Source()
	number := g.look(l.rings.current.Load(), hash, at.UnixNano())
	if o == cache.Miss || o == cache.Collapsed {
		g.waited.Add(1)
		return
	}
	if share, ok := l.rechecks.drawn(number); ok {
		l.rechecks.offer(pick{group: g, key: e.Key, list: hash, body: e.Sum(), selected: e.Sum() != body, answered: e.AnsweredAt.UnixNano(), share: share})
	}
}

// Failed takes in a look-up that got none.
func (l *Lab) Failed(kind, status string, list uint64, at time.Time) {
	if g := l.group(kind, status); g != nil {
		g.look(l.rings.current.Load(), list, at.UnixNano())
		g.failed.Add(1)
	}
}

// Filled takes in a fill.
func (l *Lab) Filled(e *cache.Entry, took time.Duration) {
	g := l.group(e.Kind, e.Status)
	if g == nil {
		return
	}
	g.fills.Add(1)
	g.took.Add(int64(took))
	hash, body := e.Source()
	if w := g.watch.Load(); hash >= w.below && w.hot[hash] == nil {
		return
	}
	f := fill{Hash: hash, Body: body, At: l.now().UnixNano(), Answered: e.AnsweredAt.UnixNano(), Size: uint32(e.Size())}
	l.fillsMu.Lock()
	defer l.fillsMu.Unlock()
	if len(l.fills) < ringSlots {
		l.fills = append(l.fills, groupedFill{g.index, f})
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

// step makes a batch of what was noted and applies what there is.
func (l *Lab) step(ctx context.Context) {
	b, nodes := l.nextBatch()
	var messages []Message
	var err error
	if l.shared != nil {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		messages, err = l.shared(ctx, b.encode(), nodes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.shared == nil:
		l.state.add(b, b.Now)
	case err != nil: // it is lost
		for i := range b.groups {
			l.state.lost += b.groups[i].Counts.Lookups
		}
	}
	for _, m := range messages {
		// One of a node that is being updated, or that has other groups, is left out.
		if b, err := decode(m.Body, layoutOf(l.state.kinds), len(l.state.groups)); err == nil {
			l.state.add(b, m.At)
		}
	}
	l.state.advance(l.state.newest - int64(holdBack))
	l.renew()
}

// nextBatch is batch for who does not hold the lock, and how many nodes there are.
func (l *Lab) nextBatch() (b *batch, nodes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.batch(), len(l.state.nodes)
}

// renew makes look-ups note what is watched by now.
func (l *Lab) renew() {
	hits := uint64(0)
	for i, g := range *l.live.Load() {
		g.watch.Store(l.state.groups[i].watch(g.watch.Load(), len(l.state.nodes)))
		looks := g.lookups()
		hits += looks - min(looks, g.waited.Load()+g.failed.Load())
	}
	l.rechecks.tune(hits)
	l.publish()
}

// catchUp applies what was noted up to now, where no other node has a say.
func (l *Lab) catchUp() {
	if l.shared != nil {
		return
	}
	for range 2 { // what cools, and what is current
		b := l.batch()
		l.state.add(b, b.Now)
		l.state.advance(b.Now)
	}
	l.publish()
}

// batch takes what was noted before the last call.
func (l *Lab) batch() *batch {
	live := *l.live.Load()
	b := &batch{header: header{Format: format, Node: l.node, Layout: layoutOf(l.state.kinds), Now: l.now().UnixNano()}, groups: make([]groupBatch, len(live))}
	for i, g := range live {
		// Those of its own first, so that there are not more ends than look-ups.
		c := counts{Waited: g.waited.Load(), Failed: g.failed.Load(), Fills: g.fills.Load(), Took: g.took.Load()}
		c.Lookups = g.lookups()
		c.Rechecks = l.told[i].Rechecks
		b.groups[i] = groupBatch{Counts: c.minus(l.told[i]), Below: g.watch.Load().below}
		l.told[i] = c
	}
	type of struct{ newest, notes int } // of a list: the index of the newest note, and how many there are
	type name struct {
		group uint8
		hash  uint64
	}
	lists := make(map[name]of, 256)
	room := fleetNotes / max(len(l.state.nodes), 1)
	b.Lost = l.rings.turn(func(group uint8, n note) {
		if int(group) >= len(live) {
			return // of groups that a reload has replaced
		}
		notes := &b.groups[group].notes
		k := lists[name{group, n.Hash}]
		if k.notes >= exactNotes {
			if last := &(*notes)[k.newest]; last.Flags == n.Flags && n.At >= last.At && n.At-last.At < noteSpan {
				last.N += n.N
				return
			}
		}
		if room--; room < 0 {
			b.Lost += uint64(n.N)
			return
		}
		lists[name{group, n.Hash}] = of{len(*notes), k.notes + 1}
		*notes = append(*notes, n)
	}) + b.Lost
	l.fillsMu.Lock()
	ready := l.cool
	l.cool, l.fills = l.fills, nil
	l.fillsMu.Unlock()
	for _, f := range ready {
		if int(f.group) < len(live) {
			b.groups[f.group].fills = append(b.groups[f.group].fills, f.fill)
		}
	}
	for _, v := range l.rechecks.take() {
		if int(v.group) < len(live) {
			b.groups[v.group].votes = append(b.groups[v.group].votes, v.vote)
			b.groups[v.group].Counts.Rechecks++
		}
	}
	return b
}

// publish renews what the metrics tell.
func (l *Lab) publish() {
	l.facts.Store(&facts{config: l.state.goals, nodes: max(len(l.state.nodes), 1), lost: l.state.lost})
}
