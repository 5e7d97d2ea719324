package rate

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// scripter is what the library needs of Redis. A whole client would have the
// compiler write hundreds of methods for underPrefix.
type scripter interface {
	redis.Scripter
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

// underPrefix is Redis as the library sees it, whose keys all begin with a word
// of its own: they are put under the gateway's prefix, which may be all that the
// gateway's user of Redis is allowed to touch.
type underPrefix struct {
	scripter
	prefix string
}

// Eval runs a script on the keys under the prefix.
func (u underPrefix) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return u.scripter.Eval(ctx, script, u.under(keys), args...)
}

// EvalSha runs a script that Redis has on the keys under the prefix.
func (u underPrefix) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return u.scripter.EvalSha(ctx, sha, u.under(keys), args...)
}

func (u underPrefix) under(keys []string) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = u.prefix + ":" + key
	}
	return names
}
