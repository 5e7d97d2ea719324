package main

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/deploy/load/report"
	"inquiry-gateway/upstream/legacy"
)

const (
	// keysPerAccount spares a million keys a million accounts in Redis.
	keysPerAccount = 100
	// keysTried are looked up, whatever the number of keys: all of them fit into
	// what the Redis store keeps.
	keysTried = 5000
	// addsAtOnce is how many keys are on their way to Redis.
	addsAtOnce = 32
)

// makeKeys makes n different API keys of buyers, as `keys new` does.
func makeKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = must(auth.Generate(legacy.KindBuyer))
	}
	return keys
}

// fileKeys reads keys files of growing length with the gateway's own store.
func (b *bench) fileKeys() growth {
	return growth{sizes: []int{1000, 10_000, 20_000}, line: b.keysLine, Table: report.Table{
		Title: "Growth: keys in the keys file",
		Text: "Every key has an account of its own; keys are asked for at random, on one core. A file may have " +
			report.Bytes(keysfile.MaxSize) + "; more keys belong into Redis.",
		Header: []string{"keys", "file", "read in", "memory", "memory per key", "authenticating one request"},
	}}
}

// keysLine times the reading of a keys file of n keys, and then whole decisions about
// requests. The memory is what the store holds after a collection.
func (b *bench) keysLine(_ context.Context, n int) []string {
	keys, file := makeKeys(n), b.path("many-keys.yaml")
	text := keysFile(keys)
	size := report.Bytes(float64(len(text)))
	check(os.WriteFile(file, []byte(text), 0o600))
	text = "" // not part of the memory
	// What the process holds besides is in both figures, and falls out.
	before, start := heapNow(), time.Now()
	store := must(keysfile.New(file, auth.Hasher{}, auth.Options{}))
	took, heap := time.Since(start), heapNow()-before
	us := authenticating(store, keys, lookups)
	runtime.KeepAlive(store)
	return []string{size, report.Micros(micros(took)), report.Bytes(heap), report.Bytes(heap / float64(n)), report.Micros(us)}
}

// authenticating times n whole decisions, in microseconds per request.
func authenticating(store auth.Store, keys []string, n int) float64 {
	a := auth.NewAuthenticator(store, auth.Hasher{}, auth.Options{})
	headers := make([][]string, len(keys))
	for i, j := range rand.Perm(len(keys)) {
		headers[i] = []string{"Bearer " + keys[j]}
	}
	return timePer(n, func(i int) { must(a.AuthenticateFrom(context.Background(), headers[i%len(headers)], nil)) })
}

// redisKeys puts growing numbers of keys into Redis with the gateway's own
// tool and authenticates with the gateway's own store.
func (b *bench) redisKeys() growth {
	return growth{sizes: []int{1000, 10_000, 100_000, 1_000_000}, line: b.redisKeysLine, Table: report.Table{
		Title: "Growth: keys in Redis",
		Text: "CPU time of the gateway's side on one core. A key's first request asks Redis; then the key is kept in the process for auth.redis.ttl, " +
			"at most auth.redis.max_keys of them, so a node's memory does not grow with the number of keys.",
		Header: []string{"keys", "Redis", "Redis per key", "a key's first request", "its next ones", "in the process per kept key"},
	}}
}

// redisKeysLine empties Redis and puts n keys there. Redis tells its own memory; that
// of the process is of the keys that were asked for.
func (b *bench) redisKeysLine(ctx context.Context, n int) []string {
	keys, rdb := makeKeys(n), b.redisClient()
	defer rdb.Close()
	check(rdb.FlushAll(ctx).Err())
	before := usedMemory(ctx, rdb)
	addKeys(ctx, rdb, keys)
	size, tried := usedMemory(ctx, rdb)-before, keys[:min(n, keysTried)]
	cfg := auth.DefaultRedisConfig()
	cfg.TTL = time.Hour
	heap := heapNow()
	store := keysredis.New(rdb, "growth", auth.Hasher{}, cfg, auth.Options{})
	defer store.Close()
	first := authenticating(store, tried, len(tried))
	kept := (heapNow() - heap) / float64(len(tried))
	next := authenticating(store, tried, lookups)
	return []string{report.Bytes(size), report.Bytes(size / float64(n)), report.Micros(first), report.Micros(next), report.Bytes(kept)}
}

// addKeys gives every 100 keys an account of their own.
func addKeys(ctx context.Context, rdb redis.UniversalClient, keys []string) {
	admin := keysredis.NewEditor(rdb, "growth", auth.Hasher{})
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(addsAtOnce)
	for i, key := range keys {
		record := auth.KeyRecord{
			ID: "key-" + strconv.Itoa(i), Digest: auth.Hasher{}.Hash(key), Kind: legacy.KindBuyer,
			Account: account(i / keysPerAccount), Scopes: []string{auth.ScopeInquiriesRead},
		}
		group.Go(func() error { return admin.Add(ctx, record, &auth.Account{APIAccess: auth.AccessPaid}) })
	}
	check(group.Wait())
}

// redisClient is a client with enough connections for addKeys. The caller closes it.
func (b *bench) redisClient() redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{b.redis.Addr}, DisableIdentity: true, PoolSize: addsAtOnce})
}

// usedMemory is what Redis has allocated, in bytes.
func usedMemory(ctx context.Context, rdb redis.UniversalClient) float64 {
	info := rdb.InfoMap(ctx, "memory")
	check(info.Err())
	return must(strconv.ParseFloat(info.Item("Memory", "used_memory"), 64))
}
