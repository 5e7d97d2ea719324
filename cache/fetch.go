package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/cache/redistier"
)

const (
	// leasePoll is how often a node asks for a list that another one fetches.
	leasePoll = 25 * time.Millisecond
	// overdueGrace is how much longer than its deadline a fetch may take to return its own error before
	// the waiters are sent away.
	overdueGrace = 250 * time.Millisecond
)

var errOverdue = fmt.Errorf("cache: the fetch did not end at its deadline: %w", context.DeadlineExceeded)

// lease waits until this node is the one that fetches the list for the fleet, or another one has stored it:
// that settles the flight, as it does if nobody waits any more. A node that has crashed keeps the lease for as
// long as a fetch may take. If Redis is slow, fails or has no room, this node fetches without a lease, and so
// it does if the lease does not end or the list would never be stored.
func (c *Cache) lease(ctx context.Context, f *flight) (settled bool) {
	q := c.queryOf(f.key)
	if !f.redisQuick || q.lifetime() <= 0 {
		return false
	}
	ctx, span := c.tracer.Start(ctx, "cache.lease")
	defer span.End()
	defer func() {
		span.Set(attribute.Bool("cache.lease.won", f.token != ""), attribute.Bool("cache.lease.waited", f.polls.Load()))
	}()
	token, limit := redistier.NewToken(), c.policy.Load().fillTimeout+overdueGrace // no fetch takes longer
	for start := time.Now(); time.Since(start) < 2*limit; {
		f.names.Purged = c.invalidations.last(f.key.Kind, f.names.Account, false) // which other nodes know, too
		raw, won, err := c.redis.Lease(ctx, f.names, token, limit, c.policy.Load().maxReadBytes(), f.seen)
		if won {
			f.token = token
		}
		if err != nil {
			return false
		}
		if len(raw) > 0 { // another list than that which was there
			if e := c.accept(f, raw); e != nil {
				return c.settle(f, Result{Entry: e, Tier: TierRedis}, nil)
			}
		}
		if won { // if another node had it before, it has stored nothing
			return f.polls.Load() && c.abandon(f)
		}
		f.polls.Store(true)
		select {
		case <-time.After(leasePoll):
		case <-ctx.Done():
			return false
		}
		if c.abandon(f) {
			return true
		}
	}
	return false
}

// fetch asks the legacy system and settles the flight with its answer. It has the whole Fills.Timeout,
// however long the flight has waited before: if its callers leave meanwhile, the list is there when
// they ask again. A failure changes nothing in the tiers.
func (c *Cache) fetch(ctx context.Context, f *flight) {
	limit := c.policy.Load().fillTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began, start := c.opts.Now(), time.Now()
	early, _ := c.clock()
	version := c.invalidations.begin(f.key.Kind, f.names.Account, early)
	changes := c.invalidations.text(f.key.Kind, f.names.Account)
	f.version.Store(&version)
	defer time.AfterFunc(limit+overdueGrace, func() { c.settle(f, Result{}, errOverdue) }).Stop()

	ctx, span := c.startSpan(ctx, "cache.fill", f.kind)
	defer span.End()
	q := c.queryOf(f.key)
	content, err := c.opts.Fill(ctx, f.key, FillInfo{Background: c.noWaiters(f), Failing: c.hasFailed(&q), Changes: changes})
	if err != nil {
		span.Fail(reasonOf(err))
		c.failed(f, began, err, fillError)
		c.settle(f, Result{}, err)
		return
	}
	e := c.entryOf(f, content)
	c.metrics.duration[f.kind].Observe(time.Since(start).Seconds())
	result := fillOK
	if content.NoStore {
		result = fillNoStore
	} else { // without the legacy system nothing is known about it
		c.backoff.succeeded(f.key, e.AnsweredAt)
	}
	c.metrics.fills.WithLabelValues(f.key.Kind, result).Inc()
	unstored, lives := c.store(f, e, content.NoStore)
	if unstored != "" {
		c.metrics.unstored.WithLabelValues(unstored).Inc()
	}
	if span.Recording() {
		span.Set(attribute.Bool("cache.stored", unstored == ""), attribute.Int("cache.entry_bytes", e.Size()))
	}
	if unstored == "" && f.redisAvailable && !c.outdated(f) { // else a newer one may be there
		c.share(f, e, lives)
	}
	c.settle(f, Result{Entry: e, Stored: unstored == ""}, nil)
}

// hasFailed reports whether the last fetch of a query's source failed, and no purge or reload came since.
// A soft purge does not make a list that goes on failing count as a new failure.
func (c *Cache) hasFailed(q *query) bool {
	r := c.backoff.lookup(q.source, time.Time{})
	return r != nil && r.count > 0 && r.policy == q.policy && !c.invalidations.since(q.source.Kind, r.fetch).hard
}

// noWaiters tells that nobody waits for a refresh.
func (c *Cache) noWaiters(f *flight) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f.background && f.waiters == 0
}

// failed records a failed fetch.
func (c *Cache) failed(f *flight, began time.Time, err error, result string) {
	c.metrics.fills.WithLabelValues(f.key.Kind, result).Inc()
	failed := failure{policy: f.policy, began: began, err: err}
	if v := f.version.Load(); v != nil {
		failed.fetch = *v
	}
	p := c.policy.Load()
	c.backoff.failed(f.key, failed, c.opts.Now(), func(r *failure) bool { return c.ended(f.key, r, p) })
}

// entryOf makes the entry of a fetch.
func (c *Cache) entryOf(f *flight, content Content) *Entry {
	now := c.opts.Now()
	answered := content.AnsweredAt
	if answered.IsZero() || answered.After(now) {
		answered = now
	}
	o := origin{key: f.key, fingerprint: content.Fingerprint, fetch: *f.version.Load(), answeredAt: answered}
	if f.redisAvailable { // early by up to a round trip, so that no list seems younger than it is
		early, _ := c.redis.Now()
		o.answeredAtRedis = early.Add(answered.Sub(now)).UnixNano()
	}
	return newEntry(o, content.Body, cap(content.Body))
}

// store puts the entry of a fetch into the in-process tier, or says why no tier may take it. lives
// is how long the list can be of use.
func (c *Cache) store(f *flight, e *Entry, noStore bool) (unstored string, lives time.Duration) {
	q := c.queryOf(f.key)
	lives = q.lifetime() - c.opts.Now().Sub(e.AnsweredAt)
	switch {
	case noStore:
		return unstoredNoStore, 0
	case e.fingerprint != f.fingerprint() || e.fingerprint != q.mapping().Fingerprint:
		return unstoredMapping, 0
	case c.invalidations.sinceFetch(e).hard:
		return unstoredPurged, 0
	case e.Size() > q.policy.maxEntry:
		return unstoredTooBig, 0
	case lives <= 0:
		return unstoredPolicy, 0
	}
	c.keep(e)
	return "", lives
}

// keep puts an entry into the in-process tier unless a newer one is there.
func (c *Cache) keep(e *Entry) {
	c.tier.Compute(e.Key, func(old *Entry, found bool) (*Entry, otter.ComputeOp) {
		if found && old.fingerprint == e.fingerprint && c.invalidations.newer(old, e) {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// share writes an entry to Redis for the fleet, and ends the lease by that. The callers have
// their answer already; one goroutine alone waits, and no longer than redis.timeout.
func (c *Cache) share(f *flight, e *Entry, lives time.Duration) {
	token := f.token
	f.token = ""
	ctx, span := c.tracer.Start(f.span.In(c.life), "cache.store")
	c.spawn(func() {
		defer span.End()
		id := f.id().Canonical()
		sealed := c.policy.Load().ring.seal(e.encode(id), id)
		switch err := c.redis.Put(ctx, f.names, sealed, max(lives, time.Millisecond), token); err {
		case nil:
		case redistier.ErrBusy:
			c.metrics.unstored.WithLabelValues(unstoredBusy).Inc()
		default:
			c.metrics.unstored.WithLabelValues(unstoredRedis).Inc()
		}
	})
}
