package ttllab

import (
	"math"
	"time"
)

// How often lists change. Each time a body is seen again its hash tells "changed" or "not
// changed" since the last time: several changes in between show as one. The rate is the maximum
// likelihood estimate for irregular intervals of Cho and Garcia-Molina, "Estimating Frequency
// of Change", ACM TOIT 3(3), 2003, 4.3, with their correction for few of them; each list gets
// its own, drawn towards the mean of its group while its intervals are few. It takes changes to
// come at random and independently of the look-ups; a change that was taken back is not seen,
// and lists that change many times per interval give no more than a lower bound. Re-checks make
// intervals that are shorter than the ttl.

const (
	// keptChanges per list are enough: the rate of one list is drawn towards that
	// of its group anyway, and the newest changes tell of today.
	keptChanges = 16
	// priorChanges is how strongly it is drawn there, in changes seen.
	priorChanges = 0.5
	// shortestInterval is how much later a body must be seen again to tell anything.
	shortestInterval = 100 * time.Millisecond

	slowest = 1e-10 // changes per second, one in 300 years
	fastest = 1e3
)

// history is what the intervals between two observations of a body have shown. Of those
// without a change only the sum matters to the likelihood, so the newest changes
// tell all.
type history struct {
	kept  [keptChanges]change
	count uint32 // of all changes ever; the newest is at count-1 modulo keptChanges
	since quiet  // the newest change
}

// quiet is intervals without a change.
type quiet struct {
	seconds   float64
	intervals uint32
}

// change is an interval in which the body changed, and those before it.
type change struct {
	seconds float64
	before  quiet
}

// add takes in an interval.
func (h *history) add(seconds float64, changed bool) {
	if !changed {
		h.since.seconds += seconds
		h.since.intervals++
		return
	}
	h.kept[h.count%keptChanges] = change{seconds, h.since}
	h.since = quiet{}
	h.count++
}

// changes returns those that are kept, in no order.
func (h *history) changes() []change { return h.kept[:min(h.count, keptChanges)] }

// empty tells that the body was never seen twice.
func (h *history) empty() bool { return h.count == 0 && h.since.intervals == 0 }

// quiet sums up the intervals without a change.
func (h *history) quiet() quiet {
	sum := h.since
	for _, c := range h.changes() {
		sum.seconds += c.before.seconds
		sum.intervals += c.before.intervals
	}
	return sum
}

// pooled is what the histories of many lists say of one rate for all.
type pooled struct {
	rate               float64 // changes per second
	stdErr             float64
	intervals, changes int
}

// pool estimates one rate from the histories of many lists. With Poisson changes the
// probability of a change within t seconds is 1-exp(-rate t); the rate of the
// greatest likelihood solves sum over changed t/(exp(rate t)-1) = sum over
// unchanged t. Half an unchanged interval of mean
// length is added: for even intervals that is exactly the correction
// -log((n-x+0.5)/(n+0.5)), which removes most of the bias of few intervals and keeps
// the rate finite where each saw a change.
func pool(all []history) pooled {
	var p pooled
	var unchanged, total float64
	var changed []change
	for i := range all {
		q := all[i].quiet()
		unchanged += q.seconds
		p.intervals += int(q.intervals)
		changed = append(changed, all[i].changes()...)
	}
	total = unchanged
	for _, c := range changed {
		total += c.seconds
	}
	p.changes = len(changed)
	p.intervals += p.changes
	if p.intervals == 0 || total == 0 {
		return p
	}
	if p.changes == 0 {
		p.stdErr = 1 / total // of a rate that would have shown one change
		return p
	}
	unchanged += 0.5 * total / float64(p.intervals)
	p.rate = solve(func(rate float64) float64 { return score(changed, rate) - unchanged })
	p.stdErr = 1 / math.Sqrt(information(changed, p.rate))
	return p
}

// rateOf is the rate of one list, drawn towards the group's by a gamma prior with
// that mean: without a history it is the group's, with a long one its own.
func (h *history) rateOf(group float64) float64 {
	if group <= 0 || h.empty() {
		return group
	}
	pull := h.quiet().seconds + priorChanges/group
	if h.count == 0 {
		return priorChanges / pull
	}
	return solve(func(rate float64) float64 { return score(h.changes(), rate) + priorChanges/rate - pull })
}

// meanRate is the mean of the lists' own rates. One rate for all histories together is too
// low where lists differ: the restless ones show no more than one change per interval. So the
// mean that each is drawn towards is moved to theirs, beginning with the pooled one
// (expectation maximisation for the mean of the gamma prior). stdErr is from how the lists
// differ.
func meanRate(all []history, pooled float64) (mean, stdErr float64) {
	const rounds = 6
	mean = pooled
	for range rounds {
		var sum, squares, n float64
		for i := range all {
			if !all[i].empty() {
				r := all[i].rateOf(mean)
				sum, squares, n = sum+r, squares+r*r, n+1
			}
		}
		if n > 0 {
			mean = sum / n
			stdErr = math.Sqrt(max(squares/n-mean*mean, 0) / n)
		}
	}
	return mean, stdErr
}

// score is the part of the likelihood's derivative that the changes make. It falls with
// the rate.
func score(changed []change, rate float64) float64 {
	var sum float64
	for _, c := range changed {
		sum += c.seconds / math.Expm1(rate*c.seconds)
	}
	return sum
}

// information is Fisher's, as observed: less the second derivative of the
// likelihood's logarithm.
func information(changed []change, rate float64) float64 {
	var sum float64
	for _, c := range changed {
		x := rate * c.seconds
		sum -= c.seconds * c.seconds / (math.Expm1(x) * math.Expm1(-x))
	}
	return sum
}

// solve finds where a falling function of the rate is zero, within a millionth.
func solve(f func(rate float64) float64) float64 {
	low, high := math.Log(slowest), math.Log(fastest)
	for high-low > 1e-6 {
		mid := (low + high) / 2
		if f(math.Exp(mid)) > 0 {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp((low + high) / 2)
}

// belief is what is believed of the rate of one list: it is spread like a gamma
// distribution. From a history without a change that is exact.
type belief struct {
	rate  float64 // mean, changes per second
	shape float64 // 1/shape is the square of the relative error
}

// belief is what the history of one list says beside the rate of its group.
func (h *history) belief(group float64) belief {
	rate := h.rateOf(group)
	return belief{rate, priorChanges + rate*rate*information(h.changes(), rate)}
}

// same is the chance that nothing has changed after so many seconds.
func (b belief) same(seconds float64) float64 {
	return math.Exp(-b.shape * math.Log1p(b.rate*seconds/b.shape))
}

// outdated is the share of outdated answers at ages spread evenly from low to high.
func (b belief) outdated(low, high float64) float64 { return 1 - b.meanSame(low, high) }

// meanSame is the mean of same over ages from low to high.
func (b belief) meanSame(low, high float64) float64 {
	per := b.rate / b.shape
	if per*(high-low)*max(b.shape, 1) < 1e-5 {
		return b.same((low + high) / 2)
	}
	power := 1 - b.shape
	if math.Abs(power) < 1e-6 {
		power = 1e-6
	}
	below := func(age float64) float64 { return math.Expm1(power * math.Log1p(per*age)) }
	return (below(high) - below(low)) / (per * power * (high - low))
}

// outdated is the expected number of outdated answers of one candidate's cache of one list.
func (c *cell) outdated(answers float64, b belief) float64 {
	if answers <= 0 || b.rate <= 0 || c.age <= 0 {
		return 0
	}
	part, low, high := c.spread(answers)
	return answers * part * b.outdated(low, high)
}

// spread is how the ages lie: a share of the answers evenly from low to high, the
// others at 0. Of the ages only number, sum and sum of squares are kept; standing in for
// them is the distribution with the same moments that a cache makes: ages spread evenly
// from 0 up, some answers of age 0 beside them, or spread evenly over a shorter stretch where
// the list is never asked for at once.
func (c *cell) spread(answers float64) (part, low, high float64) {
	mean, square := c.age/answers, c.ageSq/answers
	if part := 4 * mean * mean / (3 * square); part < 1 {
		return part, 0, 2 * mean / part
	}
	half := math.Sqrt(3 * max(square-mean*mean, 0))
	return 1, max(mean-half, 0), mean + half
}

// chance is the variance of the number of outdated answers at a known rate: when the
// changes fall within a list's time in the cache is left to chance, and all answers
// after one are outdated together.
func (c *cell) chance(answers, rate float64) float64 {
	if answers <= 0 || rate <= 0 || c.age <= 0 {
		return 0
	}
	part, _, high := c.spread(answers)
	fills := min(max(float64(c.fetches), 1), answers)
	each := answers * part / fills
	x := rate * high
	if x < 1e-6 {
		return answers * part * x / 2 // few and small: each by itself
	}
	mean := 1 + math.Expm1(-x)/x
	square := 1 - 2*(1/x+math.Expm1(-x)/(x*x))
	return fills * (each*each*max(square-mean*mean, 0) + each*mean)
}
