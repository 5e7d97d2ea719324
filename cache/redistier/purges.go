package redistier

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// All is the scope of all lists. It has one soft purge, from when Redis began to remember purges: of
// those before nothing is known.
const All = "*"

// Purge says which lists are purged. Redis keeps one number for each, its newest moment in microseconds
// on the clock of Redis, as the score in a sorted set.
type Purge struct {
	Scope string // a kind, an account by its Hash, or All
	Soft  bool
}

func (p Purge) member() string {
	if p.Soft {
		return "soft " + p.Scope
	}
	return "hard " + p.Scope
}

// purgeOf parses a member of the sorted set.
func purgeOf(member string) (p Purge, ok bool) {
	mode, scope, _ := strings.Cut(member, " ")
	return Purge{scope, mode == "soft"}, scope != "" && (mode == "soft" || mode == "hard")
}

// purgeScript gives members of KEYS[1] a new moment, which is later than all moments there and not before
// ARGV[2]. ARGV[3] and on are a moment and a member: the member is left out if it has that moment or a
// later one. Purges older than ARGV[1] ms are removed, and a new key begins with a purge of all lists. A Redis without
// memory takes purges, too: it does not refuse a script that has begun by removing.
var purgeScript = redis.NewScript(`local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local newest = redis.call('ZRANGE', KEYS[1], 0, 0, 'REV', 'WITHSCORES')[2]
local moment = string.format('%.0f', math.max(now, (newest or 0) + 1, tonumber(ARGV[2])))
local began = redis.call('ZSCORE', KEYS[1], 'soft *') or moment
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[1] * 1000))
redis.call('ZADD', KEYS[1], began, 'soft *')
for i = 3, #ARGV, 2 do
  if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i + 1]) or 0) < tonumber(ARGV[i]) then
    redis.call('ZADD', KEYS[1], moment, ARGV[i + 1])
  end
end
return moment`)

// endOfTime is later than every moment: a double holds it exactly.
const endOfTime = 1 << 53

// Purge has Redis take purges, and returns their moment, which is not before atLeast. Without purges it
// makes Redis begin to remember them. It may be repeated. After an error Redis has taken all or none.
func (t *Tier) Purge(ctx context.Context, purges []Purge, atLeast uint64) (moment uint64, err error) {
	args := []any{t.purgeLife.Milliseconds(), atLeast}
	for _, p := range purges {
		args = append(args, uint64(endOfTime), p.member())
	}
	return t.rdb.Run(ctx, purgeScript, []string{t.purgesKey()}, args...).Uint64()
}

// Repeat has Redis take again, at a new moment, those of the purges that it has lost.
func (t *Tier) Repeat(ctx context.Context, purges map[Purge]uint64) error {
	args := []any{t.purgeLife.Milliseconds(), 0}
	for p, moment := range purges {
		args = append(args, moment, p.member())
	}
	return t.rdb.Run(ctx, purgeScript, []string{t.purgesKey()}, args...).Err()
}

// PerRead bounds the purges that are read at once. No more must have one moment.
const PerRead = 5000

// Purges are what PurgesSince has read.
type Purges struct {
	Moments    map[Purge]uint64
	Newest     uint64 // moment of them; 0 without any
	More       bool   // there may be newer ones
	Remembered bool   // false: Redis is new, or has lost its memory, and does not remember purges yet
}

// PurgesSince reads the purges from a moment on, but none older than life, and the clock of Redis: see
// Now. The first call asks twice.
func (t *Tier) PurgesSince(ctx context.Context, from uint64, life time.Duration) (found Purges, err error) {
	ctx, cancel := t.rdb.Bounded(ctx)
	defer cancel()
	now, _ := t.Now()
	if now.IsZero() {
		asked := time.Now()
		if now, err = t.rdb.Time(ctx).Result(); err != nil {
			return found, err
		}
		t.clock.Store(&clockReading{now, asked, time.Now()}) // if Redis is far away the next call has time for what follows
	}
	from = max(from, uint64(now.Add(-life).UnixMicro()))
	pipe, asked := t.rdb.Pipeline(), time.Now()
	members := pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: t.purgesKey(), Start: from, Stop: "+inf", ByScore: true, Count: PerRead})
	began := pipe.ZScore(ctx, t.purgesKey(), Purge{All, true}.member())
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return found, err
	}
	t.clock.Store(&clockReading{clock.Val(), asked, time.Now()})
	found = Purges{Moments: map[Purge]uint64{}, More: len(members.Val()) == PerRead, Remembered: began.Err() == nil}
	for _, z := range members.Val() {
		member, _ := z.Member.(string)
		if p, ok := purgeOf(member); ok && z.Score > 0 && z.Score < endOfTime {
			found.Moments[p] = uint64(z.Score)
			found.Newest = max(found.Newest, uint64(z.Score))
		}
	}
	return found, nil
}

// clockReading is what the clock of Redis said between two moments of this node's.
type clockReading struct{ redis, asked, got time.Time }

// Now is what the clock of Redis says: at least early, at most late. Both are zero before the
// first PurgesSince.
func (t *Tier) Now() (early, late time.Time) {
	if c := t.clock.Load(); c != nil {
		return c.redis.Add(time.Since(c.got)), c.redis.Add(time.Since(c.asked))
	}
	return time.Time{}, time.Time{}
}

func (t *Tier) purgesKey() string { return t.prefix + "purges" }
