package redistier

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	streamGroup = "inquiry-gateway" // of consumers; all nodes are of one
	// streamBatch bounds what one call reads.
	streamBatch = 100
	// streamIdle is after how long an entry that another node has read, and not
	// acknowledged, is taken over from it.
	streamIdle = 5 * time.Second
)

// StreamEntry is one entry of a stream.
type StreamEntry struct {
	ID     string
	Fields map[string]any // strings
}

// ErrNoStream is returned by ReadStream when the stream, or what the fleet knows of it,
// was not there: entries may have been lost. It is there now.
var ErrNoStream = errors.New("the stream was not there")

// ReadStream reads entries that no node has done with: those that a node has read and
// left first, then new ones, up to 100. The node's name must be its own.
func (t *Tier) ReadStream(ctx context.Context, stream, node string) ([]StreamEntry, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	group := t.prefix + streamGroup
	left, _, err := t.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: stream, Group: group, Consumer: node, MinIdle: streamIdle, Start: "0", Count: streamBatch,
	}).Result()
	if err == nil && len(left) == 0 {
		var read []redis.XStream
		read, err = t.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: node, Streams: []string{stream, ">"}, Count: streamBatch, Block: -1,
		}).Result()
		if len(read) > 0 {
			left = read[0].Messages
		}
	}
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil && strings.HasPrefix(err.Error(), "NOGROUP"):
		switch err = t.rdb.XGroupCreateMkStream(ctx, stream, group, "0").Err(); {
		case err == nil:
			err = ErrNoStream
		case strings.HasPrefix(err.Error(), "BUSYGROUP"): // another node was first, and tells
			err = nil
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	all := make([]StreamEntry, len(left))
	for i, m := range left {
		all[i] = StreamEntry{m.ID, m.Values}
	}
	return all, nil
}

// DoneStream removes entries that are done with.
func (t *Tier) DoneStream(ctx context.Context, stream string, ids []string) error {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	p := t.rdb.Pipeline()
	p.XAck(ctx, stream, t.prefix+streamGroup, ids...)
	p.XDel(ctx, stream, ids...)
	_, err := p.Exec(ctx)
	return err
}
