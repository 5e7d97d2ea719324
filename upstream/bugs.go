package upstream

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// bugs turns a panic into the error of one request. A goroutine that nobody
// recovers would end the process.
type bugs struct {
	total prometheus.Counter
	log   *slog.Logger
}

// catch must be deferred itself.
func (b bugs) catch(err *error) {
	if p := recover(); p != nil {
		b.total.Inc()
		b.log.Error("a goroutine panicked", "where", subsystem, "panic", p, "stack", string(debug.Stack()))
		*err = &Error{Failure: FailureUpstream, Reason: "internal", Err: fmt.Errorf("panic: %v", p)}
	}
}
