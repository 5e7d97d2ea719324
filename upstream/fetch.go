package upstream

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Fetch gets one list from the legacy system. The deadline is the configured
// timeout or the context's, whichever comes first. The error is always *Error.
func (c *Client) Fetch(ctx context.Context, want Request) (List, error) {
	e, ok := c.endpoints[want.Kind]
	if !ok {
		return List{}, &Error{Failure: FailureUpstream, Reason: "internal", Err: fmt.Errorf("unknown kind %q", want.Kind)}
	}
	values := vars{varAccount: {want.Account}}
	var noStatus, noType bool
	values[varStatus], noStatus = e.plan.byStatus.ask(want.Status)
	values[varType], noType = e.plan.byType.ask(want.InquiryType)
	if noStatus || noType {
		return List{Inquiries: []Inquiry{}, AnsweredAt: c.now(), Unasked: true}, nil
	}
	start := c.now()
	list, err := c.admitted(ctx, e, want, values)
	e.metrics.duration.Observe(c.now().Sub(start).Seconds())
	if err != nil {
		failed := asError(err)
		e.metrics.requests[string(failed.Failure)].Inc()
		return List{}, failed
	}
	e.metrics.requests["ok"].Inc()
	return list, nil
}

// admitted fetches within the bulkhead.
func (c *Client) admitted(ctx context.Context, e *endpoint, want Request, values vars) (List, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return List{}, &Error{Failure: FailureUnavailable, Reason: "bulkhead_full", RetryAfter: time.Second,
			Err: fmt.Errorf("%d fetches are under way", cap(c.slots))}
	}
	c.inFlight.Inc()
	defer c.inFlight.Dec()
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	address, err := e.plan.request.url(values)
	if err != nil {
		return List{}, &Error{Failure: FailureUpstream, Reason: "account", Err: err}
	}
	var body string
	err = e.breaker.do(func() error {
		return e.retried(limited, func() (err error) {
			body, err = c.get(limited, ctx, address, want.RequestID)
			return err
		})
	})
	if err != nil {
		return List{}, err
	}
	at := c.now()
	reply := newReply(e.plan, want)
	failed := reply.read(body)
	c.account(e, reply)
	if failed != nil {
		return List{}, failed
	}
	return List{Inquiries: reply.list, AnsweredAt: at}, nil
}

// get makes one request and reads the whole reply.
func (c *Client) get(ctx, caller context.Context, address, requestID string) (string, error) {
	r := c.http.R().SetContext(ctx).SetDoNotParseResponse(true)
	if requestID != "" && validHeader("X-Request-Id", requestID) {
		r.SetHeader("X-Request-Id", requestID)
	}
	resp, err := r.Execute(http.MethodGet, address)
	if err != nil {
		return "", classify(ctx, caller, err)
	}
	body, err := readBody(resp.RawResponse, c.maxBytes)
	if err != nil {
		return "", classify(ctx, caller, err)
	}
	return body, nil
}

// account counts what a reply contained and logs what an operator must know,
// once per reply and without any of its content.
func (c *Client) account(e *endpoint, r *reply) {
	for field, n := range r.skipped {
		e.metrics.invalid[field].Add(float64(n))
		c.log.Warn("legacy records refused", "kind", e.plan.kind, "field", field, "records", n, "of", r.seen)
	}
	for field, n := range r.removed {
		e.metrics.removed[field].Add(float64(n))
		c.log.Warn("internal ids removed from texts", "kind", e.plan.kind, "field", field, "ids", n)
	}
	if r.foreign > 0 {
		e.metrics.foreign.Add(float64(r.foreign))
		c.log.Error("the legacy sent a record of another account", "kind", e.plan.kind, "records", r.foreign)
	}
}
