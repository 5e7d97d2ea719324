package telemetry

import (
	"log/slog"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Catcher catches the panics of one part of the program. It is safe for
// concurrent use.
type Catcher struct {
	where string
	total prometheus.Counter
	log   *slog.Logger
}

// Panics counts panics by the part where they happened.
func Panics(reg prometheus.Registerer) *prometheus.CounterVec {
	return Series(reg, "").Counters("panics_total", "Panics; each is a bug, and its request has failed.", "where")
}

// NewCatcher makes the catcher of a part, which the log names. A nil total counts
// nothing.
func NewCatcher(where string, total prometheus.Counter, log *slog.Logger) *Catcher {
	return &Catcher{where, total, log}
}

// Catch ends a panic of the calling goroutine, which must defer it itself: each
// is a bug, so it is counted and logged. Without a panic it does nothing. failed,
// where it is not nil, is called with what was thrown.
func (c *Catcher) Catch(failed func(thrown any)) {
	p := recover()
	if p == nil {
		return
	}
	if c.total != nil {
		c.total.Inc()
	}
	c.log.Error("a goroutine panicked", "where", c.where, "panic", p, "stack", string(debug.Stack()))
	if failed != nil {
		failed(p)
	}
}
