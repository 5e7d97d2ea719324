package ttllab

import (
	"math"
	"time"

	"inquiry-gateway/cache"
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
func (s *state) report(goals cache.GoalsConfig) Report {
	r := Report{To: time.Unix(0, s.now).UTC(), Goals: goals, Nodes: s.nodes, LostLookups: s.lost}
	if s.begun != 0 {
		since := time.Unix(0, s.begun).UTC()
		r.Since = &since
	}
	for _, g := range s.groups {
		r.Groups = append(r.Groups, g.report(s.now))
	}
	r.mark()
	return r
}

// report computes what is known of one group: what was counted and measured, and a row
// for each candidate once there was a look-up.
func (g *group) report(now int64) GroupReport {
	r := GroupReport{
		Group: g.policy.Name, TTL: g.policy.TTL.Seconds(), StaleWhileRevalidate: g.policy.StaleWhileRevalidate.Seconds(),
		Observed: g.seconds, WatchedLists: len(g.hot.lists), Lists: float64(len(g.sample.lists)) / g.share(),
		Candidates: []Candidate{}, Served: g.rechecks.served(g.sums),
	}
	for i := range g.sample.lists {
		if _, hot := g.hot.index[g.sample.lists[i].hash]; !hot {
			r.WatchedLists++
		}
	}
	if r.Observed > 0 {
		r.LookupsPerSecond, r.FillsPerSecond, r.RechecksPerSecond = g.sums.lookups/r.Observed, g.sums.fills/r.Observed, g.sums.rechecks/r.Observed
	}
	if r.WatchedLists == 0 || r.Observed == 0 {
		return r
	}
	e := newEstimator(g, now)
	r.Changes = e.changes()
	today := g.policy.nearest()
	for c := range candidates {
		row := e.candidate(c)
		row.Upstream.Value += r.RechecksPerSecond
		row.Current = c == today
		row.Settled = float64(now-g.first)*1e-9 >= settledTTLs*row.TTL
		r.Candidates = append(r.Candidates, row)
	}
	return r
}

// regression estimates totals over all lists from a sample in which each list is
// included with a known probability, independently (Poisson sampling, which is
// what a hash threshold does). x are per-list figures whose totals over all lists
// are known: look-ups and fills. It is the regression estimator of Särndal, Swensson, Wretman,
// "Model Assisted Survey Sampling", 1992, 6.4.
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

// estimator turns what is known of a group into figures, for one report.
type estimator struct {
	g       *group
	now     int64
	lists   []*list
	pi      []float64 // the chance of each list to be watched
	fit     *regression
	pool    pooled
	beliefs []belief // by list
	rateErr float64  // of the group's rate, relative
	size    float64  // of an entry whose size is not known
	y       []float64
}

// newEstimator fits the sample to what is counted of all lists, and learns how often each
// list changes. That costs most of a report, and is done once for all candidates.
func newEstimator(g *group, now int64) *estimator {
	e := &estimator{g: g, now: now}
	add := func(set *stratum, pi float64) {
		for i := range set.lists {
			e.lists, e.pi = append(e.lists, &set.lists[i]), append(e.pi, pi)
		}
	}
	add(&g.sample, g.share())
	add(&g.hot, 1)
	n := len(e.lists)
	x, all, sized := make([][2]float64, n), make([]history, n), 0
	for i, k := range e.lists {
		x[i], all[i] = [2]float64{k.lookups, k.fills}, k.history
		if k.size > 0 {
			sized++
			e.size += float64(k.size)
		}
	}
	e.size /= float64(max(sized, 1))
	e.fit = newRegression(e.pi, x, [2]float64{g.sums.lookups, g.sums.fills})
	e.pool = pool(all)
	mean, stdErr := meanRate(all, e.pool.rate)
	if mean > 0 && e.pool.rate > 0 {
		e.rateErr = math.Hypot(stdErr/mean, e.pool.stdErr/e.pool.rate)
	}
	e.beliefs, e.y = make([]belief, n), make([]float64, n)
	for i := range all {
		e.beliefs[i] = all[i].belief(mean)
	}
	return e
}

// sum estimates the total of a figure of each list over all lists.
func (e *estimator) sum(of func(i int, k *list) float64) Estimate {
	for i, k := range e.lists {
		e.y[i] = of(i, k)
	}
	return e.fit.total(e.y)
}

// changes weighs each list by how often it is asked for. The error is that of the sample
// and that of the rates.
func (e *estimator) changes() Changes {
	mean := e.sum(func(i int, k *list) float64 { return e.beliefs[i].rate * k.lookups }).over(e.g.sums.lookups)
	stdErr := e.pool.stdErr
	if e.pool.rate > 0 {
		stdErr = e.rateErr * mean.Value
	}
	return Changes{
		PerHour:   Estimate{mean.Value * 3600, math.Hypot(mean.StdErr, stdErr) * 3600},
		Intervals: e.pool.intervals, Changes: e.pool.changes,
	}
}

// candidate computes the row of one ttl. Waits and requests are counted of each watched
// list; their sums stand for all lists.
func (e *estimator) candidate(c int) Candidate {
	lookups := e.g.sums.lookups
	row := Candidate{TTL: candidates[c].Seconds(), P99Age: e.p99(c)}
	waits := e.sum(func(_ int, k *list) float64 { return float64(k.cells[c].waits) }).over(lookups)
	row.HitRatio = Estimate{min(max(1-waits.Value, 0), 1), waits.StdErr}
	row.Upstream = e.sum(func(_ int, k *list) float64 { return float64(k.cells[c].fetches) }).over(e.g.seconds)
	row.MeanAge = e.sum(func(_ int, k *list) float64 { return k.cells[c].age }).over(lookups)
	row.RedisBytes = e.sum(func(_ int, k *list) float64 {
		switch {
		case e.now-k.cells[c].filled >= e.g.policy.lifetime(c):
			return 0 // it has expired
		case k.size == 0:
			return e.size + redisOverhead
		}
		return float64(k.size) + redisOverhead
	})
	if e.pool.intervals > 0 {
		outdated := e.outdated(c)
		row.Outdated = &outdated
	}
	return row
}

// outdated is the share of outdated answers. Its error is that of the sample, of each
// list's rate, of the rate that they are drawn towards, and of chance: the share that
// was really served depends on when the changes fell.
func (e *estimator) outdated(c int) Estimate {
	lookups := e.g.sums.lookups
	var variance, shift float64
	share := e.sum(func(i int, k *list) float64 {
		cell, b, weight := &k.cells[c], e.beliefs[i], 1/e.pi[i]
		mean := cell.outdated(k.lookups, b)
		off := weight * (cell.outdated(k.lookups, belief{b.rate * (1 + 1/math.Sqrt(b.shape)), b.shape}) - mean)
		variance += off*off + weight*cell.chance(k.lookups, b.rate)
		// The shorter the history, the more the rate follows that of the group.
		more := cell.outdated(k.lookups, belief{b.rate * math.Exp(priorChanges/b.shape*e.rateErr), b.shape})
		shift += weight * (more - mean)
		return mean
	}).over(lookups)
	if e.pool.rate == 0 { // nothing has changed yet: what one error more would do
		shift = e.sum(func(_ int, k *list) float64 {
			return k.cells[c].outdated(k.lookups, belief{e.pool.stdErr, priorChanges})
		}).Value
	}
	return Estimate{min(share.Value, 1), math.Sqrt(share.StdErr*share.StdErr + (variance+shift*shift)/(lookups*lookups))}
}

// p99 is the age that 99 % of the answers do not exceed.
func (e *estimator) p99(c int) float64 {
	var ages [ageBuckets]float64
	var total float64
	for b := range ages {
		ages[b] = e.g.sample.ages[c][b]/e.g.share() + e.g.hot.ages[c][b]
		total += ages[b]
	}
	below := 0.0
	for b, n := range ages {
		if n > 0 && below+n >= 0.99*total {
			part := (0.99*total - below) / n
			age := int64((float64(b) + part) / ageBuckets * float64(e.g.policy.maxAge(c)))
			return float64(min(age, e.now-e.g.first)) * 1e-9
		}
		below += n
	}
	return 0
}
