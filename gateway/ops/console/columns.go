package console

import (
	"math"
	"strconv"
)

// column is one line of a chart. charts.js says which chart draws it, and what it
// is called there.
type column struct {
	id    string
	value func(w windows) float64
}

// columns are all lines of all charts. Rates are per second.
func columns() []column {
	var list []column
	add := func(id string, value func(w windows) float64) { list = append(list, column{id, value}) }
	rate := func(id string, counters ...string) {
		add(id, func(w windows) float64 { return w.point.rate(counters...) })
	}
	quantiles := func(histogram string) {
		add(histogram+".p50", func(w windows) float64 { return w.minute.quantile(.5, histogram) })
		add(histogram+".p99", func(w windows) float64 { return w.minute.quantile(.99, histogram) })
	}
	for _, outcome := range lookupOutcomes {
		rate("lookups."+outcome, perKind("lookups."+outcome)...)
	}
	for _, result := range fetchResults {
		rate("fetches."+result, perKind("fetches."+result)...)
	}
	for _, result := range []string{"ok", "timeout", "error", "skipped"} {
		rate("redis."+result, "redis."+result)
	}
	for _, name := range []string{"answers.failed", "limited", "refused", "guesses"} {
		rate(name, name)
	}
	for _, name := range []string{"foreign", "invalid"} {
		rate(name, perKind(name)...)
	}
	for _, kind := range kinds {
		add("hits."+kind, func(w windows) float64 { return w.point.hitRatio(kind) })
	}
	for _, histogram := range append(append(perKind("age"), perKind("fetch")...), "answer", "redis") {
		quantiles(histogram)
	}
	for _, gauge := range append(perKind("breaker"), "breaker.redis", "inflight.public", "inflight.upstream") {
		add(gauge, func(w windows) float64 { return w.point.gauge(gauge) })
	}
	return list
}

// perKind names the reading of each kind of list.
func perKind(name string) []string {
	var list []string
	for _, kind := range kinds {
		list = append(list, name+"."+kind)
	}
	return list
}

// hitRatio is what the recording rules call a hit: a list that was served
// without waiting for the legacy system, and not because that was failing.
func (w window) hitRatio(kinds ...string) float64 {
	hits, all := 0.0, 0.0
	for _, kind := range kinds {
		for _, outcome := range lookupOutcomes {
			n := w.sum("lookups." + outcome + "." + kind)
			all += n
			if outcome == "hit" || outcome == "stale-revalidate" {
				hits += n
			}
		}
	}
	return ratio(hits, all)
}

// failedFetches leaves out those whose caller left.
func (w window) failedFetches() float64 {
	sum := 0.0
	for _, result := range fetchResults[1:5] {
		sum += w.sum(perKind("fetches." + result)...)
	}
	return sum
}

func (w window) failedRedis() float64 { return w.sum("redis.timeout", "redis.error") }

// number is written to JSON with five digits, which is more than a chart shows;
// what is not finite becomes null.
type number float64

// MarshalJSON never fails.
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 5, 64), nil
}
