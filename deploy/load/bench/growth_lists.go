package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/cache"
	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/deploy/load/report"
	"inquiry-gateway/upstream/legacy"
)

// smallBody is in bytes. It lets a million lists fit into a small machine.
const smallBody = 1000

// lists fills the cache with growing numbers of small lists.
func (b *bench) lists() growth {
	line := func(ctx context.Context, n int) []string {
		c := fillLists(ctx, n, bytes.Repeat([]byte("x"), smallBody))
		return []string{report.Bytes(c.heap), report.Bytes(c.heap / float64(n)), fmt.Sprintf("%.2f ×", c.heap/c.counted), report.Micros(c.lookup)}
	}
	return growth{sizes: []int{1000, 10_000, 100_000, 1_000_000}, line: line, Table: report.Table{
		Title: "Growth: cached lists", Text: fmt.Sprintf("Lists of %d bytes, looked up at random, on one core.", smallBody),
		Header: []string{"lists", "memory", "memory per list", "of what the cache counts", "look-up"},
	}}
}

// listSizes takes lists of growing length from the gateway and puts them into
// a cache of their own.
func (b *bench) listSizes() growth {
	return growth{sizes: []int{20, 200, 1000, 5000}, line: b.sizesLine, Table: report.Table{
		Title: "Growth: records in a list",
		Text: "Filled through the whole gateway. A coding is made when a caller first takes it, and then kept in the process beside the body; Redis has the body alone. " +
			"Goal: at most 1.50 × the body in the process. What a miss costs is in the table of misses.",
		Header: []string{"records", "the legacy's reply", "body", "gzip", "zstd", "in the process per list", "of the body", "Redis per list"},
	}}
}

// sizesLine asks a node of its own for one list in each coding. Then it fills a cache
// with copies of the body.
func (b *bench) sizesLine(ctx context.Context, records int) []string {
	s := b.startNode(ctx, node{Name: fmt.Sprintf("size-%d", records), Records: records})
	cells := []string{report.Bytes(b.legacyReply(ctx, records))}
	var body []byte
	for _, coding := range []string{"zstd", "gzip", "identity"} {
		body = must(b.get(ctx, s.url+target(""), b.keys[0], coding)).body
		cells = slices.Insert(cells, 1, report.Bytes(float64(len(body))))
	}
	// As many lists as make some 64 MiB, so that what every cache has counts little.
	copies := min(max((64<<20)/(2*len(body)), 8), 2000)
	each := fillLists(ctx, copies, body).heap / float64(copies)
	memory, share := report.Bytes(each), fmt.Sprintf("%.2f ×", each/float64(len(body)))
	if each <= 0 {
		memory, share = "too little to tell", "" // the heap shrank meanwhile by more than the lists take
	}
	cells = append(cells, memory, share, report.Bytes(b.redisBytes(ctx, body)))
	check(s.Stop())
	return cells
}

// listsCost is what the in-process tier costs with some lists in it.
type listsCost struct {
	heap    float64 // bytes
	counted float64 // bytes, by the tier itself
	lookup  float64 // microseconds
}

// fillLists puts n lists with copies of one body into a cache of its own, and looks
// them up at random. A look-up that finds nothing is an error: it would be fast.
func fillLists(ctx context.Context, n int, body []byte) (c listsCost) {
	before := heapNow()
	registry := prometheus.NewRegistry()
	lists := newLists(body, registry, nil)
	defer func() { _ = lists.Close(context.Background()) }()
	for i := range n {
		must(lists.Get(ctx, listKey(i)))
	}
	c.heap = heapNow() - before
	c.counted = measure.Series(must(registry.Gather())).Sum("inquiry_gateway_cache_local_bytes", nil)
	keys := make([]cache.Key, min(n, lookups))
	for i := range keys {
		keys[i] = listKey(rand.IntN(n))
	}
	lost := 0
	c.lookup = timePer(lookups, func(i int) {
		k := keys[i%len(keys)]
		r, ok := lists.Lookup(k)
		if !ok {
			lost++
			return
		}
		lists.Served(k, r)
	})
	if lost > 0 || c.counted == 0 {
		check(fmt.Errorf("%d of %d look-ups among %d lists found nothing; the cache counts %.0f bytes", lost, lookups, n, c.counted))
	}
	return c
}

// listKey names the list of the i-th account.
func listKey(i int) cache.Key {
	return cache.Key{Kind: legacy.KindBuyer, Account: "account-" + strconv.Itoa(i), Status: "pending"}
}

// newLists is a cache whose lists have copies of one body.
func newLists(body []byte, registry *prometheus.Registry, rdb redis.UniversalClient) *cache.Lists {
	cfg := cache.DefaultConfig()
	cfg.Local.MaxBytes, cfg.MaxEntryBytes, cfg.Jitter = 16<<30, 64<<20, 0
	cfg.Buyer.TTL = 4 * time.Hour
	return must(cache.New(cfg, cache.Options{
		Fill: func(context.Context, cache.Key) (cache.Content, error) {
			return cache.Content{Body: bytes.Clone(body), AnsweredAt: time.Now()}, nil
		},
		Redis: rdb, Prefix: "growth", Registerer: registry,
	}))
}

// redisBytes is what an entry with the body takes in Redis, by Redis's own
// account of the one key that is about as long as the body.
func (b *bench) redisBytes(ctx context.Context, body []byte) float64 {
	rdb := b.redisClient()
	defer rdb.Close()
	check(rdb.FlushAll(ctx).Err())
	lists := newLists(body, prometheus.NewRegistry(), rdb)
	_, err := lists.Get(ctx, listKey(0))
	check(err, lists.Close(ctx)) // Close waits for the write
	for _, key := range must(rdb.Keys(ctx, "*").Result()) {
		if n := must(rdb.MemoryUsage(ctx, key, 0).Result()); int(n) > len(body)/2 {
			return float64(n)
		}
	}
	check(errors.New("the list is not in Redis"))
	return 0
}
