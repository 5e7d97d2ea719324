// Package keysredis serves and edits the API keys that a fleet shares in Redis.
//
// Issuers may write the records by themselves, see layout, if they raise the version of the
// shard after each change: nodes forget what they remember of it when it rises.
package keysredis

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

const (
	// PollEvery is how often each node asks Redis whether a key has changed, for what its messages lose.
	PollEvery = 500 * time.Millisecond
	// messageDelay is how long a message may be on its way after its version was polled.
	messageDelay = 20 * time.Millisecond
)

// Config is the `auth.redis:` section. It has no keys: the section redis has them.
type Config struct{}

// Hints says what to do about keys of before.
func (Config) Hints() map[string]string {
	return map[string]string{"timeout": "is no key any more; redis.timeout bounds the look-up of a key, too: remove this one"}
}

// Store is an auth.Store over key records in Redis, shared by a fleet. It is
// safe for concurrent use.
//
// A node forgets what it remembers of a key when Redis says that the key has changed. For
// so long at most it still lets a revoked key in:
//
//   - until the message of the change arrives: milliseconds
//   - where the message is lost: PollEvery, redis.timeout for the read, and messageDelay
//   - where the node cannot reach Redis at all: auth.cache_ttl
//   - where who changed the record has not raised the version: auth.cache_ttl
type Store struct {
	*auth.RemoteStore
	client  *redisclient.Client
	layout  layout
	memory  *auth.Memory // with the version of each shard that has been taken in
	log     *slog.Logger
	panics  *telemetry.Catcher
	dropped *prometheus.CounterVec
	taken   prometheus.Gauge
	pollNow chan struct{} // capacity 1: messages may have been lost
	hears   atomic.Bool   // messages come
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu sync.Mutex // one change is taken in at a time
}

// New returns a store over the records under prefix, whose digests are the hasher's. A grant
// counts for ttl. Redis need not be up. Close ends the store and leaves the client open.
func New(client *redisclient.Client, prefix string, h auth.Hasher, ttl time.Duration, opts auth.Options) *Store {
	return newStore(client, prefix, h, ttl, opts, PollEvery)
}

func newStore(client *redisclient.Client, prefix string, h auth.Hasher, ttl time.Duration, opts auth.Options, pollEvery time.Duration) *Store {
	opts = opts.WithDefaults()
	all := telemetry.Series(opts.Registerer, "auth")
	s := &Store{
		client:  client,
		layout:  layout{prefix: prefix, sort: h.Field()},
		memory:  opts.Memory,
		log:     opts.Logger,
		panics:  opts.Panics,
		dropped: all.Counters("invalidations_total", "Times that stored keys were dropped, by how their change was noticed.", "cause"),
		taken: all.Gauge("store_version",
			"Changes of the key store which this node has taken in; nodes should agree within a second."),
		pollNow: make(chan struct{}, 1),
	}
	twoCalls := 2 * client.CallTimeout() // of the key, and of its account
	s.RemoteStore = auth.NewRemoteStore("redis", s.lookUp, auth.RemotePolicy{TTL: ttl, Timeout: twoCalls}, opts)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.wg.Go(func() {
		client.Listen(ctx, func(_, message string) { s.apply(message) }, s.connected, s.layout.changes())
	})
	s.wg.Go(func() {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		for {
			s.poll(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			case <-s.pollNow:
				s.warn(ctx)
			}
		}
	})
	return s
}

// Close stops watching, refuses further look-ups and gives up those under way.
func (s *Store) Close() {
	s.stop()
	s.wg.Wait()
	s.RemoteStore.Close()
}

// lookUp reads one key, and then its account.
func (s *Store) lookUp(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
	record, err := s.record(ctx, s.layout.key(c.Digest))
	if err != nil {
		return nil, err
	}
	k, err := parseKey(c.Digest, record)
	if err != nil {
		return nil, err
	}
	record, err = s.record(ctx, s.layout.account(k.Account))
	if err != nil {
		return nil, err
	}
	a, err := parseAccount(k.Account, record)
	if err != nil {
		return nil, err
	}
	return k.Grant(a), nil
}

var errLost = errors.New("the key store in Redis is empty or has lost a part")

// record reads a cell. That it is empty is believed only of a shard that is there, since a Redis
// that has lost its data would lock everybody out.
func (s *Store) record(ctx context.Context, c cell) (string, error) {
	versions, err := cells{&c}.read(ctx, s.client, s.layout)
	if err == nil && c.old == "" && versions[c.shard] == "" {
		err = errLost
	}
	return c.old, err
}

// DigestOf finds the digest of the key with that id, for Authenticator.ByID.
// Errors: auth.ErrNoSuchKey; others mean that Redis could not be asked, or that a shard is lost in
// which the key may have been.
func (s *Store) DigestOf(ctx context.Context, id string) (auth.Digest, error) {
	ctx, cancel := s.client.Bounded(ctx)
	defer cancel()
	all := withID(id)
	versions, err := all.read(ctx, s.client, s.layout)
	if err != nil {
		return auth.Digest{}, err
	}
	for _, c := range all {
		if c.old != "" {
			return parseDigest(c.old)
		}
	}
	if slices.Contains(versions[:], "") {
		return auth.Digest{}, errLost
	}
	return auth.Digest{}, auth.NoSuchKey(id)
}

// Why remembered answers are dropped.
const (
	causeMessage = "message" // one key or account changed
	causeGap     = "gap"     // a message was lost or not understood
	causeVersion = "version" // the version read shows a change that no message told
)

// connected is told whether messages come. A new connection is no reason to forget keys, which may
// not be looked up again while Redis is away: poll reads from the versions whether messages were lost.
func (s *Store) connected(hears bool) {
	s.hears.Store(hears)
	if hears {
		select {
		case s.pollNow <- struct{}{}:
		default:
		}
	}
}

// poll reads the versions, and forgets what is remembered of the shards whose version is another. Where
// the read fails nothing is forgotten. First it waits for messages that may be on their way: they
// name single keys, so less is forgotten.
func (s *Store) poll(ctx context.Context) {
	defer s.panics.Catch(nil)
	before, _ := s.known()
	ctx, cancel := s.client.Bounded(redisclient.Probing(ctx))
	defer cancel()
	texts, err := everyShard().read(ctx, s.client, s.layout)
	s.SetAway(err != nil)
	read := map[int]int64{}
	for n, text := range texts {
		v, garbage := strconv.ParseInt("0"+text, 10, 64) // one that is not there is like one that has begun
		if garbage == nil && (text != "" || err == nil) {
			read[n] = v
		}
	}
	s.awaitMessages(read)
	s.mu.Lock()
	defer s.mu.Unlock()
	now, known := s.known()
	for n, v := range read {
		switch {
		case known[n] && (now[n] == v || now[n] != before[n] || texts[n] == ""):
			// taken in, or a message was faster, or the shard is lost: its keys go on within their time
			delete(read, n)
		case now[n] > v:
			s.log.Warn("the key store in Redis went back in time", slog.Int64("from", now[n]), slog.Int64("to", v))
		}
	}
	if len(read) > 0 {
		s.drop(causeVersion, read, func() { s.forgetShards(read) })
	}
}

// known are the versions of the shards that have been taken in.
func (s *Store) known() (versions [shards]int64, known [shards]bool) {
	for n := range shards {
		versions[n], known[n] = s.memory.Version(n)
	}
	return versions, known
}

// awaitMessages waits for the messages of versions that have been read, where messages come.
func (s *Store) awaitMessages(read map[int]int64) {
	behind := func() bool {
		now, known := s.known()
		for n, v := range read {
			if known[n] && now[n] < v {
				return true
			}
		}
		return false
	}
	for start := time.Now(); s.hears.Load() && behind() && time.Since(start) < messageDelay; {
		time.Sleep(messageDelay / 10)
	}
}

// warn tells of a Redis that drops keys when its memory is full, where its user may read that,
// and of one that has keys which are not read.
func (s *Store) warn(ctx context.Context) {
	ctx, cancel := s.client.Bounded(ctx)
	defer cancel()
	if warning := EvictionWarning(ctx, s.client); warning != "" {
		s.log.Warn(warning)
	}
	if isOlder(ctx, s.client, s.layout) {
		s.log.Warn(errOlder.Error())
	}
}

var errOlder = errors.New("the keys in this Redis are in the layout of an older version, which is not read: docs/redis.md says how to bring them over")

// isOlder tells whether there are keys in the layout of before, and none in this one.
func isOlder(ctx context.Context, client redis.Cmdable, l layout) bool {
	versions, err := everyShard().read(ctx, client, l)
	return err == nil && versions == [shards]string{} && client.Exists(ctx, l.older()).Val() > 0
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
	s.mu.Lock()
	defer s.mu.Unlock()
	shard, rest, _ := strings.Cut(message, " ")
	number, pairs, _ := strings.Cut(rest, " ")
	n, v := strings.Index(digits, shard), int64(0)
	if len(shard) == 1 && n >= 0 {
		v, _ = strconv.ParseInt(number, 10, 64)
	}
	if v <= 0 {
		s.drop(causeGap, nil, s.ForgetAll)
		return
	}
	last, known := s.memory.Version(n)
	if known && v <= last {
		return // a poll was faster
	}
	now := map[int]int64{n: v}
	forget := s.named(pairs)
	if !known || v != last+1 || forget == nil {
		s.drop(causeGap, now, func() { s.forgetShards(now) })
		return
	}
	s.drop(causeMessage, now, forget)
}

// named reads what a message names: "key <digest>" and "account <id>", one or several. Nil:
// it is not understood.
func (s *Store) named(pairs string) (forget func()) {
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

// forgetShards makes the keys be looked up again that are in these shards, or their accounts.
func (s *Store) forgetShards(some map[int]int64) {
	s.ForgetWhere(func(g *auth.Grant) bool {
		_, key := some[shardOf(g.Digest)]
		_, account := some[shardOfAccount(g.Principal.Account)]
		return key || account
	})
}

// drop calls forget, notes that the changes up to these versions are taken in, and counts it.
// s.mu is held.
func (s *Store) drop(cause string, versions map[int]int64, forget func()) {
	forget()
	for n, v := range versions {
		s.memory.SetVersion(n, v)
	}
	sum := 0.0
	all, _ := s.known()
	for _, v := range all {
		sum += float64(v)
	}
	s.taken.Set(sum)
	s.dropped.WithLabelValues(cause).Inc()
}
