package console

import (
	"cmp"
	"math"
)

// tile is one large figure.
type tile struct {
	ID, Label, Value, Note string
	Level                  level
	Chart                  string // the chart that shows it over time
}

// level says how bad something is; it is shown as a word and a shape too.
type level string

const (
	levelGood level = "good"
	levelWarn level = "warning"
	levelBad  level = "bad"
)

// tiles are over the last minute.
func (s span) tiles() []tile {
	fetches := s.increase(perKind("fetches.ok")...) + s.failedFetches()
	return []tile{
		{
			ID: "requests", Label: "Look-ups", Chart: "traffic", Value: format(s.rate(allLookups()...), unitRate),
			Note: "answers 5xx: " + format(s.rate("answers.5"), unitRate), Level: worseIf(s.increase("answers.5") > 0, levelBad),
		},
		{
			ID: "hits", Label: "Hit ratio", Chart: "hits", Value: format(s.hitRatio(kinds[:]...), unitRatio),
			Note: perKindNote(s.hitRatio, unitRatio),
		},
		s.timeTile("age", "Age served", "age", perKind("age")...),
		{
			ID: "fetches", Label: "Legacy fetches", Chart: "fetches", Value: format(ratio(fetches, s.seconds()), unitRate),
			Note: "failed: " + format(ratio(s.failedFetches(), fetches), unitRatio), Level: worseIf(s.failedFetches() > 0, levelWarn),
		},
		s.timeTile("latency", "Legacy latency", "latency", perKind("fetch")...),
		s.breakerTile(),
		s.redisTile(),
		{
			ID: "inflight", Label: "In flight", Chart: "inflight", Value: format(s.gauge("inflight.public"), unitCount),
			Note: "to the legacy system: " + format(s.gauge("inflight.upstream"), unitCount),
		},
		{
			ID: "limited", Label: "Rate limited", Chart: "refusals", Value: format(s.rate("limited"), unitRate),
			Note: "not authenticated: " + format(s.rate("refused"), unitRate), Level: worseIf(s.increase("limited") > 0, levelWarn),
		},
		{
			ID: "records", Label: "Foreign and drift", Chart: "records",
			Value: format(s.increase(perKind("foreign")...), unitCount) + " / " + format(s.increase(perKind("drift")...), unitCount),
			Note:  "foreign records / changes in shape",
			Level: cmp.Or(worseIf(s.increase(perKind("foreign")...) > 0, levelBad), worseIf(s.increase(perKind("drift")...) > 0, levelWarn)),
		},
	}
}

// timeTile shows the median of histograms, and the 99th percentile beside it.
func (s span) timeTile(id, label, chart string, histograms ...string) tile {
	return tile{
		ID: id, Label: label, Chart: chart, Value: format(s.quantile(.5, histograms...), unitSeconds),
		Note: "99 of 100 below " + format(s.quantile(.99, histograms...), unitSeconds),
	}
}

func perKindNote(figure func(...string) float64, unit string) string {
	note := ""
	for i, kind := range kinds {
		if i > 0 {
			note += ", "
		}
		note += kind + " " + format(figure(kind), unit)
	}
	return note
}

func (s span) breakerTile() tile {
	t := tile{ID: "breaker", Label: "Legacy breakers", Value: "closed", Chart: "breakers"}
	for i, kind := range kinds {
		state := s.gauge("breaker." + kind)
		if i > 0 {
			t.Note += ", "
		}
		t.Note += kind + " " + stateName(state)
		switch {
		case state == 2:
			t.Value, t.Level = "open", levelBad
		case state == 1 && t.Level == "":
			t.Value, t.Level = "half-open", levelWarn
		case math.IsNaN(state) && t.Level == "":
			t.Value = unknown
		}
	}
	return t
}

func (s span) redisTile() tile {
	t := tile{ID: "redis", Label: "Redis", Value: "up", Chart: "redis",
		Note: "99 of 100 calls below " + format(s.quantile(.99, "redis"), unitSeconds)}
	switch state := s.gauge("breaker.redis"); {
	case math.IsNaN(state):
		t.Value, t.Note = "not used", "lists are kept in this process only"
	case state == 2:
		t.Value, t.Level, t.Note = "down", levelBad, "its breaker is open; calls skipped: "+format(s.rate("redis.skipped"), unitRate)
	case state == 1:
		t.Value, t.Level = "probing", levelWarn
	case s.failedRedis() > 0:
		t.Value, t.Level, t.Note = "failing", levelWarn, "failed calls: "+format(ratio(s.failedRedis(), s.seconds()), unitRate)
	}
	return t
}

func worseIf(bad bool, l level) level {
	if bad {
		return l
	}
	return ""
}

func allLookups() []string {
	var names []string
	for _, outcome := range lookupOutcomes {
		names = append(names, perKind("lookups."+outcome)...)
	}
	return names
}

// failedFetches leaves out those whose caller left.
func (s span) failedFetches(only ...string) float64 {
	sum := 0.0
	if len(only) == 0 {
		only = kinds[:]
	}
	for _, kind := range only {
		for _, result := range fetchResults[1:5] {
			sum += s.increase("fetches." + result + "." + kind)
		}
	}
	return sum
}

func (s span) failedRedis() float64 { return s.increase("redis.timeout", "redis.error") }
