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

// canaryChecks are what the canary callers find out, the worst to fail first.
var canaryChecks = [...]string{"cross_read", "access", "contract", "freshness", "keys"}

// canaryResults are the ways in which a check may end.
func canaryResults(check string) []string {
	if check == "cross_read" {
		return []string{"ok", "empty", "unavailable", "failed"}
	}
	return []string{"ok", "unavailable", "failed"}
}

// schema lists what is read at each sample. Gauges are values as they are, those
// of counters included; counters are what came since the first sample.
type schema struct {
	counters, gauges, histograms []reading
	index                        map[string]int     // name -> position in its list
	byFamily                     map[string]*places // full name -> its readings
}

// places are positions of the readings of one family.
type places struct{ counters, gauges, histograms []int }

func newSchema() *schema {
	s := &schema{gauges: gauges(), histograms: histograms(), index: map[string]int{}, byFamily: map[string]*places{}}
	s.counters = append(kindCounters(), processCounters()...)
	place := func(list []reading, of func(*places) *[]int) {
		for i, r := range list {
			s.index[r.name] = i
			family := prefix + r.family
			if s.byFamily[family] == nil {
				s.byFamily[family] = &places{}
			}
			at := of(s.byFamily[family])
			*at = append(*at, i)
		}
	}
	place(s.counters, func(p *places) *[]int { return &p.counters })
	place(s.gauges, func(p *places) *[]int { return &p.gauges })
	place(s.histograms, func(p *places) *[]int { return &p.histograms })
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
		add("rechecks", "cache_rechecks_total", kind)
		add("outdated", "cache_rechecks_total", kind, "result", "outdated")
		for _, check := range canaryChecks {
			add("canary."+check, "canary_checks_total", kind, "check", check, "result", "failed")
		}
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
		{"outdated.goal", "cache_goal_outdated_ratio", nil},
	}
	for _, kind := range kinds {
		of := map[string]string{"kind": kind}
		list = append(list,
			reading{"breaker." + kind, "upstream_breaker_state", of},
			reading{"rechecks.all." + kind, "cache_rechecks_total", of},
			reading{"rechecks.outdated." + kind, "cache_rechecks_total", map[string]string{"kind": kind, "result": "outdated"}},
			reading{"canary.round." + kind, "canary_last_round_timestamp_seconds", of})
		for _, check := range canaryChecks {
			for _, result := range canaryResults(check) {
				list = append(list, reading{canaryReading(kind, check, result), "canary_checks_total",
					map[string]string{"kind": kind, "check": check, "result": result}})
			}
		}
	}
	return list
}

func canaryReading(kind, check, result string) string {
	return "canary." + check + "." + result + "." + kind
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
