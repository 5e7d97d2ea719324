package cache

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/telemetry"
)

// maxRefreshing bounds the background refreshes of one node.
const maxRefreshing = 128

// flight brings one list to all who ask for it meanwhile. First it reads Redis. If one of its callers may
// not be served what there is, the list is fetched: see fetch.go. Unlike a call of
// x/sync/singleflight it is detached from its callers: each follows its own context, and after a purge or a
// reload new callers must not join it.
type flight struct {
	key        Key
	kind       kindIndex
	background bool            // begun by a refresh
	policy     *policy         // when it began
	ctx        context.Context // of who began it, without its end
	span       telemetry.Span

	// Guarded by Cache.mu.
	waiters  int
	fetching bool
	settled  bool

	looked chan struct{} // closed when Redis was read; found and tier do not change after that
	found  *Entry        // the newest list of the process and Redis; nil: there is none
	tier   string        // of found

	done   chan struct{} // closed when settled; result and err do not change after that
	result Result
	err    error

	// Of look, then of the fetch.
	names          redistier.Names
	redisAvailable bool   // it is to have the list, too
	redisQuick     bool   // it may be called once more
	seen           string // what it had
	token          string // of the fleet's lease while this flight has it

	version atomic.Pointer[fetchVersion] // once the legacy system is asked
	polls   atomic.Bool                  // for the list that another node fetches
}

// join returns the flight of a query's source, and whether the caller has to run look; nil: a list that may
// be served has come meanwhile, or so many refreshes run that this one does not begin. The caller must
// leave the flight. The span of a refresh is a trace of its own, with a link to what caused it: it outlives that.
func (c *Cache) join(ctx context.Context, q *query, refresh bool) (f *flight, leads bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[q.source]; ok && !c.outdated(f) {
		f.waiters++
		return f, false, nil
	}
	e, d := c.local(q, c.opts.Now())
	switch {
	case d.state == fresh || !refresh && d.serves():
		return nil, false, nil
	case c.closed:
		return nil, false, ErrClosed
	case refresh && c.refreshing >= maxRefreshing:
		c.metrics.fills.WithLabelValues(q.source.Kind, fillSkipped).Inc()
		return nil, false, nil
	case refresh:
		c.refreshing++
	}
	f = &flight{
		key: q.source, kind: q.kind, background: refresh, policy: q.policy, waiters: 1, found: e, tier: TierLocal,
		looked: make(chan struct{}), done: make(chan struct{}),
	}
	if f.ctx = context.WithoutCancel(ctx); refresh {
		f.ctx, f.span = c.tracer.StartAlways(f.ctx, "cache.flight", trace.WithNewRoot(), telemetry.CurrentSpan(ctx).Link())
	} else {
		f.ctx, f.span = c.tracer.Start(f.ctx, "cache.flight")
	}
	c.flights[q.source] = f
	c.wg.Add(1) // until finish
	return f, true, nil
}

// outdated tells that a purge has come since the fetch began, or that the mapping is another one: new
// callers must not join the flight.
func (c *Cache) outdated(f *flight) bool {
	v := f.version.Load()
	return f.fingerprint() != c.policy.Load().kinds[f.kind].mapping.Fingerprint || v != nil && c.invalidations.since(f.key.Kind, *v) != (invalidation{})
}

// inFlight tells whether a key has a flight that can be joined.
func (c *Cache) inFlight(k Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.flights[k]
	return ok && !c.outdated(f)
}

// leave is called by each who has joined. It ends a flight that nobody needs a fetch of.
func (c *Cache) leave(f *flight) {
	c.mu.Lock()
	f.waiters--
	unused := f.waiters == 0 && !f.fetching
	if unused {
		c.remove(f)
	}
	c.mu.Unlock()
	if unused {
		c.finish(f)
	}
}

// remove has new callers begin a flight of their own. c.mu is held.
func (c *Cache) remove(f *flight) {
	if c.flights[f.key] == f {
		delete(c.flights, f.key)
	}
	if f.background {
		c.refreshing--
	}
}

// look reads the list from Redis.
func (c *Cache) look(f *flight) {
	defer close(f.looked)
	defer c.opts.Panics.Catch(nil)
	if c.redis == nil {
		f.names.Account = redistier.Hash(f.key.Account)
		return
	}
	f.names = c.redis.Names(f.id())
	ctx, span := c.tracer.Start(f.ctx, "cache.redis")
	defer span.End()
	raw, took, err := c.readList(ctx, f.names)
	if err != nil {
		span.Fail(redisclient.ResultOf(err))
		return
	}
	timeout := c.opts.Redis.CallTimeout()
	f.redisAvailable, f.redisQuick = true, took < timeout/2 // else Redis would add more than one and a half of it
	result := "none"
	if len(raw) > 0 {
		result = "not_newer"
		if e := c.accept(f, raw); e != nil {
			f.found, f.tier, result = e, TierRedis, "newer"
		}
	}
	span.Set(attribute.String("cache.result", result))
}

// readList reads a list from Redis, and tells how long that took. At the very start of the node it first
// reads the purges, both within one and a half of redis.timeout.
func (c *Cache) readList(ctx context.Context, n redistier.Names) (raw []byte, took time.Duration, err error) {
	start := time.Now()
	if _, synced := c.invalidations.position(); !synced {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Redis.CallTimeout()*3/2)
		defer cancel()
		if err := c.poll(ctx); err != nil {
			return nil, 0, err
		}
	}
	raw, err = c.redis.Read(ctx, n, c.policy.Load().maxReadBytes())
	return raw, time.Since(start), err
}

// accept keeps the list that Redis has, if it is newer than what the flight has found; nil: it is refused
// or not newer.
func (c *Cache) accept(f *flight, raw []byte) *Entry {
	f.seen = redistier.Seen(raw)
	e, err := c.open(f.key, f.fingerprint(), f.names.Account, raw)
	if err != nil {
		c.metrics.refused.WithLabelValues(TierRedis, err.Error()).Inc()
		if err != errPurged { // else a purge of a kind is a warning for each account
			c.opts.Logger.Warn("an entry in Redis was refused", "kind", f.key.Kind, "reason", err.Error())
		}
		return nil
	}
	c.backoff.succeeded(f.key, e.AnsweredAt)
	if !c.invalidations.newer(e, f.found) {
		return nil
	}
	c.keep(e)
	return e
}

// open decodes what Redis has of a list, and checks it against the key, the purges and the clock. The error
// is one of refusals.
func (c *Cache) open(k Key, fingerprint, account string, raw []byte) (*Entry, error) {
	p := c.policy.Load()
	if len(raw) > p.maxReadBytes() {
		return nil, errTooBig
	}
	id := idOf(k, fingerprint).Canonical()
	raw, err := p.ring.open(raw, id)
	if err != nil {
		return nil, err
	}
	e, err := decode(raw, id, k, fingerprint)
	if err != nil {
		return nil, err
	}
	e.fetch.account = account
	now := c.opts.Now()
	_, late := c.clock()
	e.AnsweredAt = now.Add(time.Unix(0, e.answeredAtRedis).Sub(late)) // from here on the age runs with this process's monotonic clock
	switch {
	case c.invalidations.sinceFetch(e).hard:
		return nil, errPurged
	case e.AnsweredAt.Sub(now) > maxSkew:
		return nil, errCorrupt
	}
	return e, nil
}

// refresh brings a newer list in the background, unless its flight is there. If it does not begin, the
// next look-up tries again.
func (c *Cache) refresh(ctx context.Context, q query) {
	f, leads, err := c.join(ctx, &q, true)
	switch {
	case err != nil || f == nil:
		return
	case !leads:
		c.leave(f)
		return
	}
	go func() {
		c.look(f)
		now, fetches := c.opts.Now(), false
		switch {
		case c.decide(&q, f.found, now).state == fresh:
		case c.healthOf(&q, f.found, now).inBackoff:
			c.backoff.markChecked(f.key, now)
		default:
			fetches = c.beginFetch(f)
		}
		c.leave(f)
		if fetches {
			c.runFetch(f)
		}
	}()
}

// beginFetch tells whether the caller has to run the fetch; false: it runs already.
func (c *Cache) beginFetch(f *flight) (begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begins, f.fetching = !f.fetching, true
	return begins
}

// runFetch has the list fetched, until Close gives up waiting. However that ends, the waiters are told.
func (c *Cache) runFetch(f *flight) {
	defer c.finish(f)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	began := c.opts.Now()
	defer func() {
		if c.settle(f, Result{}, ErrFillPanicked) { // a panic or Goexit
			c.failed(f, began, ErrFillPanicked, fillPanic)
		}
	}()
	defer c.opts.Panics.Catch(nil)
	if !c.lease(ctx, f) {
		c.fetch(ctx, f)
	}
}

// settle tells all who wait how the fetch has ended; false: they have been told before.
func (c *Cache) settle(f *flight, r Result, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settleLocked(f, r, err)
}

// settleLocked is settle with c.mu held.
func (c *Cache) settleLocked(f *flight, r Result, err error) bool {
	if f.settled {
		return false
	}
	f.settled, f.result, f.err = true, r, err
	c.remove(f)
	close(f.done)
	return true
}

// abandon settles a flight that nobody waits for, before the legacy system is asked. A refresh goes on.
func (c *Cache) abandon(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f.waiters == 0 && !f.background && c.settleLocked(f, Result{}, context.Canceled)
}

// finish gives the lease back after a flight that stored nothing, and ends the span.
func (c *Cache) finish(f *flight) {
	defer c.wg.Done()
	if token := f.token; token != "" {
		c.spawn(func() { _ = c.redis.Release(c.life, f.names, token) }) // an error leaves the lease to its end
	}
	if f.span.Recording() {
		f.span.Set(attribute.String("inquiry.kind", f.key.Kind), attribute.Bool("cache.background", f.background))
		if f.err != nil {
			f.span.Fail(reasonOf(f.err))
		}
	}
	f.span.End()
}

// spawn runs what a flight leaves behind. Close waits for it.
func (c *Cache) spawn(run func()) {
	c.wg.Go(func() {
		defer c.opts.Panics.Catch(nil)
		run()
	})
}

// idOf is what names a list in Redis.
func idOf(k Key, fingerprint string) redistier.ListID {
	return redistier.ListID{Kind: k.Kind, Account: k.Account, Status: k.Status, InquiryType: k.InquiryType, Fingerprint: fingerprint}
}

func (f *flight) id() redistier.ListID { return idOf(f.key, f.fingerprint()) }

// fingerprint is that of the mapping when the flight began; its names in Redis have it.
func (f *flight) fingerprint() string { return f.policy.kinds[f.kind].mapping.Fingerprint }
