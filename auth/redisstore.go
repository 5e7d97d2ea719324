package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// RedisStore is a Store over key records in Redis, shared by a fleet. It is
// safe for concurrent use.
//
// What is remembered is dropped when the store says that it changed. How long
// a revoked key can stay good on a node:
//
//   - normally: until the message arrives, milliseconds
//   - when the message is lost: Poll, plus Timeout for the read
//   - when the node cannot reach Redis at all: TTL
//
// A record that is changed without the version being raised counts when TTL is
// over.
type RedisStore struct {
	*cachedStore
	client  redis.UniversalClient
	keys    redisKeys
	cfg     RedisConfig
	log     *slog.Logger
	dropped *prometheus.CounterVec
	taken   prometheus.Gauge // the version up to which changes have been taken in
	stop    context.CancelFunc
	done    chan struct{} // closed when watch has ended

	known version // watch's own
}

// NewRedisStore returns a store over the records under prefix, whose digests
// are the hasher's. It does not need Redis to be up. The client should fail
// fast: no retries, short timeouts, contexts honoured. Close ends the store
// and leaves the client open.
func NewRedisStore(client redis.UniversalClient, prefix string, h Hasher, cfg RedisConfig, opts Options) (*RedisStore, error) {
	opts = opts.withDefaults()
	s := &RedisStore{
		client: client,
		keys:   redisKeys{prefix: prefix, sort: h.Field()},
		cfg:    cfg,
		log:    opts.Logger,
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inquiry_gateway_auth_invalidations_total",
			Help: "Times that remembered keys were dropped, by how their change was noticed.",
		}, []string{"cause"}),
		taken: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "inquiry_gateway_auth_store_version",
			Help: "Version of the key store whose changes this node has taken in; nodes should agree within a second.",
		}),
		done: make(chan struct{}),
	}
	if err := register(opts.Registerer, s.dropped, s.taken); err != nil {
		return nil, err
	}
	var err error
	policy := memoryPolicy{ttl: cfg.TTL, negativeTTL: cfg.NegativeTTL, timeout: cfg.Timeout, maxKeys: cfg.MaxKeys, attempts: cfg.UnknownKeys}
	if s.cachedStore, err = newCachedStore("redis", s.read, policy, opts); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.done)
		s.watch(ctx)
	}()
	return s, nil
}

// Close stops watching, refuses further look-ups and waits for those under
// way, which end by their own deadline.
func (s *RedisStore) Close() {
	s.stop()
	<-s.done
	s.close()
}

// read looks one key up.
func (s *RedisStore) read(ctx context.Context, c Credential) (*Grant, error) {
	var record *redis.SliceCmd
	var version *redis.StringCmd
	_, _ = s.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		record = p.HMGet(ctx, s.keys.key(c.Digest.Hex()), keyFields[:]...)
		version = p.Get(ctx, s.keys.version())
		return nil
	})
	if err := record.Err(); err != nil {
		return nil, redisError(err)
	}
	k, err := parseKey(c.Digest, record.Val())
	if errors.Is(err, ErrUnknownKey) && version.Err() != nil {
		// A Redis that lost its data knows no key. That is not the caller's doing.
		// Only then the version matters, which in a Cluster another node may have.
		if errors.Is(version.Err(), redis.Nil) {
			return nil, errors.New("the key store in Redis is empty: no version is set")
		}
		return nil, redisError(version.Err())
	}
	if err != nil {
		return nil, err
	}
	values, err := s.client.HMGet(ctx, s.keys.account(k.Account), accountFields[:]...).Result()
	if err != nil {
		return nil, redisError(err)
	}
	a, err := parseAccount(k.Account, values)
	if err != nil {
		return nil, err
	}
	return k.grant(a), nil
}

// redisError marks what Redis says about data of a wrong type, and drops the
// rest of its texts, which may name keys.
func redisError(err error) error {
	if strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w: a record is no hash", errGarbage)
	}
	return fmt.Errorf("redis: %w", err)
}
