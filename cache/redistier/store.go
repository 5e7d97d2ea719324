// Package redistier talks to Redis: it keeps the lists of a fleet there, and tells
// its nodes of each other's purges, hints and fills.
//
//	<prefix>:3:{<account>}:<kind>:<mapping>:<list>         a list
//	<prefix>:3:{<account>}:<kind>:<mapping>:<list>:lease   the flight that fills it
//	<prefix>:3:{<account>}:epoch, <prefix>:3:epoch:<kind>  purges and hints of an account, of a kind
//	<prefix>:3:purges                                      number of the fleet's last notice
//	<prefix>:3:purge, <prefix>:3:fill                      channels
//
// Accounts and lists are hashed. Every value has an end, and Redis may lose all of them: what
// is lost is filled again, and nodes give back the epochs that they know. All moments in
// Redis are of its own clock, read in the same script that uses them: no node's clock
// plays a part.
package redistier

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

const (
	keyVersion = "3" // of the Redis keys; a new layout never meets an old one
	// maxWrites bounds the entries that wait for a slow Redis at once. What
	// comes on top is dropped and counted.
	maxWrites = 64
	// LeaseLife is how soon the fleet gets over a node that died with a lease.
	LeaseLife = time.Second
	// seenBytes of a value are enough to know it by: its checksum or nonce is among them.
	seenBytes = 40
)

// ErrBusy is returned by Put when too many writes wait for Redis already.
var ErrBusy = errors.New("too many writes to Redis at once")

var (
	// readScript reads a list, the time and the account's epoch. If the value is ARGV[4],
	// the start of the one that the caller has refused (empty: none), and ARGV[2] is a
	// token, it takes the lease too. Who gets the lease so has seen what the last holder
	// stored. A Redis that is full takes no lease: the answer is "full" then, else who
	// holds the lease.
	readScript = redis.NewScript(epochLua + `
local v = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1])
if type(v) ~= 'string' then
  if string.sub(v.err, 1, 9) ~= 'WRONGTYPE' then return v end
  v = ''
end
local holder = ''
if ARGV[2] ~= '' and string.sub(v, 1, #ARGV[4]) == ARGV[4] and (ARGV[4] ~= '' or v == '') then
  local won = redis.pcall('SET', KEYS[3], ARGV[2], 'NX', 'PX', ARGV[3])
  if type(won) == 'table' and won.ok then holder = ARGV[2]
  elseif type(won) == 'table' then holder = 'full'
  else holder = redis.call('GET', KEYS[3]) or '' end
end
return {v, time[1], time[2], epoch(KEYS[2]), holder}`)
	// putScript stores a list, ends the lease under which it was filled, and wakes who
	// waits, also where the list is not stored. ARGV[2] is 0 if there is nothing to store.
	putScript = redis.NewScript(`local stored = {ok = 'OK'}
if ARGV[2] ~= '0' then stored = redis.pcall('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
if redis.call('GET', KEYS[2]) == ARGV[3] then redis.call('DEL', KEYS[2]) end
redis.call('PUBLISH', ARGV[4], KEYS[1])
return stored`)
	renewScript = redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
)

// Options are what a tier is built from. Client and EpochLife are required.
type Options struct {
	Client    *redisclient.Client // closed by its owner
	Prefix    string              // of every key and channel
	EpochLife time.Duration       // how long Redis remembers a purge
	Logger    *slog.Logger        // nil: none
	Panics    *telemetry.Catcher  // of Listen
}

// Tier is what the cache keeps in Redis: plain values with an end, one slot per
// call. Each call ends within the timeout of the client. It is safe for concurrent
// use.
type Tier struct {
	rdb       *redisclient.Client
	prefix    string
	epochLife int64 // ms
	writes    chan struct{}
	log       *slog.Logger
	panics    *telemetry.Catcher

	connected atomic.Bool // messages arrive
	mu        sync.Mutex
	waits     map[string]*wait // by key of a list: the flights of this node that wait for another's fill
}

// New makes a tier. Redis need not be up.
func New(o Options) *Tier {
	return &Tier{
		rdb: o.Client, prefix: o.Prefix + ":" + keyVersion + ":", epochLife: o.EpochLife.Milliseconds(),
		writes: make(chan struct{}, maxWrites), log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), panics: o.Panics,
		waits: map[string]*wait{},
	}
}

// Down tells whether requests are kept away from Redis, or from a part of a
// Cluster.
func (t *Tier) Down() bool { return t.rdb.Down() }

// Slow is how long one read may take for a flight to call Redis once more. With
// the timeout of that call it bounds what a slow Redis adds.
func (t *Tier) Slow() time.Duration { return t.rdb.CallTimeout() / 2 }

// List is everything that names a list in Redis.
type List struct {
	Kind, Account, Status, InquiryType string
	Fingerprint                        string // of the mapping that made it
}

// Names are the Redis keys of one list. They share a slot in a cluster: the
// account's hash is in braces. The account itself never appears.
type Names struct {
	Account string // hashed
	Entry   string
	Epoch   string // the account's
	Lease   string
	Token   string // of this flight, if it takes the lease
}

// Names makes the keys of a list, and a new token for its lease.
func (t *Tier) Names(l List) Names {
	account := Hash(l.Account)
	prefix := t.prefix + "{" + account + "}:"
	entry := prefix + l.Kind + ":" + l.Fingerprint + ":" + Hash(l.Account, l.Status, l.InquiryType)
	return Names{Account: account, Entry: entry, Epoch: prefix + "epoch", Lease: entry + ":lease", Token: rand.Text()}
}

// Hash hashes its parts so that no two lists of parts run together.
func Hash(parts ...string) string {
	var b []byte
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Reading is what one call found about a list.
type Reading struct {
	Raw   []byte    // as it was Put; nil: nothing there
	Time  time.Time // on the clock of Redis, when it was read
	Epoch Epoch     // the account's
	// Holder is the token of the flight that has the lease, of any node, where it was
	// wanted; this flight's own: it has it now. Empty: not wanted, or nobody can have it.
	Holder string
}

// Seen is what Read has to know of a value that was refused.
func (r Reading) Seen() string { return string(r.Raw[:min(len(r.Raw), seenBytes)]) }

// Read reads a list with its account's epoch and the time. At most limit+1 bytes are read;
// what is longer is too big for an entry, and the caller sees that by its length. With
// lease it takes the list's lease if the list is not there or is the one that seen is of.
func (t *Tier) Read(ctx context.Context, n Names, limit int, lease bool, seen string) (Reading, error) {
	token := ""
	if lease {
		token = n.Token
	}
	got, err := t.rdb.Run(ctx, readScript, []string{n.Entry, n.Epoch, n.Lease}, limit, token, LeaseLife.Milliseconds(), seen).Slice()
	if err != nil {
		return Reading{}, err
	}
	var r Reading
	raw, epoch := "", ""
	if len(got) == 5 {
		raw, _ = got[0].(string)
		epoch, _ = got[3].(string)
		r.Holder, _ = got[4].(string)
		r.Time, err = timeOf(got[1], got[2])
	}
	if e, ok := parseEpoch(epoch); ok && err == nil && len(got) == 5 {
		r.Epoch = e
	} else {
		return Reading{}, fmt.Errorf("what Redis says of a list was not understood: %w", err)
	}
	if r.Holder == "full" {
		r.Holder = ""
	}
	if raw != "" {
		r.Raw = []byte(raw)
	}
	return r, nil
}

// timeOf reads the two numbers of TIME.
func timeOf(seconds, micros any) (time.Time, error) {
	s, _ := seconds.(string)
	us, _ := micros.(string)
	a, err := strconv.ParseInt(s, 10, 64)
	b, err2 := strconv.ParseInt(us, 10, 64)
	return time.Unix(a, b*1000), errors.Join(err, err2)
}

// Put stores a list until ttl has passed. If it was filled under a lease the lease ends,
// and the nodes that wait are woken, in the same round trip, whether the list is stored
// or not.
func (t *Tier) Put(ctx context.Context, n Names, value []byte, ttl time.Duration, leased bool) error {
	select {
	case t.writes <- struct{}{}:
		defer func() { <-t.writes }()
	default:
		if leased {
			_ = t.Release(ctx, n) // an error leaves it to its end
		}
		return ErrBusy
	}
	if !leased {
		ctx, cancel := t.rdb.Bounded(ctx)
		defer cancel()
		return t.rdb.Set(ctx, n.Entry, value, ttl).Err()
	}
	return t.rdb.Run(ctx, putScript, []string{n.Entry, n.Lease}, value, ttl.Milliseconds(), n.Token, t.fillChannel()).Err()
}

// Release ends a lease after a fill that stored nothing, and wakes who waits. An
// error leaves the lease to its end.
func (t *Tier) Release(ctx context.Context, n Names) error {
	return t.rdb.Run(ctx, putScript, []string{n.Entry, n.Lease}, "", 0, n.Token, t.fillChannel()).Err()
}

// Renew gives a lease another LeaseLife. held: it is still ours.
func (t *Tier) Renew(ctx context.Context, n Names) (held bool, err error) {
	got, err := t.rdb.Run(ctx, renewScript, []string{n.Lease}, n.Token, LeaseLife.Milliseconds()).Int()
	return got == 1, err
}

// wait is closed when another node has ended its fill of a key.
type wait struct {
	done    chan struct{}
	waiting int
}

// Await returns a channel that is closed when another node ends its fill of the
// list. stop must be called.
func (t *Tier) Await(n Names) (done <-chan struct{}, stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waits[n.Entry]
	if w == nil {
		w = &wait{done: make(chan struct{})}
		t.waits[n.Entry] = w
	}
	w.waiting++
	return w.done, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if w.waiting--; w.waiting == 0 && t.waits[n.Entry] == w {
			delete(t.waits, n.Entry)
		}
	}
}

// wake wakes all who wait for a key. Who waits from now on waits for the next fill.
func (t *Tier) wake(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.waits[key]; w != nil {
		close(w.done)
		delete(t.waits, key)
	}
}

func (t *Tier) fillChannel() string { return t.prefix + "fill" }
