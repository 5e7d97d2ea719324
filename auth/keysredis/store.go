// Package keysredis serves, edits and watches the API keys that a fleet shares in Redis.
//
// Issuers may write the records by themselves, see names for the lay-out, if they raise the
// version after each change: nodes forget what they have stored when it rises.
package keysredis

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/panics"
	"inquiry-gateway/internal/series"
)

// Store is an auth.Store over key records in Redis, shared by a fleet. It is
// safe for concurrent use.
//
// Stored answers are dropped when Redis says that a key changed. How long a
// revoked key can stay good on a node:
//
//   - normally: until the message arrives, milliseconds
//   - when the message is lost: Poll, plus Timeout for the read
//   - when the node cannot reach Redis at all: TTL
//
// A record that is changed without the version being raised counts when TTL is
// over.
type Store struct {
	*auth.CachedStore
	client  redis.Cmdable
	keys    names
	cfg     auth.RedisConfig
	log     *slog.Logger
	panics  *panics.Catcher
	dropped *prometheus.CounterVec
	taken   prometheus.Gauge // the version up to which changes have been taken in
	stop    context.CancelFunc
	done    chan struct{} // closed when watch has ended

	known version // watch's own
}

// New returns a store over the records under prefix, whose digests
// are the hasher's. It does not need Redis to be up. The client should fail
// fast: no retries, short timeouts, contexts honoured. Close ends the store
// and leaves the client open.
func New(client redis.Cmdable, prefix string, h auth.Hasher, cfg auth.RedisConfig, opts auth.Options) *Store {
	opts = opts.WithDefaults()
	all := series.In(opts.Registerer, "auth")
	s := &Store{
		client:  client,
		keys:    names{prefix: prefix, sort: h.Field()},
		cfg:     cfg,
		log:     opts.Logger,
		panics:  opts.Panics,
		dropped: all.Counters("invalidations_total", "Times that stored keys were dropped, by how their change was noticed.", "cause"),
		taken: all.Gauge("store_version",
			"Version of the key store whose changes this node has taken in; nodes should agree within a second."),
		done: make(chan struct{}),
	}
	policy := auth.CachePolicy{TTL: cfg.TTL, NegativeTTL: cfg.NegativeTTL, Timeout: cfg.Timeout, MaxKeys: cfg.MaxKeys, UnknownKeys: cfg.UnknownKeys}
	s.CachedStore = auth.NewCachedStore("redis", s.read, policy, opts)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.done)
		s.watch(ctx)
	}()
	return s
}

// Close stops watching, refuses further lookups and waits for those under
// way, which end by their own deadline.
func (s *Store) Close() {
	s.stop()
	<-s.done
	s.CachedStore.Close()
}

// read looks one key up, with its account: one round trip for the key and the version, and
// one for the account. An unknown key is believed only where a version is set, since a Redis
// that has lost its data would lock everybody out.
func (s *Store) read(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
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
	if errors.Is(err, auth.ErrUnknownKey) && version.Err() != nil {
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
	a, err := readAccount(ctx, s.client, s.keys, k.Account)
	if err != nil {
		return nil, err
	}
	if a.APIAccess == auth.AccessNone && version.Err() == nil && errors.Is(s.client.Get(ctx, s.keys.version()).Err(), redis.Nil) {
		return nil, errors.New("the key store in Redis was emptied between a key and its account")
	}
	return k.Grant(a), nil
}

// DigestOf finds the digest of the key with that id, for Authenticator.ByID.
// Errors: auth.ErrNoSuchKey; others mean that Redis could not be asked.
func (s *Store) DigestOf(ctx context.Context, id string) (auth.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return digestOf(ctx, s.client, s.keys, id)
}
