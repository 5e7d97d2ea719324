package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/gin-gonic/gin"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/internal/theme"
)

// exchangeKey is where a request's context in the engine has its exchange.
type exchangeKey struct{}

func exchangeOf(c *gin.Context) *exchange { return c.MustGet(exchangeKey{}).(*exchange) }

// fail ends the handlers of a request with an error, which answer writes.
func fail(c *gin.Context, err error) {
	_ = c.Error(err)
	c.Abort()
}

// serve is the first handler of every request: it gives it an exchange and its id, has the
// others find what to answer, and answers. Requests count for unmatched until a
// handler knows better. Over HTTP/1 a request does not end because its caller has closed its
// half of the connection, as who sends nothing more may still wait for answers: that
// it has left is noticed when the answer is written.
func (g *Gateway) serve(unmatched *endpointSeries) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx := c.Request.Context()
		if c.Request.ProtoMajor == 1 || c.Request.Method == "PRI" { // which HTTP/1 may say of HTTP/2.0
			ctx = context.WithoutCancel(ctx)
		}
		if c.Request.Body != http.NoBody { // net/http waits for the rest of it before it goes on
			_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(bodyTime))
		}
		x := g.start(ctx, time.Now())
		x.writer, x.series = c.Writer, unmatched
		x.request = requestOf(c.Request, x.conn)
		c.Set(exchangeKey{}, x)
		_, cut := x.run(func() bool {
			x.identify()
			c.Next()
			x.answer(c)
			return true
		})
		c.Abort() // after a panic there are handlers left
		if cut {
			panic(http.ErrAbortHandler) // net/http drops the connection, and logs nothing
		}
	}
}

// answer writes what the handlers have found: a list, a page, or an error.
func (x *exchange) answer(c *gin.Context) {
	if x.principal.Account == "" {
		defer x.toStranger(c.Request.ProtoMajor == 2)()
	}
	err := c.Errors.Last()
	switch {
	case err != nil && callerLeft(x.ctx):
		x.leave(err.Err)
	case err != nil:
		x.writeError(err.Err)
	case x.page != nil:
		x.writePage(c.Request)
	default:
		x.writeList()
	}
}

// callerLeft says whether nobody waits for the answer any more. What failed then
// failed for that reason, and the legacy is not at fault. Only HTTP/2 tells.
func callerLeft(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// authenticate is the first handler of a list: who asks, and whether they may. It comes
// before anything else of the request is read, so no cached list and no 304 can answer a
// caller who is not allowed.
func (g *Gateway) authenticate(list *endpoint) gin.HandlerFunc {
	return func(c *gin.Context) {
		x := exchangeOf(c)
		x.series = list.series
		grant, err := g.opts.Auth.AuthenticateFrom(x.ctx, x.request.Authorization, x)
		x.authTime = time.Since(x.begin)
		if err != nil {
			fail(c, err)
			return
		}
		x.principal = grant.Principal
		x.conn.Authenticated(x.begin)
		if err := x.principal.Authorize(list.Name); err != nil {
			fail(c, err)
		}
	}
}

// withinRate counts the request against its account. It comes after all checks of
// the key, so that nobody can use up the rate of another.
func (g *Gateway) withinRate(c *gin.Context) {
	x := exchangeOf(c)
	if err := x.withinRate(); err != nil {
		fail(c, err)
	}
}

// waited is how long authentication takes at least if it had to wait for a key
// store. Only then the limiter's own bound is not enough, and a timer is worth its
// cost.
const waited = time.Millisecond

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
	ctx := x.ctx
	if x.authTime > waited {
		bounded, cancel := context.WithDeadline(ctx, x.Deadline())
		defer cancel()
		ctx = bounded
	}
	x.rate = x.gateway.opts.Rate.Allow(ctx, x.principal.Account, x.principal.Plan)
	if x.admitted = x.rate.Allowed; x.admitted {
		return nil
	}
	return &rateError{x.rate.Policy, x.rate.RetryAfter}
}

// list finds the list: a fresh one of this process, or one to wait for, no longer than the
// request may take. The account comes from the key alone; nothing in the request can name
// another. A request whose trace is recorded always takes the second way, where there is
// a context for the spans.
func (g *Gateway) list(c *gin.Context) {
	x := exchangeOf(c)
	k, err := parseFilter(x.request.Query, g.opts.IgnoreUnknownParameters)
	if err != nil {
		fail(c, err)
		return
	}
	k.Kind, k.Account = x.principal.Kind, x.principal.Account
	found := false
	if !g.recording(x) {
		if x.list, found = g.opts.Lists.Lookup(k); found {
			g.opts.Lists.Served(k, x.list)
		}
	}
	if !found {
		ctx, cancel := context.WithDeadline(withRequestID(x.ctx, x.id.String()), x.Deadline())
		defer cancel()
		if x.list, err = g.opts.Lists.Get(ctx, k); err != nil {
			fail(c, err)
			return
		}
	}
	if !owned(x.list.Entry, &x.principal) {
		fail(c, errors.New("the list looked up belongs to somebody else"))
	}
}

// owned says whether a list is the caller's.
func owned(e *cache.Entry, p *auth.Principal) bool { return e.Kind == p.Kind && e.Account == p.Account }

// document is the handler of documents, which know no caller. The path under a folder
// that has a page leads to that page.
func (g *Gateway) document(endpoint string, files func() map[string]theme.Asset) gin.HandlerFunc {
	series := g.metrics.endpoint(endpoint)
	return func(c *gin.Context) {
		x := exchangeOf(c)
		x.series = series
		file, found := files()[c.Request.URL.Path]
		if _, folder := files()[c.Request.URL.Path+"/"]; folder {
			x.page = http.HandlerFunc(redirectToFolder)
		} else if found {
			x.page = file
		} else {
			fail(c, errNotFound)
		}
	}
}

// redirectToFolder is relative, so that it also fits behind a proxy's path prefix.
func redirectToFolder(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "0")
	w.Header().Set("Location", path.Base(r.URL.Path)+"/")
	w.WriteHeader(http.StatusFound)
}
