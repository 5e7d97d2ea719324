package gateway

import (
	"context"
	"net/http"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/telemetry"
)

// openedKey is where a context has the span that the front has opened for its request.
type openedKey struct{}

// answerFront answers h on c: a fresh hit of the process, and one that is over its
// account's rate, by itself, all else of a list by the engine. False: h asks for no list.
func (g *Gateway) answerFront(c *front.Conn, h *front.Head, begin time.Time) (taken bool, err error) {
	list := g.endpoints[h.Path]
	if list == nil || !g.opts.HitLane {
		return false, nil
	}
	x := g.start(c.Context(), begin)
	x.conn, x.series = c, list.series
	x.request = request{
		Method: http.MethodGet, Query: h.Query, Peer: c.Peer(nil), Authorization: h.Authorization, AcceptEncoding: h.AcceptEncoding,
		IfNoneMatch: h.IfNoneMatch, RequestID: h.RequestID, ForwardedFor: h.ForwardedFor,
	}
	ctx := x.ctx
	mine, cut := x.run(func() bool {
		hit := x.answerHit(list, h)
		ctx = x.ctx
		return hit
	})
	switch {
	case !mine:
		return true, c.Serve(ctx, g, h)
	case cut:
		return true, http.ErrAbortHandler
	}
	return true, nil
}

// answerHit answers a fresh hit. What looks comes first and counts nothing, so that a
// request that is left to the engine is not counted twice. What answers and counts are the
// functions of the engine's handlers.
func (x *exchange) answerHit(list *endpoint, h *front.Head) bool {
	g := x.gateway
	grant, ok := g.opts.Auth.Recall(x.request.Authorization)
	if !ok || grant.Principal.Authorize(list.Name) != nil {
		return false
	}
	x.authTime = time.Since(x.begin)
	k, err := parseFilter(x.request.Query, g.opts.IgnoreUnknownParameters)
	if err != nil {
		return false
	}
	k.Kind, k.Account = grant.Principal.Kind, grant.Principal.Account
	found, ok := g.opts.Lists.Lookup(k)
	if !ok || found.Outcome != cache.Hit || !owned(found.Entry, &grant.Principal) {
		return false
	}
	if g.tracer != nil {
		var opened telemetry.Span
		if x.ctx, opened = g.openSpan(x.ctx, h.Traceparent, h.Tracestate, x.request.Peer); opened.Recording() {
			x.ctx = context.WithValue(x.ctx, openedKey{}, opened)
			return false
		}
	}

	x.principal = grant.Principal
	x.identify()
	g.opts.Auth.Accept(x.ctx, grant)
	x.conn.Authenticated(x.begin)
	if err := x.withinRate(); err != nil {
		x.writeError(err)
		return true
	}
	g.metrics.laneAnswers.Inc()
	g.opts.Lists.Served(k, found)
	x.list = found
	x.writeList()
	return true
}
