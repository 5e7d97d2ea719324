package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/cache"
)

// metrics are the public listener's series. Labels are bounded: endpoints and
// outcomes are fixed words, codes are those of the error table.
type metrics struct {
	requests *prometheus.CounterVec   // endpoint, code
	errors   *prometheus.CounterVec   // endpoint, error
	duration *prometheus.HistogramVec // endpoint, cache
	inFlight prometheus.Gauge
	panics   prometheus.Counter

	laneAnswers prometheus.Counter

	logErrors     prometheus.Counter
	logSuppressed prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	const prefix = "inquiry_gateway_"
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels))
	}
	counter := func(name, help string) prometheus.Counter {
		return register(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help}))
	}
	return &metrics{
		requests: counters("http_requests_total",
			"Requests answered on the public listener, by endpoint and HTTP status code; 499 is a caller that left.", "endpoint", "code"),
		errors: counters("http_errors_total", "Error answers by endpoint and public error code.", "endpoint", "error"),
		duration: register(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            prefix + "http_request_duration_seconds",
			Help:                            "Time from the request's header to the answer's last byte handed to the connection, by endpoint and cache outcome.",
			Buckets:                         []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"endpoint", "cache"})),
		inFlight: register(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "http_requests_in_flight", Help: "Requests being answered now."})),
		panics:   counter("http_panics_total", "Handlers that panicked; each is a bug."),
		laneAnswers: counter("http_hit_lane_answers_total",
			"Fresh hits that were answered before net/http saw the request; they are among http_requests_total too."),
		logErrors: counter("log_errors_total", "Log records of requests that could not be written."),
		logSuppressed: counter("log_suppressed_total",
			"Requests that were not authenticated and have no log records of their own; a summary has counted them."),
	}
}

// register gives the series that counts. If one of this name is registered already,
// by a Gateway made before from another version of the configuration, it is that one.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	err := reg.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err)
	}
	return c
}

// series are one endpoint's metrics with their labels resolved, so that a
// request costs no look-up by label.
type series struct {
	endpoint string
	metrics  *metrics
	ok       prometheus.Counter
	duration map[cache.Outcome]prometheus.Observer
}

// endpoint resolves the labels of every outcome of a look-up, and of none.
func (m *metrics) endpoint(name string) *series {
	s := &series{endpoint: name, metrics: m, ok: m.requests.WithLabelValues(name, "200"), duration: map[cache.Outcome]prometheus.Observer{}}
	for _, o := range []cache.Outcome{cache.Hit, cache.Miss, cache.Collapsed, cache.StaleRevalidate, cache.StaleError, cache.Impossible} {
		s.duration[o] = m.duration.WithLabelValues(name, string(o))
	}
	s.duration[""] = m.duration.WithLabelValues(name, "none")
	return s
}

// observe counts one exchange that has ended.
func (s *series) observe(x *exchange) {
	if x.Status == http.StatusOK {
		s.ok.Inc()
	} else {
		s.metrics.requests.WithLabelValues(s.endpoint, strconv.Itoa(x.Status)).Inc()
	}
	if x.problem != "" {
		s.metrics.errors.WithLabelValues(s.endpoint, x.problem).Inc()
	}
	s.duration[x.list.Outcome].Observe(x.duration.Seconds())
}
