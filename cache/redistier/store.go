// Package redistier keeps in Redis what the nodes of a fleet share: lists, the right to fetch one, and purges.
//
//	<prefix>:6:{<account>}:<kind>:<mapping>:<list>                  a list
//	<prefix>:6:{<account>}:<kind>:<mapping>:<list>:lease:<moment>   who fills it
//	<prefix>:6:purges                                               purges
//
// Accounts and lists are hashed. Redis may lose all of it: lists are filled again, and those of before
// are then soft-purged. Every key but that of the purges expires. All moments in Redis are of its own
// clock, which PurgesSince reads: no node's clock plays a part.
package redistier

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/redisclient"
)

const (
	keyVersion = "6" // of the Redis keys; a new layout never meets an old one
	// maxWrites bounds the entries that wait for a slow Redis at once. What
	// comes on top is dropped and counted.
	maxWrites = 64
	// seenBytes of a value are enough to know it by: its checksum or nonce is among them.
	seenBytes = 40
)

// ErrBusy is returned by Put when too many writes wait for Redis already.
var ErrBusy = errors.New("too many writes to Redis at once")

// putScript stores a list, unless ARGV[2] is 0, and ends the lease under which it was fetched, unless that
// has passed to another flight.
var putScript = redis.NewScript(`local stored = {ok = 'OK'}
if ARGV[2] ~= '0' then stored = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
if redis.call('GET', KEYS[2]) == ARGV[3] then redis.call('DEL', KEYS[2]) end
return stored`)

// Tier is what the cache keeps in Redis: values that expire. The keys of one call share a slot, and each call
// ends within the timeout of the client. It is safe for concurrent use.
type Tier struct {
	rdb       *redisclient.Client
	prefix    string
	purgeLife time.Duration
	writes    chan struct{}
	clock     atomic.Pointer[clockReading] // nil: not read yet
}

// New makes a tier, whose keys begin with prefix. Redis remembers a purge for purgeLife, and need not be up. The
// client is closed by its owner.
func New(client *redisclient.Client, prefix string, purgeLife time.Duration) *Tier {
	return &Tier{rdb: client, prefix: prefix + ":" + keyVersion + ":", purgeLife: purgeLife, writes: make(chan struct{}, maxWrites)}
}

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

// Canonical is all of it in one text, so that no two ids have the same.
func (id ListID) Canonical() []byte {
	return join(id.Kind, id.Account, id.Status, id.InquiryType, id.Fingerprint)
}

// join puts parts after one another so that no two lists of parts run together.
func join(parts ...string) (b []byte) {
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// Hash hashes its parts.
func Hash(parts ...string) string {
	sum := sha256.Sum256(join(parts...))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Read reads a list as it was Put; empty: it is not there. At most limit+1 bytes are read;
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

// Lease takes the lease of a list with a token for as long as life, unless another flight has it, and reads
// the list: nil if there is none, or still the one that seen is of, which the caller has refused. Who takes
// a lease reads what the last holder has stored. An error says that nobody can have the lease.
func (t *Tier) Lease(ctx context.Context, n Names, token string, life time.Duration, limit int, seen string) (list []byte, won bool, err error) {
	ctx, cancel := t.rdb.Bounded(ctx) // all calls together
	defer cancel()
	end := int64(limit)
	if seen != "" {
		end = seenBytes - 1
	}
	p := t.rdb.Pipeline()
	taken := p.SetNX(ctx, n.lease(), token, life)
	read := p.GetRange(ctx, n.Entry, 0, end)
	_, _ = p.Exec(ctx) // each has its own error
	list, err = valueOf(read)
	if err == nil {
		err = taken.Err()
	}
	if seen != "" && len(list) > 0 {
		if string(list) == seen {
			return nil, taken.Val(), err
		}
		list, err = valueOf(t.rdb.GetRange(ctx, n.Entry, 0, int64(limit)))
	}
	return list, taken.Val(), err
}

// Put stores a list until ttl has passed. If it was fetched under a lease, with a token, the lease ends in
// the same round trip, whether the list is stored or not.
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
	return t.rdb.Run(ctx, putScript, []string{n.Entry, n.lease()}, value, ttl.Milliseconds(), token).Err()
}

// Release ends a lease after a fetch that stored nothing. An error leaves the lease to its end.
func (t *Tier) Release(ctx context.Context, n Names, token string) error {
	return t.rdb.Run(ctx, putScript, []string{n.Entry, n.lease()}, "", 0, token).Err()
}
