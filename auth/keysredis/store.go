// Package keysredis serves and edits the API keys that a fleet shares in Redis.
//
// Issuers may write the records themselves, see layout, if they enter each key in the index and append each change to
// the stream of changes.
package keysredis

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

const (
	// PollEvery is how often each node reads what has changed.
	PollEvery = 250 * time.Millisecond
	// changesAtOnce is how many changes are read by one call.
	changesAtOnce = 1000
)

// Config is the `auth.redis:` section. It has no keys: the section redis has them.
type Config struct{}

// Store is an auth.Store over key records in Redis, shared by a fleet. It is
// safe for concurrent use.
//
// A revoked key is refused within PollEvery and two calls of Redis. It is accepted for auth.cache_ttl at most
// on a node that cannot read the changes, or if the issuer has not appended the change.
type Store struct {
	*auth.RemoteStore
	client *redisclient.Client
	layout layout
	log    *slog.Logger
	panics *telemetry.Catcher
	newest prometheus.Gauge
	last   string // id of the newest change that has been read; empty: none has
	stop   context.CancelFunc
	wg     sync.WaitGroup
}

// New returns a store over the records under prefix, whose digests are the hasher's. A grant
// is cached for ttl. Redis need not be up. Close ends the store and leaves the client open.
func New(client *redisclient.Client, prefix string, h auth.Hasher, ttl time.Duration, opts auth.Options) *Store {
	opts = opts.WithDefaults()
	s := &Store{
		client: client, layout: layout{prefix, h.Field()}, log: opts.Logger, panics: opts.Panics,
		newest: telemetry.Series(opts.Registerer, "auth").Gauge("last_change_timestamp_seconds",
			"Time of the newest change of keys that this node has read from Redis."),
	}
	s.RemoteStore = auth.NewRemoteStore("redis", s.policy(ttl), opts)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.wg.Go(func() {
		ticker := time.NewTicker(PollEvery)
		defer ticker.Stop()
		for ctx.Err() == nil {
			s.poll(ctx)
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	return s
}

// SetTTL is for a reload: known keys stay cached.
func (s *Store) SetTTL(ttl time.Duration) { s.SetPolicy(s.policy(ttl)) }

// policy allows two calls of Redis for a look-up: of the key, and of its account or the index.
func (s *Store) policy(ttl time.Duration) auth.RemotePolicy {
	return auth.RemotePolicy{Lookup: s.lookUp, TTL: ttl, Timeout: 2 * s.client.CallTimeout()}
}

// Close stops polling, refuses further look-ups and cancels those in flight.
func (s *Store) Close() {
	s.stop()
	s.wg.Wait()
	s.RemoteStore.Close()
}

// lookUp reads one key, and then its account.
func (s *Store) lookUp(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
	_, k, err := s.layout.readKey(ctx, s.client, c.Digest)
	if err != nil {
		return nil, err
	}
	_, a, err := s.layout.readAccount(ctx, s.client, k.Account)
	if err != nil {
		return nil, err
	}
	return k.Grant(a), nil
}

// DigestOf finds the digest of the key with that id, for Authenticator.CheckByID.
// Errors: auth.ErrNoSuchKey; others mean that Redis could not be asked.
func (s *Store) DigestOf(ctx context.Context, id string) (auth.Digest, error) {
	ctx, cancel := s.client.Bounded(ctx)
	defer cancel()
	return s.layout.digestOf(ctx, s.client, id)
}

// poll reads the changes since the last one, and invalidates what they name. If the last one is no longer in the stream,
// changes have been trimmed or lost, and everything is invalidated. If there is no stream, Redis has lost its data, and
// known keys stay valid for their TTL.
func (s *Store) poll(ctx context.Context) {
	defer s.panics.Catch(nil)
	ctx, cancel := s.client.Bounded(ctx)
	defer cancel()
	if s.last == "" {
		s.begin(ctx)
		return
	}
	for {
		found, err := s.client.XRangeN(ctx, s.layout.changes(), s.last, "+", changesAtOnce).Result()
		if err == nil && len(found) == 0 && s.last != noChange {
			s.begin(ctx) // after a failover the ids may be lower, by another clock
		}
		if err != nil || len(found) == 0 {
			return
		}
		s.take(found)
		if len(found) < changesAtOnce {
			return
		}
	}
}

// noChange is before the first change of a stream.
const noChange = "0-0"

// begin finds the newest change, and invalidates everything, unless a stream that was there is lost.
func (s *Store) begin(ctx context.Context) {
	newest, err := s.client.XRevRangeN(ctx, s.layout.changes(), "+", "-", 1).Result()
	if err != nil || len(newest) == 0 && s.last != "" {
		return
	}
	if s.last = noChange; len(newest) > 0 {
		s.setLast(newest[0].ID)
	}
	s.Invalidate(func(*auth.Grant) bool { return true })
	if warning := EvictionWarning(ctx, s.client); warning != "" {
		s.log.Warn(warning)
	}
}

// take invalidates what changes name. The first one is the last one of before.
func (s *Store) take(found []redis.XMessage) {
	all := s.last != noChange && found[0].ID != s.last
	keys, accounts := map[string]bool{}, map[string]bool{}
	for _, m := range found {
		if m.ID == s.last {
			continue
		}
		key, isKey := m.Values[changedKey].(string)
		account, isAccount := m.Values[changedAccount].(string)
		keys[strings.ToLower(key)], accounts[account] = isKey, isAccount
		all = all || !isKey && !isAccount // not understood
	}
	s.setLast(found[len(found)-1].ID)
	if all || len(keys) > 0 {
		s.Invalidate(func(g *auth.Grant) bool { return all || keys[g.Digest.Hex()] || accounts[g.Principal.Account] })
	}
}

// setLast keeps the id of the newest change: milliseconds since 1970 and a number. In the gauge that is the microseconds.
func (s *Store) setLast(id string) {
	s.last = id
	ms, seq, _ := strings.Cut(id, "-")
	at, _ := strconv.ParseFloat(ms, 64) // ids that others have chosen
	n, _ := strconv.ParseFloat(seq, 64)
	s.newest.Set(at/1000 + min(n, 999)/1e6)
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
