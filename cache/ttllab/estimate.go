package ttllab

import (
	"math"
	"time"
)

// redisOverhead is what one entry takes in Redis beside its value: the key's
// name of about 90 bytes, and Redis' own records for a key with an end.
const redisOverhead = 200

// settledTTLs is after how many ttls a figure no longer has the start, when all was a
// miss: a hit ratio of 80 % was 2.3 points too low after two of them and 0.9 after four.
const settledTTLs = 4

// Estimate is a figure with the standard error of the sample it comes from; 95 %
// of the time the truth about the watched traffic is within two of them. 0: no
// list was left out.
type Estimate struct {
	Value  float64 `json:"value"`
	StdErr float64 `json:"std_err"`
}

// over divides a total by a number that is exact; 0: the figure is not known.
func (e Estimate) over(d float64) Estimate {
	if d <= 0 {
		return Estimate{}
	}
	return Estimate{e.Value / d, e.StdErr / d}
}

// report computes what is known, as of s.now. It takes some tens of milliseconds.
func (s *state) report() Report {
	r := Report{To: time.Unix(0, s.now).UTC(), Goals: s.goals.Goals, Nodes: max(len(s.nodes), 1), LostLookups: s.lost}
	if s.begun != 0 {
		since := time.Unix(0, s.begun).UTC()
		r.Since = &since
	}
	for _, g := range s.groups {
		r.Kinds = append(r.Kinds, g.report(s.now))
	}
	r.mark()
	return r
}

// report computes what is known of one group: what was counted and measured, and a row
// for each candidate once there was a look-up.
func (g *groupState) report(now int64) KindReport {
	k := KindReport{
		Kind: g.Name, TTL: g.rules.policy.TTL.Seconds(), StaleWhileRevalidate: g.rules.policy.StaleWhileRevalidate.Seconds(),
		Observed: g.seconds, WatchedKeys: len(g.hot.lists), Keys: float64(len(g.sample.lists)) / g.rate(),
		Candidates: []Candidate{}, Served: g.votes.served(g.sums),
	}
	for i := range g.sample.lists {
		if _, hot := g.hot.index[g.sample.lists[i].hash]; !hot {
			k.WatchedKeys++
		}
	}
	if k.Observed > 0 {
		k.LookupsPerSecond, k.FillsPerSecond, k.RechecksPerSecond = g.sums.lookups/k.Observed, g.sums.fills/k.Observed, g.sums.rechecks/k.Observed
	}
	if k.WatchedKeys == 0 || k.Observed == 0 {
		return k
	}
	c := newComputer(g, now)
	k.Changes = c.changes()
	for i := range candidates {
		row := c.candidate(i, k.Observed)
		row.Upstream.Value += k.RechecksPerSecond
		row.Current = i == g.rules.today
		row.Settled = float64(now-g.first)*1e-9 >= settledTTLs*row.TTL
		k.Candidates = append(k.Candidates, row)
	}
	return k
}

// regression estimates totals over all lists from a sample in which each list is
// included with a known probability, independently (Poisson sampling, which is
// what a hash threshold does). x are per-list figures whose totals over all lists
// are known: look-ups and fills.
type regression struct {
	pi    []float64    // inclusion probabilities
	x     [][2]float64 // by list
	gap   [2]float64   // known totals of x less what the sample says
	inv   [2][2]float64
	scale float64 // of the variance, for the two figures fitted
}

// minFitted lists are the least to fit anything to.
const minFitted = 20

// newRegression fits nothing to fewer than minFitted lists: totals are then the sample's,
// scaled up.
func newRegression(pi []float64, x [][2]float64, totals [2]float64) *regression {
	r := &regression{pi: pi, x: x, scale: 1}
	if len(pi) < minFitted {
		return r
	}
	r.scale = float64(len(pi)) / float64(len(pi)-2)
	var a [2][2]float64
	r.gap = totals
	for i, p := range pi {
		q := (1 - p) / (p * p)
		for j := range 2 {
			r.gap[j] -= x[i][j] / p
			for l := range 2 {
				a[j][l] += q * x[i][j] * x[i][l]
			}
		}
	}
	det := a[0][0]*a[1][1] - a[0][1]*a[1][0]
	switch {
	case det > 1e-9*a[0][0]*a[1][1]:
		r.inv = [2][2]float64{{a[1][1] / det, -a[0][1] / det}, {-a[1][0] / det, a[0][0] / det}}
	case a[0][0] > 0: // fills run in step with look-ups, or there are none
		r.inv[0][0] = 1 / a[0][0]
	}
	return r
}

// total estimates the sum of y over all lists: the sample's, scaled up, plus what
// the known totals tell about the lists that are not in it. With every list in the
// sample it is the sum itself.
func (r *regression) total(y []float64) Estimate {
	var sum float64
	var b [2]float64
	for i, p := range r.pi {
		sum += y[i] / p
		q := (1 - p) / (p * p)
		b[0] += q * r.x[i][0] * y[i]
		b[1] += q * r.x[i][1] * y[i]
	}
	slope := [2]float64{
		r.inv[0][0]*b[0] + r.inv[0][1]*b[1],
		r.inv[1][0]*b[0] + r.inv[1][1]*b[1],
	}
	var variance float64
	for i, p := range r.pi {
		rest := y[i] - slope[0]*r.x[i][0] - slope[1]*r.x[i][1]
		variance += (1 - p) / (p * p) * rest * rest
	}
	value := sum
	if slope != ([2]float64{}) {
		value += slope[0]*r.gap[0] + slope[1]*r.gap[1]
	}
	return Estimate{max(value, 0), math.Sqrt(variance * r.scale)}
}

// computer turns what is known of a group into figures, for one report.
type computer struct {
	g     *groupState
	now   int64
	lists []*list
	pi    []float64 // the chance of each list to be watched
	fit   *regression
	pool  pooled
	rates []guess // by list
	more  float64 // the error of the kind's rate, of its logarithm
	size  float64 // of an entry whose size is not known
	y     []float64
}

// newComputer fits the sample to what is counted of all lists, and learns how often each
// list changes. That costs most of a report, and is done once for all candidates.
func newComputer(g *groupState, now int64) *computer {
	c := &computer{g: g, now: now}
	for _, set := range [...]*stratum{&g.sample, &g.hot} {
		pi := 1.0
		if set == &g.sample {
			pi = g.rate()
		}
		for i := range set.lists {
			c.lists, c.pi = append(c.lists, &set.lists[i]), append(c.pi, pi)
		}
	}
	c.rates, c.y = make([]guess, len(c.lists)), make([]float64, len(c.lists))
	x, all, sized := make([][2]float64, len(c.lists)), make([]looks, len(c.lists)), 0
	for i, k := range c.lists {
		x[i], all[i] = [2]float64{k.lookups, k.fills}, k.looks
		if k.size > 0 {
			sized++
			c.size += float64(k.size)
		}
	}
	c.size /= float64(max(sized, 1))
	c.fit = newRegression(c.pi, x, [2]float64{g.sums.lookups, g.sums.fills})
	c.pool = pool(all)
	kind, stdErr := typical(all, c.pool.rate)
	for i := range all {
		c.rates[i] = all[i].guessOf(kind)
	}
	if kind > 0 && c.pool.rate > 0 {
		c.more = math.Hypot(stdErr/kind, c.pool.stdErr/c.pool.rate)
	}
	return c
}

// sum estimates the total of a figure of each list over all lists.
func (c *computer) sum(of func(i int, k *list) float64) Estimate {
	for i, k := range c.lists {
		c.y[i] = of(i, k)
	}
	return c.fit.total(c.y)
}

// changes weighs each list by how often it is asked for. The error is that of the sample
// and that of the rates.
func (c *computer) changes() Changes {
	mean := c.sum(func(i int, k *list) float64 { return c.rates[i].rate * k.lookups }).over(c.g.sums.lookups)
	relative := c.pool.stdErr
	if c.pool.rate > 0 {
		relative = c.more * mean.Value
	}
	return Changes{
		PerHour: Estimate{mean.Value * 3600, math.Hypot(mean.StdErr, relative) * 3600},
		Looks:   c.pool.looks, Changes: c.pool.changes,
	}
}

// candidate computes the row of one ttl. Waits and requests are counted of each watched
// list; their sums stand for all lists.
func (c *computer) candidate(i int, observed float64) Candidate {
	lookups := c.g.sums.lookups
	row := Candidate{TTL: candidates[i].Seconds(), P99Age: c.p99(i)}
	waits := c.sum(func(_ int, k *list) float64 { return float64(k.cells[i].waits) }).over(lookups)
	row.HitRatio = Estimate{min(max(1-waits.Value, 0), 1), waits.StdErr}
	row.Upstream = c.sum(func(_ int, k *list) float64 { return float64(k.cells[i].fetches) }).over(observed)
	row.MeanAge = c.sum(func(_ int, k *list) float64 { return k.cells[i].age }).over(lookups)
	row.RedisBytes = c.sum(func(_ int, k *list) float64 {
		switch {
		case c.now-k.cells[i].fill >= c.g.rules.lifetime(i):
			return 0 // it has expired
		case k.size == 0:
			return c.size + redisOverhead
		}
		return float64(k.size) + redisOverhead
	})
	if c.pool.looks > 0 {
		row.Outdated = c.outdated(i)
	}
	return row
}

// outdated is the share of outdated answers. Its error is that of the sample, of each
// list's rate, of the rate that they are drawn towards, and of chance: the share that
// was really served depends on when the changes fell.
func (c *computer) outdated(i int) *Estimate {
	lookups := c.g.sums.lookups
	var variance, shift float64
	e := c.sum(func(j int, k *list) float64 {
		cell, g, weight := &k.cells[i], c.rates[j], 1/c.pi[j]
		mean, spread := cell.outdated(k.lookups, g)
		variance += weight*weight*spread + weight*cell.chance(k.lookups, g.rate)
		// The fewer looks, the more the rate follows that of the kind.
		more, _ := cell.outdated(k.lookups, guess{g.rate * math.Exp(priorChanges/g.shape*c.more), g.shape})
		shift += weight * (more - mean)
		return mean
	}).over(lookups)
	if c.pool.rate == 0 { // nothing has changed yet: what one error more would do
		shift = c.sum(func(_ int, k *list) float64 {
			more, _ := k.cells[i].outdated(k.lookups, guess{c.pool.stdErr, priorChanges})
			return more
		}).Value
	}
	e.Value = min(e.Value, 1)
	e.StdErr = math.Sqrt(e.StdErr*e.StdErr + (variance+shift*shift)/(lookups*lookups))
	return &e
}

// p99 is the age that 99 % of the answers do not exceed.
func (c *computer) p99(i int) float64 {
	var ages [ageBuckets]float64
	var total float64
	for b := range ages {
		ages[b] = c.g.sample.ages[i][b]/c.g.rate() + c.g.hot.ages[i][b]
		total += ages[b]
	}
	below := 0.0
	for b, n := range ages {
		if n > 0 && below+n >= 0.99*total {
			part := (0.99*total - below) / n
			age := int64((float64(b) + part) / ageBuckets * float64(c.g.rules.maxAge(i)))
			return float64(min(age, c.now-c.g.first)) * 1e-9
		}
		below += n
	}
	return 0
}
