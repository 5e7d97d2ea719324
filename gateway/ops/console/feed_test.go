package console

import (
	"cmp"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// feed is a registry with the gateway's families, fed by hand. That the families
// are those of the real parts is what TestFamiliesExist holds.
type feed struct {
	registry *prometheus.Registry
	counters map[string]*prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	buckets  map[string]*prometheus.HistogramVec
}

func newFeed() *feed {
	f := &feed{prometheus.NewRegistry(), map[string]*prometheus.CounterVec{}, map[string]*prometheus.GaugeVec{}, map[string]*prometheus.HistogramVec{}}
	for name, labels := range map[string][]string{
		"cache_lookups_total": {"kind", "outcome", "tier"}, "upstream_requests_total": {"kind", "result"}, "upstream_retries_total": {"kind", "reason"},
		"upstream_foreign_records_total": {"kind"}, "upstream_records_invalid_total": {"kind", "field"},
		"redis_operations_total": {"operation", "result"}, "http_requests_total": {"endpoint", "code"}, "rate_limit_decisions_total": {"result", "by"},
		"auth_requests_total": {"result"}, "http_panics_total": nil, "panics_total": {"where"}, "http_errors_total": {"endpoint", "error"},
		"ceiling_requests_total": {"class", "result"}, "cache_purges_total": nil, "config_reloads_total": {"result"},
		"canary_checks_total": {"kind", "check", "result"}, "cache_rechecks_total": {"kind", "result"}, "cache_rechecked_answers_total": {"kind", "result"},
	} {
		f.counters[name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: "Fed by a test."}, labels)
		f.registry.MustRegister(f.counters[name])
	}
	for name, labels := range map[string][]string{
		"http_requests_in_flight": nil, "upstream_in_flight": nil, "upstream_breaker_state": {"kind"}, "redis_breaker_state": nil,
		"rate_limit_fallback": nil, "config_last_reload_successful": nil,
		"canary_last_round_timestamp_seconds": {"kind"}, "cache_goal_outdated_ratio": nil,
	} {
		f.gauges[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: "Fed by a test."}, labels)
		f.registry.MustRegister(f.gauges[name])
	}
	for name, labels := range map[string][]string{
		"http_request_duration_seconds": {"endpoint", "cache"}, "redis_operation_duration_seconds": {"operation"},
		"cache_age_seconds": {"kind"}, "upstream_request_duration_seconds": {"kind"},
	} {
		f.buckets[name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + name, Help: "Fed by a test.", Buckets: prometheus.ExponentialBuckets(.001, 2, 18), NativeHistogramBucketFactor: 1.1,
		}, labels)
		f.registry.MustRegister(f.buckets[name])
	}
	f.gauge("config_last_reload_successful", 1)
	return f
}

func (f *feed) count(name string, n int, labels ...string) {
	f.counters[name].WithLabelValues(labels...).Add(float64(n))
}

func (f *feed) gauge(name string, value float64, labels ...string) {
	f.gauges[name].WithLabelValues(labels...).Set(value)
}

func (f *feed) observe(name string, value float64, labels ...string) {
	f.buckets[name].WithLabelValues(labels...).Observe(value)
}

// step is what a busy gateway counts between two samples; in the middle of the
// hour the legacy system is away for a while.
func (f *feed) step(n int) {
	wave := 1 + .4*math.Sin(float64(n)/90)
	down := n > 420 && n < 600
	for _, kind := range kinds {
		rate := map[string]float64{"buyer": 180, "seller": 60}[kind] * wave
		f.count("cache_lookups_total", int(rate*.9), kind, "hit", "local")
		f.count("cache_lookups_total", int(rate*.03), kind, "stale-revalidate", "local")
		f.count("cache_lookups_total", int(rate*.01), kind, "collapsed", "")
		f.observe("cache_age_seconds", 1+float64(n%13), kind)
		f.observe("cache_age_seconds", 20+float64(n%31), kind)
		f.count("upstream_requests_total", 0, kind, "canceled")
		f.gauge("upstream_breaker_state", 0, kind)
		if down && kind == "buyer" {
			f.count("cache_lookups_total", int(rate*.05), kind, "stale-error", "local")
			f.count("cache_lookups_total", 1, kind, "error", "")
			f.count("upstream_requests_total", 4, kind, "unavailable")
			f.count("upstream_requests_total", 1+n%3, kind, "upstream")
			f.observe("upstream_request_duration_seconds", .9+float64(n%7)/5, kind)
			f.gauge("upstream_breaker_state", []float64{2, 2, 2, 2, 1}[n%25/5], kind)
			continue
		}
		f.count("cache_lookups_total", int(rate*.06), kind, "miss", "")
		f.count("upstream_requests_total", int(rate*.09), kind, "ok")
		for i := range 10 {
			f.observe("upstream_request_duration_seconds", .015+float64((n+i*7)%11)/400, kind)
		}
	}
	f.process(n, wave)
	f.rounds(n)
}

// rounds counts one of the canary each minute. The lists of sellers cannot be had
// in the end, and one round of buyers fails.
func (f *feed) rounds(n int) {
	f.gauge("cache_goal_outdated_ratio", .02)
	for _, kind := range kinds {
		f.count("cache_rechecks_total", 1, kind, "same")
		f.count("cache_rechecks_total", max(0, n%20-18), kind, "outdated")
		f.count("cache_rechecked_answers_total", 10, kind, "same")
		f.count("cache_rechecked_answers_total", 10*max(0, n%20-18), kind, "outdated")
		if n%30 > 0 {
			continue
		}
		for _, check := range canaryChecks {
			result := "ok"
			switch {
			case kind == "seller" && n > 1600:
				result = "unavailable"
			case kind == "buyer" && check == "freshness" && n == 1620:
				result = "failed"
			}
			f.count("canary_checks_total", 1, kind, check, result)
		}
		f.gauge("canary_last_round_timestamp_seconds", float64(time.Date(2026, 11, 21, 3, 0, 2*n, 0, time.UTC).Unix()), kind)
	}
}

func (f *feed) process(n int, wave float64) {
	f.count("http_requests_total", int(240*wave), "buyer_inquiries", "200")
	f.count("http_requests_total", 2, "seller_inquiries", "404")
	f.count("auth_requests_total", int(240*wave), "ok")
	f.count("rate_limit_decisions_total", int(240*wave), "allowed", "fleet")
	f.count("rate_limit_decisions_total", max(0, n%120-110), "limited", "fleet")
	f.count("auth_requests_total", n%2, "unknown")
	f.count("redis_operations_total", int(30*wave), "get", "ok")
	f.count("redis_operations_total", int(12*wave), "set", "ok")
	f.observe("redis_operation_duration_seconds", .0006, "get")
	f.observe("http_request_duration_seconds", .0011+float64(n%5)/8000, "buyer_inquiries", "hit")
	f.observe("http_request_duration_seconds", .03, "buyer_inquiries", "miss")
	f.gauge("http_requests_in_flight", float64(2+n%6))
	f.gauge("upstream_in_flight", float64(n%3))
	f.gauge("redis_breaker_state", 0)
	switch n {
	case 300:
		f.count("config_reloads_total", 1, "ok")
	case 1000:
		f.count("cache_purges_total", 1)
	}
}

// options complete those of a console that shows a feed.
func (f *feed) options(opts Options) Options {
	opts.Gatherer = f.registry
	opts.TopAccounts = cmp.Or(opts.TopAccounts, NewTopAccounts(4))
	if opts.CanLogout == nil {
		opts.CanLogout = func() bool { return false }
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Canary = func(string, string) []string { return nil }
	return opts
}

// clock is a Now that a test moves.
type clock struct{ offset time.Duration }

func (c *clock) now() time.Time { return time.Now().Add(c.offset) }

// fillHistory lets the console sample an hour of the feed's steps, or one of so many
// of them.
func fillHistory(c *Console, f *feed, clock *clock, every int) {
	for n := 0; n < maxSamples; n += every {
		clock.offset = -kept + time.Duration(n)*sampleEvery
		f.step(n)
		c.sampler.take()
	}
	clock.offset = 0
}
