package console

import (
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

const prefix = "inquiry_gateway_"

// kinds are the kinds of list, in the order in which they are shown.
var kinds = [...]string{"buyer", "seller"}

// lookupOutcomes are the ways in which a look-up ends, the best first.
var lookupOutcomes = [...]string{"hit", "stale-revalidate", "collapsed", "miss", "stale-error", "error"}

// fetchResults are the ways in which a fetch from the legacy system ends. The
// last one is no failure: the caller left.
var fetchResults = [...]string{"ok", "timeout", "unavailable", "upstream", "invalid", "canceled"}

// errorCodes are the public error codes of answers 5xx, with their status.
var errorCodes = [...][2]string{
	{"upstream_error", "502"}, {"upstream_invalid_response", "502"}, {"upstream_unavailable", "503"},
	{"auth_unavailable", "503"}, {"upstream_timeout", "504"}, {"internal_error", "500"},
}

// canaryChecks are what the canary callers check, the worst to fail first, and
// canaryResults how a check ends.
var (
	canaryChecks  = [...]string{"cross_read", "access", "contract", "freshness", "keys"}
	canaryResults = [...]string{"ok", "empty", "unavailable", "failed"}
)

// reading is one number that is followed over time: the sum over the series of a
// family whose labels match. A pattern is the value itself, "5*" for all that
// begin so, "ok|no" for each of these, or "!ok" for all others; a label without a pattern matches anything.
type reading struct {
	name   string
	family string   // without prefix
	labels []string // label, pattern, label, pattern
}

// counter tells counters, which are read as increases, from gauges.
func (r reading) counter() bool { return strings.HasSuffix(r.family, "_total") }

// readings are all numbers that are followed, by position and by name.
type readings struct {
	list     []reading
	index    map[string]int
	byFamily map[string][]int // full name -> positions
}

// newReadings lists every series that a chart, a figure or a rule uses. A test
// compares the list with the series of a real gateway.
func newReadings() *readings {
	r := &readings{index: map[string]int{}, byFamily: map[string][]int{}}
	for _, kind := range kinds {
		r.addKind(kind)
	}
	for _, result := range []string{"ok", "timeout", "error", "skipped", "canceled"} {
		r.add("redis."+result, "redis_operations_total", "result", result)
	}
	for _, c := range errorCodes {
		r.add("errors."+c[0], "http_errors_total", "error", c[0])
	}
	r.add("answers", "http_requests_total")
	r.add("answers.failed", "http_requests_total", "code", "5*")
	r.add("limited", "rate_limit_decisions_total", "result", "limited")
	r.add("refused", "auth_requests_total", "result", "!ok")
	r.add("guesses", "auth_requests_total", "result", "limited")
	r.add("keystore", "auth_requests_total", "result", "unavailable")
	r.add("panics", "http_panics_total")
	r.add("panics.background", "panics_total")
	// Refreshes that give way are no trouble.
	r.add("ceiling", "ceiling_requests_total", "class", "!background", "result", "refused")
	r.add("purges", "cache_purges_total")
	r.add("hints", "cache_hints_total")
	r.add("reloads.ok", "config_reloads_total", "result", "ok")
	r.add("reloads.failed", "config_reloads_total", "result", "failed")
	r.add("inflight.public", "http_requests_in_flight")
	r.add("inflight.upstream", "upstream_in_flight")
	r.add("breaker.redis", "redis_breaker_state")
	r.add("fallback", "rate_limit_fallback")
	r.add("reloaded", "config_last_reload_successful")
	r.add("outdated.goal", "cache_goal_outdated_ratio")
	r.add("answer", "http_request_duration_seconds")
	r.add("redis", "redis_operation_duration_seconds")
	return r
}

// addKind adds the readings that there are for each kind of list.
func (r *readings) addKind(kind string) {
	add := func(name, family string, labels ...string) {
		r.add(name+"."+kind, family, append(labels, "kind", kind)...)
	}
	for _, outcome := range lookupOutcomes {
		add("lookups."+outcome, "cache_lookups_total", "outcome", outcome)
	}
	for _, result := range fetchResults {
		pattern := result
		if result == "ok" {
			pattern = "ok"
		}
		add("fetches."+result, "upstream_requests_total", "result", pattern)
	}
	for _, check := range canaryChecks {
		for _, result := range canaryResults {
			add("canary."+check+"."+result, "canary_checks_total", "check", check, "result", result)
		}
	}
	add("canary.round", "canary_last_round_timestamp_seconds")
	add("foreign", "upstream_foreign_records_total")
	add("invalid", "upstream_records_invalid_total")
	add("rechecks", "cache_rechecks_total")
	add("rechecked", "cache_rechecked_answers_total")
	add("outdated", "cache_rechecked_answers_total", "result", "outdated")
	add("breaker", "upstream_breaker_state")
	add("age", "cache_age_seconds")
	add("fetch", "upstream_request_duration_seconds")
}

// add follows one number. labels are label and pattern in turn.
func (r *readings) add(name, family string, labels ...string) {
	r.index[name] = len(r.list)
	r.byFamily[prefix+family] = append(r.byFamily[prefix+family], len(r.list))
	r.list = append(r.list, reading{name, family, labels})
}

// sums are the readings as gathered, by position. A value without a series is
// NaN.
type sums struct {
	values     []float64
	histograms []histogram
}

// read sums the gathered series up by reading.
func (r *readings) read(families []*dto.MetricFamily) sums {
	out := sums{make([]float64, len(r.list)), make([]histogram, len(r.list))}
	for i := range out.values {
		out.values[i] = math.NaN()
	}
	for _, family := range families {
		for _, i := range r.byFamily[family.GetName()] {
			for _, m := range family.GetMetric() {
				if r.list[i].matches(m.GetLabel()) {
					out.add(i, m)
				}
			}
		}
	}
	return out
}

// add takes one series of the i-th reading. A gauge or counter that has a series is a
// number from then on.
func (s sums) add(i int, m *dto.Metric) {
	if m.Histogram != nil {
		s.histograms[i].add(m.Histogram)
		return
	}
	if math.IsNaN(s.values[i]) {
		s.values[i] = 0
	}
	s.values[i] += m.GetCounter().GetValue() + m.GetGauge().GetValue() // one of them is there
}

// matches tells whether a series belongs to the reading. A label that the series
// does not have counts as empty.
func (r reading) matches(labels []*dto.LabelPair) bool {
	for i := 0; i < len(r.labels); i += 2 {
		value := ""
		for _, l := range labels {
			if l.GetName() == r.labels[i] {
				value = l.GetValue()
			}
		}
		if !matches(r.labels[i+1], value) {
			return false
		}
	}
	return true
}

// matches reads the patterns of a reading's labels.
func matches(pattern, value string) bool {
	if not, ok := strings.CutPrefix(pattern, "!"); ok {
		return value != not
	}
	if begin, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(value, begin)
	}
	return slices.Contains(strings.Split(pattern, "|"), value)
}
