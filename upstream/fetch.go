package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/span"
	"inquiry-gateway/upstream/mapping"
)

// Fetch gets one list from the legacy system. The deadline is the configured
// timeout or the context's, whichever comes first. The error is always *Error.
func (c *Client) Fetch(ctx context.Context, want Request) (List, error) {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return List{}, internal(fmt.Errorf("unknown kind %q", want.Kind))
	}
	start := c.now()
	ask, impossible := e.plan.Ask(want)
	if impossible {
		return List{Inquiries: []Inquiry{}, AnsweredAt: start, Unasked: true, Fingerprint: e.fingerprint}, nil
	}
	list, err := c.admitted(ctx, e, want.Account, func(ctx context.Context) (List, error) {
		return c.newFetcher(e, want).list(ctx, want, ask)
	})
	e.metrics.duration.Observe(c.now().Sub(start).Seconds())
	if err != nil {
		failed := asError(err)
		e.metrics.requests[string(failed.Failure)].Inc()
		if refused, ok := e.metrics.refused[failed.Reason]; ok {
			refused.Inc()
		}
		e.outage.failed(c.log, e.plan.Kind, want.Account, failed, c.now())
		return List{}, failed
	}
	e.metrics.requests["ok"].Inc()
	e.outage.worked(c.log, e.plan.Kind, c.now())
	return list, nil
}

// outage tells the log when a kind's fetches begin to fail and when that is over, as
// lists that are served stale hide it from callers. It is safe for concurrent use.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero: the legacy is well
	count int       // of fetches that failed since

	ownAt    time.Time // when a failure of one account's list was last told
	ownSoFar int       // of these that were not told
}

// ownFailuresEvery is how often a failure that says nothing of the others is told.
const ownFailuresEvery = time.Minute

// failed notes a fetch that failed. One that was not made says nothing.
func (o *outage) failed(log *slog.Logger, kind, account string, e *Error, now time.Time) {
	if e.Refused() || e.Reason == ReasonInternal {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.EndpointFault() {
		if o.count++; o.count == 1 {
			o.since = now
			log.Warn("fetches from the legacy system begin to fail", "kind", kind, "account", account, "reason", e.Reason, "error", e.Error())
		}
		return
	}
	if !o.ownAt.IsZero() && now.Sub(o.ownAt) < ownFailuresEvery {
		o.ownSoFar++
		return
	}
	log.Warn("a list cannot be fetched from the legacy system", "kind", kind, "account", account, "reason", e.Reason, "error", e.Error(), "not_told_before", o.ownSoFar)
	o.ownAt, o.ownSoFar = now, 0
}

// worked notes a fetch that gave a list.
func (o *outage) worked(log *slog.Logger, kind string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == 0 {
		return
	}
	log.Info("fetches from the legacy system work again", "kind", kind, "failed", o.count, "seconds", now.Sub(o.since).Seconds())
	o.count = 0
}

// admitted fetches a list if the bulkhead, the account's part of it and what the legacy
// has told us to wait allow it.
func (c *Client) admitted(ctx context.Context, e *endpoint, account string, fetch func(context.Context) (List, error)) (list List, err error) {
	ctx, step := c.tracer.Force(ctx, "upstream.fetch")
	defer step.End()
	if step.Recording() {
		step.Set(attribute.String("inquiry.kind", e.plan.Kind), attribute.String("upstream.breaker", e.breaker.state().String()),
			attribute.Int("upstream.in_flight", c.bulkhead.count()), attribute.Int("upstream.max_concurrent", c.cfg.MaxConcurrent))
		defer func() { endStep(step, len(list.Inquiries), err) }()
	}
	if err := c.bulkhead.enter(account, c.cfg.MaxConcurrent, c.cfg.perAccount()); err != nil {
		return List{}, err
	}
	defer c.bulkhead.leave(account)
	e.metrics.inFlight.Inc()
	defer e.metrics.inFlight.Dec()
	limited, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	if err := e.hold.refusal(account, c.now()); err != nil {
		return List{}, err
	}
	return fetch(limited)
}

// fetcher makes the requests of one fetch. Its get may be called concurrently.
type fetcher struct {
	*Client
	*endpoint
	requestID string
	account   string
	format    *mapping.Format // of the replies
	allowed   *allowance
	requests  *atomic.Int64 // made, repeats aside
	class     quota.Class   // of its first request
	begun     *atomic.Bool  // the first request has been made

	// For a probe.
	seen          func(*http.Response) // is told of every response
	keepResponses int                  // of each second request
}

// newFetcher makes what one fetch needs of its own. All that is counted in it is behind a
// pointer: batches of further requests work with copies.
func (c *Client) newFetcher(e *endpoint, want Request) *fetcher {
	f := &fetcher{
		Client: c, endpoint: e, requestID: want.RequestID, account: want.Account, format: &e.plan.Format,
		allowed: newAllowance(c.cfg.MaxResponseBytes), requests: &atomic.Int64{}, class: quota.Asked, begun: &atomic.Bool{},
	}
	if want.Background {
		f.class = quota.Background
	}
	return f
}

// list gets all replies that make up a list, and maps them. No part of the list is older
// than its AnsweredAt, when the first reply was there.
func (f *fetcher) list(ctx context.Context, want Request, ask mapping.Asking) (List, error) {
	reply := f.plan.NewBuilder(want)
	l := f.newPager(f.plan.Paging, ask, tracedReply{reply, func() span.Span {
		_, step := f.tracer.Start(ctx, "upstream.map")
		return step
	}})
	first, err := l.firstPage()
	if err != nil {
		return List{}, err
	}
	a, err := f.get(ctx, first)
	if err != nil {
		return List{}, err
	}
	list := List{AnsweredAt: f.now(), Fingerprint: f.fingerprint}
	if err = l.readFrom(ctx, first, a); err == nil {
		err = f.details(ctx, want.Account, reply)
	}
	if err == nil {
		err = f.responses(ctx, want.Account, reply)
	}
	f.guard(ctx, reply)
	f.count(want.Account, reply)
	if err != nil {
		return List{}, asError(err)
	}
	list.Inquiries = reply.List
	return list, nil
}

// guard removes the internal ids from the texts of a list.
func (f *fetcher) guard(ctx context.Context, reply *mapping.Builder) {
	_, step := f.tracer.Start(ctx, "upstream.guard")
	defer step.End()
	reply.RemoveIDs()
}

// tracedReply maps replies, each with a span.
type tracedReply struct {
	*mapping.Builder
	start func() span.Span
}

// Take maps one reply.
func (r tracedReply) Take(body string) (int, error) {
	step := r.start()
	defer step.End()
	n, err := r.Builder.Take(body)
	endStep(step, n, err)
	return n, err
}

// count tells metrics and log what the mapping met, once per list and without
// any of its content. A foreign record is an event of security: it says whose list
// it was in, not whose it is.
func (f *fetcher) count(account string, r *mapping.Builder) {
	for field, n := range r.Skipped {
		f.metrics.invalid[field].Add(float64(n))
		f.log.Warn("legacy records refused", "kind", f.plan.Kind, "field", field, "records", n, "of", r.Seen)
	}
	r.EachDefaulted(func(field string, n int) { f.metrics.defaulted[field].Add(float64(n)) })
	for field, n := range r.Removed {
		f.metrics.removed[field].Add(float64(n))
		if f.log.Enabled(context.Background(), slog.LevelDebug) { // most lists have some
			f.log.Debug("internal ids removed from texts", "kind", f.plan.Kind, "field", field, "ids", n)
		}
	}
	f.metrics.hidden.Add(float64(r.Hidden))
	f.metrics.foreign.Add(float64(r.Foreign))
	if r.Foreign > 0 && !f.plan.DropsForeign() {
		f.log.Error("the legacy sent a record of another account", slog.Group("security",
			"event", "foreign_record", "kind", f.plan.Kind, "account", account, "records", r.Foreign))
	}
}

// endStep tells a span how many records its step gave, or why none.
func endStep(step span.Span, records int, err error) {
	if !step.Recording() {
		return
	}
	if err != nil {
		fail(step, err)
		return
	}
	step.Set(attribute.Int("inquiry.records", records))
}

// fail marks a span by the failure's words, which are of fixed sets. The text
// stays out of it.
func fail(step span.Span, err error) {
	e := asError(err)
	step.Set(attribute.String("upstream.failure", string(e.Failure)))
	step.Fail(e.Reason)
}
