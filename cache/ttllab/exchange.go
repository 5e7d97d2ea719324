package ttllab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/zeebo/xxh3"
)

// batch is what one node noted since the batch before. Its moments are on the node's clock,
// and so is Now: who applies the batch knows when that was on the clock that all share.
type batch struct {
	Now    int64
	Lost   uint64 // look-ups that were too many to be noted, or whose batch could not be sent
	groups []groupBatch
}

type (
	groupBatch struct {
		Counts   counts
		Below    uint64 // as in watched
		notes    []note
		fills    []fill
		rechecks []recheck
	}
	// counts are look-ups and what became of them.
	counts struct {
		Lookups, Waited, Failed, Fills uint64
		Took                           int64 // by all fills, ns
	}
	// fill is a body that the cache has got.
	fill struct {
		Hash, Body   uint64
		At, Answered int64 // when it was noted, and when the legacy gave it
		Size         uint32
		Seen         bool // in an answer, not fetched: only what a log can tell
	}
	// recheck is what the legacy says now of a list that was served.
	recheck struct {
		Hash, Body   uint64
		At, Answered int64   // of the comparison, and of the served list
		Weight       float32 // how many answers it stands for
		Outdated     bool
		Selected     bool // the served list was selected from the one that Hash is of
	}
)

func (c counts) minus(o counts) counts {
	return counts{c.Lookups - o.Lookups, c.Waited - o.Waited, c.Failed - o.Failed, c.Fills - o.Fills, c.Took - o.Took}
}

// encode writes a batch as a message, each group that has anything after its index; nil: there
// is nothing to tell.
func (b *batch) encode() []byte {
	message, nothing := fixed(nil, b.Now, b.Lost), b.Lost == 0
	for i := range b.groups {
		g := &b.groups[i]
		if g.Counts == (counts{}) && len(g.notes)+len(g.fills)+len(g.rechecks) == 0 {
			continue
		}
		nothing = false
		message = fixed(message, uint8(i), g.Counts, g.Below, uint32(len(g.notes)), g.notes, uint32(len(g.fills)), g.fills, uint32(len(g.rechecks)), g.rechecks)
	}
	if nothing {
		return nil
	}
	return message
}

// fixed appends data of a fixed size, which cannot fail.
func fixed(b []byte, data ...any) []byte {
	for _, d := range data {
		b, _ = binary.Append(b, binary.LittleEndian, d)
	}
	return b
}

// maxNoted bounds the look-ups that one message notes: each is simulated. A node sends one message
// a second.
const maxNoted = 1 << 22

var errUnreadable = errors.New("ttllab: a message that no node with these groups sends")

// decode reads a message about so many groups.
func decode(message []byte, groups int) (*batch, error) {
	in := &decoder{rest: bytes.NewReader(message), ok: true}
	b := &batch{groups: make([]groupBatch, groups)}
	in.read(&b.Now, &b.Lost)
	noted := uint64(0)
	for in.ok && in.rest.Len() > 0 {
		var i uint8
		if in.read(&i); int(i) >= groups {
			return nil, errUnreadable
		}
		g := &b.groups[i]
		in.read(&g.Counts, &g.Below)
		g.notes, g.fills, g.rechecks = several[note](in), several[fill](in), several[recheck](in)
		for _, n := range g.notes {
			noted += uint64(n.N)
		}
		if noted > maxNoted {
			return nil, errUnreadable
		}
	}
	if !in.ok {
		return nil, errUnreadable
	}
	return b, nil
}

// decoder is not ok once there was less than it should read.
type decoder struct {
	rest *bytes.Reader
	ok   bool
}

func (d *decoder) read(into ...any) {
	for _, v := range into {
		d.ok = d.ok && binary.Read(d.rest, binary.LittleEndian, v) == nil
	}
}

// several reads values of a fixed size after their number.
func several[T any](d *decoder) []T {
	var n uint32
	d.read(&n)
	if size := binary.Size(*new(T)); !d.ok || uint64(n)*uint64(size) > uint64(d.rest.Len()) {
		d.ok = false
		return nil
	}
	all := make([]T, n)
	d.read(all)
	return all
}

// format is of messages and keys. Nodes of another one keep to themselves.
const format = 2

// layoutOf is the same for nodes that mean the same by the index of a group.
func layoutOf(groups []Group) uint64 {
	h := mix(format)
	for _, g := range groups {
		h = mix(h ^ xxh3.HashString(g.Name))
	}
	return h
}

// Exchange appends the message of a node to those of all nodes with the same layout, and
// returns what has come since the last call, that one included. Without a message the node is
// still one of them. The first call, and the first one with another layout, returns nothing
// of before it.
type Exchange func(ctx context.Context, layout uint64, message []byte) (Received, error)

// Received is what an [Exchange] returns.
type Received struct {
	Now      int64 // Unix ns, on the clock that all nodes share; not before any of the messages
	Nodes    int   // that exchange messages, this one included
	Messages []Message
}

// Message is one of a node.
type Message struct {
	At   int64 // when it came, on the same clock
	Body []byte
}

// rollCall is how often the nodes are counted: one that has left counts for twice that at most.
const rollCall = 5 * time.Second

// exchangeScript appends the message ARGV[3], if there is one, to the stream KEYS[1]. It
// returns the time in ms, the number of the roll call and the number of nodes; then ARGV[1],
// and the id and the body of each message after it. Where ARGV[1] is empty it begins with this
// call, and also where a fail-over has lost the stream and set the clock back.
//
// Each node answers a roll call once, which lasts ARGV[4] ms; ARGV[2] is the one that it
// answered last. KEYS[2] is "<number of the roll call> <nodes in the one before> <nodes so far>".
var exchangeScript = redis.NewScript(`local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local call = math.floor(now / ARGV[4])
local last, before, here = string.match(redis.call('GET', KEYS[2]) or '0 0 0', '^(%d+) (%d+) (%d+)$')
if last ~= tostring(call) then
  before, here = last == tostring(call - 1) and here or 0, 0
end
if here == 0 or ARGV[2] ~= tostring(call) then
  here = here + 1
  redis.call('SET', KEYS[2], call .. ' ' .. before .. ' ' .. here, 'PX', 3 * ARGV[4])
end
local nodes = math.max(tonumber(before), tonumber(here))
local id
if ARGV[3] ~= '' then
  id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', math.max(64, 16 * nodes), '*', 'b', ARGV[3])
  redis.call('PEXPIRE', KEYS[1], 60000)
end
local after, from = ARGV[1], '(' .. ARGV[1]
if after == '' or tonumber(string.match(after, '^%d+')) >= now and #redis.call('XRANGE', KEYS[1], after, after, 'COUNT', 1) == 0 then
  after = id or now .. '-0'
  from = after
end
local reply = {tostring(now), tostring(call), tostring(nodes), after}
for _, e in ipairs(redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1024)) do
  reply[#reply + 1] = e[1]
  reply[#reply + 1] = e[2][2]
end
return reply`)

// Stream exchanges messages by a capped stream of Redis, in one round trip a call: its ids are
// the time. A call without a message costs the same however many nodes there are. Keys begin
// with prefix. It is for one goroutine.
func Stream(client redis.Scripter, prefix string) Exchange {
	return stream(client, prefix, rollCall)
}

func stream(client redis.Scripter, prefix string, rollCall time.Duration) Exchange {
	var known uint64
	var call, after string // the roll call that was answered last, and the id of the newest message
	return func(ctx context.Context, layout uint64, message []byte) (r Received, err error) {
		if known != layout {
			known, call, after = layout, "", ""
		}
		key := fmt.Sprintf("%s:{lab-%x}:", prefix, layout)
		reply, err := exchangeScript.Run(ctx, client, []string{key + "notes", key + "roll"}, after, call, message, rollCall.Milliseconds()).StringSlice()
		if err != nil {
			return r, err
		}
		if len(reply) < 4 {
			return r, errUnreadable
		}
		r.Now, call, after = momentOf(reply[0]), reply[1], reply[3]
		if r.Nodes, err = strconv.Atoi(reply[2]); err != nil {
			return r, err
		}
		for m := reply[4:]; len(m) > 1; m = m[2:] {
			after = m[0]
			r.Messages = append(r.Messages, Message{momentOf(after), []byte(m[1])})
		}
		r.Now = max(r.Now, momentOf(after))
		return r, nil
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
