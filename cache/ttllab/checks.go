package ttllab

import (
	"math"
	"sync"
)

// totals are the re-checks of one kind since the start. All only grow.
type totals struct {
	checked, outdated uint64
	// answers and outdatedAnswers are how many answers out of the cache these stand for.
	answers, outdatedAnswers float64
	seconds                  float64 // for which all outdated lists are expected to have been so
}

func (t totals) plus(o totals) totals {
	return totals{
		t.checked + o.checked, t.outdated + o.outdated, t.answers + o.answers, t.outdatedAnswers + o.outdatedAnswers,
		t.seconds + o.seconds,
	}
}

// checks sums up the re-checks of one kind.
type checks struct {
	mu   sync.Mutex
	lab  *kindLab
	ever totals
	aged aging
	sum  tally // of clusters that are closed, aged
	open map[uint64]cluster
	n    float64 // re-checks, aged
	bad  float64 // outdated ones
	secs float64 // of these
	// Look-ups that were not answered out of the cache, aged up to the last aging.
	waited, failed float64
	counted        [2]uint64 // waited and failed by then
}

// cluster is the re-checks of one fill of one list. They say nearly the same: until
// the list changes none is outdated, and afterwards all are.
type cluster struct {
	at            int64 // of the fill
	all, outdated float64
	squares       float64 // of the weights
}

// tally is what the share and its error need to know of clusters.
type tally struct {
	all, outdated  float64 // answers
	squares        float64 // sum of the squares of the re-checks' weights
	aa, ao, oo, cs float64 // products of the clusters' sums; number of clusters
}

// add takes in a cluster that gets no more re-checks, or as if it got none.
func (t *tally) add(c cluster) {
	t.all += c.all
	t.outdated += c.outdated
	t.squares += c.squares
	t.aa += c.all * c.all
	t.ao += c.all * c.outdated
	t.oo += c.outdated * c.outdated
	t.cs++
}

// scale multiplies all sums, so that their ratios stay.
func (t *tally) scale(f float64) {
	for _, v := range [...]*float64{&t.all, &t.outdated, &t.squares, &t.aa, &t.ao, &t.oo, &t.cs} {
		*v *= f
	}
}

// add takes in one comparison of a list that changes at a rate, per second; 0: unknown.
func (c *checks) add(r recheck, now sighting, rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now.at)
	age := float64(now.at-r.answeredAt) * 1e-9
	if len(c.open) >= keptClusters {
		c.close()
	}
	k := c.open[r.hash]
	if k.at != r.answeredAt && k.all > 0 {
		c.sum.add(k)
		k = cluster{}
	}
	k.at = r.answeredAt
	k.all += r.weight
	k.squares += r.weight * r.weight
	c.ever.checked++
	c.n++
	c.ever.answers += r.weight
	if now.body != r.body {
		k.outdated += r.weight
		c.ever.outdated++
		c.ever.outdatedAnswers += r.weight
		c.bad++
		c.ever.seconds += sinceChange(age, rate)
		c.secs += sinceChange(age, rate)
	}
	c.open[r.hash] = k
}

// total is what was compared since the start.
func (c *checks) total() totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ever
}

// others adds the re-checks of other nodes, which are load, too.
func (c *checks) others(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += float64(n)
}

// close ends all clusters.
func (c *checks) close() {
	for _, k := range c.open {
		c.sum.add(k)
	}
	clear(c.open)
}

// advance ages the counts when a half-life has ended. It needs the lock.
func (c *checks) advance(now int64) {
	if steps := c.aged.steps(now); steps > 0 {
		c.age(steps)
	}
}

// age halves all counts so many times. It needs the lock.
func (c *checks) age(steps int) {
	c.close()
	f := math.Ldexp(1, -steps)
	c.sum.scale(f)
	waited, failed := c.unserved()
	c.waited, c.failed, c.n, c.bad, c.secs = waited*f, failed*f, c.n*f, c.bad*f, c.secs*f
	c.counted = [2]uint64{c.lab.waited.Load(), c.lab.failed.Load()}
}

// unserved counts the look-ups that waited for the legacy, and those that got nothing.
func (c *checks) unserved() (waited, failed float64) {
	return c.waited + float64(c.lab.waited.Load()-c.counted[0]), c.failed + float64(c.lab.failed.Load()-c.counted[1])
}

// share is the indicator "served outdated": of the answers out of the cache, those that
// differed, times the share of all answers that came out of the cache. Who waited for
// the legacy got what it said.
//
// checked is how many re-checks there were, aged.
func (c *checks) share(lookups float64, now int64) (s Served, checked float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now)
	waited, failed := c.unserved()
	cached := 0.0
	if answers := lookups - failed; answers > 0 {
		cached = max(answers-waited, 0) / answers
	}
	s = Served{Checks: int(c.ever.checked)}
	sum := c.sum
	for _, k := range c.open {
		sum.add(k)
	}
	if sum.all == 0 {
		return s, c.n
	}
	p, low, high := sum.interval()
	s.Outdated, s.Low, s.High = p*cached, low*cached, high*cached
	if c.bad > 0 {
		s.OutdatedFor = c.secs / c.bad
	}
	return s, c.n
}

// interval is the share p, and holds the true one with 95 % confidence. It is Wilson's with the number
// of re-checks that would say as much if they were independent, from the scatter
// between clusters, and with Student's quantile for the number of clusters (Korn and
// Graubard, "Confidence Intervals for Proportions with Small Expected Number of
// Positive Counts Estimated From Survey Data", Survey Methodology 24, 1998).
func (t *tally) interval() (p, low, high float64) {
	const z = 1.96
	p = t.outdated / t.all
	clusters := t.all * t.all / t.aa // as many of equal size
	n := t.all * t.all / t.squares
	scatter := (t.oo - 2*p*t.ao + p*p*t.aa) / (t.all * t.all)
	if t.cs > 1 {
		scatter *= t.cs / (t.cs - 1)
	}
	independent := clusters // where none differs, or all do, the scatter tells nothing
	if p > 0 && p < 1 && scatter > 0 {
		independent = max(min(p*(1-p)/scatter, n), min(clusters, 1))
	}
	q := z / student(clusters-1)
	independent *= q * q
	z2 := z * z / independent
	mid := (p + z2/2) / (1 + z2)
	half := z / (1 + z2) * math.Sqrt(p*(1-p)/independent+z2/(4*independent))
	return p, max(mid-half, 0), min(mid+half, 1)
}

// student is the quantile of 97.5 % of Student's distribution (Hill's expansion about
// the normal one), 12.7 at most.
func student(freedom float64) float64 {
	const z = 1.96
	if freedom <= 1 {
		return 12.7
	}
	g1 := (z*z*z + z) / 4
	g2 := (5*z*z*z*z*z + 16*z*z*z + 3*z) / 96
	g3 := (3*math.Pow(z, 7) + 19*math.Pow(z, 5) + 17*z*z*z - 15*z) / 384
	return min(z+g1/freedom+g2/(freedom*freedom)+g3/math.Pow(freedom, 3), 12.7)
}
