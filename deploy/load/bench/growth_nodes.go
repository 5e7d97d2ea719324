package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"inquiry-gateway/deploy/load/report"
)

const (
	mostNodes    = 3
	passes       = 3 // how often each list is asked for
	callers      = 500
	stampedeWait = 20 * time.Millisecond // that the legacy takes
)

// fleet starts nodes that share an empty Redis.
func (s *stand) fleet(ctx context.Context, name string, n int, backend string) ([]*process, error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.redis.addr, DisableIdentity: true})
	defer rdb.Close()
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	var nodes []*process
	for i := range n {
		p, err := s.startNode(ctx, node{name: fmt.Sprintf("%s-%d-%d", name, n, i), records: hitRecords, redis: s.redis.addr, backend: backend})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, p)
	}
	return nodes, nil
}

func stopAll(nodes []*process) error {
	var errs []error
	for _, p := range nodes {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// nodesTable asks for every list several times, each time another node.
func (s *stand) nodesTable(ctx context.Context, o options) (report.Table, error) {
	t := report.Table{
		Title:  "Growth: nodes",
		Header: []string{"nodes", "requests", "upstream requests", "per list", "Redis calls per request"},
		Text: fmt.Sprintf("%s lists, each asked for %d times, every time from the next node. All nodes share one Redis, which is empty at first.",
			report.Count(len(s.fixture.keys)*len(filters())), passes),
	}
	for n := 1; n <= mostNodes; n++ {
		cells, err := s.nodesCells(ctx, n)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, cells)
	}
	return t, nil
}

func (s *stand) nodesCells(ctx context.Context, n int) ([]string, error) {
	nodes, err := s.fleet(ctx, "node", n, s.backend.addr)
	if err != nil {
		return nil, err
	}
	before, err := s.served(ctx, s.backend.addr)
	if err != nil {
		return nil, err
	}
	for pass := range passes {
		if err := s.askAll(ctx, nodes, pass); err != nil {
			return nil, err
		}
	}
	after, err := s.served(ctx, s.backend.addr)
	if err != nil {
		return nil, err
	}
	calls := 0.0
	for _, p := range nodes {
		series, err := s.series(ctx, p)
		if err != nil {
			return nil, err
		}
		calls += series.Sum("inquiry_gateway_redis_operations_total")
	}
	lists := len(s.fixture.keys) * len(filters())
	asked := after["lists"] - before["lists"]
	return []string{
		fmt.Sprint(n), report.Count(passes * lists), report.Count(int(asked)),
		fmt.Sprintf("%.2f", float64(asked)/float64(lists)), fmt.Sprintf("%.2f", calls/float64(passes*lists)),
	}, stopAll(nodes)
}

// askAll asks for every list once, the i-th from node i + pass.
func (s *stand) askAll(ctx context.Context, nodes []*process, pass int) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range warmers {
		group.Go(func() error {
			for i := w; i < len(s.fixture.keys); i += warmers {
				for _, query := range filters() {
					p := nodes[(i+pass)%len(nodes)]
					if _, err := s.ask(ctx, p, query, s.fixture.keys[i]); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// ask takes a list, which must be a 200, and tells how long that took.
func (s *stand) ask(ctx context.Context, p *process, query, key string) (time.Duration, error) {
	start := time.Now()
	response, body, err := s.get(ctx, "http://"+p.addr+target(query), key)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %.300s", p.name, response.Status, body)
	}
	return time.Since(start), err
}

// stampedeTable lets many callers ask for one list that nobody has.
func (s *stand) stampedeTable(ctx context.Context, o options) (report.Table, error) {
	t := report.Table{
		Title:  "Many callers on one cold list",
		Header: []string{"nodes", "upstream requests", "p50", "p99"},
		Text:   fmt.Sprintf("%d callers at once, spread over the nodes, on connections that are open already; the legacy takes %s.", callers, stampedeWait),
	}
	slow, err := s.startSimple(ctx, "slow-backend", "backend", "-latency", stampedeWait.String())
	if err != nil {
		return t, err
	}
	for n := 1; n <= mostNodes; n++ {
		cells, err := s.stampede(ctx, n, slow)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, cells)
	}
	return t, nil
}

func (s *stand) stampede(ctx context.Context, n int, slow *process) ([]string, error) {
	nodes, err := s.fleet(ctx, "stampede", n, slow.addr)
	if err != nil {
		return nil, err
	}
	quiet := s.client
	s.client = newClient(callers)
	defer func() { s.client.CloseIdleConnections(); s.client = quiet }()
	queries := filters()
	if _, err := s.rush(ctx, nodes, queries[0]); err != nil { // opens the connections
		return nil, err
	}
	before, err := s.served(ctx, slow.addr)
	if err != nil {
		return nil, err
	}
	took, err := s.rush(ctx, nodes, queries[1])
	if err != nil {
		return nil, err
	}
	after, err := s.served(ctx, slow.addr)
	if err != nil {
		return nil, err
	}
	slices.Sort(took)
	at := func(share float64) string {
		return took[int(share*float64(len(took)-1))].Round(100 * time.Microsecond).String()
	}
	return []string{fmt.Sprint(n), fmt.Sprint(after["lists"] - before["lists"]), at(0.5), at(0.99)}, stopAll(nodes)
}

// rush lets all callers ask for one list at the same moment.
func (s *stand) rush(ctx context.Context, nodes []*process, query string) ([]time.Duration, error) {
	took := make([]time.Duration, callers)
	start := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	for i := range callers {
		group.Go(func() (err error) {
			<-start
			took[i], err = s.ask(ctx, nodes[i%len(nodes)], query, s.fixture.keys[0])
			return err
		})
	}
	close(start)
	return took, group.Wait()
}
