package gateway

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/telemetry"
)

// metrics are the public listener's series. Labels are bounded: endpoints and
// outcomes are fixed words, codes are those of the error table.
type metrics struct {
	requests *prometheus.CounterVec   // endpoint, code, error
	duration *prometheus.HistogramVec // endpoint, cache
	inFlight prometheus.Gauge
	panics   prometheus.Counter

	logErrors     prometheus.Counter
	logSuppressed prometheus.Counter
}

// newMetrics makes the series. A Gateway of another configuration counts on in the same ones.
func newMetrics(reg prometheus.Registerer) *metrics {
	http, log := telemetry.Series(reg, "http"), telemetry.Series(reg, "log")
	return &metrics{
		requests: http.Counters("requests_total",
			"Requests on the public listener, by public error code; 499: the caller left.", "endpoint", "code", "error"),
		duration: http.NativeHistograms("request_duration_seconds",
			"Duration of requests, until the last byte was written; cache is the outcome.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}, "endpoint", "cache"),
		inFlight:  http.Gauge("requests_in_flight", "Requests in flight."),
		panics:    telemetry.Panics(reg).WithLabelValues("handler"),
		logErrors: log.Counter("errors_total", "Log records of requests that could not be written."),
		logSuppressed: log.Counter("suppressed_total",
			"Refused requests and failed connections without a log record."),
	}
}

// endpointSeries are one endpoint's metrics with their labels resolved, so that a
// request costs no look-up by label.
type endpointSeries struct {
	label    string
	metrics  *metrics
	ok       prometheus.Counter
	duration map[cache.Outcome]prometheus.Observer
}

// metricsFor resolves the labels of every outcome of a look-up, and of none.
func (m *metrics) metricsFor(name string) *endpointSeries {
	s := &endpointSeries{label: name, metrics: m, ok: m.requests.WithLabelValues(name, "200", ""), duration: map[cache.Outcome]prometheus.Observer{}}
	for _, o := range []cache.Outcome{cache.Hit, cache.Miss, cache.Collapsed, cache.StaleRevalidate, cache.StaleError, cache.Impossible} {
		s.duration[o] = m.duration.WithLabelValues(name, string(o))
	}
	s.duration[""] = m.duration.WithLabelValues(name, "none")
	return s
}

// observe counts one request that has ended.
func (s *endpointSeries) observe(req *request) {
	if req.status == http.StatusOK {
		s.ok.Inc()
	} else {
		s.metrics.requests.WithLabelValues(s.label, strconv.Itoa(req.status), req.problem).Inc()
	}
	s.duration[req.list.Outcome].Observe(req.duration.Seconds())
}
