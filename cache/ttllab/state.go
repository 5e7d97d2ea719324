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
	// holdBack is how long batches wait before they are simulated, for those of other nodes
	// and for look-ups that take long: they are noted when they end.
	holdBack = 4 * time.Second
	// longestGap is what counts as observed at most between two batches.
	longestGap = 5 * time.Second
	nodeSilent = 10 * time.Second
	// forgetAfter half-lives without a look-up a watched list makes room. What it still
	// counts for is less than a sixteenth by then.
	forgetAfter = 4
	// A list that is drawn twice within so many draws is hot.
	drawsKept = 1024
)

// state is all that the lab knows. It changes by batches alone, applied in one order, so
// that nodes that apply the same batches hold the same state. It is for one goroutine.
type state struct {
	kinds    []Kind
	goals    Config
	halfLife int64 // ns; 0: nothing is ever forgotten
	groups   []*groupState
	begun    int64 // the first batch, Unix ns; 0: none yet
	now      int64 // up to when all is applied
	newest   int64 // batch
	gap      int64 // at most, between two batches
	nodes    map[uint64]int64
	lost     uint64 // look-ups that the figures lack, of all nodes
}

// groupState is what is known of the lists that share a ttl.
type groupState struct {
	Kind
	rules   *rules
	queue   []event // not applied yet
	first   int64   // look-up, Unix ns; 0: none yet
	aged    int64   // number of half-lives since 1970
	seconds float64 // observed, aged
	sums    sums    // aged
	ever    counts  // since the start
	latency int64   // how long the legacy takes, ns, smoothed
	below   uint64  // hashes of the sample
	quota   [2]int  // of the sample and of the hot lists
	sample  stratum
	hot     stratum
	drawn   map[uint64]draw
	draws   uint64
	votes   votes
}

// sums are aged counts.
type sums struct{ lookups, waited, failed, fills, rechecks float64 }

// draw is the newest one of a list.
type draw struct {
	number uint64
	at     int64
}

// stratum is a set of watched lists that all stand for the same number of lists.
type stratum struct {
	lists []list
	index map[uint64]int32 // by hash
	ages  histogram        // of all answers, also of lists that have left
}

// event is a part of a batch that waits in the queue. Of one moment a look-up comes before
// the fill that it waits for.
type event struct {
	at     int64
	order  uint8
	note   *note
	fill   *fill
	vote   *vote
	counts *counts
}

func newState(kinds []Kind, c Config, lists int, halfLife time.Duration) *state {
	s := &state{kinds: kinds, goals: c, halfLife: int64(halfLife), gap: int64(longestGap), nodes: map[uint64]int64{}}
	for _, k := range kinds {
		g := &groupState{Kind: k, rules: newRules(k.Policy), below: math.MaxUint64, drawn: map[uint64]draw{}}
		g.quota = [2]int{lists - lists/4, lists / 4}
		g.sample.index, g.hot.index = map[uint64]int32{}, map[uint64]int32{}
		g.votes.open = map[uint64]cluster{}
		s.groups = append(s.groups, g)
	}
	return s
}

// add takes in a batch that came at a moment of the clock that all nodes share.
func (s *state) add(b *batch, at int64) {
	if s.begun == 0 {
		s.begun, s.now = at, at-int64(holdBack)
	}
	s.newest = max(s.newest, at)
	s.nodes[b.Node] = at
	s.lost += b.Lost
	shift := at - b.Now
	for i := range b.groups {
		part, g := &b.groups[i], s.groups[i]
		g.lower(part.Below)
		g.queue = append(g.queue, event{at: at, counts: &part.Counts})
		for j := range part.notes {
			part.notes[j].At += shift
			g.queue = append(g.queue, event{at: part.notes[j].At, note: &part.notes[j]})
		}
		for j := range part.fills {
			part.fills[j].At += shift
			part.fills[j].Answered += shift
			g.queue = append(g.queue, event{at: part.fills[j].At, order: 1, fill: &part.fills[j]})
		}
		for j := range part.votes {
			part.votes[j].At += shift
			part.votes[j].Answered += shift
			g.queue = append(g.queue, event{at: part.votes[j].At, order: 2, vote: &part.votes[j]})
		}
	}
}

// advance applies what is of before a moment, in the order of time.
func (s *state) advance(until int64) {
	for _, g := range s.groups {
		slices.SortStableFunc(g.queue, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
		i := 0
		for ; i < len(g.queue) && g.queue[i].at <= until; i++ {
			g.pass(max(g.queue[i].at, s.now), s)
			g.apply(&g.queue[i])
		}
		clear(g.queue[:i])
		g.queue = append(g.queue[:0], g.queue[i:]...)
	}
	if until > s.now {
		passed := min(until-s.now, s.gap)
		for _, g := range s.groups {
			g.pass(until, s)
			if g.first != 0 {
				g.seconds += float64(min(passed, until-g.first)) * 1e-9
			}
		}
		s.now = until
	}
	for node, at := range s.nodes {
		if s.newest-at > int64(nodeSilent) {
			delete(s.nodes, node)
		}
	}
}

// pass ages all counts when a half-life has ended.
func (g *groupState) pass(now int64, s *state) {
	if s.halfLife == 0 {
		return
	}
	epoch := now / s.halfLife
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
	g.votes.scale(f)
	idle := now - max(int64(candidates[candidateCount-1])+s.halfLife, forgetAfter*s.halfLife)
	g.sample.age(f, idle)
	g.hot.age(f, idle)
}

func (g *groupState) apply(e *event) {
	switch {
	case e.counts != nil:
		g.count(*e.counts)
	case e.note != nil:
		g.look(e.note)
	case e.fill != nil:
		g.fill(e.fill)
	default:
		g.vote(e.vote)
	}
}

// count takes in what a node has counted.
func (g *groupState) count(c counts) {
	g.ever = g.ever.plus(c)
	g.sums.lookups += float64(c.Lookups)
	g.sums.waited += float64(c.Waited)
	g.sums.failed += float64(c.Failed)
	g.sums.fills += float64(c.Fills)
	g.sums.rechecks += float64(c.Rechecks)
	if c.Fills > 0 && c.Took > 0 {
		// The average of the first fills, then an exponential one: a first fill, which often
		// opens a connection, must not stand for all.
		weight := max(1-math.Pow(0.95, float64(c.Fills)), float64(c.Fills)/float64(g.ever.Fills))
		g.latency += int64(weight * (float64(c.Took)/float64(c.Fills) - float64(g.latency)))
	}
}

// look takes in a look-up that was noted.
func (g *groupState) look(n *note) {
	if g.first == 0 {
		g.first = n.At
	}
	if n.Flags&ofDraw != 0 {
		g.draw(n)
	}
	k, set := g.find(n.Hash)
	if n.Flags&(ofSample|ofHot) == 0 {
		return // one of 16: it says that the list is asked for, and nothing of how often
	}
	if k == nil && n.Flags&ofHot != 0 && len(g.hot.lists) < g.quota[1] { // another node knows it to be hot
		g.promote(n.Hash, n.At, n.At-int64(time.Second))
		k, set = g.find(n.Hash)
	}
	if k == nil {
		if k, set = g.admit(n.Hash), &g.sample; k == nil {
			return
		}
	}
	k.came += n.N
	for i := range n.N { // where one note is for many, they were spread over a time
		k.simulate(g.rules, n.At+noteSpan*int64(i)/int64(n.N), g.latency, &set.ages)
	}
}

// find returns a watched list and its stratum, or nil.
func (g *groupState) find(h uint64) (*list, *stratum) {
	for _, set := range [...]*stratum{&g.hot, &g.sample} {
		if i, ok := set.index[h]; ok {
			return &set.lists[i], set
		}
	}
	return nil, nil
}

// admit takes a list into the sample if it belongs there. When the sample is full the
// list of the highest hash leaves, and no list from there on belongs to it any more, so
// that none comes back half counted.
func (g *groupState) admit(h uint64) *list {
	if h >= g.below {
		return nil
	}
	set := &g.sample
	if len(set.lists) < g.quota[0] {
		return set.add(list{hash: h})
	}
	top := 0
	for i := range set.lists {
		if set.lists[i].hash > set.lists[top].hash {
			top = i
		}
	}
	highest := set.lists[top].hash
	g.below = max(h, highest)
	if h > highest {
		return nil
	}
	set.drop(top)
	return set.add(list{hash: h})
}

// lower makes the sample no larger than that of another node, which notes no more.
func (g *groupState) lower(below uint64) {
	if below == 0 || below >= g.below {
		return
	}
	g.below = below
	for i := 0; i < len(g.sample.lists); {
		if g.sample.lists[i].hash < below {
			i++
			continue
		}
		g.sample.drop(i)
	}
}

// rate is the share of lists that is in the sample.
func (g *groupState) rate() float64 { return float64(g.below) / math.MaxUint64 }

// draw has a list that look-ups keep turning up watched for sure: a sample of lists alone
// is a poor judge of traffic that hangs on a few, each of which is either in it, and counts
// for many, or is not. Which are drawn does not depend on their hashes, so the sample stays
// one of all others.
func (g *groupState) draw(n *note) {
	g.draws++
	last, ok := g.drawn[n.Hash]
	g.drawn[n.Hash] = draw{g.draws, n.At}
	if ok && g.draws-last.number <= drawsKept && len(g.hot.lists) < g.quota[1] {
		g.promote(n.Hash, n.At, last.at)
	}
	if len(g.drawn) > 4*drawsKept {
		for h, d := range g.drawn {
			if g.draws-d.number > drawsKept {
				delete(g.drawn, h)
			}
		}
	}
}

// promote makes a list a hot one, which stands for itself alone from now on. What it
// counted in the sample stays there, and its state comes along.
func (g *groupState) promote(h uint64, now, last int64) {
	if _, ok := g.hot.index[h]; ok {
		return
	}
	k := list{hash: h, last: now}
	if i, ok := g.sample.index[h]; ok {
		was := &g.sample.lists[i]
		k = *was
		k.scale(0)
		was.looks = looks{} // what was learnt, and each candidate's entry, are the hot list's now
		for c := range was.cells {
			was.cells[c].fill = 0
		}
	} else {
		k.guess(g.rules, now, drawEvery/float64(max(now-last, 1)), g.first)
	}
	g.hot.add(k)
}

// fill takes in a body of a watched list.
func (g *groupState) fill(f *fill) {
	k, _ := g.find(f.Hash)
	if k == nil {
		return
	}
	if !f.Seen {
		k.fills++
	}
	if f.Answered >= k.known.at && f.Size > 0 {
		k.size = f.Size
	}
	k.observe(sighting{f.Answered, f.Body})
}

// vote takes in a re-check.
func (g *groupState) vote(v *vote) {
	if k, _ := g.find(v.Hash); k != nil && !v.Selected {
		k.observe(sighting{v.At, v.Body})
	}
	g.votes.add(v)
}

// add returns the list's place, which holds until the next add or drop.
func (set *stratum) add(k list) *list {
	set.lists = append(set.lists, k)
	set.index[k.hash] = int32(len(set.lists) - 1)
	return &set.lists[len(set.lists)-1]
}

// drop takes the last list into the place of list i.
func (set *stratum) drop(i int) {
	delete(set.index, set.lists[i].hash)
	last := len(set.lists) - 1
	if i != last {
		set.lists[i] = set.lists[last]
		set.index[set.lists[i].hash] = int32(i)
	}
	set.lists[last] = list{}
	set.lists = set.lists[:last]
}

// age multiplies all counts, and drops the lists that nobody looked up since then.
func (set *stratum) age(f float64, since int64) {
	for c := range set.ages {
		for b := range set.ages[c] {
			set.ages[c][b] *= f
		}
	}
	for i := 0; i < len(set.lists); {
		if set.lists[i].last < since {
			set.drop(i)
			continue
		}
		set.lists[i].scale(f)
		i++
	}
}

// setPolicy tells that the real cache has another policy from now on. What was counted is
// kept, but for the ages if their buckets would mean others.
func (g *groupState) setPolicy(p Policy) {
	old := g.rules
	if g.Policy, g.rules = p, newRules(p); old.swr != g.rules.swr {
		g.sample.ages, g.hot.ages = histogram{}, histogram{}
	}
}

// watch is what look-ups are to note from now on. A hot list that so many nodes note often
// is thinned.
func (g *groupState) watch(old *watch, nodes int) *watch {
	const often = 64 // notes of a hot list and a node per second
	w := &watch{below: g.below, hot: make(map[uint64]*thinned, len(g.hot.lists))}
	for i := range g.hot.lists {
		k := &g.hot.lists[i]
		every := uint32(1)
		for k.came/uint32(max(nodes, 1))/every > often {
			every *= 2
		}
		k.came = 0
		t := &thinned{every: every}
		if old != nil && old.hot[k.hash] != nil && old.hot[k.hash].every == every {
			t = old.hot[k.hash]
		}
		w.hot[k.hash] = t
		word, bit := bloom(k.hash)
		w.bits[word] |= bit
	}
	return w
}
