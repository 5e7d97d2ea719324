package ttl

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	second = int64(time.Second)
	// keptChanges of each list are enough to tell its rate; the newest tell of today.
	keptChanges = 16
	// priorChanges is how strongly the rate of a list is drawn towards the mean of its group.
	priorChanges = 0.5
	// shortestInterval is how much later a body must be seen again to tell anything: moments in a
	// log are rounded.
	shortestInterval = int64(100 * time.Millisecond)
	// jackknifeSlices is how many parts of the lists are left out, one at a time.
	jackknifeSlices = 16
)

// ttls are those that are replayed, ascending. They are round, so that today's is likely to be
// among them.
var ttls = [...]time.Duration{
	1 * time.Second, 2 * time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second, 30 * time.Second, 45 * time.Second, 1 * time.Minute, 90 * time.Second, 2 * time.Minute,
	3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// list is the look-ups of one list, oldest first, and its changes.
type list struct {
	lookups []Lookup
	changed []float64 // the lengths of the newest intervals in which its body changed, seconds
	same    float64   // the sum of those in which it did not
	rate    float64   // changes per second
}

// tally is what one ttl did to the look-ups of some lists.
type tally struct{ lookups, waits, fetches, age, outdated float64 }

func (t *tally) add(o tally, sign float64) {
	t.lookups += sign * o.lookups
	t.waits += sign * o.waits
	t.fetches += sign * o.fetches
	t.age += sign * o.age
	t.outdated += sign * o.outdated
}

// replayed is one group with all of its lists.
type replayed struct {
	policy     Group
	from, to   int64
	lists      []list
	latency    int64   // of a fill
	share      float64 // of the lists that are in the sample
	total      float64 // look-ups, also of lists that are not in the sample
	changes    int     // that were seen
	intervals  int
	watched    float64 // seconds of all of them
	correction float64 // how many times as many look-ups as expected are in the sample
}

// Replay runs look-ups of one or several nodes or logs through all ttls. Where there are several, it
// counts from the moment on when the last of them began. A group is that of the first sample which has its name.
func Replay(samples ...Sample) Report {
	if len(samples) == 0 {
		return Report{Groups: []GroupReport{}}
	}
	below, from, to, n := uint64(math.MaxUint64), int64(0), int64(0), 0
	for _, s := range samples {
		below, from, n = min(below, s.Below), max(from, s.Since), n+len(s.Lookups)
	}
	groups := slices.Clone(samples[0].Groups)
	all, totals := make([]Lookup, 0, n), make([]float64, len(groups))
	for _, s := range samples {
		index := make([]int, len(s.Groups)) // by name: a node may have another configuration
		for i, g := range s.Groups {
			if index[i] = slices.IndexFunc(groups, func(of Group) bool { return of.Name == g.Name }); index[i] < 0 {
				index[i], groups, totals = len(groups), append(groups, g), append(totals, 0)
			}
		}
		first, last := make([]uint64, len(groups)), make([]uint64, len(groups))
		for _, l := range s.Lookups {
			if l.At < from {
				continue
			}
			l.Group = index[l.Group]
			to = max(to, l.At)
			if first[l.Group] == 0 || l.Number < first[l.Group] {
				first[l.Group] = l.Number
			}
			last[l.Group] = max(last[l.Group], l.Number)
			if mix(l.List) <= below {
				all = append(all, l)
			}
		}
		for i := range totals {
			if first[i] > 0 {
				totals[i] += float64(last[i] - first[i] + 1)
			}
		}
	}
	slices.SortFunc(all, func(a, b Lookup) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.List, b.List), cmp.Compare(a.At, b.At))
	})
	r := Report{From: time.Unix(0, from).UTC(), To: time.Unix(0, max(from, to)).UTC(), Sources: len(samples), Groups: []GroupReport{}}
	for i, g := range groups {
		end := 0
		for end < len(all) && all[end].Group == i {
			end++
		}
		one := replayed{policy: g, from: from, to: to, share: float64(below) / math.MaxUint64, total: totals[i]}
		one.read(all[:end])
		r.Groups = append(r.Groups, one.report())
		all = all[end:]
	}
	return r
}

// read splits look-ups by list and learns how often each changes.
func (g *replayed) read(all []Lookup) {
	fills, took := int64(0), int64(0)
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].List == all[0].List {
			n++
		}
		l := list{lookups: all[:n]}
		newest := Lookup{}
		for _, seen := range l.lookups {
			if seen.Took > 0 {
				fills, took = fills+1, took+seen.Took
			}
			if seen.Body == 0 || seen.Answered <= newest.Answered {
				continue
			}
			seconds := float64(seen.Answered-newest.Answered) / float64(second)
			switch changed := seen.Body != newest.Body; {
			case newest.Body == 0:
			case changed:
				l.changed = append(l.changed, seconds)
				g.changes, g.intervals = g.changes+1, g.intervals+1
			case seen.Answered-newest.Answered < shortestInterval:
				continue
			default:
				l.same += seconds
				g.intervals++
			}
			newest = seen
		}
		if len(l.changed) > keptChanges { // of the quiet time before, as much as fits to them
			l.same *= float64(keptChanges) / float64(len(l.changed))
			l.changed = l.changed[len(l.changed)-keptChanges:]
		}
		g.lists, all = append(g.lists, l), all[n:]
	}
	if fills > 0 {
		g.latency = took / fills
	}
	sampled := 0
	for i := range g.lists {
		sampled += len(g.lists[i].lookups)
	}
	g.correction = 1
	if g.share < 1 && g.total > 0 {
		g.correction = float64(sampled) / (g.total * g.share)
	}
	g.estimateRates()
}

// estimateRates gives each list the rate of the greatest likelihood for irregular intervals (Cho and
// Garcia-Molina, "Estimating Frequency of Change", ACM TOIT 3(3), 2003, 4.3), drawn towards the mean of
// the group. It takes changes to come at random and independently of the look-ups.
func (g *replayed) estimateRates() {
	changed := 0.0
	for i := range g.lists {
		l := &g.lists[i]
		changed, g.watched = changed+float64(len(l.changed)), g.watched+l.same
		for _, s := range l.changed {
			g.watched += s
		}
	}
	if changed == 0 {
		return
	}
	mean := changed / g.watched
	for range 6 { // the mean of rates that are drawn towards it
		sum, n := 0.0, 0.0
		for i := range g.lists {
			if l := &g.lists[i]; l.same > 0 || len(l.changed) > 0 {
				l.rate = l.likeliest(mean)
				sum, n = sum+l.rate, n+1
			}
		}
		mean = sum / n
	}
	for i := range g.lists {
		if l := &g.lists[i]; l.same == 0 && len(l.changed) == 0 {
			l.rate = mean
		}
	}
}

// likeliest solves sum over changed t/(exp(rate t)-1) + w/rate = sum over unchanged t + w/prior.
func (l *list) likeliest(prior float64) float64 {
	right := l.same + priorChanges/prior
	if len(l.changed) == 0 {
		return priorChanges / right
	}
	low, high := math.Log(1e-10), math.Log(1e3)
	for high-low > 1e-4 {
		rate := math.Exp((low + high) / 2)
		left := priorChanges / rate
		for _, seconds := range l.changed {
			left += seconds / math.Expm1(rate*seconds)
		}
		if left > right {
			low = math.Log(rate)
		} else {
			high = math.Log(rate)
		}
	}
	return math.Exp((low + high) / 2)
}

// replay runs the look-ups of a list through a cache with a ttl, by the rules of the real one: fresh is
// served; stale within stale_while_revalidate is served while one refresh runs; else the caller
// waits, and so does everybody who comes before the legacy has answered. It counts look-ups from a moment on.
func (g *replayed) replay(l *list, ttl time.Duration, from int64) (t tally) {
	swr := int64(g.policy.StaleWhileRevalidate.Duration())
	var filled, fresh int64
	has, waiting := false, false
	for _, one := range l.lookups {
		age := one.At - filled
		fetches, waits := false, false
		switch {
		case has && age < 0 && waiting: // for a fill that another look-up began
			waits, age = true, 0
		case has && age < 0: // served while it is refreshed: it had just gone stale
			age = fresh
		case !has || age >= fresh:
			waiting = !has || age >= fresh+swr
			if fetches, waits = true, waiting; waits {
				age = 0
			}
			jitter := g.policy.Jitter * float64(mix(one.List^uint64(one.At))>>11) / (1 << 53)
			has, filled, fresh = true, one.At+g.latency, int64(float64(ttl)*(1-jitter))
		}
		if one.At < from {
			continue
		}
		t.lookups++
		t.age += float64(age) / float64(second)
		t.outdated -= math.Expm1(-l.rate * float64(age) / float64(second))
		if waits {
			t.waits++
		}
		if fetches {
			t.fetches++
		}
	}
	return t
}

// candidate is what one ttl would have done. The first ttl only fills its cache, and does not count,
// if there are two of them.
func (g *replayed) candidate(ttl time.Duration) Candidate {
	from, settled := g.from+int64(ttl), g.to-g.from >= 2*int64(ttl)
	if settled = settled && slices.ContainsFunc(g.lists, func(l list) bool { return l.lookups[len(l.lookups)-1].At >= from }); !settled {
		from = g.from
	}
	var sum tally
	var slice [jackknifeSlices]tally
	for i := range g.lists {
		t := g.replay(&g.lists[i], ttl, from)
		sum.add(t, 1)
		slice[mix(g.lists[i].lookups[0].List^0x9e3779b97f4a7c15)>>60].add(t, 1)
	}
	// estimate is a figure with its standard error by the jackknife.
	estimate := func(figure func(t *tally, lists float64) float64) Estimate {
		value, squares, parts := figure(&sum, 1), 0.0, 0.0
		for i := range slice {
			if slice[i].lookups > 0 && slice[i].lookups < sum.lookups {
				parts++
			}
		}
		for i := range slice {
			if slice[i].lookups > 0 && slice[i].lookups < sum.lookups {
				rest := sum
				rest.add(slice[i], -1)
				off := figure(&rest, (parts-1)/parts) - value
				squares += off * off
			}
		}
		return Estimate{value, math.Sqrt(squares * (parts - 1) / max(parts, 1))}
	}
	seconds := float64(g.to-from) / float64(second)
	hits := estimate(func(t *tally, lists float64) float64 {
		return min(max(1-t.waits*g.correction/lists/sum.lookups, 0), 1)
	})
	upstream := estimate(func(t *tally, lists float64) float64 { return t.fetches / lists / g.share / seconds })
	// Per look-up both vary less where most look-ups are of hot lists that miss, too.
	if per := estimate(func(t *tally, _ float64) float64 { return 1 - t.waits/t.lookups }); per.StdErr < hits.StdErr {
		hits = per
	}
	rate := sum.lookups / g.correction / g.share / seconds
	if per := estimate(func(t *tally, _ float64) float64 { return t.fetches / t.lookups * rate }); per.StdErr < upstream.StdErr {
		upstream = per
	}
	age := estimate(func(t *tally, _ float64) float64 { return t.age / t.lookups })
	sampledError := math.Sqrt(1 - g.share) // if no list is left out, these are exact
	for _, e := range []*Estimate{&hits, &upstream, &age} {
		e.StdErr *= sampledError
	}
	c := Candidate{TTL: ttl.Seconds(), HitRatio: hits, Upstream: upstream, MeanAge: age, Settled: settled}
	if g.intervals > 0 {
		outdated := estimate(func(t *tally, _ float64) float64 { return t.outdated / t.lookups })
		if g.changes == 0 { // as sure as if one had been seen by now
			outdated.StdErr = min(age.Value/g.watched, 1)
		}
		// On top of the lists' differences comes chance: in how many changes were seen, and in which
		// fills the changes fall into.
		n := sum.lookups
		outdated.StdErr = math.Sqrt(outdated.StdErr*outdated.StdErr + outdated.Value*outdated.Value/(float64(g.changes)+0.5) + sum.outdated/max(sum.fetches, 1)/n)
		c.Outdated = &outdated
	}
	return c
}

// report is what all ttls would have done to the group.
func (g *replayed) report() GroupReport {
	r := GroupReport{
		Group: g.policy.Name, TTL: float64(g.policy.TTL), StaleWhileRevalidate: float64(g.policy.StaleWhileRevalidate),
		Observed: max(float64(g.to-g.from)/float64(second), 0), Lists: float64(len(g.lists)) / g.share, SampledLists: len(g.lists),
		Changes: g.changes, Intervals: g.intervals, Candidates: []Candidate{},
	}
	if len(g.lists) == 0 || r.Observed == 0 {
		return r
	}
	r.LookupsPerSecond = g.total / r.Observed
	nearest := 0
	for i, ttl := range ttls {
		r.Candidates = append(r.Candidates, g.candidate(ttl))
		off := func(i int) float64 { return math.Abs(math.Log(ttls[i].Seconds() / max(r.TTL, 1e-9))) }
		if off(i) < off(nearest) {
			nearest = i
		}
	}
	r.Candidates[nearest].Current = true
	r.Today = new(g.candidate(g.policy.TTL.Duration()))
	r.Today.Current = true
	return r
}
