// Package quota bounds the requests that the nodes of a fleet send to the legacy system per second
// ([Ceiling]).
package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bucket is a leaky bucket in Redis (GCRA). One number is stored, the moment at which the
// bucket is full again, by the clock of Redis in microseconds. A bucket that Redis does not have is empty, so that
// nothing is given twice.
type Bucket struct {
	Key   string
	Every time.Duration // in which one token comes back
	Burst time.Duration // how much of Every fits: what is needed comes from all of it
	Low   time.Duration // what is taken beyond need comes only from this much, counted from the full end
}

// Spenders are accounts and what each has spent since the last call. Keys share the hash tag
// of the bucket.
type Spenders struct {
	Keys   []string
	Spent  []int
	Every  time.Duration // one request per Every is an account's share
	Allow  time.Duration // how much of Every it may have spent at once
	Memory time.Duration // how long at most it is over its share
}

// Taken is what Take gave.
type Taken struct {
	Tokens int
	Level  time.Duration   // how long the bucket takes to be full: 0 is full, Burst is empty
	Over   []time.Duration // how long each account is over its share
}

// take takes min(need, what there is), or up to want where the bucket is full enough. A level
// beyond the bucket, as after the clock of Redis was set back, is cut to it, and written on
// refusal, too. 0.001: a level is stored in whole microseconds. '%.0f': Lua itself writes 14
// digits, and a time in microseconds has 16.
const takeSource = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local every, burst, low, need, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local stored = tonumber(redis.call('GET', KEYS[1]) or '') or now + burst
local level = math.min(math.max(stored - now, 0), burst)
local function free(most) return math.floor((most - level) / every + 0.001) end
local k = math.max(0, math.min(need, free(burst)), math.min(want, free(low)))
level = level + k * every
redis.call('SET', KEYS[1], string.format('%.0f', now + level), 'PX', string.format('%.0f', level / 1000 + 3600000))
local reply = {k, level}
local share, allow, memory = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
for i = 2, #KEYS do
  local a = math.max(tonumber(redis.call('GET', KEYS[i]) or '') or now, now) + ARGV[7 + i] * share
  a = math.min(a, now + allow + memory)
  redis.call('SET', KEYS[i], string.format('%.0f', a), 'PX', math.ceil((a - now) / 1000) + 1)
  reply[i + 1] = math.max(0, a - now - allow)
end
return reply`

var take = redis.NewScript(takeSource)

// Take takes tokens out of the bucket: as many as are needed, or up to want where they come
// out of the upper part. It also notes what accounts have spent. ctx bounds the call.
func Take(ctx context.Context, rdb redis.Scripter, b Bucket, need, want int, s Spenders) (Taken, error) {
	keys := append([]string{b.Key}, s.Keys...)
	args := make([]any, 0, 8+len(s.Spent))
	args = append(args, micros(b.Every), micros(b.Burst), micros(b.Low), need, want, micros(s.Every), micros(s.Allow), micros(s.Memory))
	for _, n := range s.Spent {
		args = append(args, n)
	}
	reply, err := take.Run(ctx, rdb, keys, args...).Int64Slice()
	if err != nil {
		return Taken{}, err
	}
	if len(reply) != 1+len(keys) {
		return Taken{}, fmt.Errorf("redis answered %d numbers to a take of tokens, not %d", len(reply), 1+len(keys))
	}
	taken := Taken{Tokens: int(reply[0]), Level: time.Duration(reply[1]) * time.Microsecond}
	for _, over := range reply[2:] {
		taken.Over = append(taken.Over, time.Duration(over)*time.Microsecond)
	}
	return taken, nil
}

// micros has three digits, so that a token of many per second is not rounded away.
func micros(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1000) }
