package redistier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// raiseScript is the INCR of an epoch, kept for ARGV[1] ms. It counts from
	// the time in microseconds, so that an epoch which Redis has lost is never
	// given out again.
	raiseScript = redis.NewScript(`local e = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') + 1, tonumber(ARGV[2]))
e = string.format('%.0f', e)
redis.call('SET', KEYS[1], e, 'PX', ARGV[1])
return e`)
	// softenScript raises an epoch for lists that have changed at the legacy system:
	// those of an older one, but of none before the last purge, may be served while
	// they are refreshed. KEYS[2] says so: the epoch that it is about, the one of the
	// last purge, and when the lists changed. A purge leaves it as it is, and makes it
	// void by raising the epoch past it.
	softenScript = redis.NewScript(`local old = redis.call('GET', KEYS[1]) or '0'
local e = string.format('%.0f', math.max(tonumber(old) + 1, tonumber(ARGV[2])))
local of, floor = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+)')
if of ~= old then floor = old end
local state = e .. ' ' .. floor .. ' ' .. ARGV[3]
redis.call('SET', KEYS[1], e, 'PX', ARGV[1])
redis.call('SET', KEYS[2], state, 'PX', ARGV[1])
return state`)
	// announceScript numbers a purge in the same way and tells the nodes, with
	// the number before it: who does not know that one has missed a message.
	announceScript = redis.NewScript(`local before = redis.call('GET', KEYS[1]) or '0'
local n = string.format('%.0f', math.max(tonumber(before) + 1, tonumber(ARGV[2])))
redis.call('SET', KEYS[1], n, 'PX', ARGV[1])
local message = before .. ' ' .. n .. ' ' .. ARGV[4]
redis.call('PUBLISH', ARGV[3], message)
return message`)
	// restoreScript raises an epoch to ARGV[2] unless it is there already, and tells
	// whether Redis had lost something. If the purge of ARGV[3] is not known, all of an older epoch counts as
	// purged.
	restoreScript = redis.NewScript(`local e, lost = redis.call('GET', KEYS[1]) or '0', 0
if tonumber(e) < tonumber(ARGV[2]) then e, lost = ARGV[2], 1 end
redis.call('SET', KEYS[1], e, 'PX', ARGV[1])
local floor = string.match(redis.call('GET', KEYS[2]) or '', '^%d+ (%d+)')
if floor and tonumber(floor) < tonumber(ARGV[3]) then lost = redis.call('DEL', KEYS[2]) end
return lost`)
)

// Epoch is what is known of the purges and changes of a kind's or an account's lists.
type Epoch struct {
	Last uint64 // lists of an older one are outdated
	// Floor is that of the last purge: lists of an older one are not served at all.
	Floor   uint64
	Changed int64 // when those between have changed at the latest, on the clock of Redis, Unix ns
}

// parseEpoch reads what two keys hold: an epoch, and what softenScript wrote, which
// may be later, or void.
func parseEpoch(last uint64, soft string) Epoch {
	var e Epoch
	if n, _ := fmt.Sscanf(soft, "%d %d %d", &e.Last, &e.Floor, &e.Changed); n == 3 && e.Last >= last {
		return e
	}
	return Epoch{Last: last, Floor: last}
}

// Notice is one purge or change as it is told to the nodes.
type Notice struct {
	Before  uint64 // number of the fleet's notice before this one
	Seq     uint64 // number of this one
	Kind    string // or
	Account string // hashed
	Epoch
}

// String is the message; Redis puts the two numbers in front. A node of a version
// before changes does not know the longer forms. It sees by the number that it has
// missed something, reads the epoch, and takes a change for a purge.
func (n Notice) String() string {
	what := "account " + n.Account
	switch {
	case n.Kind != "":
		what = "kind " + n.Kind
	}
	if n.Floor == n.Last {
		return fmt.Sprintf("%s %d", what, n.Last)
	}
	return fmt.Sprintf("%s %d %d %d", what, n.Last, n.Floor, n.Changed)
}

// maxNotice bounds a message.
const maxNotice = 4 << 10

// parseNotice reads "<before> <seq> kind|account <name> <epoch>", for a change with
// its floor and time.
func parseNotice(s string) (n Notice, ok bool) {
	var what, name string
	read, _ := fmt.Sscanf(s, "%d %d %s %s %d %d %d", &n.Before, &n.Seq, &what, &name, &n.Last, &n.Floor, &n.Changed)
	if len(s) > maxNotice || read != len(strings.Fields(s)) {
		return n, false
	}
	switch what {
	case "kind":
		n.Kind = name
	case "account":
		n.Account = name
	default:
		return n, false
	}
	if read == 5 {
		n.Floor = n.Last
		return n, true
	}
	return n, read == 7 && n.Changed >= 0 && n.Floor < n.Last
}

// Raise raises an epoch, which hides all lists of an older one, and returns it.
func (t *Tier) Raise(ctx context.Context, key string) (Epoch, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	last, err := raiseScript.Run(ctx, t.rdb, []string{key}, t.epochLife, time.Now().UnixMicro()).Uint64()
	return Epoch{Last: last, Floor: last}, err
}

// Soften raises an epoch, too; lists that no purge hides are outdated from changed on,
// a moment of this node's clock.
func (t *Tier) Soften(ctx context.Context, key string, changed time.Time) (Epoch, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	state, err := softenScript.Run(ctx, t.rdb, []string{key, t.softKey(key)}, t.epochLife, time.Now().UnixMicro(), t.Stamp(changed)).Text()
	e := parseEpoch(0, state)
	if err == nil && e.Last == 0 {
		err = errors.New("the epoch of the change was not understood")
	}
	return e, err
}

// Announce tells the nodes of a purge, and returns what they are told.
func (t *Tier) Announce(ctx context.Context, n Notice) (Notice, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	message, err := announceScript.Run(ctx, t.rdb, []string{t.purgeKey()},
		t.epochLife, time.Now().UnixMicro(), t.purgeChannel(), n.String()).Text()
	told, ok := parseNotice(message)
	if err == nil && !ok {
		err = errors.New("the number of the purge was not understood")
	}
	return told, err
}

// Restore gives an epoch to a Redis that may have lost it, and tells whether it had. A
// later one stays.
func (t *Tier) Restore(ctx context.Context, key string, e Epoch) (lost bool, err error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	return restoreScript.Run(ctx, t.rdb, []string{key, t.softKey(key)}, t.epochLife, e.Last, e.Floor).Bool()
}

// Poll reads the number of the last purge, and after it the epochs of kinds: a
// purge that is counted has raised its epoch already. The time of Redis comes with
// them.
func (t *Tier) Poll(ctx context.Context, kinds ...string) (seq uint64, epochs []Epoch, err error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	start, p := t.clock.now(), t.rdb.Pipeline()
	last := p.Get(ctx, t.purgeKey())
	clock := t.clock.ask(ctx, p, t.purgeKey())
	cmds := make([]epochCmd, len(kinds))
	for i, kind := range kinds {
		cmds[i] = t.getEpoch(ctx, p, t.EpochKey(kind, ""))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	t.clock.learn(start, clock)
	seq, err = number(last)
	epochs = make([]Epoch, len(kinds))
	for i := range cmds {
		var e error
		if epochs[i], e = cmds[i].epoch(); e != nil {
			err = errors.Join(err, e)
		}
	}
	return seq, epochs, err
}
