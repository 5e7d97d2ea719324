// Package cache keeps finished v1 bodies in the process and in Redis, with explicit freshness rules.
//
// [Cache.Lookup] answers from the process, or leaves the key to [Cache.Get]. Get loads the key's source, which
// is the list that the legacy system is asked for, and selects the wanted list from it if they differ. What the
// policy lets be served at once is served; otherwise all callers share one flight of the source. A flight
// reads Redis, and if one of its callers may not be served what there is, it takes the fleet's lease
// and fetches the list: see flight.go and fetch.go. How an entry may be used is decided in one place,
// decide, by the caller's own query.
//
// Two things make an entry unusable besides its age: another key or mapping than the one
// that is asked for (belongsTo), and a purge since its fetch began (invalidations).
package cache

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

// The two kinds of caller. A key of any other kind is refused.
const (
	KindBuyer  = "buyer"
	KindSeller = "seller"
)

// The tiers that a [Result] can name. A fetched list has none.
const (
	TierLocal = "local"
	TierRedis = "redis"
)

// ErrFillPanicked is what every waiter gets if the fill panicked or ended its
// goroutine. The panic is logged with its stack.
var ErrFillPanicked = errors.New("cache: the fill panicked")

// ErrClosed is returned for a look-up that would need a fetch after Close.
var ErrClosed = errors.New("cache: closed")

// ErrUnknownKind is returned for a key whose kind is neither buyer nor seller.
var ErrUnknownKind = errors.New("cache: the key's kind is neither buyer nor seller")

// Key names one list: everything of a request that affects the bytes. Empty
// Status or InquiryType means no filter. It is comparable.
type Key struct {
	Kind        string `json:"kind"`
	Account     string `json:"account"`
	Status      string `json:"status,omitempty"`
	InquiryType string `json:"inquiry_type,omitempty"`
}

// Content is a finished v1 body and the moment when the legacy system answered.
type Content struct {
	Body       []byte    // handed over: the caller must not change it afterwards
	AnsweredAt time.Time // zero or in the future: taken as now
	NoStore    bool      // serve it, but keep it in no tier
	// Fingerprint is that of the mapping that made the body. A list of another mapping than the one in force
	// when its flight began is served to its waiters, and kept in no tier.
	Fingerprint string
}

// Fill fetches a list from the legacy system. It runs detached from the caller: its context keeps the
// caller's values, has its own deadline and ends early only when the cache is closed. One call per key
// runs at a time, except beside an older call that began before a purge or a reload, or that has overrun
// its deadline. An error is never stored.
type Fill func(ctx context.Context, k Key, about FillInfo) (Content, error)

// FillInfo is what a fill is told besides its key.
type FillInfo struct {
	Background bool // nobody waits for it
	Failing    bool // its last fill failed, and was not refused
	// Changes is another text after each purge of the list, as far as this node knew of
	// them when the fill began.
	Changes string
}

// FillError is what the error of a fill may say about itself, for the back-off.
type FillError interface {
	error
	// Refused reports that the legacy system was not asked. That says nothing about the list.
	Refused() bool
	// RetryAfter is how long the legacy system wants not to be asked for the list; 0: it does not say.
	RetryAfter() time.Duration
}

// Representation is a body in one encoding, ready to be written. Neither field may be
// changed: both are shared by all readers.
type Representation struct {
	Body   []byte   // nil: there is none in this encoding
	Length []string // the decimal Content-Length as a header value
}

// Outcome says how a look-up was answered.
type Outcome string

// The outcomes of a look-up that has an entry.
const (
	Hit             Outcome = "hit"              // fresh, from a tier
	Miss            Outcome = "miss"             // filled for this caller
	Collapsed       Outcome = "collapsed"        // waited for another caller's fill
	Impossible      Outcome = "impossible"       // the empty list: no record can have the filter values
	StaleRevalidate Outcome = "stale-revalidate" // stale, a refresh is on its way
	StaleError      Outcome = "stale-error"      // stale, because the last fill failed
)

// Result is the answer of a look-up.
type Result struct {
	Entry   *Entry
	Outcome Outcome
	Tier    string        // TierLocal, TierRedis, or empty for a fill
	Stored  bool          // the entry of this fill is in a tier now
	TooOld  bool          // a list was there before this fill, too old to be served
	Age     time.Duration // since the legacy answered, never negative
	TTL     time.Duration // remaining freshness by today's policy, jitter included; negative when stale
	Wait    time.Duration // time spent reading Redis, filling or waiting; 0 on a local hit

	lookedAt time.Time // of Lookup
	refresh  bool      // it is stale and to be refreshed
}

// Options are what a cache is built from. Fill is required, every other zero
// value is usable.
type Options struct {
	Fill  Fill
	Fills Fills // until Prepare gives others
	// Failing tells whether the breaker of a kind is not closed for an account: stale lists
	// are served at once then. nil: never. It must be quick.
	Failing    func(kind, account string) bool
	Redis      *redisclient.Client  // nil: in-process tier only; closed by its owner
	Prefix     string               // of every Redis key
	Derivation Derivation           // zero: each key is asked for by itself
	Observer   Observer             // told of look-ups; nil: none
	Traces     trace.TracerProvider // nil: no spans
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Panics     *telemetry.Catcher // of its goroutines; nil: logged only
	Now        func() time.Time
}

// withDefaults fills in the zero values.
func (o Options) withDefaults() (Options, error) {
	if o.Fill == nil {
		return o, errors.New("cache: Options.Fill is missing")
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Registerer = cmp.Or[prometheus.Registerer](o.Registerer, prometheus.NewRegistry())
	o.Panics = cmp.Or(o.Panics, telemetry.NewCatcher("cache", nil, o.Logger))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Failing == nil {
		o.Failing = func(string, string) bool { return false }
	}
	return o, nil
}

// Cache is the cache of finished lists. It is safe for concurrent use. It never
// looks into a body. A list's age is counted from the moment the legacy system answered,
// whichever tier the list went through.
//
//   - A purge hides older lists here at once, and on other nodes within a second: see Purge.
//   - One node fetches a list for the fleet, and the callers of all nodes wait for it as long as they
//     have time; they get it up to 25 ms later than those of that node. If that node crashes, the
//     others wait for as long as a fetch may take.
//   - Failed fetches are negatively cached, for at most 5 s, or for Retry-After up to a minute: see backoff.
//   - Ages are counted on the clock of Redis, which each poll reads, to within a round
//     trip, on the safe side; no node's clock plays a part. If Redis fails over to a
//     machine with another clock, lists stored before are wrong by the difference.
//   - A slow Redis adds at most one and a half of its timeout to a miss, and
//     nothing to a hit of the in-process tier. Once its breaker is open, a call in 200 ms reaches it.
//   - Without Redis a node caches for itself.
//
// docs/redis.md has the rights that it needs in Redis.
type Cache struct {
	opts          Options
	policy        atomic.Pointer[policy]
	tier          localcache.Cache[Key, *Entry]
	redis         *redistier.Tier // nil: no Redis
	invalidations *invalidations
	backoff       *backoff
	comp          *compressor
	metrics       *metrics
	tracer        *telemetry.Tracer

	life context.Context // ends when Close gives up waiting
	end  context.CancelFunc

	mu         sync.Mutex // guards the fields below; never held while Redis or the legacy system is asked
	flights    map[Key]*flight
	refreshing int // background flights among them
	closed     bool
	wg         sync.WaitGroup // of all flights and what they leave behind

	watchers sync.WaitGroup
}

// New builds a cache. It does not need Redis to be up; with Redis it starts the
// goroutine that reads purges, which Close ends. What is wrong with
// the configuration is a [setting.Problems].
func New(config Config, opts Options) (*Cache, error) {
	p, err := compile(config, opts.Fills)
	if err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, err
	}
	c := &Cache{
		opts: opts, flights: make(map[Key]*flight), invalidations: newInvalidations(p.retention()),
		tracer: telemetry.NewTracer(opts.Traces, "inquiry-gateway/cache"),
	}
	c.policy.Store(p)
	c.metrics = newMetrics(opts.Registerer)
	if c.comp, err = newCompressor(); err != nil {
		return nil, err
	}
	if c.backoff, err = newBackoff(); err != nil {
		return nil, err
	}
	c.tier, err = otter.New(&otter.Options[Key, *Entry]{
		MaximumWeight: uint64(config.MaxBytes),
		Weigher:       func(_ Key, e *Entry) uint32 { return e.weight() },
		OnAtomicDeletion: func(d otter.DeletionEvent[Key, *Entry]) {
			if d.WasEvicted() {
				c.metrics.evicted.Inc()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if opts.Redis != nil {
		c.redis = redistier.New(opts.Redis, opts.Prefix, purgeLife)
	}
	c.registerGauges()
	c.life, c.end = context.WithCancel(context.Background())
	if c.redis != nil {
		c.watch()
	}
	return c, nil
}

// registerGauges makes the series that are asked of the tier itself.
func (c *Cache) registerGauges() {
	all := telemetry.Series(c.opts.Registerer, "cache")
	all.GaugeFunc("entries", "Lists in the in-process tier.", func() float64 { return float64(c.tier.EstimatedSize()) })
	all.GaugeFunc("local_bytes", "Bytes of the in-process tier.",
		func() float64 { return float64(c.tier.WeightedSize()) })
	all.GaugeFunc("local_limit_bytes", "Limit of the in-process tier: cache.max_bytes, or half of the memory limit if that is less.",
		func() float64 { return float64(c.tier.GetMaximum()) })
}

// Prepare does all that can fail of another policy: it is checked, and its sealing keys are
// read. apply puts it into force, with what is known of fills. Entries are kept:
// from the next look-up on their age is compared with the new policy.
func (c *Cache) Prepare(cfg Config, fills Fills) (apply func(), err error) {
	p, err := compile(cfg, fills)
	if err != nil {
		return nil, err
	}
	return func() {
		c.policy.Store(p)
		c.invalidations.keepFor(p.retention())
		c.tier.SetMaximum(uint64(cfg.MaxBytes))
	}, nil
}

// Close waits for the fills and refreshes that run, and ends them when ctx is
// done; then it returns ctx's error. Afterwards only what is in the in-process
// tier is served. The Redis client stays open.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { c.wg.Wait(); close(done) }()
	defer c.watchers.Wait()
	defer c.end()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RedisState is "off" without Redis, "ok", or "down" while a breaker keeps
// requests away from it, or from a part of a Cluster.
func (c *Cache) RedisState() string {
	if c.redis == nil {
		return "off"
	}
	if c.opts.Redis.Down() {
		return "down"
	}
	return "ok"
}
