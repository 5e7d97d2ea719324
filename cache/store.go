package cache

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPrefix = "iq"
	keyVersion    = "1" // of the Redis keys; a new layout never meets an old one
	// redisTimeout bounds one call, connecting included.
	redisTimeout = 100 * time.Millisecond
	// maxWrites bounds the entries that wait for a slow Redis at once. What
	// comes on top is dropped and counted.
	maxWrites = 64
	// slack is read beyond the limit, so that a value over it is seen to be.
	slack = 1
)

var errBusy = errors.New("too many writes to Redis at once")

// store is the Redis tier: plain values with an end, one slot per call. It is
// safe for concurrent use.
type store struct {
	rdb    redis.UniversalClient
	prefix string
	writes chan struct{}
}

func newStore(rdb redis.UniversalClient, prefix string) *store {
	return &store{rdb: rdb, prefix: prefix + ":" + keyVersion + ":", writes: make(chan struct{}, maxWrites)}
}

// accountKey starts every key of an account. The hash is in braces, so that a
// cluster keeps all of the account in one slot; the account itself never
// appears.
func (s *store) accountKey(account string) string {
	return s.prefix + "{" + hashOf(account) + "}:"
}

// entryKey is the name of a list.
func (s *store) entryKey(k Key, fingerprint string) string {
	return s.accountKey(k.Account) + k.Kind + ":" + fingerprint + ":" + hashOf(k.Account, k.Status, k.InquiryType)
}

// hashOf hashes its parts so that no two lists of parts run together.
func hashOf(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// get reads at most max+slack bytes of a value; what is longer is too big for
// an entry, and the caller sees that by its length. Nothing there is no error.
func (s *store) get(ctx context.Context, key string, max int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	return s.rdb.GetRange(ctx, key, 0, int64(max+slack-1)).Bytes()
}

// put stores a value until ttl has passed.
func (s *store) put(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	select {
	case s.writes <- struct{}{}:
		defer func() { <-s.writes }()
	default:
		return errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	return s.rdb.Set(ctx, key, value, ttl).Err()
}
