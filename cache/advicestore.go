package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// millis is a moment in Unix milliseconds; 0 is the zero time.
func millis(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

func (s *store) adviceKey(kind string) string { return s.prefix + "advice:{" + kind + "}" }
func (s *store) probeKey(kind string) string  { return s.adviceKey(kind) + ":probe" }
func (s *store) adviceChannel() string        { return s.prefix + "advice" }

// adviseScript stores advice and tells the nodes; 0 also frees the probe.
var adviseScript = redis.NewScript(`redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 0`)

func (s *store) advise(ctx context.Context, kind string, until time.Time, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var ms int64
	if !until.IsZero() {
		ms = until.UnixMilli()
	}
	return adviseScript.Run(ctx, s.rdb, []string{s.adviceKey(kind), s.probeKey(kind)},
		ms, max(ttl.Milliseconds(), 1), s.adviceChannel(), kind+" "+strconv.FormatInt(ms, 10)).Err()
}

func (s *store) advice(ctx context.Context, kind string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	n, err := s.rdb.Get(ctx, s.adviceKey(kind)).Int64()
	if errors.Is(err, redis.Nil) {
		return time.Time{}, nil
	}
	return millis(n), err
}

func (s *store) acquireProbe(ctx context.Context, kind string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.rdb.SetNX(ctx, s.probeKey(kind), rand.Text(), probeLife).Result()
}
