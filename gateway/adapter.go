package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
)

// handler answers one exchange with a reply or an error; it never writes.
type handler func(x *exchange) (reply, error)

// listHandler is a handler that works for somebody: it takes the Principal as a
// parameter, so one that forgot to authenticate does not compile.
type listHandler func(x *exchange, p auth.Principal) (reply, error)

// adapt is the one way in and the one place that writes: it names the request,
// runs the handler, turns its error into an answer, writes once, and leaves one
// log record.
func (g *Gateway) adapt(endpoint string, h handler) gin.HandlerFunc {
	series := g.metrics.endpoint(endpoint)
	return func(c *gin.Context) {
		x := g.start(c.Request)
		defer g.metrics.inFlight.Dec()
		rep, err := g.run(h, x)
		if err != nil && callerLeft(x.request) {
			x.status, x.cause = statusClientClosedRequest, err
			g.end(x, series)
			panic(http.ErrAbortHandler) // net/http drops the connection, and logs nothing
		}
		if err != nil {
			rep = g.refusal(x, err)
		}
		g.write(c.Writer, x, rep)
		g.end(x, series)
	}
}

// callerLeft says whether there is nobody to answer any more. What failed then
// failed for that reason, and is no fault of the legacy's. A caller that has only
// closed its half of the connection looks the same to net/http.
func callerLeft(r *http.Request) bool { return errors.Is(r.Context().Err(), context.Canceled) }

// page is adapt for what answers by itself: documents, which know no caller.
func (g *Gateway) page(endpoint string, h http.Handler) gin.HandlerFunc {
	series := g.metrics.endpoint(endpoint)
	return func(c *gin.Context) {
		x := g.start(c.Request)
		defer g.metrics.inFlight.Dec()
		x.headerInto(c.Writer.Header())
		g.closeIfDraining(c.Writer.Header())
		h.ServeHTTP(c.Writer, c.Request)
		x.status, x.bytes = c.Writer.Status(), max(c.Writer.Size(), 0)
		g.end(x, series)
	}
}

// start names the request and gives the answer the field that all have.
func (g *Gateway) start(r *http.Request) *exchange {
	g.metrics.inFlight.Inc()
	x := g.exchanges.Get().(*exchange)
	x.gateway, x.request, x.conn, x.begin = g, r, joinedOf(r), time.Now()
	g.assignID(x)
	x.add("X-Content-Type-Options", g.headers.nosniff)
	return x
}

// end counts the exchange and leaves its record. x must not be used after end: it
// returns to the pool.
func (g *Gateway) end(x *exchange, s *series) {
	x.duration = time.Since(x.begin)
	s.observe(x)
	g.observe(x)
	g.log(x, s.endpoint)
	*x = exchange{}
	g.exchanges.Put(x)
}

// run calls the handler and turns a panic into an error: nothing has been
// written yet, so the caller still gets a whole answer. http.ErrAbortHandler
// asks net/http to drop the connection and is passed on.
func (g *Gateway) run(h handler, x *exchange) (rep reply, err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
			panic(cause)
		}
		g.metrics.panics.Inc()
		g.logger.Error("panic in a handler", "request_id", x.id.String(), "stack", string(debug.Stack()))
		err = fmt.Errorf("panic: %v", cause)
	}()
	return h(x)
}

// assignID takes over the id that a trusted proxy gave the request, so that its
// logs and these tell of the same request; a stranger's is not believed.
func (g *Gateway) assignID(x *exchange) {
	if len(g.proxies) > 0 && g.proxies.trust(x.peer()) {
		if id := x.request.Header.Get("X-Request-Id"); validRequestID(id) {
			x.id.set(id)
			return
		}
	}
	x.id.draw()
}

// authorized runs the checks in their public order (who, then whether they may)
// before anything of the request is looked at, so that no cached list and no
// 304 can answer a caller who is not allowed.
func (g *Gateway) authorized(kind string, h listHandler) handler {
	return func(x *exchange) (reply, error) {
		p, err := g.auth.AuthenticateFrom(x.request.Context(), x.request.Header["Authorization"], x)
		x.authTime = time.Since(x.begin)
		if err != nil {
			return reply{}, err
		}
		x.keepConnection()
		x.principal = p
		if err := p.Authorize(kind); err != nil {
			return reply{}, err
		}
		if err := g.withinRate(x, p); err != nil {
			return reply{}, err
		}
		return h(x, p)
	}
}

// list answers with the Principal's own list. The account comes from the key
// alone; nothing in the request can name another.
func (g *Gateway) list(x *exchange, p auth.Principal) (reply, error) {
	f, err := parseFilter(x.request.URL.RawQuery, g.ignoreUnknown)
	if err != nil {
		return reply{}, err
	}
	k := cache.Key{Kind: p.Kind, Account: p.Account, Status: f.status, InquiryType: f.inquiryType}
	found, ok := g.lookup(x, k)
	if !ok {
		if found, err = g.get(x, k); err != nil {
			return reply{}, err
		}
	}
	x.list = found
	if e := found.Entry; e.Kind != p.Kind || e.Account != p.Account {
		return reply{}, errors.New("the list looked up belongs to somebody else")
	}
	return reply{status: http.StatusOK, list: &x.list}, nil
}

// get waits for a list no longer than the request may take.
func (g *Gateway) get(x *exchange, k cache.Key) (cache.Result, error) {
	ctx, cancel := context.WithDeadline(withRequestID(x.request.Context(), x.id.String()), x.Deadline())
	defer cancel()
	return g.lists.Get(ctx, k)
}

// reply is what a handler answers: a list out of the cache, or a finished body.
type reply struct {
	status int
	list   *cache.Result // nil: body is sent as it is
	body   []byte
}

// write sends a reply with one write. HEAD gets the header that GET would have;
// net/http leaves out its body.
func (g *Gateway) write(w gin.ResponseWriter, x *exchange, rep reply) {
	x.status = rep.status
	x.add("Date", g.dates.at(time.Now()))
	x.rateHeaders()
	if rep.list != nil {
		g.writeList(w, x, rep.list)
		return
	}
	x.send(w, []string{strconv.Itoa(len(rep.body))}, rep.body)
}

// writeList sends a list or, where the caller has it already, a 304 with the
// headers that the 200 would have had (RFC 9110, section 15.4.5).
func (g *Gateway) writeList(w gin.ResponseWriter, x *exchange, found *cache.Result) {
	x.add("Cache-Control", g.headers.cacheControl)
	x.add("Vary", g.headers.vary)
	x.add("Etag", found.Entry.ETag)
	x.add("Age", g.headers.ageOf(found.Age))
	x.add("Cache-Status", g.headers.cacheStatus(found))
	if tags := x.request.Header["If-None-Match"]; len(tags) > 0 && notModified(tags, found.Entry.ETag[0]) {
		x.status = http.StatusNotModified
		x.send(w, nil, nil)
		return
	}
	variant, coding := g.chooseVariant(found.Entry, x.request.Header["Accept-Encoding"])
	if coding != nil {
		x.add("Content-Encoding", coding)
	}
	x.add("Content-Type", g.headers.jsonType)
	x.send(w, variant.Length, variant.Body)
}

// send writes the answer, with one write where the connection can hold its head
// back. A caller that is gone is noted as such; there is nobody left to tell.
func (x *exchange) send(w gin.ResponseWriter, length []string, body []byte) {
	h := w.Header()
	clear(h)        // gin puts Allow there, which is among the fields too
	h["Date"] = nil // keeps net/http from adding its own
	if length != nil {
		h["Content-Length"] = length
	}
	x.gateway.closeIfDraining(h)
	conn := x.conn
	switch {
	case conn == nil:
		x.headerInto(h)
	case x.request.TLS != nil:
		x.headerInto(h)
		conn.hold(nil)
	default:
		conn.hold(x)
	}
	w.WriteHeader(x.status)
	if conn != nil {
		w.Flush() // the head alone
	}
	n, err := w.Write(body)
	if conn != nil {
		w.Flush()
		err = errors.Join(err, conn.release())
	}
	x.bytes = n
	if err != nil && x.cause == nil && x.request.Method != http.MethodHead {
		x.status, x.cause = statusClientClosedRequest, err
	}
}

// closeIfDraining has net/http close the connection after the answer with this
// header; over HTTP/2 it sends GOAWAY and ends the connection after its last
// answer.
func (g *Gateway) closeIfDraining(h http.Header) {
	if g.draining.Load() {
		h["Connection"] = g.headers.close
	}
}

// appendHead implements headWriter.
func (x *exchange) appendHead(b []byte) []byte {
	b = append(b, "X-Request-Id: "...)
	b = append(b, x.id.bytes()...)
	b = append(b, "\r\n"...)
	return x.fields.appendTo(b)
}

// headerInto puts all but the length into net/http's map.
func (x *exchange) headerInto(h http.Header) {
	h["X-Request-Id"] = []string{x.id.String()}
	x.fields.into(h)
}
