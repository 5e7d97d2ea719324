package console

import (
	"strings"
)

const prefix = "inquiry_gateway_"

// kinds are the kinds of list, in the order in which they are shown.
var kinds = [...]string{"buyer", "seller"}

// lookupOutcomes are the ways in which a look-up ends, the best first.
var lookupOutcomes = [...]string{"hit", "stale-revalidate", "collapsed", "miss", "stale-error", "error"}

// fetchResults are the ways in which a fetch from the legacy system ends.
// canceled is left out of failures: the caller left.
var fetchResults = [...]string{"ok", "timeout", "unavailable", "upstream", "invalid", "canceled"}

// reading is one number that is followed over time: the sum over the series of
// a family whose labels match. A pattern is the value itself, "5*" for all that
// begin so, or "!ok" for all others; a label without a pattern matches anything.
type reading struct {
	name   string
	family string // without prefix
	labels map[string]string
}

// schema lists what is read at each sample.
type schema struct {
	counters, gauges, histograms []reading
	index                        map[string]int // name -> position in its list
	byFamily                     map[string]struct{}
}

func newSchema() *schema {
	s := &schema{gauges: gauges(), histograms: histograms(), index: map[string]int{}, byFamily: map[string]struct{}{}}
	s.counters = append(kindCounters(), processCounters()...)
	for _, list := range [][]reading{s.counters, s.gauges, s.histograms} {
		for i, r := range list {
			s.index[r.name] = i
			s.byFamily[prefix+r.family] = struct{}{}
		}
	}
	return s
}

// kindCounters are those of which there is one per kind of list.
func kindCounters() []reading {
	var list []reading
	add := func(name, family, kind string, labels ...string) {
		l := map[string]string{"kind": kind}
		for i := 0; i < len(labels); i += 2 {
			l[labels[i]] = labels[i+1]
		}
		list = append(list, reading{name + "." + kind, family, l})
	}
	for _, kind := range kinds {
		for _, outcome := range lookupOutcomes {
			add("lookups."+outcome, "cache_lookups_total", kind, "outcome", outcome)
		}
		for _, result := range fetchResults {
			add("fetches."+result, "upstream_requests_total", kind, "result", result)
		}
		add("retries", "upstream_retries_total", kind)
		add("foreign", "upstream_foreign_records_total", kind)
		add("drift", "upstream_drift_total", kind)
		add("invalid", "upstream_records_invalid_total", kind)
	}
	return list
}

func processCounters() []reading {
	var list []reading
	for _, result := range []string{"ok", "timeout", "error", "skipped", "canceled"} {
		list = append(list, reading{"redis." + result, "redis_operations_total", map[string]string{"result": result}})
	}
	for _, class := range []string{"2", "3", "4", "5"} {
		list = append(list, reading{"answers." + class, "http_requests_total", map[string]string{"code": class + "*"}})
	}
	return append(list,
		reading{"limited", "rate_limit_decisions_total", map[string]string{"result": "limited"}},
		reading{"refused", "auth_requests_total", map[string]string{"result": "!ok"}},
		reading{"keystore", "auth_requests_total", map[string]string{"result": "unavailable"}},
		reading{"panics", "http_panics_total", nil},
	)
}

func gauges() []reading {
	list := []reading{
		{"inflight.public", "http_requests_in_flight", nil},
		{"inflight.upstream", "upstream_in_flight", nil},
		{"breaker.redis", "redis_breaker_state", nil},
		{"fallback", "rate_limit_fallback", nil},
		{"reloaded", "config_last_reload_successful", nil},
	}
	for _, kind := range kinds {
		list = append(list, reading{"breaker." + kind, "upstream_breaker_state", map[string]string{"kind": kind}})
	}
	return list
}

func histograms() []reading {
	list := []reading{
		{"answer", "http_request_duration_seconds", nil},
		{"redis", "redis_operation_duration_seconds", nil},
	}
	for _, kind := range kinds {
		list = append(list,
			reading{"age." + kind, "cache_age_seconds", map[string]string{"kind": kind}},
			reading{"fetch." + kind, "upstream_request_duration_seconds", map[string]string{"kind": kind}})
	}
	return list
}

func (r reading) matches(labels map[string]string) bool {
	for name, pattern := range r.labels {
		if !matches(pattern, labels[name]) {
			return false
		}
	}
	return true
}

func matches(pattern, value string) bool {
	if not, ok := strings.CutPrefix(pattern, "!"); ok {
		return value != not
	}
	if begin, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(value, begin)
	}
	return value == pattern
}
