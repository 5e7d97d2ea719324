package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/httpwire"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/theme"
)

// handler finds the list that x asks for and puts it into x.list, or says why
// there is none. It never writes.
type handler func(x *exchange) error

// refuse is the handler of what always fails.
func refuse(err error) handler { return func(*exchange) error { return err } }

// adapt makes Gin's handler of one of ours.
func (g *Gateway) adapt(series *endpointSeries, h handler) gin.HandlerFunc {
	return func(c *gin.Context) { g.serve(c.Writer, c.Request, series, h) }
}

// serve is the way of every request: it assigns an id, runs the handler, writes
// the list or the error once, and leaves one log record.
func (g *Gateway) serve(w httpwire.Writer, r *http.Request, series *endpointSeries, h handler) {
	x := g.start(w, r)
	defer g.metrics.inFlight.Dec()
	switch err := g.run(h, x); {
	case err == nil:
		x.writeList()
	case callerLeft(x.ctx):
		x.Status, x.cause = statusClientClosedRequest, err
		g.end(x, series)
		panic(http.ErrAbortHandler) // net/http drops the connection, and logs nothing
	default:
		x.writeError(err)
	}
	g.end(x, series)
}

// page is the handler chain of documents, which know no caller. The path under a folder
// that has a page leads to that page.
func (g *Gateway) page(endpoint string, made func() map[string]theme.Asset) gin.HandlerFunc {
	series := g.metrics.endpoint(endpoint)
	missing := g.adapt(series, refuse(errNotFound))
	return func(c *gin.Context) {
		files := made()
		file, found := files[c.Request.URL.Path]
		if _, folder := files[c.Request.URL.Path+"/"]; !found && !folder {
			missing(c)
			return
		}
		x := g.start(c.Writer, c.Request)
		defer g.metrics.inFlight.Dec()
		x.Into(c.Writer.Header())
		if x.closes() {
			c.Header("Connection", "close")
		}
		theme.Secure(c.Writer.Header(), v1.DocsPolicy)
		if found {
			file.ServeHTTP(c.Writer, c.Request)
		} else {
			// Relative, so that it also fits behind a proxy's path prefix.
			c.Header("Location", path.Base(c.Request.URL.Path)+"/")
			c.Status(http.StatusFound)
			c.Writer.WriteHeaderNow()
		}
		x.Status, x.sent = c.Writer.Status(), max(c.Writer.Size(), 0)
		g.end(x, series)
	}
}

// callerLeft says whether nobody waits for the answer any more. What failed then
// failed for that reason, and the legacy is not at fault. One that has only
// closed its half of the connection waits: see httpwire.
func callerLeft(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// start begins the exchange of a request that net/http has read.
func (g *Gateway) start(w httpwire.Writer, r *http.Request) *exchange {
	g.metrics.inFlight.Inc()
	x := g.exchanges.Get().(*exchange)
	x.gateway, x.ctx, x.writer, x.begin = g, r.Context(), w, time.Now()
	x.conn = httpwire.FromContext(x.ctx)
	x.request.Read(r, x.conn, len(g.proxies) > 0)
	x.identify()
	return x
}

// identify assigns the request its id and adds the field that all answers have.
func (x *exchange) identify() {
	x.assignID()
	x.AddText("X-Request-Id", x.id.bytes())
	x.Add("X-Content-Type-Options", x.gateway.headers.nosniff)
}

// end counts the exchange, describes it in its span, and writes its record. x must
// not be used after end: it returns to the pool.
func (g *Gateway) end(x *exchange, s *endpointSeries) {
	x.duration = time.Since(x.begin)
	if x.principal.Account == "" { // no good key: whoever sends such requests chooses how many there are
		x.LogRefusal(cmp.Or(x.problem, s.endpoint))
	}
	s.observe(x)
	g.describe(x)
	g.log(x, s.endpoint)
	*x = exchange{}
	g.exchanges.Put(x)
}

// run calls the handler and turns a panic into an error. Nothing has been written
// yet, so the caller still gets a whole answer. http.ErrAbortHandler asks net/http
// to drop the connection and is passed on.
func (g *Gateway) run(h handler, x *exchange) (err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
			panic(cause)
		}
		g.metrics.panics.Inc()
		g.opts.Logger.Error("panic in a handler", "request_id", x.id.String(), "stack", string(debug.Stack()))
		err = fmt.Errorf("panic: %v", cause)
	}()
	return h(x)
}

// list is the handler of a kind's list: a fresh one of this process, or one to wait for,
// no longer than the request may take. The account comes from the key alone; nothing in
// the request can name another. A request whose trace is recorded always takes the second
// way, where there is a context for the spans.
func (g *Gateway) list(kind string) handler {
	return func(x *exchange) error {
		if err := g.authorize(x, kind); err != nil {
			return err
		}
		f, err := parseFilter(x.request.Query, g.opts.IgnoreUnknownParameters)
		if err != nil {
			return err
		}
		k, found := f.key(&x.principal), false
		if !g.recording(x) {
			if x.list, found = g.opts.Lists.Lookup(k); found {
				g.opts.Lists.Served(k, x.list)
			}
		}
		if !found {
			ctx, cancel := context.WithDeadline(withRequestID(x.ctx, x.id.String()), x.Deadline())
			defer cancel()
			if x.list, err = g.opts.Lists.Get(ctx, k); err != nil {
				return err
			}
		}
		if !owned(x.list.Entry, &x.principal) {
			return errors.New("the list looked up belongs to somebody else")
		}
		return nil
	}
}

// owned says whether a list is the caller's.
func owned(e *cache.Entry, p *auth.Principal) bool { return e.Kind == p.Kind && e.Account == p.Account }

// authorize runs the checks in their public order (who, whether they may, how
// often) before anything else of the request is read. So no cached list and no 304
// can answer a caller who is not allowed.
func (g *Gateway) authorize(x *exchange, kind string) error {
	grant, err := g.authenticate(x)
	x.authTime = time.Since(x.begin)
	if err != nil {
		return err
	}
	x.principal = grant.Principal
	x.conn.Authenticated(x.begin)
	if err := x.principal.Authorize(kind); err != nil {
		return err
	}
	return g.withinRate(x)
}

// authenticate takes what the process knows of the key, or asks for it. Where a trace is
// recorded it always asks, which has a span. The shorter way needs less than the stack that
// each request over HTTP/2 begins with.
func (g *Gateway) authenticate(x *exchange) (*auth.Grant, error) {
	if !g.recording(x) {
		if grant, ok := g.opts.Auth.Recall(x.request.Authorization); ok {
			g.opts.Auth.Accept(x.ctx, grant)
			return grant, nil
		}
	}
	return g.opts.Auth.AuthenticateFrom(x.ctx, x.request.Authorization, x)
}

// rateError refuses a request that is over its account's rate.
type rateError struct {
	policy string
	wait   time.Duration // until the next one may come
}

func (e *rateError) Error() string { return fmt.Sprintf("over the rate of policy %q", e.policy) }

// waited is how long authentication takes at least if it had to wait for a key
// store. Only then the limiter's own bound is not enough, and a timer is worth its
// cost.
const waited = time.Millisecond

// withinRate counts the request against its account. It comes after all checks of
// the key, so that nobody can use up the rate of another.
func (g *Gateway) withinRate(x *exchange) error {
	if g.opts.Rate == nil {
		return nil
	}
	p := &x.principal
	switch decided := leftOn(x.conn); {
	case decided != nil && decided.rate != nil && decided.of == *p:
		x.rate = *decided.rate
	case x.authTime > waited:
		ctx, cancel := context.WithDeadline(x.ctx, x.Deadline())
		defer cancel()
		x.rate = g.opts.Rate.Allow(ctx, p.Account, p.Plan)
	default:
		x.rate = g.opts.Rate.Allow(x.ctx, p.Account, p.Plan)
	}
	if !x.rate.Allowed {
		return &rateError{x.rate.Policy, x.rate.RetryAfter}
	}
	return nil
}

// writeList sends the list or, if the caller has it already, a 304 with the
// headers that the 200 would have had (RFC 9110, section 15.4.5).
func (x *exchange) writeList() {
	h, entry := x.gateway.headers, x.list.Entry
	x.common()
	x.Add("Cache-Control", h.cacheControl)
	x.Add("Vary", h.vary)
	x.Add("Etag", entry.ETag)
	x.Add("Age", h.ageOf(x.list.Age))
	x.Add("Cache-Status", h.cacheStatus(&x.list))
	if tags := x.request.IfNoneMatch; len(tags) > 0 && notModified(tags, entry.ETag[0]) {
		x.Status = http.StatusNotModified
		x.send()
		return
	}
	variant, coding := x.gateway.chooseVariant(entry, x.request.AcceptEncoding)
	if coding != nil {
		x.Add("Content-Encoding", coding)
	}
	x.Add("Content-Type", h.jsonType)
	x.Status, x.Length, x.Body = http.StatusOK, variant.Length, variant.Body
	x.send()
}

// closes says whether the answer is the last one of its connection: while the gateway
// drains, and after a request whose end a proxy may have seen elsewhere (RFC 9112,
// section 6.1).
func (x *exchange) closes() bool { return x.gateway.opts.Draining.Load() || x.request.Coded }

// common adds the fields that lists and errors share.
func (x *exchange) common() {
	x.Add("Date", x.gateway.dates.at(time.Now()))
	if x.rate.Policy == "" {
		return
	}
	// The form of the IETF's draft on RateLimit header fields. Moments are rounded
	// up, so that who waits for them waits long enough.
	b := appendLimit(x.limits[:0], x.rate.Policy, ";q=", x.rate.Limit, ";w=", x.rate.Window)
	n := len(b)
	b = appendLimit(b, x.rate.Policy, ";r=", x.rate.Remaining, ";t=", x.rate.Reset)
	x.AddText("Ratelimit-Policy", b[:n])
	x.AddText("Ratelimit", b[n:])
}

// appendLimit appends a policy with a count and a time, as an item of a structured field
// (RFC 9651).
func appendLimit(b []byte, policy, nameOfCount string, count int, nameOfTime string, d time.Duration) []byte {
	b = append(strconv.AppendQuote(b, policy), nameOfCount...)
	b = append(strconv.AppendInt(b, int64(count), 10), nameOfTime...)
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}

// send writes the answer. HEAD gets the header that GET would have; net/http
// leaves out its body. A caller that is gone is noted: nobody is left to tell.
func (x *exchange) send() {
	x.Close = x.closes()
	n, err := httpwire.Send(x.writer, &x.request, x.conn, &x.Answer)
	x.sent = n
	if err != nil && x.cause == nil && x.request.Method != http.MethodHead {
		x.Status, x.cause = statusClientClosedRequest, err
	}
}
