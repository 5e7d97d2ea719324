package redistier

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"inquiry-gateway/internal/breaker"
)

const (
	breakerCalls = 5 // at least, before the ratio counts
	breakerOpen  = 200 * time.Millisecond
	probeEvery   = 250 * time.Millisecond // a little more than breakerOpen
)

// guarded is a Redis client with a breaker for each node: the one server, the
// master that the sentinels name, or each node of a Cluster. While a node's
// breaker is not closed no request reaches that node; only the prober does, so
// that nobody waits for a Redis that may still be stalled. The other nodes of a
// Cluster go on.
type guarded struct {
	redis.UniversalClient
	timeout time.Duration // of one call
	probed  string        // the key that the prober asks for
	metrics *clientMetrics
	trouble chan struct{} // capacity 1: a call found a node that cannot serve
	closing chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
	log     *slog.Logger
	denied  sync.Once // has been told of

	mu    sync.Mutex
	nodes map[*node]struct{}
}

// node is one server behind the client, with its breaker.
type node struct {
	g       *guarded
	client  *redis.Client
	breaker *gobreaker.CircuitBreaker[struct{}]
	// idle: no slots are known to be on this node of a Cluster, because it is a
	// replica or has failed and another took its place. Whether it answers is of
	// no interest then.
	idle atomic.Bool
}

// guard puts breakers and metrics around a client, and starts the prober. Close ends both.
// The nodes of a Cluster are not known yet: each gets its breaker when the client finds it.
func guard(rdb redis.UniversalClient, c Config, reg prometheus.Registerer, log *slog.Logger) *guarded {
	g := &guarded{
		UniversalClient: rdb, timeout: c.Timeout, probed: c.Prefix + ":probe",
		trouble: make(chan struct{}, 1), closing: make(chan struct{}), log: log, nodes: make(map[*node]struct{}),
	}
	g.metrics = newClientMetrics(reg, func() float64 { return float64(g.state()) })
	rdb.AddHook(measure{g})
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		rdb.OnNewNode(g.add)
	case *redis.Client:
		g.add(rdb)
	}
	g.wg.Go(g.tend)
	return g
}

// add puts a breaker in front of a node.
func (g *guarded) add(client *redis.Client) {
	n := &node{g: g, client: client}
	judge := func(err error) (well, counts bool) { return !isOutage(err), !errors.Is(err, context.Canceled) }
	opens := breaker.Config{Window: 10 * time.Second, Least: breakerCalls, Ratio: 0.5, OpenFor: breakerOpen}
	n.breaker = breaker.New[struct{}](opens, judge, func(from, to gobreaker.State) {
		if from == gobreaker.StateClosed || to == gobreaker.StateClosed { // the tries between are no news
			g.log.Warn("the breaker of Redis changed", "node", client.Options().Addr, "from", from.String(), "to", to.String())
		}
	})
	client.AddHook(protect{n})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes[n] = struct{}{}
}

// state is the worst breaker of the nodes that serve.
func (g *guarded) state() gobreaker.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	worst := gobreaker.StateClosed
	for n := range g.nodes {
		if !n.idle.Load() {
			worst = max(worst, n.breaker.State())
		}
	}
	return worst
}

// Down tells whether requests are kept away from Redis, or from a part of it.
func (g *guarded) Down() bool { return g.state() != gobreaker.StateClosed }

// CallTimeout is how long one call may take.
func (g *guarded) CallTimeout() time.Duration { return g.timeout }

// Close ends the prober and the client.
func (g *guarded) Close() error {
	g.once.Do(func() { close(g.closing) })
	g.wg.Wait()
	return g.UniversalClient.Close()
}

// found wakes the prober. It does not wait: one wake-up is enough for all who find trouble.
func (g *guarded) found() {
	select {
	case g.trouble <- struct{}{}:
	default:
	}
}

// tend waits for a call that finds a node which cannot serve. From then on, at
// most every probeEvery, it learns where a Cluster's slots are now and asks the
// nodes that are kept away, until none is.
func (g *guarded) tend() {
	for {
		select {
		case <-g.closing:
			return
		case <-g.trouble:
		}
		for again := true; again; {
			g.locate()
			select {
			case <-g.closing:
				return
			case <-time.After(probeEvery):
			}
			again = g.probe()
		}
	}
}

// locate has the client of a Cluster learn again which masters there are. On its
// own go-redis does so only once in a while, or when a node sends it elsewhere,
// which a dead one does not.
func (g *guarded) locate() {
	cluster, ok := g.UniversalClient.(*redis.ClusterClient)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(passing(context.Background(), passQuiet), 3*g.timeout) // a node or two may not answer
	defer cancel()
	var mu sync.Mutex
	masters := map[*redis.Client]bool{}
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters[client] = true
		return nil
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := range g.nodes {
		n.idle.Store(len(masters) > 0 && !masters[n.client])
	}
}

// probe asks all nodes that are kept away, at once; their breakers hear of it.
// It tells whether one that serves still is, or a call has found trouble since.
func (g *guarded) probe() (again bool) {
	var wg sync.WaitGroup
	g.mu.Lock()
	for n := range g.nodes {
		if n.breaker.State() != gobreaker.StateClosed {
			wg.Go(n.probe)
		}
	}
	g.mu.Unlock()
	wg.Wait()
	select {
	case <-g.trouble:
		return true
	default:
		return g.Down()
	}
}

// probe asks for a key, since a node of a Cluster that is down still answers a
// PING. A node without the key's slot says so, which is an answer.
func (n *node) probe() {
	ctx, cancel := context.WithTimeout(passing(context.Background(), passProbe|passQuiet), n.g.timeout)
	defer cancel()
	if errors.Is(n.client.Exists(ctx, n.g.probed).Err(), redis.ErrClosed) { // it has left the Cluster
		n.g.mu.Lock()
		defer n.g.mu.Unlock()
		delete(n.g.nodes, n)
	}
}
