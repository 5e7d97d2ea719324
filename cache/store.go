package cache

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxWrites bounds the entries that wait for a slow Redis at once. What
	// comes on top is dropped and counted.
	maxWrites = 64
)

var errBusy = errors.New("too many writes to Redis at once")

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
	// restoreScript raises an epoch to ARGV[2] unless it is there already. It
	// writes in any case, so that WAIT has something to wait for.
	restoreScript = redis.NewScript(`local e = redis.call('GET', KEYS[1]) or '0'
if tonumber(e) < tonumber(ARGV[2]) then e = ARGV[2] end
redis.call('SET', KEYS[1], e, 'PX', ARGV[1])
return 0`)
)

// store is the Redis tier: plain values with an end, one slot per call. It is
// safe for concurrent use.
type store struct {
	rdb     redis.UniversalClient
	prefix  string
	timeout time.Duration // of one call
	writes  chan struct{}

	clock *redisClock // nil: this node's clock counts

	minReplicas int // that must have a purge
	// masterOf returns the client of the one server that takes writes of a key.
	masterOf func(ctx context.Context, key string) (*redis.Client, error)
}

func newStore(rdb redis.UniversalClient, prefix string) *store {
	s := &store{rdb: rdb, prefix: prefix + ":" + keyVersion + ":", timeout: redisTimeout, writes: make(chan struct{}, maxWrites)}
	if c, ok := rdb.(interface{ CallTimeout() time.Duration }); ok {
		s.timeout = c.CallTimeout()
	}
	if c, ok := rdb.(*guarded); ok {
		s.minReplicas, s.masterOf = c.minReplicas, c.masterOf
	}
	return s
}

// slow is how long one read may take for a flight to call Redis once more. With
// the timeout of that call it bounds what a slow Redis adds.
func (s *store) slow() time.Duration { return s.timeout / 2 }

// reading is what one call found about a list.
type reading struct {
	raw   []byte // nil: nothing there
	epoch uint64 // the account's
	lease bool   // readAndAcquire: it is ours now
	// holder is the token of the flight that has the lease, of any node; empty:
	// nobody has it. For readAndCheck.
	holder string
}

// extra is what read does with the list's lease in the same round trip.
type extra int

const (
	readOnly extra = iota
	readAndAcquire
	readAndCheck
)

// read reads a list with its account's epoch. At most limit+1 bytes are read;
// what is longer is too big for an entry, and the caller sees that by its
// length.
func (s *store) read(ctx context.Context, n names, limit int, x extra) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	p := s.rdb.Pipeline()
	var won *redis.BoolCmd
	var holder *redis.StringCmd
	switch x {
	case readAndAcquire: // before the value: who gets the lease sees what the last holder stored
		won = p.SetNX(ctx, n.lease, n.token, leaseLife)
	case readAndCheck: // before the value: when nobody has it any more, its value is there
		holder = p.Get(ctx, n.lease)
	}
	value := p.GetRange(ctx, n.entry, 0, int64(limit))
	epoch := p.Get(ctx, n.epoch)
	_, _ = p.Exec(ctx) // each command has its own error

	var r reading
	var err error
	if r.epoch, err = number(epoch); err != nil {
		return r, err
	}
	if won != nil {
		r.lease, err = won.Val(), won.Err()
	}
	if holder != nil {
		r.holder, err = holder.Result()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return r, err
	}
	if b, err := value.Bytes(); err == nil && len(b) > 0 {
		r.raw = b // an error here is a value of another type: there is no entry
	}
	return r, nil
}

// number reads a counter; one that is not there is 0.
func number(cmd *redis.StringCmd) (uint64, error) {
	v, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(v, 10, 64)
}

// put stores a list until ttl has passed. If it was filled under a lease the
// lease ends, and the nodes that wait are woken, in the same round trip.
func (s *store) put(ctx context.Context, n names, value []byte, ttl time.Duration, leased bool) error {
	select {
	case s.writes <- struct{}{}:
		defer func() { <-s.writes }()
	default:
		return errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if !leased {
		return s.rdb.Set(ctx, n.entry, value, ttl).Err()
	}
	p := s.rdb.Pipeline()
	set := p.Set(ctx, n.entry, value, ttl)
	// Not by its hash: in a pipeline nothing could load the script first.
	releaseScript.Eval(ctx, p, []string{n.lease}, n.token, s.fillChannel(), n.entry)
	_, _ = p.Exec(ctx) // a lease that stays has its own end
	return set.Err()
}

// raise is the one write of a purge that matters: the next epoch.
func (s *store) raise(ctx context.Context, key string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return raiseScript.Run(ctx, s.rdb, []string{key}, epochLife.Milliseconds(), time.Now().UnixMicro()).Uint64()
}

// announce tells the nodes of a purge, and returns what they are told.
func (s *store) announce(ctx context.Context, n notice) (notice, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	message, err := announceScript.Run(ctx, s.rdb, []string{s.purgeKey()},
		epochLife.Milliseconds(), time.Now().UnixMicro(), s.purgeChannel(), n.String()).Text()
	told, ok := parseNotice(message)
	if err == nil && !ok {
		err = errors.New("the number of the purge was not understood")
	}
	return told, err
}

func (s *store) restore(ctx context.Context, key string, epoch uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return restoreScript.Run(ctx, s.rdb, []string{key}, epochLife.Milliseconds(), epoch).Err()
}

// replicate writes the epoch once more, in case a new master has lost it, and
// waits for replicas to have it. It returns how many do; fewer than wanted after
// half of a call's time is no error.
func (s *store) replicate(ctx context.Context, key string, epoch uint64) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	master, err := s.masterOf(ctx, key)
	if err != nil {
		return 0, err
	}
	p := master.Pipeline() // WAIT counts what was written on its own connection
	write := restoreScript.Eval(ctx, p, []string{key}, epochLife.Milliseconds(), epoch)
	wait := p.Do(ctx, "wait", s.minReplicas, (s.timeout / 2).Milliseconds())
	_, _ = p.Exec(ctx) // each command has its own error
	n, err := wait.Int()
	return n, errors.Join(write.Err(), err)
}

// purges reads the number of the last purge, and after it the kinds' epochs: a
// purge that is counted has raised its epoch already. The time of Redis comes
// with them.
func (s *store) purges(ctx context.Context) (seq uint64, kinds [kindCount]uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start, p := s.clock.start(), s.rdb.Pipeline()
	last := p.Get(ctx, s.purgeKey())
	clock := s.clock.ask(ctx, p, s.purgeKey())
	var cmds [kindCount]*redis.StringCmd
	for i, kind := range kindNames {
		cmds[i] = p.Get(ctx, s.epochKey(Scope{Kind: kind}))
	}
	_, _ = p.Exec(ctx) // each command has its own error
	s.clock.learn(start, clock)
	seq, err = number(last)
	for i := range cmds {
		var e error
		if kinds[i], e = number(cmds[i]); e != nil {
			err = errors.Join(err, e)
		}
	}
	return seq, kinds, err
}

func (s *store) subscribe(ctx context.Context) *redis.PubSub {
	return s.rdb.Subscribe(ctx, s.purgeChannel(), s.fillChannel())
}
