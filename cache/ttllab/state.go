package ttllab

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	defaultLists    = 4096 // watched of each group, a quarter of them hot ones
	defaultHalfLife = 12 * time.Hour
	// holdBack is how long batches wait before they are applied, for those of other nodes and
	// for look-ups that take long: they are noted when they end.
	holdBack = 4 * time.Second
	// longestGap is what counts as observed at most between two batches.
	longestGap = 5 * time.Second
	// forgetAfter half-lives without a look-up a watched list makes room. What it still
	// counts for is less than a sixteenth by then.
	forgetAfter = 4
	// noteSpan is over what time the look-ups of one note are spread.
	noteSpan = 16 * time.Millisecond
)

// state is all that the lab knows. It changes by batches alone, applied in one order, so
// that nodes that apply the same batches hold the same state. It is for one goroutine.
type state struct {
	layout   uint64
	groups   []*group
	halfLife int64 // ns; 0: nothing is ever forgotten
	gap      int64 // at most, between two batches
	begun    int64 // Unix ns; 0: not yet
	now      int64 // up to when all is applied
	nodes    int
	lost     uint64 // look-ups that the figures lack, of all nodes
}

// group is what is known of a group of lists.
type group struct {
	policy   Group
	queue    []event // not applied yet
	first    int64   // look-up, Unix ns; 0: none yet
	aged     int64   // number of half-lives since 1970
	seconds  float64 // observed, aged
	sums     sums    // aged
	latency  int64   // how long the legacy takes, ns, smoothed
	rechecks clusters

	// Which lists are watched: see sample.go.
	below       uint64 // lists with a smaller hash belong to the sample
	sample, hot stratum
	drawn       map[uint64]draw
	draws       uint64
}

// sums are aged counts.
type sums struct{ lookups, waited, failed, fills, rechecks float64 }

// event is a part of a batch that waits in the queue.
type event struct {
	at    int64
	order uint8 // of one moment: a look-up comes before the fill that it waits for
	what  any   // *counts, *note, *fill or *recheck
}

func newState(groups []Group, lists int, halfLife time.Duration) *state {
	s := &state{layout: layoutOf(groups), halfLife: int64(halfLife), gap: int64(longestGap), nodes: 1}
	for _, g := range groups {
		s.groups = append(s.groups, &group{
			policy: g, rechecks: clusters{open: map[uint64]cluster{}},
			below: math.MaxUint64, sample: newStratum(lists - lists/4), hot: newStratum(lists / 4), drawn: map[uint64]draw{},
		})
	}
	return s
}

// begin starts the clock, once.
func (s *state) begin(now int64) {
	if s.begun == 0 {
		s.begun, s.now = now, now-int64(holdBack)
	}
}

// receive takes in what an exchange has returned.
func (s *state) receive(r Received) {
	s.nodes = r.Nodes
	s.begin(r.Now)
	for _, m := range r.Messages {
		if b, err := decode(m.Body, len(s.groups)); err == nil {
			s.add(b, m.At)
		}
	}
	s.advance(r.Now - int64(holdBack))
}

// add takes in a batch that came at a moment of the clock that all nodes share.
func (s *state) add(b *batch, at int64) {
	s.begin(at)
	s.lost += b.Lost
	shift := at - b.Now
	for i := range b.groups {
		part, g := &b.groups[i], s.groups[i]
		g.lower(part.Below)
		push := func(at int64, order uint8, what any) { g.queue = append(g.queue, event{at, order, what}) }
		push(at, 0, &part.Counts)
		for j := range part.notes {
			n := &part.notes[j]
			n.At += shift
			push(n.At, 0, n)
		}
		for j := range part.fills {
			f := &part.fills[j]
			f.At, f.Answered = f.At+shift, f.Answered+shift
			push(f.At, 1, f)
		}
		for j := range part.rechecks {
			r := &part.rechecks[j]
			r.At, r.Answered = r.At+shift, r.Answered+shift
			push(r.At, 2, r)
		}
	}
}

// advance applies what is of before a moment, in the order of time.
func (s *state) advance(until int64) {
	for _, g := range s.groups {
		slices.SortStableFunc(g.queue, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
		i := 0
		for ; i < len(g.queue) && g.queue[i].at <= until; i++ {
			g.age(max(g.queue[i].at, s.now), s.halfLife)
			g.apply(g.queue[i].what)
		}
		g.queue = slices.Delete(g.queue, 0, i)
	}
	if until <= s.now {
		return
	}
	for _, g := range s.groups {
		g.age(until, s.halfLife)
		if g.first != 0 {
			g.seconds += float64(min(until-s.now, s.gap, until-g.first)) * 1e-9
		}
	}
	s.now = until
}

// age halves all counts when a half-life has ended.
func (g *group) age(now, halfLife int64) {
	if halfLife == 0 {
		return
	}
	epoch := now / halfLife
	if g.aged == 0 {
		g.aged = epoch
	}
	if epoch <= g.aged {
		return
	}
	f := math.Ldexp(1, -int(min(epoch-g.aged, 64)))
	g.aged = epoch
	g.seconds *= f
	g.sums = sums{g.sums.lookups * f, g.sums.waited * f, g.sums.failed * f, g.sums.fills * f, g.sums.rechecks * f}
	g.rechecks.age(f)
	g.sample.age(f, now-forgetAfter*halfLife)
	g.hot.age(f, now-forgetAfter*halfLife)
}

func (g *group) apply(what any) {
	switch what := what.(type) {
	case *counts:
		g.count(what)
	case *note:
		g.look(what)
	case *fill:
		g.fill(what)
	case *recheck:
		g.recheck(what)
	}
}

// count takes in what a node has counted.
func (g *group) count(c *counts) {
	g.sums.lookups += float64(c.Lookups)
	g.sums.waited += float64(c.Waited)
	g.sums.failed += float64(c.Failed)
	g.sums.fills += float64(c.Fills)
	if c.Fills > 0 && c.Took > 0 {
		// The average of the first fills, then an exponential one: a first fill, which often
		// opens a connection, must not stand for all.
		fills := float64(c.Fills)
		weight := max(1-math.Pow(0.95, fills), fills/g.sums.fills)
		g.latency += int64(weight * (float64(c.Took)/fills - float64(g.latency)))
	}
}

// look takes in a look-up that was noted.
func (g *group) look(n *note) {
	if g.first == 0 {
		g.first = n.At
	}
	if n.Flags&ofDraw != 0 {
		g.draw(n)
	}
	if n.Flags&(ofSample|ofHot) == 0 {
		return // one of 16: it says that the list is asked for, and nothing of how often
	}
	if n.Flags&ofHot != 0 { // maybe only another node knows that yet
		g.promote(n.Hash, n.At, n.At-int64(time.Second))
	}
	k, set := g.find(n.Hash)
	if k == nil {
		if k, set = g.admit(n.Hash), &g.sample; k == nil {
			return
		}
	}
	k.noted += n.N
	for i := range n.N {
		k.simulate(&g.policy, n.At+int64(noteSpan)*int64(i)/int64(n.N), g.latency, &set.ages)
	}
}

// fill takes in a body of a watched list.
func (g *group) fill(f *fill) {
	k, _ := g.find(f.Hash)
	if k == nil {
		return
	}
	if !f.Seen {
		k.fills++
	}
	if f.Answered >= k.newest.at && f.Size > 0 {
		k.size = f.Size
	}
	k.observe(observation{f.Answered, f.Body})
}

// recheck takes in a re-check.
func (g *group) recheck(r *recheck) {
	if k, _ := g.find(r.Hash); k != nil && !r.Selected {
		k.observe(observation{r.At, r.Body})
	}
	g.sums.rechecks++
	g.rechecks.add(r)
}

// follow tells that the real cache has another policy from now on. What was counted is
// kept, but for the ages if their buckets would mean others.
func (g *group) follow(p Group) {
	if p.StaleWhileRevalidate != g.policy.StaleWhileRevalidate {
		g.sample.ages, g.hot.ages = histogram{}, histogram{}
	}
	g.policy = p
}
