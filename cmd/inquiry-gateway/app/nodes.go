package app

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/gateway/ops/console"
)

const (
	// startsKey is where the nodes that share Redis write down their starts; the
	// prefix comes first.
	startsKey = ":2:starts"
	// pollStarts is how often a node looks for starts of the others.
	pollStarts = 10 * time.Second
	// keptStarts and startsTTL bound what is written down.
	keptStarts = 64
	startsTTL  = 7 * 24 * time.Hour
	// startsTimeout bounds one call of Redis.
	startsTimeout = 500 * time.Millisecond
)

// writeStart appends a line of time, node and version, by the clock of Redis.
var writeStart = redis.NewScript(`local lines = {}
for line in string.gmatch(redis.call('GET', KEYS[1]) or '', '[^\n]+') do lines[#lines + 1] = line end
lines[#lines + 1] = redis.call('TIME')[1] .. '\t' .. ARGV[1]
return redis.call('SET', KEYS[1], table.concat(lines, '\n', math.max(1, #lines - ARGV[2] + 1)), 'PX', ARGV[3])`)

// starts are those that the console marks: of this node, and of the nodes that
// share its Redis. They are safe for concurrent use.
type starts struct {
	known atomic.Pointer[[]console.Start]
}

// list gives the oldest first.
func (s *starts) list() []console.Start {
	if known := s.known.Load(); known != nil {
		return *known
	}
	return nil
}

// followStarts writes this start down, and reads those of all nodes, until ctx ends.
// Without Redis this one is all.
func (a *App) followStarts(ctx context.Context) {
	own := console.Start{At: time.Now(), Node: nodeName(a.public.listener), Version: a.opts.Version}
	a.starts.known.Store(&[]console.Start{own})
	if a.redis == nil {
		return
	}
	key := a.current.Load().cfg.Redis.Prefix + startsKey // its change needs a restart
	tick := time.NewTicker(pollStarts)
	defer tick.Stop()
	for written := false; ; {
		written = a.starts.exchange(ctx, a.redis, key, own, written)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// exchange writes the start down unless it is, and tells whether it is. What fails
// is tried again; the client counts it.
func (s *starts) exchange(ctx context.Context, rdb redis.Cmdable, key string, own console.Start, written bool) bool {
	ctx, cancel := context.WithTimeout(ctx, startsTimeout)
	defer cancel()
	if !written {
		line := strings.NewReplacer("\t", " ", "\n", " ").Replace(own.Node) + "\t" + own.Version
		written = writeStart.Run(ctx, rdb, []string{key}, line, keptStarts, startsTTL.Milliseconds()).Err() == nil
	}
	if text, err := rdb.Get(ctx, key).Result(); err == nil {
		if all := parseStarts(text); len(all) > 0 {
			s.known.Store(&all)
		}
	}
	return written
}

// parseStarts leaves out lines that are none: another version may have written them.
func parseStarts(text string) (all []console.Start) {
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 3 {
			continue
		}
		if at, err := strconv.ParseInt(parts[0], 10, 64); err == nil {
			all = append(all, console.Start{At: time.Unix(at, 0), Node: parts[1], Version: parts[2]})
		}
	}
	return all
}

const (
	// labChannel is where the TTL labs of a fleet tell each other what is looked up; in
	// the channel's name comes the prefix first.
	labChannel = ":2:lab"
	// publishWithin bounds one message. One that is lost is missing in the figures.
	publishWithin = 500 * time.Millisecond
)

// shareLab has the TTL labs of the nodes that share Redis see the look-ups of all,
// until ctx ends. Redis gets hashes of lists, and their moments.
func (a *App) shareLab(ctx context.Context) {
	if a.redis == nil {
		return
	}
	channel := a.current.Load().cfg.Redis.Prefix + labChannel // its change needs a restart
	messages := make(chan []byte)
	go func() {
		defer close(messages)
		a.redis.Listen(ctx, func(_, payload string) {
			select {
			case messages <- []byte(payload):
			case <-ctx.Done():
			}
		}, func(bool) {}, channel)
	}()
	a.lab.Share(ctx, func(ctx context.Context, message []byte) {
		ctx, cancel := context.WithTimeout(ctx, publishWithin)
		defer cancel()
		_ = a.redis.Publish(ctx, channel, message).Err() // counted by the client; the next second has another
	}, messages, a.catcher("lab"))
}
