package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"inquiry-gateway/upstream/fleet"
)

// Fetch gets one list from the legacy system. The deadline is the configured
// timeout or the context's, whichever comes first. The error is always *Error.
func (c *Client) Fetch(ctx context.Context, want Request) (List, error) {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return List{}, internal(fmt.Errorf("unknown kind %q", want.Kind))
	}
	values := vars{varAccount: {want.Account}}
	var noStatus, noType bool
	values[varStatus], noStatus = e.plan.byStatus.ask(want.Status)
	values[varType], noType = e.plan.byType.ask(want.InquiryType)
	if noStatus || noType {
		return List{Inquiries: []Inquiry{}, AnsweredAt: c.now(), Unasked: true, Fingerprint: e.fingerprint}, nil
	}
	start := c.now()
	list, err := c.fetch(ctx, e, want, values)
	e.metrics.duration.Observe(c.now().Sub(start).Seconds())
	if err != nil {
		failed := asError(err)
		e.metrics.requests[string(failed.Failure)].Inc()
		if refused, ok := e.metrics.refused[failed.Reason]; ok {
			refused.Inc()
		}
		return List{}, failed
	}
	e.metrics.requests["ok"].Inc()
	return list, nil
}

// admitted fetches within the bulkhead, and within the account's part of it.
func (c *Client) admitted(ctx context.Context, e *endpoint, want Request, values vars) (List, error) {
	if err := c.bulkhead.enter(want.Account, c.cfg.MaxConcurrent, c.cfg.perAccount()); err != nil {
		return List{}, err
	}
	defer c.bulkhead.leave(want.Account)
	c.inFlight.Inc()
	defer c.inFlight.Dec()
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	f := &fetcher{Client: c, endpoint: e, requestID: want.RequestID}
	f.left.Store(c.maxBytes)
	address, err := e.plan.request.url(values)
	if err != nil {
		return List{}, &Error{Failure: FailureUpstream, Reason: "account", Err: err}
	}
	ticket, err := c.enter(limited, e)
	if err != nil {
		return List{}, err
	}
	verdict := fleet.Unknown // stands where a panic ends the fetch
	defer func() { c.leave(ctx, e, ticket, verdict) }()
	reply := newReply(e.plan, want)
	reply.sampling = e.drift.wants()
	if err = f.list(limited, e.plan.paging, address, c.mapped(limited, reply.take)); err == nil {
		err = f.responses(limited, reply)
	}
	verdict = judge(err)
	c.guarded(limited, reply)
	if reply.ids.HasUUIDs() {
		e.uuids.Store(true)
	}
	if reply.sampling {
		e.drift.look(reply.samples)
	}
	c.count(e, want.Account, reply)
	if err != nil {
		return List{}, err
	}
	return List{Inquiries: reply.list, AnsweredAt: f.answeredAt, Fingerprint: e.fingerprint}, nil
}

// fetcher makes the requests of one fetch. Its get may be called concurrently.
type fetcher struct {
	*Client
	*endpoint
	requestID  string
	left       atomic.Int64 // bytes that all further replies together may have
	answeredAt time.Time    // when the first reply was there: no part of the list is older
}

// answer is one good reply. Of its header only what paging is told to look at
// is ever read.
type answer struct {
	body   string
	header http.Header
}

// get makes one request, repeated if need be, unless the breaker is open.
func (f *fetcher) get(ctx context.Context, address string) (a answer, err error) {
	err = f.breaker.do(func() error {
		return f.retried(ctx, func() (err error) {
			a, err = f.once(ctx, address)
			return err
		})
	})
	if err == nil && f.left.Add(-int64(len(a.body))) < 0 {
		err = invalid("too_large", "the replies have more than %d bytes together", f.maxBytes)
	}
	return a, err
}

// once makes one request and reads the whole reply. If the credentials may have
// run out it tries again with new ones.
func (f *fetcher) once(ctx context.Context, address string) (answer, error) {
	name, value, err := f.creds.header(ctx)
	if err != nil {
		return answer{}, authError(ctx, err)
	}
	a, err := f.exchange(ctx, address, name, value)
	if err == nil {
		return a, nil
	}
	var status statusError
	if !errors.As(err, &status) || status != http.StatusUnauthorized || !f.creds.refused(value) {
		return a, err
	}
	if name, value, err = f.creds.header(ctx); err != nil {
		return answer{}, authError(ctx, err)
	}
	return f.exchange(ctx, address, name, value)
}

// authError is for credentials that cannot be had. It does not count for the
// breaker: the legacy was not asked.
func authError(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return classify(ctx, err)
	}
	return &Error{Failure: FailureUpstream, Reason: "auth", Err: err}
}

// send makes one request with the given credentials and reads the whole
// reply.
func (f *fetcher) send(ctx context.Context, address, header, value string) (answer, error) {
	r := f.http.R().SetContext(ctx).SetDoNotParseResponse(true)
	if f.requestID != "" && validHeader("X-Request-Id", f.requestID) {
		r.SetHeader("X-Request-Id", f.requestID)
	}
	if header != "" {
		r.SetHeader(header, value)
	}
	f.carry(ctx, r.Header)
	resp, err := r.Execute(http.MethodGet, address)
	if err != nil {
		return answer{}, classify(ctx, err)
	}
	body, err := readBody(resp.RawResponse, f.maxBytes)
	if err != nil {
		return answer{}, classify(ctx, err)
	}
	return answer{body, resp.RawResponse.Header}, nil
}

// count tells metrics and log what the mapping met, once per list and without
// any of its content. A foreign record is an event of security: it says whose list
// it was in, not whose it is.
func (c *Client) count(e *endpoint, account string, r *reply) {
	for field, n := range r.skipped {
		e.metrics.invalid[field].Add(float64(n))
		c.log.Warn("legacy records refused", "kind", e.plan.kind, "field", field, "records", n, "of", r.seen)
	}
	for field, n := range r.removed {
		e.metrics.removed[field].Add(float64(n))
		if c.log.Enabled(context.Background(), slog.LevelDebug) { // most lists have some
			c.log.Debug("internal ids removed from texts", "kind", e.plan.kind, "field", field, "ids", n)
		}
	}
	if r.foreign > 0 {
		e.metrics.foreign.Add(float64(r.foreign))
		c.log.Error("the legacy sent a record of another account", slog.Group("security",
			"event", "foreign_record", "kind", e.plan.kind, "account", account, "records", r.foreign))
	}
}
