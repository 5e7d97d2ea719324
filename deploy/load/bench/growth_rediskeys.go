package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"inquiry-gateway/auth"
	"inquiry-gateway/deploy/load/report"
	"inquiry-gateway/upstream/legacy"
)

const (
	// keysPerAccount spares a million keys a million accounts.
	keysPerAccount = 100
	// keysTried are looked up, whatever the number of keys: all of them fit into
	// what the store remembers.
	keysTried = 5000
	// addsAtOnce is how many keys are on their way to Redis.
	addsAtOnce = 32
)

// redisKeysTable puts growing numbers of keys into Redis with the gateway's own
// tool and authenticates with the gateway's own store.
func (s *stand) redisKeysTable(ctx context.Context, o options) (report.Table, error) {
	t := report.Table{
		Title:  "Growth: keys in Redis",
		Header: []string{"keys", "Redis", "Redis per key", "a key's first request", "its next ones", "in the process per remembered key"},
	}
	sizes := []int{1000, 10_000, 100_000, 1_000_000}
	if o.quick {
		sizes = sizes[:2]
	}
	var x, y []float64
	for _, n := range sizes {
		c, err := s.redisKeys(ctx, n)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, []string{
			report.Count(n), report.Bytes(c.redis), report.Bytes(c.redis / float64(n)),
			report.Number(c.first/1000) + " µs", report.Number(c.next) + " ns", report.Bytes(c.remembered),
		})
		x, y = append(x, float64(n)), append(y, c.redis)
	}
	t.Text = fmt.Sprintf("CPU time of the gateway's side on one core. A key's first request asks Redis; then the key is remembered for auth.redis.ttl, "+
		"at most auth.redis.max_keys of them, so a node's memory does not grow with the number of keys. Slope: %s per key in Redis.", report.Bytes(report.Slope(x, y)))
	return t, nil
}

// redisKeysCost is what a number of keys in Redis costs.
type redisKeysCost struct {
	redis       float64 // bytes
	first, next float64 // nanoseconds per request
	remembered  float64 // bytes per key, in the process
}

func (s *stand) redisKeys(ctx context.Context, n int) (c redisKeysCost, err error) {
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{s.redis.addr}, DisableIdentity: true, PoolSize: addsAtOnce})
	defer rdb.Close()
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return c, err
	}
	before, err := usedMemory(ctx, rdb)
	if err != nil {
		return c, err
	}
	tried, err := addKeys(ctx, rdb, n)
	if err != nil {
		return c, err
	}
	after, err := usedMemory(ctx, rdb)
	if err != nil {
		return c, err
	}
	c.redis = after - before
	cfg := auth.DefaultRedisConfig()
	cfg.TTL = time.Hour
	heap := heapNow()
	store, err := auth.NewRedisStore(rdb, "growth", auth.Hasher{}, cfg, auth.Options{})
	if err != nil {
		return c, err
	}
	defer store.Close()
	if c.first, err = authenticating(store, tried, len(tried)); err != nil {
		return c, err
	}
	c.remembered = (heapNow() - heap) / float64(len(tried))
	c.next, err = authenticating(store, tried, lookups)
	runtime.KeepAlive(store)
	return c, err
}

// addKeys puts n keys into Redis and returns some of them.
func addKeys(ctx context.Context, rdb redis.UniversalClient, n int) (tried []string, err error) {
	admin := auth.NewRedisKeys(rdb, "growth", auth.Hasher{})
	tried = make([]string, min(n, keysTried))
	every := n / len(tried)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(addsAtOnce)
	for i := range n {
		key, err := auth.Generate(legacy.KindBuyer)
		if err != nil {
			return nil, err
		}
		if i%every == 0 && i/every < len(tried) {
			tried[i/every] = key
		}
		record := auth.KeyRecord{
			ID: "key-" + strconv.Itoa(i), Digest: auth.Hasher{}.Hash(key), Kind: legacy.KindBuyer,
			Account: account(i / keysPerAccount), Scopes: []string{auth.ScopeInquiriesRead},
		}
		group.Go(func() error { return admin.Add(ctx, record, &auth.Account{APIAccess: auth.AccessPaid}) })
	}
	return tried, group.Wait()
}
