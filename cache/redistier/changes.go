package redistier

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Change is that lists were purged, or, where it is not hard, that a hint was given about
// them. Of is whose: a kind, or an account by its hash. The newest of each is all that the
// fleet keeps: as a member of one sorted set, with its epoch as the score.
type Change struct {
	Of   string
	Hard bool
}

// Epochs are the epochs of changes. An epoch is above all that were given out before, and is
// the time of Redis in microseconds unless its clock was set back.
type Epochs map[Change]uint64

func (c Change) member() string {
	if c.Hard {
		return "hard " + c.Of
	}
	return "soft " + c.Of
}

// changeOf is the change that a member of the sorted set is; false: it is none.
func changeOf(member string) (Change, bool) {
	how, of, ok := strings.Cut(member, " ")
	return Change{of, how == "hard"}, ok && of != "" && (how == "hard" || how == "soft")
}

// changeScript gives the changes ARGV[4] and on one epoch, and tells the nodes that there is
// news. It counts from the time in microseconds, and from what the node knows (ARGV[1]), so that
// an epoch which Redis has lost is never given out again. Changes are kept for ARGV[2] ms.
var changeScript = redis.NewScript(`local time = redis.call('TIME')
local newest = redis.call('ZRANGE', KEYS[1], 0, 0, 'REV', 'WITHSCORES')[2] or '0'
local epoch = string.format('%.0f', math.max(tonumber(newest) + 1, tonumber(ARGV[1]) + 1, time[1] * 1000000 + time[2]))
for i = 4, #ARGV do redis.call('ZADD', KEYS[1], epoch, ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', epoch - ARGV[2] * 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], epoch)
return epoch`)

// Announce has Redis take changes, and tells the nodes. known is the newest epoch that the node
// knows. It may be repeated. After an error Redis may have taken all or none.
func (t *Tier) Announce(ctx context.Context, all []Change, known uint64) (epoch uint64, err error) {
	args := []any{known, t.changeLife.Milliseconds(), t.changeChannel()}
	for _, c := range all {
		args = append(args, c.member())
	}
	text, err := t.rdb.Run(ctx, changeScript, []string{t.changesKey()}, args...).Text()
	if err != nil {
		return 0, err
	}
	if epoch, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, fmt.Errorf("the epoch of a change was not understood: %w", err)
	}
	return epoch, nil
}

// perPoll is how many changes are read at once.
const perPoll = 5000

// News is what Poll found.
type News struct {
	Changes Epochs // from the asked epoch on
	Last    uint64 // the newest of them, or the asked epoch
	More    bool   // there are newer ones
	Newest  uint64 // of all in Redis
	Oldest  uint64 // changes of before are of no interest any more
	Count   int    // of those in Redis from Oldest on
}

// Poll reads the changes from an epoch on, itself included, but none older than life. It reads
// the clock of Redis, too: see Now.
func (t *Tier) Poll(ctx context.Context, from uint64, life time.Duration) (n News, err error) {
	ctx, cancel := t.rdb.Bounded(ctx)
	defer cancel()
	now, _ := t.Now()
	if now.IsZero() {
		if now, err = t.rdb.Time(ctx).Result(); err != nil {
			return n, err
		}
	}
	n = News{Changes: Epochs{}, Oldest: uint64(now.Add(-life).Truncate(time.Minute).UnixMicro())}
	n.Last = max(from, n.Oldest)
	pipe, key := t.rdb.Pipeline(), t.changesKey()
	found := pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: key, Start: n.Last, Stop: "+inf", ByScore: true, Count: perPoll})
	newest := pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: key, Start: 0, Stop: 0, Rev: true})
	count := pipe.ZCount(ctx, key, strconv.FormatUint(n.Oldest, 10), "+inf")
	clock := pipe.Time(ctx)
	asked := time.Now()
	if _, err := pipe.Exec(ctx); err != nil {
		return n, err
	}
	t.clock.Store(&clockReading{clock.Val(), asked, time.Now()})
	n.Count, n.More = int(count.Val()), len(found.Val()) == perPoll
	for _, z := range newest.Val() {
		n.Newest = epochOf(z)
	}
	for _, z := range found.Val() {
		member, _ := z.Member.(string)
		if c, ok := changeOf(member); ok {
			n.Changes[c] = epochOf(z)
		}
		n.Last = max(n.Last, epochOf(z))
	}
	return n, nil
}

// epochOf is the score of a change. Whoever else writes there cannot make it one that no
// change could have.
func epochOf(z redis.Z) uint64 { return uint64(min(max(z.Score, 0), 1<<53)) }

// Restore gives changes back to a Redis that may have lost them. What is later there stays.
// It returns how many had been lost.
func (t *Tier) Restore(ctx context.Context, lost Epochs) (restored int, err error) {
	var all []redis.Z
	for c, epoch := range lost {
		all = append(all, redis.Z{Score: float64(epoch), Member: c.member()})
	}
	for some := range slices.Chunk(all, perPoll) {
		ctx, cancel := t.rdb.Bounded(ctx)
		pipe := t.rdb.Pipeline()
		n := pipe.ZAddArgs(ctx, t.changesKey(), redis.ZAddArgs{GT: true, Ch: true, Members: some})
		pipe.PExpire(ctx, t.changesKey(), t.changeLife)
		_, err = pipe.Exec(ctx)
		cancel()
		if restored += int(n.Val()); err != nil {
			break
		}
	}
	return restored, err
}

// clockReading is what the clock of Redis said between two moments of this node's.
type clockReading struct{ redis, asked, got time.Time }

// Now is what the clock of Redis says: at least early, at most late. Both are zero before the
// first Poll.
func (t *Tier) Now() (early, late time.Time) {
	if c := t.clock.Load(); c != nil {
		return c.redis.Add(time.Since(c.got)), c.redis.Add(time.Since(c.asked))
	}
	return time.Time{}, time.Time{}
}

// Listen takes in the messages of the other nodes until ctx ends: it wakes who waits for a
// fill, and calls news where Poll may find some.
func (t *Tier) Listen(ctx context.Context, news func()) {
	t.rdb.Listen(ctx, func(channel, payload string) {
		defer t.panics.Catch(nil) // of this message: the listener goes on
		if channel == t.fillChannel() {
			t.wake(payload)
		} else {
			news()
		}
	}, func(connected bool) {
		t.connected.Store(connected)
		news() // messages may have been lost
	}, t.changeChannel(), t.fillChannel())
}

// Connected tells whether messages arrive.
func (t *Tier) Connected() bool { return t.connected.Load() }

func (t *Tier) changesKey() string    { return t.prefix + "changes" }
func (t *Tier) changeChannel() string { return t.prefix + "change" }
