package console

import "math"

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
		{ID: "requests", Label: "Look-ups", Value: format(s.rate(allLookups()...), unitRate), Note: "answers 5xx: " + format(s.rate("answers.5"), unitRate), Level: worseIf(s.increase("answers.5") > 0, levelBad), Chart: "traffic"},
		{ID: "hits", Label: "Hit ratio", Value: format(s.hitRatio(kinds[:]...), unitRatio), Note: perKindNote(s.hitRatio, unitRatio), Chart: "hits"},
		{ID: "age", Label: "Age served", Value: format(s.quantile(.5, perKind("age")...), unitSeconds), Note: "99 of 100 below " + format(s.quantile(.99, perKind("age")...), unitSeconds), Chart: "age"},
		{ID: "fetches", Label: "Legacy fetches", Value: format(ratio(fetches, s.seconds()), unitRate), Note: "failed: " + format(ratio(s.failedFetches(), fetches), unitRatio), Level: worseIf(s.failedFetches() > 0, levelWarn), Chart: "fetches"},
		{ID: "latency", Label: "Legacy latency", Value: format(s.quantile(.5, perKind("fetch")...), unitSeconds), Note: "99 of 100 below " + format(s.quantile(.99, perKind("fetch")...), unitSeconds), Chart: "latency"},
		s.breakerTile(),
		s.redisTile(),
		{ID: "inflight", Label: "In flight", Value: format(s.gauge("inflight.public"), unitCount), Note: "to the legacy system: " + format(s.gauge("inflight.upstream"), unitCount), Chart: "inflight"},
		{ID: "limited", Label: "Rate limited", Value: format(s.rate("limited"), unitRate), Note: "not authenticated: " + format(s.rate("refused"), unitRate), Chart: "refusals"},
		{ID: "records", Label: "Drift", Value: format(s.increase(perKind("drift")...), unitCount), Note: "foreign records: " + format(s.increase(perKind("foreign")...), unitCount), Level: worseIf(s.increase(perKind("foreign")...) > 0, levelBad), Chart: "records"},
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
