package ttllab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/zeebo/xxh3"
)

// batch is what one node has noted in about a second. Its moments are on the node's clock,
// and so is Now; who applies the batch knows when that was on the clock that all share.
type batch struct {
	header
	groups []groupBatch
}

// A message is a header, and for each group a groupHeader and so many notes, fills and
// votes, each written as it stands here.
type (
	header struct {
		Format       uint8
		Node, Layout uint64 // Layout tells whether two nodes mean the same by a group's index
		Now          int64
		Lost         uint64 // look-ups that were too many to be noted
	}
	groupHeader struct {
		Counts             counts
		Below              uint64 // as in watch
		Notes, Fills, Vote uint32
	}
	groupBatch struct {
		Counts counts
		Below  uint64
		notes  []note
		fills  []fill
		votes  []vote
	}
	// counts are look-ups and what became of them.
	counts struct {
		Lookups, Waited, Failed, Fills, Rechecks uint64
		Took                                     int64 // by all fills, ns
	}
	// fill is a body that the cache has got.
	fill struct {
		Hash, Body   uint64
		At, Answered int64 // when it was noted, and when the legacy gave it
		Size         uint32
		Seen         bool // in an answer, not fetched: only what a log can tell
	}
	// vote is one re-check: what the legacy says now of a list that was served.
	vote struct {
		Hash, Body   uint64 // Body: what the legacy says
		At, Answered int64  // of the comparison, and of the served list
		Weight       float32
		Outdated     bool
		Selected     bool // from the list that the legacy is asked for
	}
)

const format = 1

func (c counts) plus(o counts) counts {
	return counts{c.Lookups + o.Lookups, c.Waited + o.Waited, c.Failed + o.Failed, c.Fills + o.Fills, c.Rechecks + o.Rechecks, c.Took + o.Took}
}

func (c counts) minus(o counts) counts {
	return counts{c.Lookups - o.Lookups, c.Waited - o.Waited, c.Failed - o.Failed, c.Fills - o.Fills, c.Rechecks - o.Rechecks, c.Took - o.Took}
}

// layoutOf is the same for nodes with the same groups.
func layoutOf(kinds []Kind) uint64 {
	h := uint64(len(kinds))
	for _, k := range kinds {
		h = mix(h ^ xxh3.HashString(k.Name))
	}
	return h
}

// encode writes a batch as a message.
func (b *batch) encode() []byte {
	out := fixed(nil, b.header)
	for i := range b.groups {
		g := &b.groups[i]
		out = fixed(out, groupHeader{g.Counts, g.Below, uint32(len(g.notes)), uint32(len(g.fills)), uint32(len(g.votes))})
		out = fixed(fixed(fixed(out, g.notes), g.fills), g.votes)
	}
	return out
}

// fixed appends data of a fixed size, which cannot fail.
func fixed(b []byte, data any) []byte {
	b, _ = binary.Append(b, binary.LittleEndian, data)
	return b
}

// errForeign is returned for a message of another version or configuration.
var errForeign = errors.New("ttllab: a message of a node with another version or other groups of lists")

// decode reads a message with so many groups.
func decode(message []byte, layout uint64, groups int) (*batch, error) {
	in := bytes.NewReader(message)
	head, ok := read[header](in, 1)
	if !ok || head[0].Format != format || head[0].Layout != layout {
		return nil, errForeign
	}
	b := &batch{header: head[0]}
	for range groups {
		h, ok := read[groupHeader](in, 1)
		if !ok {
			return nil, errForeign
		}
		g := groupBatch{Counts: h[0].Counts, Below: h[0].Below}
		var notes, fills, votes bool
		g.notes, notes = read[note](in, h[0].Notes)
		g.fills, fills = read[fill](in, h[0].Fills)
		g.votes, votes = read[vote](in, h[0].Vote)
		if !notes || !fills || !votes {
			return nil, errForeign
		}
		b.groups = append(b.groups, g)
	}
	if in.Len() > 0 {
		return nil, errForeign
	}
	return b, nil
}

// read reads n values of a fixed size; false: there are not as many.
func read[T any](in *bytes.Reader, n uint32) ([]T, bool) {
	var one T
	if uint64(n)*uint64(binary.Size(one)) > uint64(in.Len()) {
		return nil, false
	}
	all := make([]T, n)
	return all, binary.Read(in, binary.LittleEndian, all) == nil
}

// Message is one of the fleet's stream.
type Message struct {
	At   int64 // when it came, Unix ns on the clock of the stream, the same for all nodes
	Body []byte
}

// Exchange appends a message to the stream of a fleet that has so many nodes, and returns
// what has come since the last call, that one included, in the order of the stream.
type Exchange func(ctx context.Context, message []byte, nodes int) ([]Message, error)

// readAtMost messages are read at a time.
const readAtMost = 1024

// Stream exchanges by a capped stream of Redis: one round trip a call. It begins with the
// first message that it appends, and is for one goroutine. The key expires when no node
// writes to it.
func Stream(client redis.Cmdable, key string) Exchange {
	last := ""
	return func(ctx context.Context, message []byte, nodes int) ([]Message, error) {
		var added *redis.StringCmd
		var came *redis.XMessageSliceCmd
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			// Each node reads once a second, and may miss some seconds.
			added = p.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: int64(max(64, 16*nodes)), Approx: true, Values: []any{"b", message}})
			if last != "" {
				came = p.XRangeN(ctx, key, "("+last, "+", readAtMost)
			}
			p.PExpire(ctx, key, time.Hour)
			return nil
		})
		if err != nil {
			return nil, err
		}
		var all []Message
		found, id := false, added.Val()
		if came != nil {
			for _, m := range came.Val() {
				body, _ := m.Values["b"].(string)
				last, found = m.ID, found || m.ID == id
				all = append(all, Message{momentOf(m.ID), []byte(body)})
			}
		}
		if !found && len(all) < readAtMost { // the first call, or a Redis that has lost the stream and is at smaller ids
			last = id
			all = append(all, Message{momentOf(id), message})
		}
		return all, nil
	}
}

// momentOf is the time of a stream's id, Unix ns.
func momentOf(id string) int64 {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n > math.MaxInt64/int64(time.Millisecond) {
		return 0
	}
	return n * int64(time.Millisecond)
}
