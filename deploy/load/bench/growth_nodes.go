package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/sync/errgroup"

	"inquiry-gateway/deploy/load/report"
)

const (
	passes       = 3 // how often each list is asked for
	callers      = 500
	stampedeWait = 20 * time.Millisecond // that the legacy takes
)

// nodes lets nodes share an empty Redis. It asks for every list several
// times, each time another node; then many callers ask for one cold list.
func (b *bench) nodes() growth {
	return growth{sizes: []int{1, 2, 3}, all: true, line: b.nodesLine, Table: report.Table{
		Title:  "Growth: nodes",
		Header: []string{"nodes", "upstream requests", "per list", "Redis calls per request", "upstream requests of the cold list", "p50", "p99"},
		Text: fmt.Sprintf("%d lists, each asked for %d times, every time from the next node. All nodes share one Redis, which is empty at first; the rate limit asks it, too. "+
			"Then %d callers ask for one cold list at once, on connections that are open already; the legacy takes %s. "+
			"Goal: one upstream request and p50 ≤ 45 ms.", len(b.keys)*len(filters()), passes, callers, stampedeWait),
	}}
}

// nodesLine starts n nodes and stops them again. Between two passes the nodes change
// places, so that each list is asked of another node than before.
func (b *bench) nodesLine(ctx context.Context, n int) []string {
	rdb := b.redisClient()
	defer rdb.Close()
	check(rdb.FlushAll(ctx).Err())
	var nodes []*server
	var urls []string
	for i := range n {
		s := b.startNode(ctx, node{Name: fmt.Sprintf("node-%d-%d", n, i), Records: hitRecords, Redis: b.redis.Addr})
		nodes, urls = append(nodes, s), append(urls, s.url)
	}
	asked := b.legacy.Requests().Buyer
	for range passes {
		b.warm(ctx, urls...)
		urls = append(urls[1:], urls[0])
	}
	asked = b.legacy.Requests().Buyer - asked
	calls := 0.0
	for _, s := range nodes {
		_, series := b.counters(ctx, s, true)
		calls += series.Sum("inquiry_gateway_redis_operations_total", nil)
	}
	lists := float64(len(b.keys) * len(filters()))
	cells := []string{fmt.Sprint(asked), fmt.Sprintf("%.2f", float64(asked)/lists), fmt.Sprintf("%.2f", calls/lists/passes)}
	cells = append(cells, b.stampede(ctx, urls)...)
	for _, s := range nodes {
		check(s.Stop())
	}
	return cells
}

// stampede lets all callers ask for one list that nobody has. Its filters are
// none of those that a list was asked for with before.
func (b *bench) stampede(ctx context.Context, urls []string) []string {
	b.legacy.SetLatency(stampedeWait)
	defer b.legacy.SetLatency(0)
	// The usual client would open connections during the stampede, which is what a
	// caller waits for longest.
	quiet := b.client
	b.client = newClient(callers)
	defer func() { b.client.CloseIdleConnections(); b.client = quiet }()
	b.rush(ctx, urls, "inquiry_type=refund") // opens the connections
	asked := b.legacy.Requests().Buyer
	s := stats.Sample{Xs: b.rush(ctx, urls, "inquiry_type=product")}
	return []string{fmt.Sprint(b.legacy.Requests().Buyer - asked), report.Micros(s.Quantile(0.5)), report.Micros(s.Quantile(0.99))}
}

// rush lets all callers ask for one list at the same moment, and returns how
// long each waited, in microseconds.
func (b *bench) rush(ctx context.Context, urls []string, query string) []float64 {
	took := make([]float64, callers)
	start := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	for i := range callers {
		group.Go(func() error {
			<-start
			began := time.Now()
			_, err := b.get(ctx, urls[i%len(urls)]+target(query), b.keys[0], "identity")
			took[i] = micros(time.Since(began))
			return err
		})
	}
	close(start)
	check(group.Wait())
	return took
}
