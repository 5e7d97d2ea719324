package gateway

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/httpwire"
	"inquiry-gateway/internal/span"
)

// freshHit is a request that the hit lane can answer.
type freshHit struct {
	*endpoint
	grant    *auth.Grant
	authTime time.Duration
	key      cache.Key
	found    cache.Result
}

// left is what the hit lane has decided about a request that it then left to the
// ordinary path, so that it is not decided twice.
type left struct {
	rate   *rate.Decision // nil: none
	of     auth.Principal // whose rate it is
	opened bool           // the span
	span   span.Span
}

// leftOn is nil where nothing was.
func leftOn(c *httpwire.Conn) *left {
	l, _ := c.Left().(*left)
	return l
}

// answerHit is the hit lane: it answers h if the answer is a fresh hit in the process.
// What looks comes first and counts nothing, so that a request that is left to the
// ordinary path is not counted twice. What answers and counts are the functions of the
// ordinary path. The answer may take write to be sent; zero: as long as it takes.
func (g *Gateway) answerHit(c *httpwire.Conn, h *httpwire.Head, begin time.Time, write time.Duration) (answered bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			g.metrics.panics.Inc()
			g.opts.Logger.Error("panic in the hit lane", "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	var hit freshHit
	if !g.recall(&hit, h, begin) || !c.Begin(begin, write) {
		return false, nil
	}
	ctx, opened := g.openSpan(context.Background(), h.Traceparent, h.Tracestate, c.Peer(nil))
	if opened.Recording() {
		c.Leave(&left{opened: true, span: opened})
		return false, nil
	}
	x := g.start(ctx, begin)
	x.conn, x.series, x.request = c, hit.series, h.Request
	x.principal, x.authTime, x.list = hit.grant.Principal, hit.authTime, hit.found
	x.request.Peer = c.Peer(nil)
	if g.opts.Rate != nil {
		x.askRate()
	}
	if x.overRate() != nil {
		c.Leave(&left{rate: &x.rate, of: x.principal, opened: g.tracer != nil, span: opened})
		return false, nil
	}
	return true, g.serveHit(x, &hit)
}

// recall looks for what h asks for. It counts nothing and waits for nothing.
func (g *Gateway) recall(hit *freshHit, h *httpwire.Head, begin time.Time) bool {
	var ok bool
	if hit.endpoint = g.endpoints[h.Path]; hit.endpoint == nil || !g.opts.HitLane {
		return false
	}
	if hit.grant, ok = g.opts.Auth.Recall(h.Authorization); !ok || hit.grant.Principal.Authorize(hit.Name) != nil {
		return false
	}
	hit.authTime = time.Since(begin)
	var err error
	if hit.key, err = parseFilter(h.Query, g.opts.IgnoreUnknownParameters); err != nil {
		return false
	}
	hit.key.Kind, hit.key.Account = hit.grant.Principal.Kind, hit.grant.Principal.Account
	hit.found, ok = g.opts.Lists.Lookup(hit.key)
	return ok && hit.found.Outcome == cache.Hit && owned(hit.found.Entry, &hit.grant.Principal)
}

// serveHit counts the hit and sends it.
func (g *Gateway) serveHit(x *exchange, hit *freshHit) error {
	g.metrics.inFlight.Inc()
	defer g.metrics.inFlight.Dec()
	g.metrics.laneAnswers.Inc()
	g.opts.Auth.Accept(x.ctx, hit.grant)
	x.conn.Authenticated(x.begin)
	g.opts.Lists.Served(hit.key, hit.found)
	x.identify()
	x.writeList()
	err := x.cause
	g.end(x)
	return err
}
