package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/panics"
)

// newPanics counts the bugs of goroutines that would have ended the process.
func newPanics(reg prometheus.Registerer) *prometheus.CounterVec {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inquiry_gateway_panics_total",
		Help: "Panics outside of handlers, by where; each is a bug, and the request that it belonged to has failed.",
	}, []string{"where"})
	for _, where := range []string{"auth", "cache", "canary", "console", "recheck", "reload", "upstream"} {
		total.WithLabelValues(where)
	}
	reg.MustRegister(total)
	return total
}

// catcher catches the panics of a part of the program.
func (a *App) catcher(where string) *panics.Catcher {
	return panics.New(where, a.panics.WithLabelValues(where), a.opts.Logger)
}
