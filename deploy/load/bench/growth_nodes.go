package main

import (
	"context"
	"errors"
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
func (b *bench) nodesLine(ctx context.Context, n int) (cells []string, err error) {
	rdb := b.redisClient()
	defer rdb.Close()
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	var nodes []*server
	var urls []string
	defer func() {
		for _, s := range nodes {
			err = errors.Join(err, s.Stop())
		}
	}()
	for i := range n {
		s, err := b.startNode(ctx, node{Name: fmt.Sprintf("node-%d-%d", n, i), Records: hitRecords, Redis: b.redis.Addr})
		if err != nil {
			return nil, err
		}
		nodes, urls = append(nodes, s), append(urls, s.url)
	}
	asked := b.legacy.Requests().Buyer
	for range passes {
		if err := b.warm(ctx, urls...); err != nil {
			return nil, err
		}
		urls = append(urls[1:], urls[0])
	}
	asked = b.legacy.Requests().Buyer - asked
	calls := 0.0
	for _, s := range nodes {
		_, series, err := b.counters(ctx, s, true)
		if err != nil {
			return nil, err
		}
		calls += series.Sum("inquiry_gateway_redis_operations_total", nil)
	}
	lists := float64(len(b.keys) * len(filters()))
	cells = []string{fmt.Sprint(asked), fmt.Sprintf("%.2f", float64(asked)/lists), fmt.Sprintf("%.2f", calls/lists/passes)}
	stampede, err := b.stampede(ctx, urls)
	return append(cells, stampede...), err
}

// stampede lets all callers ask for one list that nobody has. Its filters are
// none of those that a list was asked for with before.
func (b *bench) stampede(ctx context.Context, urls []string) ([]string, error) {
	b.legacy.SetLatency(stampedeWait)
	defer b.legacy.SetLatency(0)
	quiet := b.client
	b.client = newClient(callers)
	defer func() { b.client.CloseIdleConnections(); b.client = quiet }()
	if _, err := b.rush(ctx, urls, "inquiry_type=refund"); err != nil { // opens the connections
		return nil, err
	}
	asked := b.legacy.Requests().Buyer
	took, err := b.rush(ctx, urls, "inquiry_type=product")
	s := stats.Sample{Xs: took}
	return []string{fmt.Sprint(b.legacy.Requests().Buyer - asked), report.Micros(s.Quantile(0.5)), report.Micros(s.Quantile(0.99))}, err
}

// rush lets all callers ask for one list at the same moment, and returns how
// long each waited, in microseconds.
func (b *bench) rush(ctx context.Context, urls []string, query string) ([]float64, error) {
	took := make([]float64, callers)
	start := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	for i := range callers {
		group.Go(func() error {
			<-start
			began := time.Now()
			_, _, err := b.get(ctx, urls[i%len(urls)]+target(query), b.keys[0], "identity")
			took[i] = micros(time.Since(began))
			return err
		})
	}
	close(start)
	return took, group.Wait()
}
