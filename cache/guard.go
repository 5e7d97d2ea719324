package cache

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	breakerWindow = 10 * time.Second
	breakerBucket = time.Second
	breakerCalls  = 5 // at least, before the ratio counts
	breakerRatio  = 0.5
	breakerOpen   = 200 * time.Millisecond
	probeEvery    = 250 * time.Millisecond // a little more than breakerOpen
)

var errRedisSkipped = errors.New("redis is skipped: its breaker is open")

// guarded is a Redis client behind a breaker. While the breaker is not closed
// no request reaches Redis; only the prober does, so that nobody waits for a
// Redis that may still be stalled.
type guarded struct {
	redis.UniversalClient
	timeout time.Duration // of one call
	breaker *gobreaker.CircuitBreaker[struct{}]
	metrics *redisMetrics
	tripped chan struct{} // capacity 1
	closing chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
	log     *slog.Logger
	denied  sync.Once // has been told of
}

func guard(rdb redis.UniversalClient, timeout time.Duration, reg prometheus.Registerer, log *slog.Logger) (*guarded, error) {
	g := &guarded{UniversalClient: rdb, timeout: timeout, tripped: make(chan struct{}, 1), closing: make(chan struct{}), log: log}
	g.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "redis", MaxRequests: 1, Timeout: breakerOpen,
		Interval: breakerWindow, BucketPeriod: breakerBucket,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= breakerCalls && float64(c.TotalFailures) >= breakerRatio*float64(c.Requests)
		},
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
		IsSuccessful: func(err error) bool { return !isOutage(err) },
		OnStateChange: func(_ string, from, to gobreaker.State) { // runs under the breaker's lock
			log.Warn("the breaker of Redis changed", "from", from.String(), "to", to.String())
			if to == gobreaker.StateOpen {
				select {
				case g.tripped <- struct{}{}:
				default:
				}
			}
		},
	})
	m, err := newRedisMetrics(reg, func() float64 { return float64(g.breaker.State()) })
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	g.metrics = m
	rdb.AddHook(hook{g})
	g.wg.Go(g.probe)
	return g, nil
}

// Down tells whether requests are kept away from Redis.
func (g *guarded) Down() bool { return g.breaker.State() != gobreaker.StateClosed }

// CallTimeout is how long one call may take.
func (g *guarded) CallTimeout() time.Duration { return g.timeout }

// Close ends the prober and the client.
func (g *guarded) Close() error {
	g.once.Do(func() { close(g.closing) })
	g.wg.Wait()
	return g.UniversalClient.Close()
}

// probe waits for the breaker to open and then asks Redis until it answers.
func (g *guarded) probe() {
	for {
		select {
		case <-g.closing:
			return
		case <-g.tripped:
		}
		for tick := time.NewTicker(probeEvery); g.Down(); {
			select {
			case <-g.closing:
				tick.Stop()
				return
			case <-tick.C:
			}
			ctx, cancel := context.WithTimeout(probing(context.Background()), g.timeout)
			_ = g.UniversalClient.Ping(ctx).Err() // the breaker hears of it
			cancel()
		}
	}
}

// passKey marks a context whose calls the breaker lets through.
type passKey struct{}

type pass int

const (
	passProbe  pass = iota + 1 // the prober: counted, and let through while open
	passNested                 // inside a call that is counted already
)

func probing(ctx context.Context) context.Context {
	return context.WithValue(ctx, passKey{}, passProbe)
}

// call runs one call through the breaker and the metrics.
func (g *guarded) call(ctx context.Context, operation string, call func(context.Context) error) error {
	p, _ := ctx.Value(passKey{}).(pass)
	if p == passNested {
		return call(ctx)
	}
	if p != passProbe && g.Down() {
		g.metrics.skipped(operation)
		return errRedisSkipped
	}
	start := time.Now()
	var err error
	_, broken := g.breaker.Execute(func() (struct{}, error) {
		// go-redis runs the hooks again for the greeting of a new connection.
		err = call(context.WithValue(ctx, passKey{}, passNested))
		return struct{}{}, err
	})
	if errors.Is(broken, gobreaker.ErrOpenState) || errors.Is(broken, gobreaker.ErrTooManyRequests) {
		g.metrics.skipped(operation)
		return errRedisSkipped
	}
	g.metrics.done(operation, err, time.Since(start))
	if isDenied(err) {
		// The breaker is not for this: Redis is well, and nothing will change by
		// waiting. What is denied once is denied always.
		g.denied.Do(func() {
			g.log.Error("the user of Redis may not do what the gateway needs; the README has the ACL", "operation", operation, "err", err)
		})
	}
	return err
}

// isDenied tells whether Redis refused for want of a permission.
func isDenied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (strings.HasPrefix(reply.Error(), "NOPERM") || strings.Contains(reply.Error(), "can't run this command"))
}

// isOutage tells a Redis that cannot serve from one that answered, be it with
// an error about this one command.
func isOutage(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return true
	}
	for _, code := range []string{"LOADING", "CLUSTERDOWN", "MASTERDOWN", "WRONGPASS", "NOAUTH", "ERR invalid password"} {
		if strings.HasPrefix(reply.Error(), code) {
			return true
		}
	}
	return false
}

// hook puts the guard into go-redis.
type hook struct{ g *guarded }

func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return orBroken(next(ctx, network, addr)) // no sentinel knows the master, for one
	}
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.g.do(ctx, cmd.Name(), func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := h.g.do(ctx, "pipeline", func(ctx context.Context) error { return next(ctx, cmds) })
		if errors.Is(err, errRedisSkipped) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}
