package gateway

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/telemetry"
)

// openedKey is where a context has the span that the front has opened for its request.
type openedKey struct{}

// answerFront answers h on c: a fresh hit of the process, and one that is over its
// account's rate, by itself, all else of a list by the engine. False: h asks for no list.
// What looks comes first and counts nothing, so that a request that is left to the engine is
// not counted twice. What answers and counts are the functions of the engine's handlers.
func (g *Gateway) answerFront(c *front.Conn, h *front.Head, begin time.Time) (taken bool, err error) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			err = http.ErrAbortHandler
		default:
			g.metrics.panics.Inc()
			g.opts.Logger.Error("panic in the hit lane", "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	list := g.endpoints[h.Path]
	if list == nil || !g.opts.HitLane {
		return false, nil
	}
	grant, ok := g.opts.Auth.Recall(h.Authorization)
	if !ok || grant.Principal.Authorize(list.Name) != nil {
		return true, c.Serve(c.Context(), g, h)
	}
	authTime := time.Since(begin)
	k, err := parseFilter(h.Query, g.opts.IgnoreUnknownParameters)
	if err != nil {
		return true, c.Serve(c.Context(), g, h)
	}
	k.Kind, k.Account = grant.Principal.Kind, grant.Principal.Account
	found, ok := g.opts.Lists.Lookup(k)
	if !ok || found.Outcome != cache.Hit || !owned(found.Entry, &grant.Principal) {
		return true, c.Serve(c.Context(), g, h)
	}
	ctx, opened := c.Context(), telemetry.Span{}
	if g.tracer != nil {
		if ctx, opened = g.openSpan(ctx, h.Traceparent, h.Tracestate, c.Peer(nil)); opened.Recording() {
			return true, c.Serve(context.WithValue(ctx, openedKey{}, opened), g, h)
		}
	}

	g.metrics.inFlight.Inc()
	defer g.metrics.inFlight.Dec()
	x := g.start(ctx, begin)
	x.conn, x.series, x.principal, x.authTime = c, list.series, grant.Principal, authTime
	x.request = request{
		Method: http.MethodGet, Query: h.Query, Peer: c.Peer(nil), Authorization: h.Authorization, AcceptEncoding: h.AcceptEncoding,
		IfNoneMatch: h.IfNoneMatch, RequestID: h.RequestID, ForwardedFor: h.ForwardedFor,
	}
	x.identify()
	g.opts.Auth.Accept(x.ctx, grant)
	c.Authenticated(begin)
	if err := x.withinRate(); err != nil {
		x.writeError(err)
	} else {
		g.metrics.laneAnswers.Inc()
		g.opts.Lists.Served(k, found)
		x.list = found
		x.writeList()
	}
	if x.status == statusClientClosedRequest {
		err = x.cause
	}
	g.end(x)
	return true, err
}
