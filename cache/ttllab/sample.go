package ttllab

// A list that is drawn twice within so many draws is hot.
const drawsKept = 1024

// stratum is a set of watched lists that all stand for the same number of lists.
type stratum struct {
	most  int
	lists []list
	index map[uint64]int32 // by hash
	ages  histogram        // of all answers, also of lists that have left
}

// draw is the newest one of a list.
type draw struct {
	number uint64
	at     int64
}

func newStratum(most int) stratum { return stratum{most: most, index: map[uint64]int32{}} }

// find returns a watched list and its stratum, or nil.
func (g *group) find(hash uint64) (*list, *stratum) {
	for _, set := range [...]*stratum{&g.hot, &g.sample} {
		if i, ok := set.index[hash]; ok {
			return &set.lists[i], set
		}
	}
	return nil, nil
}

// share is that of all lists which the sample has.
func (g *group) share() float64 { return float64(g.below) / (1 << 64) }

// admit takes a list into the sample if it belongs there. When the sample is full the
// list of the highest hash leaves, and no list from there on belongs to it any more, so
// that none comes back half counted.
func (g *group) admit(hash uint64) *list {
	if hash >= g.below {
		return nil
	}
	set := &g.sample
	if len(set.lists) < set.most {
		return set.add(list{hash: hash})
	}
	top := 0
	for i := range set.lists {
		if set.lists[i].hash > set.lists[top].hash {
			top = i
		}
	}
	highest := set.lists[top].hash
	g.below = max(hash, highest)
	if hash > highest {
		return nil
	}
	set.drop(top)
	return set.add(list{hash: hash})
}

// lower makes the sample no larger than that of another node, which notes no more; 0: that is
// not known.
func (g *group) lower(below uint64) {
	if below == 0 || below >= g.below {
		return
	}
	g.below = below
	g.sample.dropIf(func(k *list) bool { return k.hash >= below })
}

// draw has a list that look-ups keep turning up watched for sure: a sample of lists alone
// is a poor judge of traffic that hangs on a few, each of which is either in it, and counts
// for many, or is not. Which are drawn does not depend on their hashes, so the sample stays
// one of all others.
func (g *group) draw(n *note) {
	g.draws++
	last, ok := g.drawn[n.Hash]
	g.drawn[n.Hash] = draw{g.draws, n.At}
	if ok && g.draws-last.number <= drawsKept {
		g.promote(n.Hash, n.At, last.at)
	}
	if len(g.drawn) > 4*drawsKept {
		for hash, d := range g.drawn {
			if g.draws-d.number > drawsKept {
				delete(g.drawn, hash)
			}
		}
	}
}

// promote makes a list a hot one, which stands for itself alone from now on, if there is room.
// What it counted in the sample stays there, and its state comes along.
func (g *group) promote(hash uint64, now, last int64) {
	if _, ok := g.hot.index[hash]; ok || len(g.hot.lists) >= g.hot.most {
		return
	}
	k := list{hash: hash, last: now}
	if i, ok := g.sample.index[hash]; ok {
		was := &g.sample.lists[i]
		k = *was
		k.scale(0)
		was.history = history{} // what was learnt, and each candidate's entry, are the hot list's now
		for c := range was.cells {
			was.cells[c].filled = 0
		}
	} else {
		k.guess(&g.policy, now, drawEvery/float64(max(now-last, 1)), g.first)
	}
	g.hot.add(k)
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

func (set *stratum) dropIf(leaves func(*list) bool) {
	for i := 0; i < len(set.lists); {
		if leaves(&set.lists[i]) {
			set.drop(i)
		} else {
			i++
		}
	}
}

// age multiplies all counts, and drops the lists that nobody looked up since then.
func (set *stratum) age(f float64, since int64) {
	for c := range set.ages {
		for b := range set.ages[c] {
			set.ages[c][b] *= f
		}
	}
	set.dropIf(func(k *list) bool { return k.last < since })
	for i := range set.lists {
		set.lists[i].scale(f)
	}
}

// watched is what look-ups are to note from now on: old, if that is still right. A hot list
// that so many nodes note often is thinned.
func (g *group) watched(old *watched, nodes int) *watched {
	const often = 64 // notes of a hot list and a node per second
	kept := 0
	for i := range g.hot.lists {
		k := &g.hot.lists[i]
		k.every = 1
		for k.noted/uint32(nodes)/k.every > often {
			k.every *= 2
		}
		k.noted = 0
		if t := old.hot[k.hash]; t != nil && t.every == k.every {
			kept++
		}
	}
	if kept == len(old.hot) && kept == len(g.hot.lists) && old.below == g.below {
		return old
	}
	w := &watched{below: g.below, hot: make(map[uint64]*thinned, len(g.hot.lists))}
	for i := range g.hot.lists {
		k := &g.hot.lists[i]
		w.hot[k.hash] = old.hot[k.hash]
		if t := w.hot[k.hash]; t == nil || t.every != k.every {
			w.hot[k.hash] = &thinned{every: k.every}
		}
	}
	return w
}
