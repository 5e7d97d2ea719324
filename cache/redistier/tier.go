// Package redistier talks to Redis: it keeps the lists of a fleet there, and tells
// its nodes of each other's purges and fills.
//
//	<prefix>:2:{<account>}:<kind>:<mapping>:<list>         a list, sealed where there is a ring
//	<prefix>:2:{<account>}:<kind>:<mapping>:<list>:lease   the flight that fills it
//	<prefix>:2:{<account>}:epoch, ...:epoch:soft           purges and changes of the account
//	<prefix>:2:epoch:<kind>, {...}:soft                    those of a kind
//	<prefix>:2:purges                                      number of the fleet's last notice
//	<prefix>:2:purge, <prefix>:2:fill                      channels
//
// Accounts and lists are hashed. Every value has an end, and Redis may lose all of them: what
// is lost is filled again, and nodes give back the epochs that they know.
//
// A Redis in trouble must cost requests nothing. Calls have a short deadline, nothing is
// repeated, and behind the breaker of a node that does not answer no call waits at all; one
// prober tries whether the node is back.
package redistier

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/panics"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/series"
)

const (
	// maxWrites bounds the entries that wait for a slow Redis at once. What
	// comes on top is dropped and counted.
	maxWrites = 64
	// LeaseLife is how soon the fleet gets over a node that died with a lease.
	LeaseLife = time.Second
)

// ErrBusy is returned by Put when too many writes wait for Redis already.
var ErrBusy = errors.New("too many writes to Redis at once")

var (
	// releaseScript ends a lease if it is still ours, and wakes who waits.
	releaseScript = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 0`)
	renewScript = redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
)

// Options are what a tier is built from. Client and EpochLife are required.
type Options struct {
	Client *redisclient.Client // closed by its owner
	Prefix string              // of every key and channel; empty: "iq"
	// EpochLife is how long Redis remembers a purge.
	EpochLife  time.Duration
	Now        func() time.Time // nil: the clock of this node
	NodeClock  bool             // ages are counted on Now, and the time of Redis is not asked for
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
	Panics     *panics.Catcher       // of Listen
}

// Tier is what the cache keeps in Redis: plain values with an end, one slot per
// call. Each call ends within the timeout of the client. It is safe for concurrent
// use.
type Tier struct {
	rdb       *redisclient.Client
	prefix    string
	timeout   time.Duration // of one call
	epochLife int64         // ms
	writes    chan struct{}
	clock
	waits  waits
	log    *slog.Logger
	panics *panics.Catcher

	down func() bool // of the client: its breaker is open
}

// New makes a tier. Redis need not be up.
func New(o Options) *Tier {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	t := &Tier{
		rdb: o.Client, prefix: o.Prefix + ":" + keyVersion + ":", timeout: o.Client.CallTimeout(), epochLife: o.EpochLife.Milliseconds(),
		writes: make(chan struct{}, maxWrites), clock: clock{now: o.Now, log: o.Logger, off: o.NodeClock},
		waits: waits{byKey: make(map[string]*wait)}, log: o.Logger, panics: o.Panics,
	}
	if !o.NodeClock {
		series.In(o.Registerer, "redis").GaugeFunc("clock_offset_seconds",
			"By how much this node's clock is ahead of that of Redis; 0 while that is unknown.", func() float64 { return t.offset().Seconds() })
	}
	return t
}

// Down tells whether requests are kept away from Redis, or from a part of a
// Cluster.
func (t *Tier) Down() bool { return t.rdb.Down() }

// Slow is how long one read may take for a flight to call Redis once more. With
// the timeout of that call it bounds what a slow Redis adds.
func (t *Tier) Slow() time.Duration { return t.timeout / 2 }

// bounded gives a call the time that it may take.
func (t *Tier) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.timeout)
}

// Reading is what one call found about a list.
type Reading struct {
	Raw   []byte // as it was Put; nil: nothing there
	Epoch Epoch  // the account's
	Won   bool   // Acquire: the lease is ours now
	// Holder is the token of the flight that has the lease, of any node; empty:
	// nobody has it. For Check.
	Holder string
}

// Mode is what Read does with the list's lease in the same round trip.
type Mode int

// The modes of a Read.
const (
	Only Mode = iota
	Acquire
	Check
)

// Read reads a list with its account's epoch. At most limit+1 bytes are read;
// what is longer is too big for an entry, and the caller sees that by its
// length.
func (t *Tier) Read(ctx context.Context, n Names, limit int, m Mode) (Reading, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	p := t.rdb.Pipeline()
	var won *redis.BoolCmd
	var holder *redis.StringCmd
	switch m {
	case Acquire: // before the value: who gets the lease sees what the last holder stored
		won = p.SetNX(ctx, n.Lease, n.token, LeaseLife)
	case Check: // before the value: when nobody has it any more, its value is there
		holder = p.Get(ctx, n.Lease)
	}
	value := p.GetRange(ctx, n.Entry, 0, int64(limit))
	epoch := t.getEpoch(ctx, p, n.Epoch)
	_, _ = p.Exec(ctx) // each command has its own error

	var r Reading
	var err error
	if r.Epoch, err = epoch.epoch(); err != nil {
		return r, err
	}
	if won != nil {
		r.Won, err = won.Val(), won.Err()
	}
	if holder != nil {
		r.Holder, err = holder.Result()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return r, err
	}
	if b, err := value.Bytes(); err == nil && len(b) > 0 {
		r.Raw = b // an error here is a value of another type: there is no entry
	}
	return r, nil
}

// epochCmd reads an epoch in a pipeline. What may be void is read last: if a change
// falls between, it is known to be later.
type epochCmd struct{ last, soft *redis.StringCmd }

func (t *Tier) getEpoch(ctx context.Context, p redis.Pipeliner, key string) epochCmd {
	return epochCmd{p.Get(ctx, key), p.Get(ctx, t.softKey(key))}
}

// epoch reads the two answers. An epoch that Redis does not have is 0: nothing has been
// purged that it remembers.
func (c epochCmd) epoch() (Epoch, error) {
	last, err := number(c.last)
	if err != nil {
		return Epoch{}, err
	}
	soft, err := c.soft.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return Epoch{}, err
	}
	return parseEpoch(last, soft), nil
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

// Put stores a list until ttl has passed. If it was filled under a lease the
// lease ends, and the nodes that wait are woken, in the same round trip.
func (t *Tier) Put(ctx context.Context, n Names, value []byte, ttl time.Duration, leased bool) error {
	select {
	case t.writes <- struct{}{}:
		defer func() { <-t.writes }()
	default:
		return ErrBusy
	}
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	if !leased {
		return t.rdb.Set(ctx, n.Entry, value, ttl).Err()
	}
	p := t.rdb.Pipeline()
	set := p.Set(ctx, n.Entry, value, ttl)
	// Not by its hash: in a pipeline nothing could load the script first.
	releaseScript.Eval(ctx, p, []string{n.Lease}, n.token, t.fillChannel(), n.Entry)
	_, _ = p.Exec(ctx) // a lease that stays has its own end
	return set.Err()
}

// Renew gives a lease another LeaseLife. held: it is still ours.
func (t *Tier) Renew(ctx context.Context, n Names) (held bool, err error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	got, err := renewScript.Run(ctx, t.rdb, []string{n.Lease}, n.token, LeaseLife.Milliseconds()).Int()
	return got == 1, err
}

// Release ends a lease after a fill that stored nothing, and wakes who waits. An
// error leaves the lease to its end.
func (t *Tier) Release(ctx context.Context, n Names) error {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	return releaseScript.Run(ctx, t.rdb, []string{n.Lease}, n.token, t.fillChannel(), n.Entry).Err()
}
