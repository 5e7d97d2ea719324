package redistier

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// clientMetrics are the series of every Redis call of the process.
type clientMetrics struct {
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
}

func newClientMetrics(reg prometheus.Registerer, state func() float64) (*clientMetrics, error) {
	m := &clientMetrics{
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
