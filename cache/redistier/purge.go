package redistier

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// retryEvery is how long Retry waits between two tries.
const retryEvery = 50 * time.Millisecond

// ErrTooFewReplicas is returned by Replicate when fewer replicas than wanted have
// an epoch: a fail-over could lose it.
var ErrTooFewReplicas = errors.New("fewer replicas of Redis than redis.min_replicas have taken the purge")

var (
	// raiseScript is the INCR of an epoch, kept for ARGV[1] ms. It counts from
	// the time in microseconds, so that an epoch which Redis has lost is never
	// given out again.
	raiseScript = redis.NewScript(`local e = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') + 1, tonumber(ARGV[2]))
e = string.format('%.0f', e)
redis.call('SET', KEYS[1], e, 'PX', ARGV[1])
return e`)
	// announceScript numbers a purge in the same way and tells the nodes, with
	// the number before it: who does not know that one has missed a message.
	announceScript = redis.NewScript(`local before = redis.call('GET', KEYS[1]) or '0'
local n = string.format('%.0f', math.max(tonumber(before) + 1, tonumber(ARGV[2])))
redis.call('SET', KEYS[1], n, 'PX', ARGV[1])
local message = before .. ' ' .. n .. ' ' .. ARGV[4]
redis.call('PUBLISH', ARGV[3], message)
return message`)
	// restoreScript raises an epoch to ARGV[2] unless it is there already, and tells
	// whether it has. It writes in any case, so that WAIT has something to wait for.
	restoreScript = redis.NewScript(`local e, raised = redis.call('GET', KEYS[1]) or '0', 0
if tonumber(e) < tonumber(ARGV[2]) then e, raised = ARGV[2], 1 end
redis.call('SET', KEYS[1], e, 'PX', ARGV[1])
return raised`)
)

// Notice is one purge as it is told to the nodes.
type Notice struct {
	Before  uint64 // number of the fleet's purge before this one
	Seq     uint64 // number of this one
	Kind    string // or
	Account string // hashed
	Epoch   uint64
}

// String is the message; Redis puts the two numbers in front.
func (n Notice) String() string {
	if n.Kind != "" {
		return "kind " + n.Kind + " " + strconv.FormatUint(n.Epoch, 10)
	}
	return "account " + n.Account + " " + strconv.FormatUint(n.Epoch, 10)
}

// parseNotice reads "<before> <seq> kind|account <name> <epoch>".
func parseNotice(s string) (Notice, bool) {
	f := strings.Fields(s)
	if len(s) > 256 || len(f) != 5 {
		return Notice{}, false
	}
	var n Notice
	for i, to := range map[int]*uint64{0: &n.Before, 1: &n.Seq, 4: &n.Epoch} {
		var err error
		if *to, err = strconv.ParseUint(f[i], 10, 64); err != nil {
			return Notice{}, false
		}
	}
	switch f[2] {
	case "kind":
		n.Kind = f[3]
	case "account":
		n.Account = f[3]
	default:
		return Notice{}, false
	}
	return n, true
}

// Raise raises an epoch, which hides all lists of an older one, and returns it.
func (t *Tier) Raise(ctx context.Context, key string) (uint64, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	return raiseScript.Run(ctx, t.rdb, []string{key}, t.epochLife, time.Now().UnixMicro()).Uint64()
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
func (t *Tier) Restore(ctx context.Context, key string, epoch uint64) (lost bool, err error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	return restoreScript.Run(ctx, t.rdb, []string{key}, t.epochLife, epoch).Bool()
}

// MinReplicas is how many replicas must have an epoch for Replicate to succeed. 0:
// it need not be called.
func (t *Tier) MinReplicas() int { return t.minReplicas }

// Replicate writes an epoch once more, in case a new master has lost it, and waits
// for replicas to have it, at most half of a call's time. It returns how many do;
// where they are too few, the error is ErrTooFewReplicas.
func (t *Tier) Replicate(ctx context.Context, key string, epoch uint64) (int, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	master, err := t.masterOf(ctx, key)
	if err != nil {
		return 0, err
	}
	p := master.Pipeline() // WAIT counts what was written on its own connection
	write := restoreScript.Eval(ctx, p, []string{key}, t.epochLife, epoch)
	wait := p.Do(ctx, "wait", t.minReplicas, (t.timeout / 2).Milliseconds())
	_, _ = p.Exec(ctx) // each command has its own error
	n, err := wait.Int()
	if err = errors.Join(write.Err(), err); err != nil {
		return n, err
	}
	if n < t.minReplicas {
		err = ErrTooFewReplicas
	}
	return n, err
}

// Retry repeats a write that may be done twice, until it works, fails for good
// or ctx ends. It returns the last error of the write.
func Retry(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err == nil || !isPassing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

// Poll reads the number of the last purge, and after it the epochs of kinds: a
// purge that is counted has raised its epoch already. The time of Redis comes with
// them.
func (t *Tier) Poll(ctx context.Context, kinds ...string) (seq uint64, epochs []uint64, err error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	start, p := t.clock.now(), t.rdb.Pipeline()
	last := p.Get(ctx, t.purgeKey())
	clock := t.clock.ask(ctx, p, t.purgeKey())
	cmds := make([]*redis.StringCmd, len(kinds))
	for i, kind := range kinds {
		cmds[i] = p.Get(ctx, t.EpochKey(kind, ""))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	t.clock.learn(start, clock)
	seq, err = number(last)
	epochs = make([]uint64, len(kinds))
	for i := range cmds {
		var e error
		if epochs[i], e = number(cmds[i]); e != nil {
			err = errors.Join(err, e)
		}
	}
	return seq, epochs, err
}
