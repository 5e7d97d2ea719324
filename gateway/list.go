package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/internal/connlimit"
)

// findList finds the list that a request asks for. It is the one order of checks: authentication, authorization,
// rate, parameters. All of them run before the cache is read, so an unauthorized request never gets a cached list or
// a 304, and cannot use up another account's rate. The account comes from the key alone; nothing in the request can
// name another.
func (req *request) findList(kind string) error {
	g := req.gateway
	grant, err := g.opts.Auth.AuthenticateFrom(req.ctx, req.http.Header[authorizationField], req)
	req.authTime = time.Since(req.begin)
	if err != nil {
		return err
	}
	req.principal = grant.Principal
	connlimit.FromContext(req.ctx).Authenticated()
	if err := req.principal.Authorize(kind); err != nil {
		return err
	}
	if err := req.withinRate(); err != nil {
		return err
	}
	k, err := parseFilter(req.http.URL.RawQuery, g.opts.IgnoreUnknownParameters)
	if err != nil {
		return err
	}
	k.Kind, k.Account = req.principal.Kind, req.principal.Account
	if err := req.lookUp(k); err != nil {
		return err
	}
	if !belongsTo(req.list.Entry, &req.principal) {
		return errors.New("the list looked up belongs to somebody else")
	}
	return nil
}

// rateError refuses a request that is over its account's rate.
type rateError struct {
	policy string
	wait   time.Duration // until the next one may come
}

func (e *rateError) Error() string { return fmt.Sprintf("over the rate of policy %q", e.policy) }

// withinRate asks the limiter, once for each request.
func (req *request) withinRate() error {
	if req.gateway.opts.Rate == nil {
		req.admitted = true
		return nil
	}
	req.rate = req.gateway.opts.Rate.Allow(req.principal.Account, req.principal.Plan)
	if req.admitted = req.rate.Allowed; req.admitted {
		return nil
	}
	return &rateError{req.rate.Policy, req.rate.RetryAfter}
}

// lookUp takes a fresh list of this process, or waits for one until the request's deadline. A recorded trace always
// uses Get, which has a context for the spans.
func (req *request) lookUp(k cache.Key) (err error) {
	lists := req.gateway.opts.Lists
	if !req.gateway.recording(req) {
		found, ok := lists.Lookup(k)
		if ok {
			lists.RecordHit(k, found)
			req.list = found
			return nil
		}
	}
	ctx, cancel := context.WithDeadline(withRequestID(req.ctx, req.id.String()), req.Deadline())
	defer cancel()
	req.list, err = lists.Get(ctx, k)
	return err
}

// belongsTo reports whether a list is the caller's.
func belongsTo(e *cache.Entry, p *auth.Principal) bool {
	return e.Kind == p.Kind && e.Account == p.Account
}
