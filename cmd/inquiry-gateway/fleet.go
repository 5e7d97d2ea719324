package main

import (
	"context"
	"errors"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/upstream"
)

// errFleetBreaker is why a legacy that another node found failing is not asked.
var errFleetBreaker = errors.New("another node's breaker is open")

// fetch asks the legacy through the client that runs now, unless the fleet
// advises against it: a node whose breaker opens tells the others, and one of
// them probes for all.
func (a *app) fetch(ctx context.Context, r upstream.Request) (upstream.List, error) {
	ticket, wait, ok := a.advice.Enter(ctx, r.Kind)
	if !ok {
		return upstream.List{}, &upstream.Error{Failure: upstream.FailureUnavailable, Reason: "fleet_breaker", RetryAfter: wait, Err: errFleetBreaker}
	}
	gen := a.current.Load()
	list, err := gen.client.Fetch(ctx, r)
	a.advise(ctx, ticket, r.Kind, gen, err)
	return list, err
}

// advise tells the fleet how a call went: of a breaker that has just opened, and
// of every probe. What Redis says to that is in its own metrics.
func (a *app) advise(ctx context.Context, ticket cache.Ticket, kind string, gen *generation, err error) {
	open := gen.client.BreakerState(kind) == "open"
	openFor := gen.cfg.Upstream.Breaker.OpenFor
	switch {
	case ticket.Probe:
		_ = ticket.Done(ctx, !open && err == nil, openFor)
	case open && err != nil && !refusedHere(err):
		_ = a.advice.Opened(ctx, kind, time.Now().Add(openFor))
	}
}

// refusedHere says that the legacy was not asked at all.
func refusedHere(err error) bool {
	var failure *upstream.Error
	return errors.As(err, &failure) && failure.Failure == upstream.FailureUnavailable
}
