package cache

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// redisMetrics are the series of every Redis call of the process.
type redisMetrics struct {
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
}

func newRedisMetrics(reg prometheus.Registerer, state func() float64) (*redisMetrics, error) {
	m := &redisMetrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "redis", Name: "operations_total",
			Help: "Calls of Redis by command and result; skipped: kept away by the breaker.",
		}, []string{"operation", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "redis", Name: "operation_duration_seconds",
			Help:    "Time that calls of Redis took.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25},
		}, []string{"operation"}),
	}
	breaker := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: "redis", Name: "breaker_state",
		Help: "Breaker in front of Redis: 0 closed, 1 half-open, 2 open; of a Cluster the worst of its masters'.",
	}, state)
	return m, errors.Join(reg.Register(m.operations), reg.Register(m.durations), reg.Register(breaker))
}

func (m *redisMetrics) skipped(operation string) {
	m.operations.WithLabelValues(operation, "skipped").Inc()
}

func (m *redisMetrics) done(operation string, err error, took time.Duration) {
	m.durations.WithLabelValues(operation).Observe(took.Seconds())
	m.operations.WithLabelValues(operation, resultLabel(err)).Inc()
}

func resultLabel(err error) string {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return "ok"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "error"
}
