package redistier

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/series"
	"inquiry-gateway/internal/span"
)

// scope names the spans of this package. It is that of the cache, whose tier
// Redis is.
const scope = "inquiry-gateway/cache"

// passKey marks a context whose calls the breaker treats in another way.
type passKey struct{}

// pass says how the breaker treats a call; its values are bits.
type pass int

const (
	passProbe  pass = 1 << iota // let through while the breaker is half-open
	passQuiet                   // the prober's own: what it finds is no reason to wake it
	passNested                  // inside a call that is counted already
)

func passing(ctx context.Context, p pass) context.Context {
	return context.WithValue(ctx, passKey{}, p)
}

func passOf(ctx context.Context) pass {
	p, _ := ctx.Value(passKey{}).(pass)
	return p
}

// Probing lets the calls of a context try a node that is kept away.
func Probing(ctx context.Context) context.Context { return passing(ctx, passProbe) }

// call runs one call of the node through its breaker.
func (n *node) call(ctx context.Context, call func(context.Context) error) error {
	p := passOf(ctx)
	if p&passNested != 0 {
		return call(ctx)
	}
	err := errSkipped
	if p&passProbe != 0 || n.breaker.State() == gobreaker.StateClosed {
		_, broken := n.breaker.Execute(func() (struct{}, error) {
			// go-redis runs the hooks again for the greeting of a new connection.
			err = call(passing(ctx, passNested))
			return struct{}{}, err
		})
		if errors.Is(broken, gobreaker.ErrOpenState) || errors.Is(broken, gobreaker.ErrTooManyRequests) {
			err = errSkipped
		}
	}
	if p&passQuiet == 0 && isOutage(err) && !errors.Is(err, context.Canceled) {
		n.g.found()
	}
	return err
}

// measured runs one call of the client with its metrics and, where the request's
// trace is recorded, in a span. The span says which command, never with what.
func (g *guarded) measured(ctx context.Context, operation string, run func(context.Context) error) error {
	if passOf(ctx)&passNested != 0 {
		return run(ctx)
	}
	var s span.Span
	if parent := trace.SpanFromContext(ctx); parent.IsRecording() {
		ctx, s = span.New(parent.TracerProvider(), scope).Start(ctx, "redis "+operation, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(semconv.DBSystemNameRedis, semconv.DBOperationName(operation)))
		defer s.End()
	}
	start := time.Now()
	err := run(ctx)
	result := ResultOf(err)
	if result != resultOK {
		s.Fail(result)
	}
	g.metrics.operations.WithLabelValues(operation, result).Inc()
	if result == resultSkipped {
		return err
	}
	g.metrics.durations.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	if isDenied(err) {
		// The breaker is not for this: Redis is well, and nothing will change by
		// waiting. What is denied once is denied always.
		g.denied.Do(func() {
			g.log.Error("the user of Redis may not do what the gateway needs; the README has the ACL", "operation", operation, "err", err)
		})
	}
	return err
}

// measure is the hook of the client, protect that of each node.
type (
	measure struct{ g *guarded }
	protect struct{ n *node }
)

func (measure) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h measure) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.g.measured(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h measure) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.g.measured(ctx, "pipeline", func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (protect) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return orBroken(next(ctx, network, addr)) // no sentinel knows the master, for one
	}
}

func (h protect) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.n.call(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook marks each command of a pipeline that was kept away, because callers
// look at the commands' errors and not at that of the pipeline.
func (h protect) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := h.n.call(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
		if errors.Is(err, errSkipped) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// clientMetrics are the series of every Redis call of the process.
type clientMetrics struct {
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
}

func newClientMetrics(reg prometheus.Registerer, state func() float64) *clientMetrics {
	all := series.In(reg, "redis")
	all.GaugeFunc("breaker_state", "Breaker in front of Redis: 0 closed, 1 half-open, 2 open; of a Cluster the worst of its masters'.", state)
	return &clientMetrics{
		operations: all.Counters("operations_total", "Calls of Redis by command and result; skipped: kept away by the breaker.", "operation", "result"),
		durations: all.Histograms("operation_duration_seconds", "Time that calls of Redis took.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25}, "operation"),
	}
}
