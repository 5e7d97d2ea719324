package redisclient

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/breaker"
	"inquiry-gateway/internal/telemetry"
)

const (
	breakerWindow = 10 * time.Second
	breakerCalls  = 5 // at least, before the ratio counts
	breakerRatio  = 0.5
	breakerOpen   = 200 * time.Millisecond // then one call is let through as a probe
	// inUse is how long after its last call a server counts for [Client.Down]: one that has left a
	// Cluster, or lost its slots, gets no more calls.
	inUse = time.Second
)

var errSkipped = errors.New("redis is skipped: its breaker is open")

// server is the circuit breaker in front of one Redis server.
type server struct {
	timeout time.Duration // of a call
	breaker *gobreaker.CircuitBreaker[struct{}]
	called  atomic.Int64 // Unix ns
}

// addServer puts a breaker in front of a server.
func (c *Client) addServer(client *redis.Client) {
	judge := func(err error) (well, counts bool) { return !isUnavailable(err), !errors.Is(err, context.Canceled) }
	opens := breaker.Config{Window: breakerWindow, Least: breakerCalls, Ratio: breakerRatio, OpenFor: breakerOpen}
	s := &server{timeout: c.timeout, breaker: breaker.New[struct{}](opens, judge, func(from, to gobreaker.State) {
		if from == gobreaker.StateClosed || to == gobreaker.StateClosed { // the probes between are no news
			c.log.Warn("the breaker of Redis changed", "node", client.Options().Addr, "from", from.String(), "to", to.String())
		}
	})}
	client.AddHook(callHook{s.protected})
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := func(p weak.Pointer[server]) bool { return p.Value() == nil }
	c.servers = append(slices.DeleteFunc(c.servers, gone), weak.Make(s))
}

// worstState is the state of the worst breaker of all servers in use.
func (c *Client) worstState() gobreaker.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	worst := gobreaker.StateClosed
	for _, p := range c.servers {
		if s := p.Value(); s != nil && time.Since(time.Unix(0, s.called.Load())) < inUse {
			worst = max(worst, s.breaker.State())
		}
	}
	return worst
}

// Down tells whether the breaker of a server in use is not closed.
func (c *Client) Down() bool { return c.worstState() != gobreaker.StateClosed }

// protected runs one call through the breaker. A timeout counts only where the call had
// about as much time as redis.timeout gives it, not where its caller's deadline was shorter.
func (s *server) protected(ctx context.Context, _ string, call func(context.Context) error) error {
	s.called.Store(time.Now().UnixNano())
	err := errSkipped // unless the breaker runs the call
	deadline, bounded := ctx.Deadline()
	short := bounded && time.Until(deadline) < s.timeout*9/10
	_, _ = s.breaker.Execute(func() (struct{}, error) {
		if err = call(context.WithValue(ctx, insideKey{}, true)); short && ResultOf(err) == "timeout" {
			return struct{}{}, context.Canceled
		}
		return struct{}{}, err
	})
	return err
}

// measured counts one call of the client and, if the request's trace is recorded, adds a span. The
// span has the command's name, never its arguments.
func (c *Client) measured(ctx context.Context, operation string, call func(context.Context) error) error {
	var span telemetry.Span
	if parent := trace.SpanFromContext(ctx); parent.IsRecording() {
		ctx, span = telemetry.NewTracer(parent.TracerProvider(), "inquiry-gateway/redis").Start(ctx, "redis "+operation,
			trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(semconv.DBSystemNameRedis, semconv.DBOperationName(operation)))
		defer span.End()
	}
	start := time.Now()
	err := call(ctx)
	if operation == "info" && isDenied(err) {
		return err // optional: the caller of INFO says what it cannot check
	}
	result := ResultOf(err)
	if result != "ok" {
		span.Fail(result)
	}
	c.metrics.operations.WithLabelValues(operation, result).Inc()
	if result == "skipped" {
		return err
	}
	c.metrics.durations.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	if result == "timeout" || result == "error" {
		c.lastError.Store(&callError{time.Now(), err})
	}
	if isDenied(err) { // not for the breaker: Redis is available, and waiting does not help
		c.deniedLog.Do(func() {
			c.log.Error("the user of Redis may not do what the gateway needs; docs/redis.md has the ACL", "operation", operation, "err", err)
		})
	}
	return err
}

// callHook runs commands and pipelines through a function. go-redis runs hooks for the commands that
// open a connection, too; those belong to the call that needs the connection.
type callHook struct {
	run func(ctx context.Context, operation string, call func(context.Context) error) error
}

// insideKey marks the context of a call that has passed the breaker.
type insideKey struct{}

func inside(ctx context.Context) bool { return ctx.Value(insideKey{}) != nil }

func (callHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h callHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if inside(ctx) {
			return next(ctx, cmd)
		}
		return h.run(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook sets the error of each command of a skipped pipeline, since callers read those.
func (h callHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if inside(ctx) {
			return next(ctx, cmds)
		}
		err := h.run(ctx, "pipeline", func(ctx context.Context) error { return next(ctx, cmds) })
		if errors.Is(err, errSkipped) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// metrics are the series of every call of the process.
type metrics struct {
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer, state func() float64) *metrics {
	all := telemetry.Series(reg, "redis")
	all.GaugeFunc("breaker_state", "Circuit breaker in front of Redis, in a Cluster the worst: 0 closed, 1 half-open, 2 open.", state)
	return &metrics{
		operations: all.Counters("operations_total", "Redis calls; skipped: the breaker was open.", "operation", "result"),
		durations: all.Histograms("operation_duration_seconds", "Duration of Redis calls.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25}, "operation"),
	}
}
