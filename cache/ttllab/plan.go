package ttllab

import (
	"math"
	"slices"
)

// demand is a list as the plan sees it. Rates are per second.
//
// A list is fetched on demand: it is fresh for its TTL, and the first look-up after that
// fetches it. With look-ups at random that is one fetch in each TTL plus the mean time
// between two look-ups. A crawler's plan (Cho and Garcia-Molina, "Effective Page Refresh
// Policies for Web Crawlers", ACM TODS 28(4), 2003; weighted by requests: Azar, Horvitz,
// Lubetzky, Peres, Shahaf, "Tractable near-optimal policies for crawling", PNAS 115(32),
// 2018) chooses rates of fetching; here a TTL is chosen, and the answers that waited for
// the fetch are never outdated.
type demand struct {
	id     uint64  // of the list in its group
	group  int     // index of the kind
	asked  float64 // look-ups
	change float64 // changes
	looked bool    // whether anybody has looked for changes
	others float64 // lists beside itself that it stands for; they have the TTL of the rest
	age    float64 // seconds since the real cache has filled it; negative: it has not
}

// fetches is the mean rate of requests to the legacy at a TTL.
func (d *demand) fetches(ttl float64) float64 { return d.asked / (1 + d.asked*ttl) }

// soon is how many requests to the legacy are expected within the next seconds, by the
// age that the list has.
func (d *demand) soon(ttl, seconds float64) float64 {
	if d.age >= 0 {
		seconds -= max(ttl-d.age, 0)
	}
	switch {
	case seconds <= 0:
		return 0
	case seconds < ttl:
		return -math.Expm1(-d.asked * seconds)
	}
	return -math.Expm1(-d.asked*ttl) + (seconds-ttl)*d.fetches(ttl)
}

// outdated is the mean rate of outdated answers. swr is how long after its TTL a list is
// served while it is refreshed: to one look-up, the first.
func (d *demand) outdated(ttl, swr float64) float64 {
	first := -math.Expm1(-d.asked*swr) - math.Exp(-d.change*ttl)*d.unchanged(swr)
	return (d.asked*d.excess(ttl) + first) * d.fetches(ttl)
}

// excess is the time within a TTL for which the list is outdated, in the mean.
func (d *demand) excess(ttl float64) float64 {
	x := d.change * ttl
	if x < 1e-4 {
		return ttl * x / 2
	}
	return ttl + math.Expm1(-x)/d.change
}

// unchanged is the chance that a look-up comes within swr and before a change.
func (d *demand) unchanged(swr float64) float64 {
	return -d.asked / (d.asked + d.change) * math.Expm1(-(d.asked+d.change)*swr)
}

// worth is how many outdated answers the last fetch saves that a TTL makes: the ratio of
// what both rates change by when the TTL changes. It rises with the TTL, up to a bound: to
// fetch a list that changes much more often than it is looked up is never worth it.
func (d *demand) worth(ttl, swr float64) float64 {
	cycle := 1 + d.asked*ttl
	w := -math.Expm1(-d.change*ttl)*cycle - d.asked*d.excess(ttl)
	if swr > 0 {
		w += math.Exp(-d.change*ttl)*d.unchanged(swr)*(1+d.change*cycle/d.asked) + math.Expm1(-d.asked*swr)
	}
	return w
}

// steps is how many TTLs the worth of a list is computed for; between them it is taken to
// run straight.
const steps = 24

// row is the worth of a list at the TTLs of the planner's grid.
type row [steps]float64

// planner finds the TTLs for all groups together. The sum of the outdated answers is least
// for its load where the last fetch of each list is worth the same, a price (Lagrange's
// multiplier); lists for which none is worth that get the longest TTL.
type planner struct {
	lists     []demand
	typical   []demand  // by group: a list of which nothing is known
	swr       []float64 // by group
	low, high float64   // of each TTL, jitter taken off
	horizon   float64   // seconds until the next plan

	grid  row
	rows  []row // by list, then of the rest of each group
	price float64
	ttl   []float64 // by list: what a price makes of it
	rest  []float64 // by group: of the lists that have none of their own
}

// prepare computes what does not depend on the price.
func (p *planner) prepare() {
	for j := range p.grid {
		p.grid[j] = p.low * math.Pow(p.high/p.low, float64(j)/(steps-1))
	}
	groups := len(p.typical)
	n := len(p.lists)
	p.rows = slices.Grow(p.rows[:0], n+groups)[:n+groups]
	p.ttl, p.rest = slices.Grow(p.ttl[:0], n)[:n], make([]float64, groups)
	saved, spent := make([]row, groups), make([]row, groups)
	add := func(d *demand, g int, others float64, r *row) {
		for j, ttl := range p.grid {
			worth, f := d.worth(ttl, p.swr[g]), d.fetches(ttl)
			if r[j] = worth; others > 0 {
				saved[g][j] += others * f * f * worth
				spent[g][j] += others * f * f
			}
		}
	}
	for i := range p.lists {
		add(&p.lists[i], p.lists[i].group, p.lists[i].others, &p.rows[i])
	}
	for g := range groups {
		add(&p.typical[g], g, 1e-6, &p.rows[n+g]) // decides where there are no others
		for j := range p.grid {
			p.rows[n+g][j] = saved[g][j] / spent[g][j]
		}
	}
}

// at sets the TTLs of a price.
func (p *planner) at(price float64) {
	p.price = price
	for i := range p.lists {
		p.ttl[i] = p.reach(&p.rows[i], price)
	}
	for g := range p.rest {
		p.rest[g] = p.reach(&p.rows[len(p.lists)+g], price)
	}
}

// reach is the TTL at which the worth is the price.
func (p *planner) reach(r *row, price float64) float64 {
	j := 0
	for ; j < steps && r[j] < price; j++ {
	}
	switch j {
	case 0:
		return p.low
	case steps:
		return p.high
	}
	return p.grid[j-1] + (p.grid[j]-p.grid[j-1])*(price-r[j-1])/(r[j]-r[j-1])
}

// load is the rate of requests to the legacy: in the mean, and until the next plan.
func (p *planner) load() (mean, soon float64) {
	for i := range p.lists {
		d := &p.lists[i]
		others := d.others * d.fetches(p.rest[d.group])
		mean += d.fetches(p.ttl[i]) + others
		soon += d.soon(p.ttl[i], p.horizon)/p.horizon + others
	}
	return mean, soon
}

// cost is what TTLs make of the legacy and of the answers, per second.
type cost struct {
	load     float64 // requests
	outdated float64 // answers
	waits    float64 // answers
	answers  float64
}

// add takes in n lists like d at a TTL.
func (c *cost) add(d *demand, n, ttl, swr float64) {
	load := n * d.fetches(ttl)
	c.load += load
	c.outdated += n * d.outdated(ttl, swr)
	c.waits += load * math.Exp(-d.asked*swr)
	c.answers += n * d.asked
}

// cost is that of the TTLs that are set, of one group or, with -1, of all.
func (p *planner) cost(group int) (c cost) {
	for i := range p.lists {
		d := &p.lists[i]
		if group >= 0 && group != d.group {
			continue
		}
		if c.add(d, 1, p.ttl[i], p.swr[d.group]); d.others > 0 {
			c.add(d, d.others, p.rest[d.group], p.swr[d.group])
		}
	}
	return c
}

const (
	cheapest = 1e-9 // prices: all lists have the floor, or the ceiling
	dearest  = 1e9
)

// solve sets the TTLs of the least price that is high enough, from the last one on.
func (p *planner) solve(enough func() bool) {
	good := func(price float64) bool { p.at(price); return enough() }
	high, factor := min(max(p.price, cheapest), dearest), 1.2
	low := high
	if good(high) {
		for low /= factor; low > cheapest && good(low); low /= factor {
			high, factor = low, factor*factor
		}
	} else {
		for high *= factor; high < dearest && !good(high); high *= factor {
			low, factor = high, factor*factor
		}
	}
	for high > 1.02*low && low > cheapest && high < dearest {
		if mid := math.Sqrt(low * high); good(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	p.at(min(high, dearest))
}
