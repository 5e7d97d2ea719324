package cache

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/panics"
)

// Options are what a cache is built from. Fill is required, every other zero
// value is usable.
type Options struct {
	Fill       Fill
	Fills      Fills                 // until Prepare gives others
	Redis      redis.UniversalClient // nil: in-process tier only; closed by its owner
	Prefix     string                // of every Redis key; empty: "iq"
	Derivation Derivation            // zero: each key is asked for by itself
	Observer   Observer              // nil: nobody watches
	Traces     trace.TracerProvider  // nil: no spans
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Panics     *panics.Catcher // of its goroutines; nil: logged only
	Now        func() time.Time

	// foreignTime is for tests whose Now has nothing to do with Redis' time: ages
	// are counted on Now alone.
	foreignTime bool
}

// withDefaults fills in the zero values.
func (o Options) withDefaults() (Options, error) {
	if o.Fill == nil {
		return o, errors.New("cache: Options.Fill is missing")
	}
	if d := o.Derivation; d.Base != nil && (d.Select == nil || d.Empty == nil) {
		return o, errors.New("cache: Options.Derivation has a Base, but no Select or Empty")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	if o.Panics == nil {
		o.Panics = panics.New("cache", nil, o.Logger)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// Lists is the cache of finished lists. It is safe for concurrent use.
type Lists struct {
	opts    Options
	policy  atomic.Pointer[policy]
	local   *otter.Cache[Key, *Entry]
	redis   *redistier.Tier // nil: no Redis
	epochs  *epochs
	watcher watcher
	backoff *backoff
	comp    *compressor
	metrics *metrics
	tracer  trace.Tracer // nil: no spans

	life context.Context // ends when Close gives up waiting
	end  context.CancelFunc

	mu         sync.Mutex // guards the fields below; never held during a call
	flights    map[Key]*flight
	refreshing int // background flights among them
	closed     bool
	wg         sync.WaitGroup // of all flights and what they leave behind

	watchers sync.WaitGroup
}

// New builds a cache. It does not need Redis to be up; with Redis it starts the
// goroutines that listen for purges, which Close ends. Errors of the
// configuration have a method Field() string.
func New(cfg Config, opts Options) (*Lists, error) {
	p, err := compile(cfg, opts.Fills)
	if err != nil {
		return nil, err
	}
	if opts, err = opts.withDefaults(); err != nil {
		return nil, err
	}
	l := &Lists{opts: opts, flights: make(map[Key]*flight), epochs: newEpochs(), tracer: newTracer(opts.Traces)}
	l.policy.Store(p)
	if l.metrics, err = newMetrics(opts.Registerer); err != nil {
		return nil, err
	}
	if l.comp, err = newCompressor(); err != nil {
		return nil, err
	}
	if l.backoff, err = newBackoff(); err != nil {
		return nil, err
	}
	l.local, err = otter.New(&otter.Options[Key, *Entry]{
		MaximumWeight: uint64(cfg.Local.MaxBytes),
		Weigher:       func(_ Key, e *Entry) uint32 { return e.weight() },
	})
	if err != nil {
		return nil, err
	}
	if opts.Redis != nil {
		l.redis, err = redistier.New(redistier.Options{
			Client: opts.Redis, Prefix: opts.Prefix, EpochLife: epochLife, Now: opts.Now, NodeClock: opts.foreignTime,
			Logger: opts.Logger, Registerer: opts.Registerer, Panics: opts.Panics,
		})
		if err != nil {
			return nil, err
		}
		l.epochs.suspectEpoch.Store(1) // nothing is confirmed yet
	}
	if err := l.registerGauges(); err != nil {
		return nil, err
	}
	l.life, l.end = context.WithCancel(context.Background())
	if l.redis != nil {
		l.watch()
	}
	return l, nil
}

func (l *Lists) registerGauges() error {
	gauge := func(name, help string, f func() float64) error {
		return l.opts.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Subsystem: "cache", Name: name, Help: help,
		}, f))
	}
	return errors.Join(
		gauge("entries", "Lists in the in-process tier.", func() float64 { return float64(l.local.EstimatedSize()) }),
		gauge("local_bytes", "Bytes that the in-process tier counts: codings, keys and overhead included.",
			func() float64 { return float64(l.local.WeightedSize()) }),
		gauge("local_limit_bytes", "Bytes that the in-process tier may count: cache.local.max_bytes, or half of the memory limit if that is less.",
			func() float64 { return float64(l.local.GetMaximum()) }),
	)
}

// SetConfig swaps the policy whole and reads the sealing keys again; on an error
// the old one stays. Entries are kept: their age is compared with the new policy
// from the next look-up on.
func (l *Lists) SetConfig(cfg Config) error {
	apply, err := l.Prepare(cfg, l.policy.Load().fills)
	if err == nil {
		apply()
	}
	return err
}

// Prepare does all of SetConfig that can fail, and gives the rest, which swaps
// what is known of fills in the same step.
func (l *Lists) Prepare(cfg Config, fills Fills) (apply func(), err error) {
	p, err := compile(cfg, fills)
	if err != nil {
		return nil, err
	}
	return func() {
		l.policy.Store(p)
		l.local.SetMaximum(uint64(cfg.Local.MaxBytes))
	}, nil
}

// Close waits for the fills and refreshes that run, and ends them when ctx is
// done; then it returns ctx's error. Afterwards only what is in the in-process
// tier is served. The Redis client stays open.
func (l *Lists) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	defer l.watchers.Wait()
	defer l.end()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lookup is the hot path: a fresh entry of the in-process tier. It allocates
// nothing, never waits, and leaves everything else to Get.
func (l *Lists) Lookup(k Key) (Result, bool) {
	e, ok := l.local.GetIfPresent(k)
	if !ok {
		return Result{}, false
	}
	i, ok := indexOf(k.Kind)
	p := l.policy.Load()
	if !ok || !e.belongsTo(k, p.kinds[i].fingerprint) || !l.epochs.current(i, e) || !l.epochs.confirmed(e) {
		return Result{}, false
	}
	now := l.opts.Now()
	v := p.judge(i, e, now)
	if v.state != fresh {
		return Result{}, false
	}
	r := Result{Entry: e, Outcome: Hit, Tier: TierLocal, Age: v.age, TTL: v.ttl}
	l.metrics.served(i, r)
	l.looked(k, e.name, now)
	return r, true
}

// Get answers from a tier or fills. It waits no longer than ctx; a fill that it
// started goes on for the others. Errors: ctx's, the fill's own, or one of this
// package's. The error of a fill is returned only when no stale entry may be served.
func (l *Lists) Get(ctx context.Context, k Key) (Result, error) {
	i, ok := indexOf(k.Kind)
	if !ok {
		return Result{}, ErrUnknownKind
	}
	base, impossible := l.opts.Derivation.base(k)
	if impossible {
		return l.impossible(i, k), nil
	}
	l.looked(k, l.nameOf(base), l.opts.Now())
	r, err := l.tracedGet(ctx, query{kind: i, key: k, base: base})
	if err != nil {
		l.metrics.failed(i)
		return Result{}, err
	}
	l.metrics.served(i, r)
	return r, nil
}

// find answers with the newest list of the query's key or of its base.
func (l *Lists) find(ctx context.Context, q query) (Result, error) {
	start := l.opts.Now()
	have := l.tracedPeek(ctx, q.kind, q.base)
	q.have = have
	if q.derived() {
		if e := l.tracedPeek(ctx, q.kind, q.key); e != nil && !have.newerThan(e) && l.judge(q, e, start).state != unusable {
			have = e
		}
	}
	if have != nil && l.epochs.confirmed(have) {
		if outcome, ok := l.atOnce(ctx, q, have, start); ok {
			return l.result(q, have, outcome, TierLocal), nil
		}
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	f, leader, err := l.join(ctx, q)
	if err != nil {
		return l.serveStale(q, have, nil, err)
	}
	defer l.leave(f)
	defer l.wait(ctx, f, leader)()
	select {
	case <-f.done:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return l.serveStale(q, have, f.stale.Load(), ctx.Err())
		}
		return Result{}, ctx.Err()
	}
	if f.err != nil {
		r, err := l.serveStale(q, have, f.stale.Load(), f.err)
		r.Wait = l.opts.Now().Sub(start)
		return r, err
	}
	r := l.result(q, f.entry, f.outcome, f.tier)
	switch {
	case f.outcome == Miss && !leader:
		r.Outcome = Collapsed
	case r.TTL > 0 && (f.outcome == StaleRevalidate || f.outcome == StaleError):
		r.Outcome = Hit // stale for somebody else who waited
	}
	r.Stored, r.Wait = f.stored, l.opts.Now().Sub(start)
	return r, nil
}

// peek returns the verified entry of the in-process tier, fresh or not.
func (l *Lists) peek(i kindIndex, k Key) *Entry {
	e, ok := l.local.GetIfPresent(k)
	if !ok {
		return nil
	}
	reason := errForeign
	if e.belongsTo(k, l.fingerprint(i)) {
		if l.epochs.current(i, e) {
			return e
		}
		reason = errPurged
	}
	l.metrics.refused.WithLabelValues(TierLocal, reason.Error()).Inc()
	l.local.Invalidate(k)
	return nil
}

// atOnce tells whether an entry may be served without waiting, and sees to the
// refresh of a stale one.
func (l *Lists) atOnce(ctx context.Context, q query, e *Entry, now time.Time) (Outcome, bool) {
	state := l.judge(q, e, now).state
	if state == fresh {
		return Hit, true
	}
	if state == unusable {
		return "", false
	}
	failing := l.backoff.failing(q.kind, q.base)
	if state == ifError && !failing {
		return "", false
	}
	if l.backoff.due(q.kind, q.base, now) {
		l.refresh(ctx, q)
	}
	if failing {
		return StaleError, true
	}
	return StaleRevalidate, true
}

// serveStale answers a failed look-up with the newest entry that the policy still
// allows, or with the failure.
func (l *Lists) serveStale(q query, a, b *Entry, err error) (Result, error) {
	tier := TierLocal
	if b.newerThan(a) {
		a, tier = b, TierRedis
	}
	if a == nil || !l.epochs.current(q.kind, a) || l.judge(q, a, l.opts.Now()).state == unusable {
		return Result{}, err
	}
	r := l.result(q, a, StaleError, tier)
	r.TTL = min(r.TTL, 0) // it may be outdated however young it is
	return r, nil
}

func (l *Lists) result(q query, e *Entry, o Outcome, tier string) Result {
	v := l.judge(q, e, l.opts.Now())
	return Result{Entry: e, Outcome: o, Tier: tier, Age: v.age, TTL: v.ttl}
}

// RedisState is "off" without Redis, "ok", or "down" while a breaker keeps
// requests away from it, or from a part of a Cluster.
func (l *Lists) RedisState() string {
	if l.redis == nil {
		return "off"
	}
	if l.redis.Down() {
		return "down"
	}
	return "ok"
}
