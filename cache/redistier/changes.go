package redistier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// epochLua gives a script the time, in microseconds as now, and epoch(key), which reads an
// epoch as "<last> <floor> <microseconds since the lists last changed>".
const epochLua = `local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function epoch(key)
  local last, floor, changed = string.match(redis.call('GET', key) or '', '^(%d+) (%d+) (%d+)$')
  if not last then return '0 0 0' end
  return last .. ' ' .. floor .. ' ' .. string.format('%.0f', math.max(now - changed, 0))
end
`

var (
	epochScript = redis.NewScript(epochLua + `return epoch(KEYS[1])`)
	// raiseScript raises an epoch, kept for ARGV[1] ms, by a purge or, with ARGV[2] = 1,
	// softly: then the floor stays where the last purge was. It counts from the time in
	// microseconds, and from what the node knows (ARGV[3]), so that an epoch which Redis
	// has lost is never given out again.
	raiseScript = redis.NewScript(epochLua + `
local last, floor = string.match(redis.call('GET', KEYS[1]) or '0 0 0', '^(%d+) (%d+)')
last = string.format('%.0f', math.max(tonumber(last) + 1, tonumber(ARGV[3]) + 1, now))
if ARGV[2] == '0' then floor = last end
redis.call('SET', KEYS[1], last .. ' ' .. floor .. ' ' .. string.format('%.0f', now), 'PX', ARGV[1])
return last .. ' ' .. floor .. ' 0'`)
	// restoreScript gives an epoch back to a Redis that may have lost it, and tells whether
	// it had. What is later there stays.
	restoreScript = redis.NewScript(epochLua + `
local last, floor, changed = string.match(redis.call('GET', KEYS[1]) or '0 0 0', '^(%d+) (%d+) (%d+)$')
if tonumber(last) >= tonumber(ARGV[2]) and tonumber(floor) >= tonumber(ARGV[3]) then return 0 end
if tonumber(last) < tonumber(ARGV[2]) then last, changed = ARGV[2], string.format('%.0f', now - ARGV[4]) end
if tonumber(floor) < tonumber(ARGV[3]) then floor = ARGV[3] end
redis.call('SET', KEYS[1], last .. ' ' .. floor .. ' ' .. changed, 'PX', ARGV[1])
return 1`)
	// announceScript numbers a notice in the same way and publishes it, with the number
	// before it: who does not know that one has missed a message.
	announceScript = redis.NewScript(`local time = redis.call('TIME')
local before = redis.call('GET', KEYS[1]) or '0'
local n = string.format('%.0f', math.max(tonumber(before) + 1, tonumber(ARGV[4]) + 1, time[1] * 1000000 + time[2]))
redis.call('SET', KEYS[1], n, 'PX', ARGV[1])
redis.call('PUBLISH', ARGV[2], before .. ' ' .. n .. ARGV[3])
return {before, n}`)
)

// Epoch is what is known of the purges and hints of a kind's or an account's lists.
type Epoch struct {
	Last  uint64 // lists of an older one are outdated
	Floor uint64 // of the last purge: lists of an older one are not served at all
	// Since is how long ago the lists changed for the last time, by the clock of Redis.
	Since time.Duration
}

// parseEpoch reads what a script says of one.
func parseEpoch(s string) (e Epoch, ok bool) {
	last, rest, _ := strings.Cut(s, " ")
	floor, since, _ := strings.Cut(rest, " ")
	var errs [3]error
	var us int64
	e.Last, errs[0] = strconv.ParseUint(last, 10, 64)
	e.Floor, errs[1] = strconv.ParseUint(floor, 10, 64)
	us, errs[2] = strconv.ParseInt(since, 10, 64)
	e.Since = time.Duration(us) * time.Microsecond
	return e, errors.Join(errs[:]...) == nil && e.Floor <= e.Last && us >= 0 && us < int64(1<<53)
}

// Change is the epoch of one kind, or of one account by its hash.
type Change struct {
	Kind    string // or
	Account string
	Epoch
}

func (t *Tier) epochKey(c Change) string {
	if c.Kind != "" {
		return t.prefix + "epoch:" + c.Kind
	}
	return t.prefix + "{" + c.Account + "}:epoch"
}

// Notice is what the nodes are told of at once.
type Notice struct {
	Before, Seq uint64 // numbers of the fleet's notice before this one, and of this one
	Changes     []Change
}

// maxNotice bounds a message: a thousand accounts.
const maxNotice = 128 << 10

// parseNotice reads "<before> <seq>" and, for each change, "; <kind or account> <epoch>".
func parseNotice(s string) (n Notice, ok bool) {
	head, rest, more := strings.Cut(s, "; ")
	before, seq, _ := strings.Cut(head, " ")
	var err, err2 error
	n.Before, err = strconv.ParseUint(before, 10, 64)
	n.Seq, err2 = strconv.ParseUint(seq, 10, 64)
	if !more || err != nil || err2 != nil || len(s) > maxNotice {
		return Notice{}, false
	}
	for one := range strings.SplitSeq(rest, "; ") {
		var c Change
		name, epoch, _ := strings.Cut(one, " ")
		if kind, is := strings.CutPrefix(name, "kind:"); is {
			c.Kind = kind
		} else if c.Account = name; name == "" {
			return Notice{}, false
		}
		if c.Epoch, ok = parseEpoch(epoch); !ok {
			return Notice{}, false
		}
		n.Changes = append(n.Changes, c)
	}
	return n, true
}

// perPipeline is how many scripts are sent at once: each pipeline has the time of one call. A
// pipeline cannot load a script, so it carries the text, near a kilobyte of it.
const perPipeline = 50

// each runs a script for every change, and gives the answers in order. A pipeline that fails
// does not stop the next. err is the first one. The client's timeout bounds what is read of one
// server. go-redis asks a node of a Cluster that does not answer three times, and forgets the
// answers of the others where the context ends before that.
func (t *Tier) each(ctx context.Context, script *redis.Script, all []Change, args func(Change) []any) (cmds []*redis.Cmd, err error) {
	for some := range slices.Chunk(all, perPipeline) {
		ctx, cancel := context.WithTimeout(ctx, 4*t.rdb.CallTimeout())
		p := t.rdb.Pipeline()
		for _, c := range some {
			cmds = append(cmds, script.Eval(ctx, p, []string{t.epochKey(c)}, args(c)...))
		}
		_, failed := p.Exec(ctx)
		cancel()
		err = cmp.Or(err, failed)
	}
	return cmds, err
}

// Raise raises the epochs of all changes, by a purge or softly, and fills in what they are
// now. On an error those with a Last of 0 may not be raised. Last is read, too: no epoch
// is given out that is not above it.
func (t *Tier) Raise(ctx context.Context, all []Change, soft bool) error {
	how := 0
	if soft {
		how = 1
	}
	cmds, err := t.each(ctx, raiseScript, all, func(c Change) []any { return []any{t.epochLife, how, c.Last} })
	for i, cmd := range cmds {
		text, failed := cmd.Text()
		e, ok := parseEpoch(text)
		if failed == nil && !ok {
			failed = errors.New("the epoch of a change was not understood")
		}
		if all[i].Epoch = e; failed != nil && err == nil {
			err = failed
		}
	}
	return err
}

// Restore gives epochs to a Redis that may have lost them, and returns those that it had lost.
func (t *Tier) Restore(ctx context.Context, all []Change) (lost []Change, err error) {
	cmds, err := t.each(ctx, restoreScript, all, func(c Change) []any {
		return []any{t.epochLife, c.Last, c.Floor, c.Since.Microseconds()}
	})
	for i, cmd := range cmds {
		if had, failed := cmd.Int(); failed == nil && had == 1 {
			lost = append(lost, all[i])
		}
	}
	return lost, err
}

// Announce tells the nodes of changes, in one message. It returns the numbers of the
// notice; the number is above known.
func (t *Tier) Announce(ctx context.Context, all []Change, known uint64) (Notice, error) {
	var message strings.Builder
	for _, c := range all {
		name := c.Account
		if c.Kind != "" {
			name = "kind:" + c.Kind
		}
		fmt.Fprintf(&message, "; %s %d %d %d", name, c.Last, c.Floor, c.Since.Microseconds())
	}
	got, err := t.rdb.Run(ctx, announceScript, []string{t.purgesKey()}, t.epochLife, t.prefix+"purge", message.String(), known).StringSlice()
	if err != nil {
		return Notice{}, err
	}
	n := Notice{Changes: all}
	if len(got) == 2 {
		n.Before, _ = strconv.ParseUint(got[0], 10, 64)
		n.Seq, err = strconv.ParseUint(got[1], 10, 64)
	}
	if n.Seq == 0 {
		err = fmt.Errorf("the number of a notice was not understood: %w", err)
	}
	return n, err
}

// Poll reads the number of the last notice, and after it the epochs of kinds: what is
// counted has raised its epoch already.
func (t *Tier) Poll(ctx context.Context, kinds []string) (seq uint64, epochs []Epoch, err error) {
	ctx, cancel := t.rdb.Bounded(ctx)
	defer cancel()
	p := t.rdb.Pipeline()
	last := p.Get(ctx, t.purgesKey())
	cmds := make([]*redis.Cmd, len(kinds))
	for i, kind := range kinds {
		cmds[i] = epochScript.Eval(ctx, p, []string{t.epochKey(Change{Kind: kind})})
	}
	if _, err = p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, nil, err
	}
	if seq, err = last.Uint64(); errors.Is(err, redis.Nil) {
		seq, err = 0, nil // nothing was announced that Redis remembers
	}
	for _, cmd := range cmds {
		text, failed := cmd.Text()
		e, ok := parseEpoch(text)
		if failed == nil && !ok {
			failed = errors.New("the epoch of a kind was not understood")
		}
		epochs, err = append(epochs, e), errors.Join(err, failed)
	}
	return seq, epochs, err
}

func (t *Tier) purgesKey() string { return t.prefix + "purges" }

// Connected tells whether messages arrive.
func (t *Tier) Connected() bool { return t.connected.Load() }

// Listen takes in the messages of the other nodes until ctx ends: it wakes who waits
// for a fill, and calls changed for each notice.
func (t *Tier) Listen(ctx context.Context, changed func(Notice)) {
	t.rdb.Listen(ctx, func(channel, payload string) {
		defer t.panics.Catch(nil) // of this message: the listener goes on
		if channel == t.fillChannel() {
			t.wake(payload)
		} else if n, ok := parseNotice(payload); ok {
			changed(n)
		} else {
			t.log.Warn("a message about purges was not understood")
		}
	}, t.connected.Store, t.prefix+"purge", t.fillChannel())
}
