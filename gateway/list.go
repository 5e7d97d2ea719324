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

// findList finds the list that a request asks for, or says why there is none. It is the one
// order of checks: who asks, whether they may, how often, and for what. Each comes before
// anything of the cache is read, so no cached list and no 304 answers a caller who is not
// allowed, and nobody can use up the rate of another. The account comes from the key alone;
// nothing in the request can name another.
func (x *exchange) findList(kind string) error {
	g := x.gateway
	grant, err := g.opts.Auth.AuthenticateFrom(x.ctx, x.request.Header[authorizationField], x)
	x.authTime = time.Since(x.begin)
	if err != nil {
		return err
	}
	x.principal = grant.Principal
	connlimit.FromContext(x.ctx).Authenticated()
	if err := x.principal.Authorize(kind); err != nil {
		return err
	}
	if err := x.withinRate(); err != nil {
		return err
	}
	k, err := parseFilter(x.request.URL.RawQuery, g.opts.IgnoreUnknownParameters)
	if err != nil {
		return err
	}
	k.Kind, k.Account = x.principal.Kind, x.principal.Account
	if err := x.lookUp(k); err != nil {
		return err
	}
	if !belongsTo(x.list.Entry, &x.principal) {
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
func (x *exchange) withinRate() error {
	if x.gateway.opts.Rate == nil {
		x.admitted = true
		return nil
	}
	x.rate = x.gateway.opts.Rate.Allow(x.principal.Account, x.principal.Plan)
	if x.admitted = x.rate.Allowed; x.admitted {
		return nil
	}
	return &rateError{x.rate.Policy, x.rate.RetryAfter}
}

// lookUp takes a fresh list of this process, or waits for one no longer than the request may
// take. A recorded trace always uses Get, which has a context for the spans.
func (x *exchange) lookUp(k cache.Key) (err error) {
	lists := x.gateway.opts.Lists
	if !x.gateway.recording(x) {
		found, ok := lists.Lookup(k)
		if ok {
			lists.RecordHit(k, found)
			x.list = found
			return nil
		}
	}
	ctx, cancel := context.WithDeadline(withRequestID(x.ctx, x.id.String()), x.Deadline())
	defer cancel()
	x.list, err = lists.Get(ctx, k)
	return err
}

// belongsTo says whether a list is the caller's.
func belongsTo(e *cache.Entry, p *auth.Principal) bool {
	return e.Kind == p.Kind && e.Account == p.Account
}
