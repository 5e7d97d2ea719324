package console

import (
	"math"
	"strconv"
	"time"
)

// Units of figures.
const (
	unitRate    = "rate"    // per second
	unitRatio   = "ratio"   // 0 to 1
	unitSeconds = "seconds" // a duration
	unitCount   = "count"   // how many now
	unitState   = "state"   // of a breaker: 0 closed, 1 half-open, 2 open
)

// chart is one picture over time with the table that says the same.
type chart struct {
	ID, Title, Help, Unit string
	Lines                 []column
}

// column is one line of a chart.
type column struct {
	ID, Label string
	value     func(span) float64
}

// point is the value of every column at one moment, over the chartSpan before it.
type point struct {
	at     time.Time
	values []number
}

// charts are all there are, in the order of the page.
func charts() []chart {
	list := []chart{
		{"traffic", "Traffic by cache outcome",
			"Look-ups per second. Stale after an error means that the legacy system is failing and callers get an older list.",
			unitRate, nil},
		{"hits", "Hit ratio", "Share of look-ups answered at once: hits, and stale lists that are refreshed in the background.", unitRatio, nil},
		{"age", "Age served", "How old the lists were that callers got, counted from the legacy system's answer.", unitSeconds, quantiles("age")},
		{"latency", "Legacy latency", "How long fetches from the legacy system took, mapping included.", unitSeconds, quantiles("fetch")},
		{"fetches", "Legacy fetches by result",
			"Fetches per second. Unavailable: the breaker or the limit of concurrent fetches kept them away.",
			unitRate, nil},
		{"breakers", "Breakers", "A low bar is closed, which is good; a half one half-open; a full one open.", unitState, breakers()},
		{"answers", "Answer time", "From a request's header to the answer's last byte.", unitSeconds, []column{
			quantile("answer.p50", "median", .5, "answer"), quantile("answer.p99", "99th percentile", .99, "answer")}},
		{"redis", "Redis calls by result",
			"Calls per second. Skipped: the breaker in front of Redis is open, and the gateway does without.",
			unitRate, nil},
		{"inflight", "In flight", "Requests being answered, and fetches from the legacy system under way.", unitCount, []column{
			{"inflight.public", "callers", func(s span) float64 { return s.gauge("inflight.public") }},
			{"inflight.upstream", "legacy", func(s span) float64 { return s.gauge("inflight.upstream") }}}},
		{"refusals", "Refused callers", "Requests per second that were over an account's rate, or whose key was not accepted.", unitRate, []column{
			rate("limited", "rate limited", "limited"), rate("refused", "not authenticated", "refused")}},
		{"rediscalls", "Redis call time", "How long calls of Redis took.", unitSeconds, []column{
			quantile("redis.p50", "median", .5, "redis"), quantile("redis.p99", "99th percentile", .99, "redis")}},
		{"records", "Drift and foreign records",
			"How many within ten seconds: changes in the shape of the legacy's records, records of another account, records the mapping refused.",
			unitCount, []column{
				increase("drift", "drift"), increase("foreign", "foreign"), increase("invalid", "refused by the mapping")}},
	}
	for _, outcome := range lookupOutcomes {
		list[0].Lines = append(list[0].Lines, rate("lookups."+outcome, outcomeLabels[outcome], perKind("lookups."+outcome)...))
	}
	for _, kind := range kinds {
		list[1].Lines = append(list[1].Lines, column{"hits." + kind, kind, func(s span) float64 { return s.hitRatio(kind) }})
	}
	for _, result := range fetchResults {
		list[4].Lines = append(list[4].Lines, rate("fetches."+result, fetchLabels[result], perKind("fetches."+result)...))
	}
	for _, result := range []string{"ok", "timeout", "error", "skipped"} {
		list[7].Lines = append(list[7].Lines, rate("redis."+result, result, "redis."+result))
	}
	return list
}

var outcomeLabels = map[string]string{
	"hit": "hit", "stale-revalidate": "stale, refreshing", "collapsed": "waited for another's fill",
	"miss": "miss", "stale-error": "stale after an error", "error": "error",
}

var fetchLabels = map[string]string{
	"ok": "ok", "timeout": "timeout", "unavailable": "unavailable",
	"upstream": "failed", "invalid": "invalid answer", "canceled": "caller left",
}

// columns are those of all charts.
func columns() []column {
	var list []column
	for _, c := range charts() {
		list = append(list, c.Lines...)
	}
	return list
}

func rate(id, label string, counters ...string) column {
	return column{id, label, func(s span) float64 { return s.rate(counters...) }}
}

// increase is over both kinds.
func increase(id, label string) column {
	return column{id, label, func(s span) float64 { return s.increase(perKind(id)...) }}
}

func quantile(id, label string, q float64, histograms ...string) column {
	return column{id, label, func(s span) float64 { return s.quantile(q, histograms...) }}
}

func quantiles(histogram string) []column {
	var list []column
	for _, kind := range kinds {
		name := histogram + "." + kind
		list = append(list, quantile(name+".p50", kind+", median", .5, name), quantile(name+".p99", kind+", 99th percentile", .99, name))
	}
	return list
}

func breakers() []column {
	var list []column
	for _, name := range []string{"buyer", "seller", "redis"} {
		list = append(list, column{"breaker." + name, name, func(s span) float64 { return s.gauge("breaker." + name) }})
	}
	return list
}

func perKind(name string) []string {
	var list []string
	for _, kind := range kinds {
		list = append(list, name+"."+kind)
	}
	return list
}

// hitRatio is what the recording rules call a hit: a list that was served
// without waiting for the legacy system, and not because that was failing.
func (s span) hitRatio(kinds ...string) float64 {
	hits, all := 0.0, 0.0
	for _, kind := range kinds {
		for _, outcome := range lookupOutcomes {
			n := s.increase("lookups." + outcome + "." + kind)
			all += n
			if outcome == "hit" || outcome == "stale-revalidate" {
				hits += n
			}
		}
	}
	return ratio(hits, all)
}

// point evaluates every column over the last chartSpan. The caller holds mu.
func (s *sampler) point() point {
	over := s.span(chartSpan)
	p := point{at: over.to.at, values: make([]number, len(s.columns))}
	for i, c := range s.columns {
		p.values[i] = number(c.value(over))
	}
	return p
}

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
