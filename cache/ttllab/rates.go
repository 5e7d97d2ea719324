package ttllab

import (
	"math"
	"time"
)

const (
	// keptChanges per list are enough: the rate of one list is drawn towards that
	// of its kind anyway, and the newest changes tell of today.
	keptChanges = 16
	// priorChanges is how strongly it is drawn there, in changes seen.
	priorChanges = 0.5
	// shortestLook is how much later a body must be seen again to tell anything.
	shortestLook = 100 * time.Millisecond

	slowest = 1e-10 // changes per second, one in 300 years
	fastest = 1e3
)

// looks is what the intervals between two looks at a body have shown. Of those
// without a change only the sum matters to the likelihood, so the newest changes
// tell all.
type looks struct {
	kept  [keptChanges]change
	count uint32 // of all changes ever; the newest is at count-1 modulo keptChanges
	since stretch
}

// stretch is a row of looks that saw no change.
type stretch struct {
	seconds float64
	looks   uint32
}

// change is an interval in which the body changed, and the stretch before it.
type change struct {
	seconds float64
	before  stretch
}

// add takes in a look, so many seconds after the one before.
func (l *looks) add(seconds float64, changed bool) {
	if !changed {
		l.since.seconds += seconds
		l.since.looks++
		return
	}
	l.kept[l.count%keptChanges] = change{seconds, l.since}
	l.since = stretch{}
	l.count++
}

// all returns the changes that are kept, in no order.
func (l *looks) all() []change { return l.kept[:min(l.count, keptChanges)] }

// seen tells whether the body was ever seen twice.
func (l *looks) seen() bool { return l.count > 0 || l.since.looks > 0 }

// quiet sums up the looks without a change.
func (l *looks) quiet() stretch {
	sum := l.since
	for _, c := range l.all() {
		sum.seconds += c.before.seconds
		sum.looks += c.before.looks
	}
	return sum
}

// pooled is what all looks of a kind say together.
type pooled struct {
	rate           float64 // changes per second
	stdErr         float64
	looks, changes int
}

// pool estimates one rate from the looks of many lists. With Poisson changes the
// probability of "changed" after t seconds is 1-exp(-rate t); the rate of the
// greatest likelihood solves sum over changed t/(exp(rate t)-1) = sum over
// unchanged t (Cho and Garcia-Molina 2003, 4.3). Half an unchanged look of mean
// length is added: for looks at even intervals that is exactly their correction
// -log((n-x+0.5)/(n+0.5)), which removes most of the bias of few looks and keeps
// the rate finite where every look saw a change.
func pool(keys []looks) pooled {
	var p pooled
	var quiet, total float64
	var changed []change
	for i := range keys {
		q := keys[i].quiet()
		quiet += q.seconds
		p.looks += int(q.looks)
		changed = append(changed, keys[i].all()...)
	}
	total = quiet
	for _, c := range changed {
		total += c.seconds
	}
	p.changes = len(changed)
	p.looks += p.changes
	if p.looks == 0 || total == 0 {
		return p
	}
	if p.changes == 0 {
		p.stdErr = 1 / total // of a rate that would have shown one change
		return p
	}
	quiet += 0.5 * total / float64(p.looks)
	p.rate = solve(func(rate float64) float64 { return score(changed, rate) - quiet })
	p.stdErr = 1 / math.Sqrt(information(changed, p.rate))
	return p
}

// guess is what is believed of the rate of one list: it is spread like a gamma
// distribution. From looks without a change alone that is exact.
type guess struct {
	rate  float64 // mean, changes per second
	shape float64 // 1/shape is the square of the relative error
}

// guessOf is what the looks of one list say beside the rate of its kind.
func (l *looks) guessOf(kind float64) guess {
	rate := l.rateOf(kind)
	return guess{rate, priorChanges + rate*rate*information(l.all(), rate)}
}

// same is the chance that nothing has changed after so many seconds.
func (g guess) same(seconds float64) float64 {
	return math.Exp(-g.shape * math.Log1p(g.rate*seconds/g.shape))
}

// legendre are the points and weights that stand for an even distribution from -1 to
// 1: exact for polynomials up to the ninth degree.
var legendre = [...]struct{ at, weight float64 }{
	{-0.9061798459386640, 0.1184634425280945}, {-0.5384693101056831, 0.2393143352496832}, {0, 0.2844444444444444},
	{0.5384693101056831, 0.2393143352496832}, {0.9061798459386640, 0.1184634425280945},
}

// outdated is the mean, and the variance by the rate's error, of the share of
// outdated answers at ages spread evenly from low to high.
func (g guess) outdated(low, high float64) (mean, variance float64) {
	mid, half := (low+high)/2, (high-low)/2
	var same, square float64
	for i, p := range legendre {
		age := mid + half*p.at
		same += p.weight * g.same(age)
		square += p.weight * p.weight * g.same(2*age)
		for _, q := range legendre[i+1:] {
			square += 2 * p.weight * q.weight * g.same(age+mid+half*q.at)
		}
	}
	return 1 - g.meanSame(low, high), max(square-same*same, 0)
}

// meanSame is the mean of same over ages from low to high.
func (g guess) meanSame(low, high float64) float64 {
	per := g.rate / g.shape
	if per*(high-low)*max(g.shape, 1) < 1e-5 {
		return g.same((low + high) / 2)
	}
	power := 1 - g.shape
	if math.Abs(power) < 1e-6 {
		power = 1e-6
	}
	below := func(age float64) float64 { return math.Expm1(power * math.Log1p(per*age)) }
	return (below(high) - below(low)) / (per * power * (high - low))
}

// rateOf is the rate of one list, drawn towards its kind's by a gamma prior with
// that mean: with no looks it is the kind's, with many its own.
func (l *looks) rateOf(kind float64) float64 {
	quiet := l.quiet()
	if kind <= 0 || !l.seen() {
		return kind
	}
	pull := quiet.seconds + priorChanges/kind
	if l.count == 0 {
		return priorChanges / pull
	}
	return solve(func(rate float64) float64 { return score(l.all(), rate) + priorChanges/rate - pull })
}

// typical is the mean rate of the lists of a kind. Lists differ in how often they
// change, and then one rate for all looks together is too low: the restless ones
// show no more than one change per look. So each key is given its own, and the
// mean that they are drawn to is moved to theirs (expectation maximisation for
// the mean of the gamma prior).
//
// stdErr is that of the mean, from how the keys differ.
func typical(keys []looks, kind float64) (mean, stdErr float64) {
	const rounds = 6
	for range rounds {
		var sum, squares, n float64
		for i := range keys {
			if keys[i].seen() {
				r := keys[i].rateOf(kind)
				sum, squares, n = sum+r, squares+r*r, n+1
			}
		}
		if n > 0 {
			kind = sum / n
			stdErr = math.Sqrt(max(squares/n-kind*kind, 0) / n)
		}
	}
	return kind, stdErr
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

// outdated is the expected number of outdated answers of one candidate's cache
// of one list, and the variance of it by the rate's error. An answer of age a is
// outdated with probability 1-exp(-rate a).
// Of the ages only number, sum and sum of squares are kept. Standing in for them
// is the distribution with the same two moments that a cache makes: ages spread
// evenly from 0 up, some answers of age 0 beside them, or spread evenly over a
// shorter stretch where the key is never asked for at once.
func (c *cell) outdated(answers float64, g guess) (mean, variance float64) {
	if answers <= 0 || g.rate <= 0 || c.age <= 0 {
		return 0, 0
	}
	part, low, high := c.spread(answers)
	mean, variance = g.outdated(low, high)
	n := answers * part
	return n * mean, n * n * variance
}

// spread is how the ages lie: a share of the answers evenly from low to high, the
// others at 0.
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
