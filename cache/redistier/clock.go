package redistier

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// clockDrift is how much two clocks may part: 1 s in 10,000 s.
	clockDrift = 10_000
	// clockWarn is how far this node's clock may be off before it is logged.
	clockWarn = 500 * time.Millisecond
)

// timeScript is TIME with a key: in a Cluster all nodes ask the same master.
var timeScript = redis.NewScript(`return redis.call('TIME')`)

// clock tells the time of Redis, on which the ages of shared lists are
// counted, so that no two nodes' clocks are ever compared. It goes with this
// process's monotonic clock: a step of the wall clock does not move it. It is
// safe for concurrent use.
type clock struct {
	now    func() time.Time
	off    bool // Redis is never asked: this node's clock counts
	log    *slog.Logger
	best   atomic.Pointer[clockSample] // nil: not known yet, this node's clock counts
	warned atomic.Bool
	denied atomic.Bool
}

// clockSample is one comparison of the two clocks.
type clockSample struct {
	local, redis time.Time     // of the same moment, give or take bound
	bound        time.Duration // half of the round trip
}

// boundAt is how wrong the sample may be at a later moment.
func (s *clockSample) boundAt(now time.Time) time.Duration {
	return s.bound + max(now.Sub(s.local), 0)/clockDrift
}

// at is what Redis' clock shows at a moment of this node's.
func (s *clockSample) at(local time.Time) time.Time { return s.redis.Add(local.Sub(s.local)) }

// ask adds the question to a pipeline, or nothing where the clock is off. learn
// takes its answer after the pipeline, which was sent not before start.
func (c *clock) ask(ctx context.Context, p redis.Pipeliner, key string) *redis.Cmd {
	if c.off {
		return nil
	}
	return timeScript.Eval(ctx, p, []string{key})
}

// learn takes in the answer to ask; nil: nothing was asked. Where the user of Redis may not
// ask for the time, that is logged once and this node's clock counts.
func (c *clock) learn(start time.Time, answer *redis.Cmd) {
	if answer == nil {
		return
	}
	end := c.now()
	parts, err := answer.Int64Slice()
	if err != nil || len(parts) != 2 {
		if strings.HasPrefix(err.Error(), "NOPERM") && !c.denied.Swap(true) {
			c.log.Error("the user of Redis may not read its time, so that lists age on each node's own clock; docs/redis.md has the ACL", "err", err)
		}
		return
	}
	trip := max(end.Sub(start), 0)
	c.take(&clockSample{local: start.Add(trip / 2), redis: time.Unix(parts[0], parts[1]*1000), bound: trip / 2})
}

// take keeps the better of two samples. One that the old cannot explain is
// taken in any case: a clock was set, or another Redis is the master.
func (c *clock) take(s *clockSample) {
	if old := c.best.Load(); old != nil {
		bound := old.boundAt(s.local)
		if off := old.at(s.local).Sub(s.redis).Abs(); s.bound > bound && off <= s.bound+bound {
			return
		}
	}
	c.best.Store(s)
	switch off := c.offset(); {
	case off.Abs() <= clockWarn:
		c.warned.Store(false)
	case !c.warned.Swap(true):
		c.log.Warn("this node's clock is not that of Redis; lists age on Redis' clock, but certificates, expiry of keys and logs follow this node's",
			"ahead_seconds", off.Seconds())
	}
}

// offset is by how much this node's wall clock is ahead; 0 while it is unknown.
func (c *clock) offset() time.Duration {
	s := c.best.Load()
	if s == nil {
		return 0
	}
	now := c.now()
	return now.Round(0).Sub(s.at(now))
}

// Stamp is a moment of this node's clock as it is written to Redis, Unix ns. It is
// early by what may be wrong, so that no list seems younger than it is.
func (c *clock) Stamp(moment time.Time) int64 {
	s := c.best.Load()
	if s == nil {
		return moment.UnixNano()
	}
	return s.at(moment).Add(-s.boundAt(c.now())).UnixNano()
}

// Age is how old at the moment now something with that stamp is at most.
func (c *clock) Age(now time.Time, stamp int64) time.Duration {
	s := c.best.Load()
	if s == nil {
		return now.Round(0).Sub(time.Unix(0, stamp))
	}
	return s.at(now).Sub(time.Unix(0, stamp)) + s.boundAt(now)
}
