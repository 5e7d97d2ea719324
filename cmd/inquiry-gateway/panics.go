package main

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// newPanics counts the bugs of goroutines that would have ended the process.
func newPanics(reg prometheus.Registerer) *prometheus.CounterVec {
	panics := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inquiry_gateway_panics_total",
		Help: "Panics outside of handlers, by where; each is a bug, and the request that it belonged to has failed.",
	}, []string{"where"})
	for _, where := range []string{"auth", "cache", "canary", "console", "recheck", "reload", "upstream"} {
		panics.WithLabelValues(where)
	}
	reg.MustRegister(panics)
	return panics
}

// caught ends a panic of the calling goroutine, which must defer it: it is
// counted and logged. failed, where it is not nil, is called with what was thrown.
func (a *app) caught(where string, failed func(any)) {
	p := recover()
	if p == nil {
		return
	}
	a.panics.WithLabelValues(where).Inc()
	a.logger.Error("a goroutine panicked", "where", where, "panic", p, "stack", string(debug.Stack()))
	if failed != nil {
		failed(p)
	}
}
