package fleet

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// keyVersion changes with the form of keys and messages: nodes of two forms
	// do not understand each other.
	keyVersion = "2"
	// callTimeout bounds one call of a client that does not say its own.
	callTimeout = 100 * time.Millisecond
)

// store keeps advice, the lease of the probe, and who has which part of the ceiling in
// Redis. It is safe for concurrent use.
type store struct {
	rdb     redis.Cmdable
	prefix  string
	timeout time.Duration // of one call
}

// newStore keeps its keys below prefix; empty: iq. A client may say how long a call may
// take.
func newStore(rdb redis.Cmdable, prefix string) *store {
	s := &store{rdb: rdb, prefix: cmp.Or(prefix, "iq") + ":" + keyVersion + ":", timeout: callTimeout}
	if c, ok := rdb.(interface{ CallTimeout() time.Duration }); ok {
		s.timeout = c.CallTimeout()
	}
	return s
}

func (s *store) adviceKey(kind string) string { return s.prefix + "advice:{" + kind + "}" }
func (s *store) probeKey(kind string) string  { return s.adviceKey(kind) + ":probe" }
func (s *store) channel() string              { return s.prefix + "advice" }
func (s *store) ceilingKey() string           { return s.prefix + "ceiling" }

var (
	// adviseScript stores advice, ends the lease of the probe, and tells the nodes.
	adviseScript = redis.NewScript(`redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 0`)
	// releaseScript ends the lease of the probe if it is still the caller's.
	releaseScript = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0`)
)

// advise stores advice for ttl; a zero until ends what was advised before.
func (s *store) advise(ctx context.Context, kind string, until time.Time, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var ms int64
	if !until.IsZero() {
		ms = until.UnixMilli()
	}
	return adviseScript.Run(ctx, s.rdb, []string{s.adviceKey(kind), s.probeKey(kind)},
		ms, max(ttl.Milliseconds(), 1), s.channel(), kind+" "+strconv.FormatInt(ms, 10)).Err()
}

// advice reads what is advised; the zero time: nothing.
func (s *store) advice(ctx context.Context, kind string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	n, err := s.rdb.Get(ctx, s.adviceKey(kind)).Int64()
	if errors.Is(err, redis.Nil) {
		return time.Time{}, nil
	}
	return millis(n), err
}

// millis is a moment in Unix milliseconds; 0 is the zero time.
func millis(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// acquire takes the lease of the probe if nobody has it.
func (s *store) acquire(ctx context.Context, kind, token string, life time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.rdb.SetNX(ctx, s.probeKey(kind), token, life).Result()
}

// release ends the lease of a probe, if it is the one of this token.
func (s *store) release(ctx context.Context, kind, token string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return releaseScript.Run(ctx, s.rdb, []string{s.probeKey(kind)}, token).Err()
}
