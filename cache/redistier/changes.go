package redistier

import (
	"context"
	"errors"
	"fmt"
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

// restored is a member that is no change: with a new score the nodes read all changes again.
const restored = "restored"

// changeScript writes changes: ARGV[5] and on are members of the sorted set KEYS[1], each after its
// epoch, or after nothing: then they have a new one in common. A given epoch replaces none that
// is later. Where it writes any it tells the nodes that there is news. A new epoch is above all
// in Redis and above what the node knows (ARGV[1]), so that none which Redis has lost is given out
// again, and is kept in KEYS[2] with the 999 before it: where a node finds the newest that it
// knows, Redis has lost nothing since, which the third number of the reply says: 0. Changes are kept
// for ARGV[2] ms. An eviction may take either key. What no epoch can be goes: 2^52 is in the year 2112.
var changeScript = redis.NewScript(`local time = redis.call('TIME')
local lost = 0
if ARGV[1] ~= '0' and not redis.call('ZSCORE', KEYS[2], ARGV[1]) then lost = 1 end
local newest = redis.call('ZRANGE', KEYS[1], '(4503599627370496', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2] or '0'
local now = time[1] * 1000000 + time[2]
local epoch = string.format('%.0f', math.max(tonumber(newest) + 1, tonumber(ARGV[1]) + 1, now))
local given, back = false, 0
for i = 5, #ARGV, 2 do
  if ARGV[i] ~= '' then
    back = back + redis.call('ZADD', KEYS[1], 'GT', 'CH', ARGV[i], ARGV[i + 1])
  else
    redis.call('ZADD', KEYS[1], epoch, ARGV[i + 1])
    given = true
  end
end
if back > 0 or newest == '0' and not given then redis.call('ZADD', KEYS[1], epoch, ARGV[4]) end
if newest == '0' then redis.call('DEL', KEYS[2]) end
if given or back > 0 then redis.call('PUBLISH', ARGV[3], epoch) end
if given then redis.call('ZADD', KEYS[2], epoch, epoch) else redis.call('ZADD', KEYS[2], ARGV[1], ARGV[1], epoch, epoch) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '4503599627370496', '+inf')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2] * 1000))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1001)
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
return {epoch, back, lost}`)

// write runs changeScript. It returns the new epoch, how many of the given ones were new, and whether
// Redis had lost some.
func (t *Tier) write(ctx context.Context, known uint64, members []any) (epoch uint64, back int, lost bool, err error) {
	args := append([]any{known, t.changeLife.Milliseconds(), t.changeChannel(), restored}, members...)
	got, err := t.rdb.Run(ctx, changeScript, []string{t.changesKey(), t.epochsKey()}, args...).Slice()
	if err != nil {
		return 0, 0, false, err
	}
	var missing int
	if _, err = fmt.Sscan(fmt.Sprintln(got...), &epoch, &back, &missing); err != nil {
		return 0, 0, false, fmt.Errorf("the epoch of a change was not understood: %w", err)
	}
	return epoch, back, missing > 0, nil
}

// Announce has Redis take changes, and tells the nodes. known is the newest epoch that the node
// knows; lost: Redis has not had it, so that it has lost changes, which no later Poll can tell.
// It may be repeated. After an error Redis may have taken all or none.
func (t *Tier) Announce(ctx context.Context, all []Change, known uint64) (epoch uint64, lost bool, err error) {
	var members []any
	for _, c := range all {
		members = append(members, "", c.member())
	}
	epoch, _, lost, err = t.write(ctx, known, members)
	return epoch, lost, err
}

// Restore gives changes back to a Redis that may have lost them. What is later there stays. known is
// the newest epoch that the node knows, of those or of others. It returns how many had been lost.
func (t *Tier) Restore(ctx context.Context, lost Epochs, known uint64) (back int, err error) {
	var members []any
	for c, epoch := range lost {
		members = append(members, epoch, c.member())
	}
	for {
		some := members[:min(len(members), 2*perRestore)]
		_, n, _, err := t.write(ctx, known, some)
		if back += n; err != nil {
			return back, err
		}
		if members = members[len(some):]; len(members) == 0 {
			return back, nil
		}
	}
}

const (
	perPoll    = 5000 // changes are read at once
	perRestore = 1000 // changes are given back at once
)

// News is what Poll found.
type News struct {
	Changes Epochs // from the asked epoch on
	Last    uint64 // the newest epoch there, or the asked one
	More    bool   // there are newer ones
	Lost    bool   // Redis has not had the newest epoch that the node knows, so that it has lost changes
	Back    bool   // lost ones are back since the asked epoch
	Oldest  uint64 // changes of before are of no interest any more
}

// Poll reads the changes from an epoch on, itself included, but none older than life. known is the
// newest epoch that the node knows; 0: none. It reads the clock of Redis, too: see Now. The first one
// asks twice.
func (t *Tier) Poll(ctx context.Context, from, known uint64, life time.Duration) (n News, err error) {
	ctx, cancel := t.rdb.Bounded(ctx)
	defer cancel()
	now, _ := t.Now()
	if now.IsZero() {
		asked := time.Now()
		if now, err = t.rdb.Time(ctx).Result(); err != nil {
			return n, err
		}
		t.clock.Store(&clockReading{now, asked, time.Now()}) // where Redis is far away the next one has time for what follows
	}
	n = News{Changes: Epochs{}, Oldest: uint64(now.Add(-life).Truncate(time.Minute).UnixMicro())}
	n.Last = max(from, n.Oldest)
	pipe := t.rdb.Pipeline()
	found := pipe.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: t.changesKey(), Start: n.Last, Stop: "+inf", ByScore: true, Count: perPoll})
	number := pipe.ZCard(ctx, t.changesKey())
	had := pipe.ZScore(ctx, t.epochsKey(), strconv.FormatUint(known, 10))
	clock := pipe.Time(ctx)
	asked := time.Now()
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return n, err
	}
	t.clock.Store(&clockReading{clock.Val(), asked, time.Now()})
	n.More = len(found.Val()) == perPoll
	n.Lost = known > 0 && (number.Val() == 0 || errors.Is(had.Err(), redis.Nil))
	for _, z := range found.Val() {
		member, _ := z.Member.(string)
		if z.Score < 0 || z.Score >= 1<<52 { // of somebody else: see changeScript
			continue
		}
		epoch := uint64(z.Score)
		if c, ok := changeOf(member); ok {
			n.Changes[c] = epoch
		}
		n.Back = n.Back || member == restored && epoch > from
		n.Last = max(n.Last, epoch)
	}
	return n, nil
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
func (t *Tier) epochsKey() string     { return t.prefix + "epochs:{" + t.changesKey() + "}" } // in the same slot
func (t *Tier) changeChannel() string { return t.prefix + "change" }
