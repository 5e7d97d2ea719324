package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/cache"
	"inquiry-gateway/deploy/load/report"
	"inquiry-gateway/upstream/legacy"
)

// smallBody lets a million lists fit into a small machine.
const smallBody = 1000

// writesAtOnce is below the number of writes to Redis that the cache keeps
// waiting before it drops one.
const writesAtOnce = 32

// listsTable fills the cache with growing numbers of small lists.
func (s *stand) listsTable(ctx context.Context, o options) (report.Table, error) {
	t := report.Table{
		Title:  "Growth: cached lists",
		Header: []string{"lists", "memory", "memory per list", "of what the cache counts", "look-up", "Redis", "Redis per list"},
	}
	sizes, mostInRedis := []int{1000, 10_000, 100_000, 1_000_000}, 100_000
	if o.quick {
		sizes = sizes[:2]
	}
	body := []byte(strings.Repeat("x", smallBody))
	var x, heap, inRedis, y []float64
	for _, n := range sizes {
		c, err := fillLists(ctx, n, body)
		if err != nil {
			return t, err
		}
		cells := []string{report.Count(n), report.Bytes(c.heap), report.Bytes(c.heap / float64(n)),
			fmt.Sprintf("%.2f ×", c.heap/c.counted), report.Number(c.lookup) + " ns", "", ""}
		x, heap = append(x, float64(n)), append(heap, c.heap)
		if n <= mostInRedis {
			size, err := s.redisBytes(ctx, n, body)
			if err != nil {
				return t, err
			}
			cells[5], cells[6] = report.Bytes(size), report.Bytes(size/float64(n))
			y, inRedis = append(y, float64(n)), append(inRedis, size)
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Text = fmt.Sprintf("Lists of %d bytes, looked up at random, on one core. Slopes: %s per list in the process, %s in Redis.",
		smallBody, report.Bytes(report.Slope(x, heap)), report.Bytes(report.Slope(y, inRedis)))
	return t, nil
}

// listsCost is what the in-process tier costs with some lists in it.
type listsCost struct {
	heap    float64 // bytes
	counted float64 // bytes, by the tier itself
	lookup  float64 // nanoseconds
}

func fillLists(ctx context.Context, n int, body []byte) (listsCost, error) {
	before := heapNow()
	registry := prometheus.NewRegistry()
	lists, err := newLists(body, registry, nil)
	if err != nil {
		return listsCost{}, err
	}
	defer func() { _ = lists.Close(context.Background()) }()
	for i := range n {
		if _, err := lists.Get(ctx, listKey(i)); err != nil {
			return listsCost{}, err
		}
	}
	c := listsCost{heap: heapNow() - before}
	if c.counted, err = gauge(registry, "inquiry_gateway_cache_local_bytes"); err != nil {
		return c, err
	}
	keys := make([]cache.Key, min(n, lookups))
	for i := range keys {
		keys[i] = listKey(rand.IntN(n))
	}
	lost := 0
	c.lookup = timePer(lookups, func(i int) {
		if _, ok := lists.Lookup(keys[i%len(keys)]); !ok {
			lost++
		}
	})
	if lost > 0 {
		return c, fmt.Errorf("%d of %d look-ups among %d lists found nothing", lost, lookups, n)
	}
	return c, nil
}

func listKey(i int) cache.Key {
	return cache.Key{Kind: legacy.KindBuyer, Account: "account-" + strconv.Itoa(i), Status: "pending"}
}

// newLists is a cache whose lists have copies of one body.
func newLists(body []byte, registry *prometheus.Registry, rdb redis.UniversalClient) (*cache.Lists, error) {
	cfg := cache.DefaultConfig()
	cfg.Local.MaxBytes, cfg.MaxEntryBytes, cfg.Jitter = 16<<30, 64<<20, 0
	cfg.Buyer.TTL = 4 * time.Hour
	return cache.New(cfg, cache.Options{
		Fill: func(context.Context, cache.Key) (cache.Content, error) {
			return cache.Content{Body: bytes.Clone(body), AnsweredAt: time.Now()}, nil
		},
		Redis: rdb, Prefix: "growth", Registerer: registry,
	})
}

func gauge(registry *prometheus.Registry, name string) (float64, error) {
	families, err := registry.Gather()
	if err != nil {
		return 0, err
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue(), nil
		}
	}
	return 0, fmt.Errorf("there is no series %s", name)
}

// redisBytes is what an empty Redis grows by when the cache puts n lists into
// it. It writes in small steps: what a busy cache cannot write, it drops.
func (s *stand) redisBytes(ctx context.Context, n int, body []byte) (float64, error) {
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{s.redis.addr}, DisableIdentity: true})
	defer rdb.Close()
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	before, err := usedMemory(ctx, rdb)
	if err != nil {
		return 0, err
	}
	lists, err := newLists(body, prometheus.NewRegistry(), rdb)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lists.Close(context.Background()) }()
	for i := range n {
		if _, err := lists.Get(ctx, listKey(i)); err != nil {
			return 0, err
		}
		if (i+1)%writesAtOnce == 0 || i == n-1 {
			if err := awaitSize(ctx, rdb, int64(i+1)); err != nil {
				return 0, err
			}
		}
	}
	after, err := usedMemory(ctx, rdb)
	if err != nil {
		return 0, err
	}
	have, err := rdb.DBSize(ctx).Result()
	return (after - before) * float64(n) / float64(max(have, 1)), err
}

// dropped is the share of writes that the cache may give up where Redis is slow
// for a moment; it rather does without an entry than hold anybody up.
const dropped = 0.01

func awaitSize(ctx context.Context, rdb redis.UniversalClient, n int64) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		have, err := rdb.DBSize(ctx).Result()
		if err != nil || float64(have) >= (1-dropped)*float64(n) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d lists have come to Redis", have, n)
		}
	}
}

func usedMemory(ctx context.Context, rdb redis.UniversalClient) (float64, error) {
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, "used_memory:"); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("redis tells no used_memory")
}
