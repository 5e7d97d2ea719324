// Package keysredis serves and edits the API keys that a fleet shares in Redis.
//
// Issuers may write the records by themselves, see names for the lay-out, if they raise the
// version after each change: nodes forget what they have stored when it rises.
package keysredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/telemetry"
)

// Store is an auth.Store over key records in Redis, shared by a fleet. It is
// safe for concurrent use.
//
// Stored answers are dropped when Redis says that a key changed. How long a
// revoked key can stay good on a node:
//
//   - normally: until the message arrives, milliseconds
//   - when the message is lost: Poll, plus Timeout for the read
//   - when the node cannot reach Redis at all: auth.cache_ttl
//
// A record that is changed without the version being raised counts when that time is
// over.
type Store struct {
	*auth.CachedStore
	client  redis.Cmdable
	keys    names
	cfg     auth.RedisConfig
	log     *slog.Logger
	panics  *telemetry.Catcher
	dropped *prometheus.CounterVec
	taken   prometheus.Gauge // the version up to which changes have been taken in
	stop    context.CancelFunc
	done    chan struct{} // closed when watch has ended

	known *auth.Known // with the version of the last change that has been taken in
}

// New returns a store over the records under prefix, whose digests
// are the hasher's. It does not need Redis to be up. The client should fail
// fast: no retries, short timeouts, contexts honoured. Close ends the store
// and leaves the client open.
func New(client redis.Cmdable, prefix string, h auth.Hasher, cfg auth.RedisConfig, policy auth.CachePolicy, opts auth.Options) *Store {
	opts = opts.WithDefaults()
	if opts.Known == nil {
		opts.Known = auth.NewKnown()
	}
	all := telemetry.Series(opts.Registerer, "auth")
	s := &Store{
		client:  client,
		keys:    names{prefix: prefix, sort: h.Field()},
		cfg:     cfg,
		log:     opts.Logger,
		panics:  opts.Panics,
		dropped: all.Counters("invalidations_total", "Times that stored keys were dropped, by how their change was noticed.", "cause"),
		taken: all.Gauge("store_version",
			"Version of the key store whose changes this node has taken in; nodes should agree within a second."),
		done:  make(chan struct{}),
		known: opts.Known,
	}
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

// read looks one key up, with its account, in two round trips. That a key or an account is not there is
// believed only of a store that is whole, since a Redis that has lost its data would lock everybody out.
func (s *Store) read(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
	text, whole, err := s.record(ctx, s.keys.keys(), c.Digest.Hex())
	if err != nil {
		return nil, err
	}
	if text == "" && !whole {
		return nil, errNotWhole
	}
	k, err := parseKey(c.Digest, text)
	if err != nil {
		return nil, err
	}
	text, whole, err = s.record(ctx, s.keys.accounts(), k.Account)
	if err != nil {
		return nil, err
	}
	if text == "" && !whole {
		return nil, errNotWhole
	}
	a, err := parseAccount(k.Account, text)
	if err != nil {
		return nil, err
	}
	return k.Grant(a), nil
}

var errNotWhole = errors.New("the key store in Redis is empty or has lost a part: it has no version, no keys or no accounts")

// record reads a field of a hash. Where it is not there, whole says whether the hash was and a
// version was set before and after that: a store that is emptied, evicted or restored meanwhile
// must not look as if it had no such key.
func (s *Store) record(ctx context.Context, hash, field string) (text string, whole bool, err error) {
	var record *redis.StringCmd
	var versions [2]*redis.StringCmd
	var hashes [2]*redis.IntCmd
	_, _ = s.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		versions[0], hashes[0] = p.Get(ctx, s.keys.version()), p.Exists(ctx, hash)
		record = p.HGet(ctx, hash, field)
		versions[1], hashes[1] = p.Get(ctx, s.keys.version()), p.Exists(ctx, hash)
		return nil
	})
	if err := record.Err(); err == nil {
		return record.Val(), true, nil
	} else if !errors.Is(err, redis.Nil) {
		return "", false, redisError(err)
	}
	for i := range versions {
		err := errors.Join(versions[i].Err(), hashes[i].Err())
		if errors.Is(versions[i].Err(), redis.Nil) || err == nil && hashes[i].Val() == 0 {
			return "", false, nil
		}
		if err != nil {
			return "", false, redisError(err)
		}
	}
	return "", true, nil
}

// DigestOf finds the digest of the key with that id, for Authenticator.ByID.
// Errors: auth.ErrNoSuchKey; others mean that Redis could not be asked.
func (s *Store) DigestOf(ctx context.Context, id string) (auth.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	c := &cell{hash: s.keys.ids(), field: id}
	if err := load(ctx, s.client, c); err != nil {
		return auth.Digest{}, err
	}
	if c.old == "" {
		return auth.Digest{}, auth.NoSuchKey(id)
	}
	digest, err := auth.ParseDigest(c.old)
	if err != nil {
		return auth.Digest{}, fmt.Errorf("%w: the index of ids holds no digest", auth.ErrGarbage)
	}
	return digest, nil
}

// Why stored answers are dropped.
const (
	causeMessage = "message" // one key or account changed
	causeGap     = "gap"     // a message was lost or not understood
	causeVersion = "version" // the version read shows a change that no message told
)

// watch follows the changes of the store until the context ends.
func (s *Store) watch(ctx context.Context) {
	sub := s.client.(interface { // a client, and no pipeline
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	}).Subscribe(ctx, s.keys.changes())
	defer func() { _ = sub.Close() }()
	messages := sub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(time.Second))
	ticker := time.NewTicker(s.cfg.Poll)
	defer ticker.Stop()
	s.poll(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.poll(ctx)
		case m := <-messages:
			switch m := m.(type) {
			case *redis.Subscription:
				// Messages may have been lost before. The version says whether they
				// were: a new connection alone is no reason to forget keys, least of
				// all while the server that has them may be away.
				s.poll(ctx)
				s.tellPolicy(ctx)
			case *redis.Message:
				s.apply(m.Payload)
			}
		}
	}
}

// poll reads the version. While that fails nothing is dropped: known keys are
// good within their time.
func (s *Store) poll(ctx context.Context) {
	defer s.panics.Catch(nil)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	version := s.known.Version()
	n, err := s.client.Get(ctx, s.keys.version()).Int64()
	if errors.Is(err, redis.Nil) {
		n, err = 0, nil // read tells an empty store from an unknown key
	}
	s.SetAway(err != nil)
	if err != nil || n == version || s.known.Version() != version { // the last: a store of before a reload was faster
		return
	}
	if n < version {
		s.log.Warn("the key store in Redis went back in time", slog.Int64("from", version), slog.Int64("to", n))
	}
	s.drop(causeVersion, n, s.ForgetAll)
}

// tellPolicy warns of a Redis that drops keys when its memory is full, where its user may read that.
func (s *Store) tellPolicy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if warning := EvictionWarning(ctx, s.client); warning != "" {
		s.log.Warn(warning)
	}
}

// EvictionWarning is what to tell the operator of a Redis that drops keys of callers when its memory
// is full; empty: it does not, or does not say.
func EvictionWarning(ctx context.Context, client redis.Cmdable) string {
	info, _ := client.Info(ctx, "memory").Result() // it is no failure of the gateway that it may not ask
	_, rest, _ := strings.Cut(info, "maxmemory_policy:")
	policy, _, _ := strings.Cut(rest, "\r\n")
	if !strings.HasPrefix(policy, "allkeys-") {
		return ""
	}
	return "this Redis may drop the keys of callers, who get 503 then: its maxmemory-policy is " + policy + "; set noeviction or volatile-lru"
}

// apply drops what a message names. A message that is not understood, or whose version
// does not follow the last one, means that something was missed.
func (s *Store) apply(message string) {
	defer s.panics.Catch(func(any) { s.ForgetAll() }) // what it was about is not known
	number, rest, _ := strings.Cut(message, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	version := s.known.Version()
	if err != nil || n <= 0 {
		s.drop(causeGap, version, s.ForgetAll)
		return
	}
	if n <= version {
		return // a poll was faster
	}
	forget := s.changed(rest)
	if version < 0 || n != version+1 || forget == nil {
		s.drop(causeGap, n, s.ForgetAll)
		return
	}
	s.drop(causeMessage, n, forget)
}

// changed reads what a message names: "key <digest>" and "account <id>", one or several. Nil:
// it is not understood.
func (s *Store) changed(pairs string) (forget func()) {
	var digests []auth.Digest
	var accounts []string
	words := strings.Split(pairs, " ")
	if len(words)%2 != 0 {
		return nil
	}
	for ; len(words) > 0; words = words[2:] {
		switch what, id := words[0], words[1]; {
		case what == changedAccount && id != "":
			accounts = append(accounts, id)
		case what == changedKey:
			digest, err := auth.ParseDigest(id)
			if err != nil {
				return nil
			}
			digests = append(digests, digest)
		default:
			return nil
		}
	}
	return func() {
		for _, d := range digests {
			s.Forget(d)
		}
		for _, id := range accounts {
			s.ForgetAccount(id)
		}
	}
}

// drop makes stored answers be looked up again, which takes in the changes up to a version, and
// tells metrics so.
func (s *Store) drop(cause string, version int64, forget func()) {
	forget()
	s.known.SetVersion(version)
	s.taken.Set(float64(version))
	s.dropped.WithLabelValues(cause).Inc()
}
