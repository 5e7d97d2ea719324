// Package redistier talks to Redis: it keeps the lists of a fleet there, and tells
// its nodes of each other's purges and fills.
//
//	<prefix>:5:{<account>}:<kind>:<mapping>:<list>                  a list
//	<prefix>:5:{<account>}:<kind>:<mapping>:<list>:lease:<moment>   who fills it
//	<prefix>:5:purges                                               purges
//	<prefix>:5:fill                                                 a channel
//
// Accounts and lists are hashed. Redis may lose all of it: lists are filled again, and those of before
// are then soft-purged. Every key but that of the purges expires. All moments in Redis are of its own
// clock, which PurgesSince reads: no node's clock plays a part.
package redistier

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

const (
	keyVersion = "5" // of the Redis keys; a new layout never meets an old one
	// maxWrites bounds the entries that wait for a slow Redis at once. What
	// comes on top is dropped and counted.
	maxWrites = 64
	// LeaseLife is how soon the fleet gets over a node that died with a lease.
	LeaseLife = time.Second
	// seenBytes of a value are enough to know it by: its checksum or nonce is among them.
	seenBytes = 40
)

// ErrBusy is returned by Put when too many writes wait for Redis already.
var ErrBusy = errors.New("too many writes to Redis at once")

// A lease is the token of the flight that has it, and a + after it when others wait.
var (
	// leaseScript takes a lease where there is no list, or still the one that starts with
	// ARGV[4], which the caller has refused. So who gets it has seen what the last holder
	// stored. It returns the list, if that is another one, and who has the lease: nobody can
	// have it in a Redis that is full.
	leaseScript = redis.NewScript(`local list = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1])
if type(list) ~= 'string' then
  if string.sub(list.err, 1, 9) ~= 'WRONGTYPE' then return list end
  list = ''
end
if list ~= '' and (ARGV[4] == '' or string.sub(list, 1, #ARGV[4]) ~= ARGV[4]) then return {list, ''} end
local taken = redis.pcall('SET', KEYS[2], ARGV[2], 'NX', 'PX', ARGV[3])
if type(taken) == 'table' then return {'', taken.ok and ARGV[2] or ''} end
local holder = redis.call('GET', KEYS[2]) or ''
if string.sub(holder, -1) ~= '+' then redis.pcall('SET', KEYS[2], holder .. '+', 'XX', 'KEEPTTL') end
return {'', holder}`)
	// putScript stores a list, unless ARGV[2] is 0, ends the lease under which it was filled,
	// and wakes who waits: also where the list is not stored, or the lease was lost.
	putScript = redis.NewScript(`local stored = {ok = 'OK'}
if ARGV[2] ~= '0' then stored = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
local holder = redis.call('GET', KEYS[2])
if holder == ARGV[3] or holder == ARGV[3] .. '+' then redis.call('DEL', KEYS[2]) end
if holder ~= ARGV[3] then redis.call('PUBLISH', ARGV[4], KEYS[1]) end
return stored`)
	renewScript = redis.NewScript(`local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] and holder ~= ARGV[1] .. '+' then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
)

// Options are what a tier is built from. Client and PurgeLife are required.
type Options struct {
	Client    *redisclient.Client // closed by its owner
	Prefix    string              // of every key and channel
	PurgeLife time.Duration       // how long Redis remembers a purge
	Panics    *telemetry.Catcher  // of Listen
}

// Tier is what the cache keeps in Redis: values with an end, one slot per call. Each call
// ends within the timeout of the client. It is safe for concurrent use.
type Tier struct {
	rdb       *redisclient.Client
	prefix    string
	purgeLife time.Duration
	writes    chan struct{}
	panics    *telemetry.Catcher

	clock     atomic.Pointer[clockReading] // nil: not read yet
	connected atomic.Bool                  // messages arrive
	mu        sync.Mutex
	awaited   map[string]*await // by key of a list: the flights of this node that wait for another's fill
}

// New makes a tier. Redis need not be up.
func New(o Options) *Tier {
	return &Tier{
		rdb: o.Client, prefix: o.Prefix + ":" + keyVersion + ":", purgeLife: o.PurgeLife,
		writes: make(chan struct{}, maxWrites), panics: o.Panics, awaited: map[string]*await{},
	}
}

// Down tells whether requests are kept away from Redis, or from a part of a
// Cluster.
func (t *Tier) Down() bool { return t.rdb.Down() }

// Slow is how long one read may take for a flight to call Redis once more. With
// the timeout of that call it bounds what a slow Redis adds.
func (t *Tier) Slow() time.Duration { return t.rdb.CallTimeout() / 2 }

// ListID is everything that names a list in Redis.
type ListID struct {
	Kind, Account, Status, InquiryType string
	Fingerprint                        string // of the mapping that made it
}

// Names are what Redis knows one list by. Its keys share a slot in a cluster: the
// account's hash is in braces. The account itself never appears.
type Names struct {
	Account string // hashed
	Entry   string // the key of the list
	Purged  uint64 // the moment of its newest purge that is known: who fills it since waits for no fill of before
}

func (n Names) lease() string { return n.Entry + ":lease:" + strconv.FormatUint(n.Purged, 36) }

// Names makes the keys of a list.
func (t *Tier) Names(id ListID) Names {
	account := Hash(id.Account)
	return Names{Account: account, Entry: t.prefix + "{" + account + "}:" + id.Kind + ":" + id.Fingerprint + ":" + Hash(id.Account, id.Status, id.InquiryType)}
}

// Hash hashes its parts so that no two lists of parts run together.
func Hash(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Read reads a list as it was Put; nil: it is not there. At most limit+1 bytes are read;
// what is longer is too big for an entry, and the caller sees that by its length. The bytes
// must not be changed.
func (t *Tier) Read(ctx context.Context, n Names, limit int) ([]byte, error) {
	ctx, cancel := t.rdb.Bounded(ctx)
	defer cancel()
	return valueOf(t.rdb.GetRange(ctx, n.Entry, 0, int64(limit)))
}

// valueOf is what Redis has given; nil: there is nothing, or something that is no value.
func valueOf(c *redis.StringCmd) ([]byte, error) {
	raw, err := c.Bytes()
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return nil, nil
	}
	return raw, err
}

// NewToken makes what a flight takes a lease with.
func NewToken() string { return rand.Text() }

// Seen is what Lease has to know of a value that was refused.
func Seen(raw []byte) string { return string(raw[:min(len(raw), seenBytes)]) }

// Lease takes the lease of a list with a token, if the list is not there or is the one that seen
// is of; else it returns the list, as Read does. holder is the token of the flight that has the
// lease, of any node; empty: nobody can have it.
//
// It takes the lease first and then looks, by two plain commands, which cost Redis half of what a
// script does. Only where another flight has the lease a script tells it that somebody waits.
func (t *Tier) Lease(ctx context.Context, n Names, token string, limit int, seen string) (raw []byte, holder string, err error) {
	ctx, cancel := t.rdb.Bounded(ctx) // all calls together
	defer cancel()
	p := t.rdb.Pipeline()
	taken := p.SetNX(ctx, n.lease(), token, LeaseLife)
	list := p.GetRange(ctx, n.Entry, 0, int64(limit))
	_, _ = p.Exec(ctx) // each has its own error
	if raw, err = valueOf(list); err != nil {
		return nil, "", err
	}
	if seen != "" && strings.HasPrefix(string(raw[:min(len(raw), seenBytes)]), seen) {
		raw = nil
	}
	switch {
	case len(raw) > 0 && taken.Val():
		_ = t.Release(ctx, n, token) // an error leaves it to its end
		return raw, "", nil
	case len(raw) > 0:
		return raw, "", nil
	case taken.Val():
		return nil, token, nil
	}
	got, err := t.rdb.Run(ctx, leaseScript, []string{n.Entry, n.lease()}, limit, token, LeaseLife.Milliseconds(), seen).StringSlice()
	if err != nil || len(got) != 2 {
		return nil, "", cmp.Or(err, errors.New("what Redis says of a lease was not understood"))
	}
	return []byte(got[0]), strings.TrimSuffix(got[1], "+"), nil
}

// Put stores a list until ttl has passed. If it was filled under a lease, with a token, the lease
// ends, and the nodes that wait are woken, in the same round trip, whether the list is stored
// or not.
func (t *Tier) Put(ctx context.Context, n Names, value []byte, ttl time.Duration, token string) error {
	select {
	case t.writes <- struct{}{}:
		defer func() { <-t.writes }()
	default:
		if token != "" {
			_ = t.Release(ctx, n, token) // an error leaves it to its end
		}
		return ErrBusy
	}
	if token == "" {
		ctx, cancel := t.rdb.Bounded(ctx)
		defer cancel()
		return t.rdb.Set(ctx, n.Entry, value, ttl).Err()
	}
	return t.rdb.Run(ctx, putScript, []string{n.Entry, n.lease()}, value, ttl.Milliseconds(), token, t.fillChannel()).Err()
}

// Release ends a lease after a fill that stored nothing, and wakes who waits. An
// error leaves the lease to its end.
func (t *Tier) Release(ctx context.Context, n Names, token string) error {
	return t.rdb.Run(ctx, putScript, []string{n.Entry, n.lease()}, "", 0, token, t.fillChannel()).Err()
}

// Renew gives a lease another LeaseLife. held: it is still ours.
func (t *Tier) Renew(ctx context.Context, n Names, token string) (held bool, err error) {
	got, err := t.rdb.Run(ctx, renewScript, []string{n.lease()}, token, LeaseLife.Milliseconds()).Int()
	return got == 1, err
}

// await is closed when another node has ended its fill of a list.
type await struct {
	done   chan struct{}
	number int // of those who wait
}

// Await returns a channel that is closed when another node ends its fill of the
// list. stop must be called.
func (t *Tier) Await(n Names) (done <-chan struct{}, stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.awaited[n.Entry]
	if a == nil {
		a = &await{done: make(chan struct{})}
		t.awaited[n.Entry] = a
	}
	a.number++
	return a.done, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if a.number--; a.number == 0 && t.awaited[n.Entry] == a {
			delete(t.awaited, n.Entry)
		}
	}
}

// wake wakes all who wait for a list. Who waits from now on waits for the next fill.
func (t *Tier) wake(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.awaited[key]; a != nil {
		close(a.done)
		delete(t.awaited, key)
	}
}

// Listen wakes who waits for a fill of another node, until ctx ends.
func (t *Tier) Listen(ctx context.Context) {
	t.rdb.Listen(ctx, func(_, payload string) {
		defer t.panics.Catch(nil) // of this message: the listener goes on
		t.wake(payload)
	}, t.connected.Store, t.fillChannel())
}

// Connected tells whether messages arrive.
func (t *Tier) Connected() bool { return t.connected.Load() }

func (t *Tier) fillChannel() string { return t.prefix + "fill" }
