package redisclient

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/breaker"
	"inquiry-gateway/internal/telemetry"
)

const (
	breakerCalls = 5 // at least, before the ratio counts
	breakerOpen  = 200 * time.Millisecond
	probeEvery   = 250 * time.Millisecond // a little more than breakerOpen
)

// node is one server behind the client, with its breaker: the one server, the master that
// the sentinels name, or each node of a Cluster. While its breaker is not closed no request
// reaches it; only the prober does, so that nobody waits for a Redis that may still be
// stalled. The other nodes of a Cluster go on.
type node struct {
	owner   *Client
	client  *redis.Client
	breaker *gobreaker.CircuitBreaker[struct{}]
	// idle: no slots are known to be on this node of a Cluster, because it is a
	// replica or has failed and another took its place. Whether it answers is of
	// no interest then.
	idle atomic.Bool
	// lost is when a connection to it was last found broken; nil: never.
	lost atomic.Pointer[time.Time]
}

// add puts a breaker in front of a node.
func (c *Client) add(client *redis.Client) {
	n := &node{owner: c, client: client}
	judge := func(err error) (well, counts bool) { return !outage(err), !errors.Is(err, context.Canceled) }
	opens := breaker.Config{Window: 10 * time.Second, Least: breakerCalls, Ratio: 0.5, OpenFor: breakerOpen}
	n.breaker = breaker.New[struct{}](opens, judge, func(from, to gobreaker.State) {
		if from == gobreaker.StateClosed || to == gobreaker.StateClosed { // the tries between are no news
			c.log.Warn("the breaker of Redis changed", "node", client.Options().Addr, "from", from.String(), "to", to.String())
		}
	})
	client.AddHook(protect{n})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[n] = struct{}{}
}

// state is the worst breaker of the nodes that serve.
func (c *Client) state() gobreaker.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	worst := gobreaker.StateClosed
	for n := range c.nodes {
		if !n.idle.Load() {
			worst = max(worst, n.breaker.State())
		}
	}
	return worst
}

// Down tells whether requests are kept away from Redis, or from a part of a Cluster.
func (c *Client) Down() bool { return c.state() != gobreaker.StateClosed }

// tend waits for a call that finds a node which cannot serve. From then on, at most every
// probeEvery, it learns where a Cluster's slots are now and asks the nodes that are kept
// away, until none is.
func (c *Client) tend() {
	for {
		select {
		case <-c.closing:
			return
		case <-c.trouble:
		}
		for again := true; again; again = c.Down() {
			c.renewSlots()
			select {
			case <-c.closing:
				return
			case <-time.After(probeEvery):
			}
			c.probe()
			select {
			case <-c.trouble: // also of the probes; a call that still fails says so again
			default:
			}
		}
	}
}

// renewSlots has the client of a Cluster learn again which masters there are. On its own
// go-redis does so only once in a while, or when a node sends it elsewhere, which a dead
// one does not.
func (c *Client) renewSlots() {
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*c.timeout) // a node or two may not answer
	defer cancel()
	var mu sync.Mutex
	masters := map[*redis.Client]bool{}
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters[client] = true
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.nodes {
		n.idle.Store(len(masters) > 0 && !masters[n.client])
	}
}

// probe asks all nodes that are kept away, at once, and waits for them: their breakers
// learn how it went. It asks for a key, since a node of a Cluster that is down still
// answers a PING. A node without the key's slot says so, which is an answer.
func (c *Client) probe() {
	var wg sync.WaitGroup
	c.mu.Lock()
	for n := range c.nodes {
		if n.breaker.State() == gobreaker.StateClosed {
			continue
		}
		wg.Go(func() {
			ctx, cancel := c.Bounded(Probing(context.Background()))
			defer cancel()
			if errors.Is(n.client.Exists(ctx, c.probed).Err(), redis.ErrClosed) { // it has left the Cluster
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.nodes, n)
			}
		})
	}
	c.mu.Unlock()
	wg.Wait()
}

// passKey marks a context whose calls the breaker treats in another way.
type passKey struct{}

type pass int

const (
	passProbe  pass = 1 + iota // let through while the breaker is half-open
	passNested                 // inside a call that is counted already
)

func passOf(ctx context.Context) pass {
	p, _ := ctx.Value(passKey{}).(pass)
	return p
}

// Probing lets the calls of a context try a node that is kept away.
func Probing(ctx context.Context) context.Context {
	return context.WithValue(ctx, passKey{}, passProbe)
}

// protected runs one call of the node through its breaker.
func (n *node) protected(ctx context.Context, call func(context.Context) error) error {
	p := passOf(ctx)
	if p == passNested {
		return call(ctx)
	}
	err := errSkipped
	deadline, bounded := ctx.Deadline()
	short := bounded && time.Until(deadline) < n.owner.timeout*9/10 // by the caller's own deadline
	if p == passProbe || n.breaker.State() == gobreaker.StateClosed {
		_, broken := n.breaker.Execute(func() (struct{}, error) {
			// go-redis runs the hooks again for the greeting of a new connection.
			err = call(context.WithValue(ctx, passKey{}, passNested))
			if short && ResultOf(err) == "timeout" {
				return struct{}{}, context.Canceled // Redis may be well: it had less time than a call has
			}
			return struct{}{}, err
		})
		if errors.Is(broken, gobreaker.ErrOpenState) || errors.Is(broken, gobreaker.ErrTooManyRequests) {
			err = errSkipped
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		now := time.Now()
		n.lost.Store(&now)
	}
	if outage(err) && !errors.Is(err, context.Canceled) {
		select {
		case n.owner.trouble <- struct{}{}:
		default: // one wake-up is enough for all who find trouble
		}
	}
	return err
}

// measured runs one call of the client with its metrics and, where the request's trace is
// recorded, in a span. The span says which command, never with what.
func (c *Client) measured(ctx context.Context, operation string, run func(context.Context) error) error {
	if passOf(ctx) == passNested {
		return run(ctx)
	}
	var s telemetry.Span
	if parent := trace.SpanFromContext(ctx); parent.IsRecording() {
		ctx, s = telemetry.NewTracer(parent.TracerProvider(), "inquiry-gateway/cache").Start(ctx, "redis "+operation, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(semconv.DBSystemNameRedis, semconv.DBOperationName(operation)))
		defer s.End()
	}
	start := time.Now()
	err := run(ctx)
	if operation == "info" && denied(err) {
		return err // nobody needs it: what it would say is told where it may be asked for
	}
	result := ResultOf(err)
	if result != "ok" {
		s.Fail(result)
	}
	c.metrics.operations.WithLabelValues(operation, result).Inc()
	if result == "skipped" {
		return err
	}
	c.metrics.durations.WithLabelValues(operation).Observe(time.Since(start).Seconds())
	if result == "timeout" || result == "error" {
		c.failed.Store(&failure{time.Now(), err})
	}
	if denied(err) {
		// The breaker is not for this: Redis is well, and nothing will change by
		// waiting. What is denied once is denied always.
		c.denied.Do(func() {
			c.log.Error("the user of Redis may not do what the gateway needs; docs/redis.md has the ACL", "operation", operation, "err", err)
		})
	}
	return err
}

// measure is the hook of the client, protect that of each node.
type (
	measure struct{ c *Client }
	protect struct{ n *node }
)

func (measure) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h measure) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.c.measured(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h measure) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.c.measured(ctx, "pipeline", func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

// DialHook returns a connection that fails on use instead of an error, because go-redis backs
// off for 1 s after as many failed dials as its pool is large. A node whose Redis is back must
// not wait for that.
func (h protect) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return brokenConn{err: err}, nil
		}
		return pooledConn{conn, h.n, time.Now()}, nil
	}
}

func (h protect) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.n.protected(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook marks each command of a pipeline that was kept away, because callers
// look at the commands' errors and not at that of the pipeline.
func (h protect) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := h.n.protected(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
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
	all.GaugeFunc("breaker_state", "Breaker in front of Redis: 0 closed, 1 half-open, 2 open; of a Cluster the worst of its masters'.", state)
	return &metrics{
		operations: all.Counters("operations_total", "Calls of Redis by command and result; skipped: kept away by the breaker.", "operation", "result"),
		durations: all.Histograms("operation_duration_seconds", "Time that calls of Redis took.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25}, "operation"),
	}
}
