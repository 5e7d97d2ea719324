package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/filters"
)

// exchange is one request on its way through the gateway: what its endpoint needs
// to know of it, its answer, and what becomes its one line in the log.
type exchange struct {
	id       requestID
	gateway  *Gateway
	endpoint *endpoint
	ctx      context.Context
	engine   *gin.Context
	request  *http.Request
	fast     headSender // nil: net/http has read the request
	client   netip.Addr // behind the trusted proxies; zero until clientAddress
	begin    time.Time

	// Filled on the way, written once at the end.
	fields     answerFields
	status     int
	headSent   bool      // no other response can be written
	aborted    bool      // the connection, or the stream, must be closed
	writeBy    time.Time // when the answer must have been written; zero: any time
	principal  auth.Principal
	admitted   bool // within its account's rate
	authTime   time.Duration
	rate       rate.Decision // zero: no limit applies
	rateText   [128]byte     // what the answer says of it; longer ones are allocated
	list       cache.Result  // zero: no list was looked up
	page       http.Handler  // writes a document; nil: another answer
	cause      error         // of an error answer; never shown to the caller
	problem    string        // public error code; empty for a success
	refused    bool          // LogRefusal has decided on its line in the log
	suppressed bool          // it has no record
	sent       int           // bytes of the body
	duration   time.Duration
}

// headSender is the ResponseWriter of requests on the fast path. Filling and sorting a header map is
// a tenth of what a hit costs, so it takes the rendered head.
type headSender interface {
	SendHead(head, body []byte, last bool) (int, error)
}

// The header fields that the gateway reads, in canonical form.
const (
	authorizationField  = "Authorization"
	acceptEncodingField = "Accept-Encoding"
	ifNoneMatchField    = "If-None-Match"
	requestIDField      = "X-Request-Id"    // from trusted proxies only
	forwardedForField   = "X-Forwarded-For" // from trusted proxies only
	traceparentField    = "Traceparent"
	tracestateField     = "Tracestate"
)

// Fields are the header fields that a Gateway reads, in canonical form.
func Fields() []string {
	return []string{authorizationField, acceptEncodingField, ifNoneMatchField, requestIDField, forwardedForField, traceparentField, tracestateField}
}

// statusClientClosedRequest is logged and counted if the caller left before the
// answer. It is never sent. The number is nginx's.
const statusClientClosedRequest = 499

// bodyTime is how long the rest of a request with a body may take to come. No handler reads one.
const bodyTime = time.Second

// unauthenticatedWriteTime bounds the writing of a response to a request without a valid key.
const unauthenticatedWriteTime = 2 * time.Second

// maxUnauthenticatedStreams is the maximum of responses to requests without a valid key in flight over
// HTTP/2. Each takes about 20 KiB while nobody reads it, and a connection may have many.
const maxUnauthenticatedStreams = 4096

// handler serves all requests that Gin routes to an endpoint. Over HTTP/1 a request goes on
// after its client has closed its half of the connection, as a client that sends nothing more may
// still wait for responses: that it has gone is noticed when the response is written.
func (g *Gateway) handler(e *endpoint) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := c.Request
		ctx := r.Context()
		if ctx.Done() != nil && (r.ProtoMajor == 1 || r.Method == "PRI") { // which HTTP/1 may say of HTTP/2.0
			ctx = context.WithoutCancel(ctx)
		}
		if r.Body != http.NoBody { // net/http drains the body
			_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(bodyTime))
		}
		x := g.exchanges.Get().(*exchange)
		x.gateway, x.endpoint, x.ctx, x.engine, x.request, x.begin = g, e, ctx, c, r, time.Now()
		if w, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
			x.fast, _ = w.Unwrap().(headSender)
		}
		if within := g.opts.WriteTimeout; within > 0 {
			x.writeUntil(x.begin.Add(within))
		}
		if x.serve() {
			panic(http.ErrAbortHandler) // net/http drops the connection, and logs nothing
		}
	}
}

// serve answers the exchange and ends it, whatever happens: it is counted once, leaves its
// one line in the log, and must not be used any more. After a panic the caller gets a 500, or a
// connection that is cut because an answer has begun.
func (x *exchange) serve() (cut bool) {
	x.gateway.metrics.inFlight.Inc()
	if x.gateway.tracer != nil {
		defer x.openSpan().End()
	}
	defer func() {
		defer x.end() // also where the answer to a panic panics
		if thrown := recover(); thrown != nil {
			x.panicked(thrown)
		}
		cut = x.aborted
	}()
	x.identify()
	if x.fast == nil && headSize(x.request) > maxHeadSize { // the fast path reads less
		x.answer(errHeadTooLarge)
	} else {
		x.answer(x.endpoint.find(x))
	}
	return false
}

// maxHeadSize bounds the request line and header fields of a request that is served, in bytes.
const maxHeadSize = 16 << 10

var errHeadTooLarge = errors.New("the request line and header fields are too large")

// headSize is about as many bytes as the request line and the header fields have over HTTP/1.
func headSize(r *http.Request) int {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(": \r\n") + len(value)
		}
	}
	return size
}

// answer answers with what the endpoint has found: a list, a page, or an error.
func (x *exchange) answer(err error) {
	if x.principal.Account == "" {
		x.respondUnauthenticated(err)
	} else {
		x.write(err)
	}
}

// write writes the answer.
func (x *exchange) write(err error) {
	switch {
	case err != nil && callerLeft(x.ctx):
		x.clientGone(err)
	case err != nil:
		x.writeError(err)
	case x.page != nil:
		x.writePage()
	default:
		x.writeList()
	}
}

// callerLeft says whether nobody waits for the answer any more. What failed then
// failed for that reason, and the legacy is not at fault. Only HTTP/2 tells.
func callerLeft(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// panicked answers in place of what has panicked, which is a bug.
func (x *exchange) panicked(thrown any) {
	x.gateway.metrics.panics.Inc()
	x.gateway.opts.Logger.Error("panic in a handler", "request_id", x.id.String(), "panic", fmt.Sprint(thrown), "stack", string(debug.Stack()))
	bug := fmt.Errorf("panic: %v", thrown)
	x.status, x.problem, x.cause = v1.InternalError.Status, v1.InternalError.Code, bug
	if x.aborted = x.headSent; !x.headSent {
		clear(x.fields)
		x.fields = x.fields[:0]
		x.identify()
		x.writeError(bug)
	}
}

// clientGone records that the caller has left, and gets no response.
func (x *exchange) clientGone(cause error) {
	x.status, x.problem, x.cause, x.aborted = statusClientClosedRequest, "", cause, true
}

// writeFailed records that the response could not be written. After writeBy the gateway itself has aborted it, and
// the caller may well be there: the status stays that of the response.
func (x *exchange) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) || !x.writeBy.IsZero() && !time.Now().Before(x.writeBy) {
		x.cause, x.aborted = cmp.Or(x.cause, err), true
	} else {
		x.clientGone(cmp.Or(x.cause, err))
	}
}

// writeUntil bounds the time in which the answer is written.
func (x *exchange) writeUntil(at time.Time) {
	x.writeBy = at
	_ = http.NewResponseController(x.engine.Writer).SetWriteDeadline(at)
}

// errTooManyStreams is why a stream of a request without a valid key is reset.
var errTooManyStreams = errors.New("too many responses to unauthenticated clients wait to be read")

// respondUnauthenticated responds to a request without a valid key, whose client may read slowly on purpose. The
// time for it is bounded, and over HTTP/2 the number of such responses. It returns when the response is written.
func (x *exchange) respondUnauthenticated(err error) {
	x.writeUntil(time.Now().Add(unauthenticatedWriteTime))
	if x.request.ProtoMajor == 2 {
		streams := &x.gateway.unauthenticatedStreams
		defer streams.Add(-1)
		if streams.Add(1) > maxUnauthenticatedStreams {
			x.status, x.problem, x.cause, x.aborted = v1.RateLimited.Status, v1.RateLimited.Code, errTooManyStreams, true
			return
		}
	}
	x.write(err)
	under, ok := x.engine.Writer.(interface{ Unwrap() http.ResponseWriter })
	if !x.headSent || !ok {
		return
	}
	if err := http.NewResponseController(under.Unwrap()).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.writeFailed(err)
	}
}

// identify assigns the request its id, unless it has one, and adds the fields that all
// answers have. The id that a trusted proxy gave the request is taken over, so that its
// logs and these name the same request. An id goes into logs and headers, so it is bounded
// and of a harmless alphabet. An id from any other client is ignored.
func (x *exchange) identify() {
	if x.id.n == 0 && x.fromProxy() {
		if ids := x.request.Header[requestIDField]; len(ids) > 0 && filters.Valid(ids[0]) {
			x.id.set(ids[0])
		}
	}
	if x.id.n == 0 {
		x.id.draw()
	}
	x.fields.addText("X-Request-Id", x.id.bytes())
	x.fields.add("X-Content-Type-Options", x.gateway.headers.nosniff)
}

// end counts the exchange, describes it in its span, writes its line and puts it back.
func (x *exchange) end() {
	g := x.gateway
	x.duration = time.Since(x.begin)
	switch {
	case x.status >= http.StatusInternalServerError:
		x.suppressed = false
	case !x.admitted && (x.problem != "" || x.status == statusClientClosedRequest): // clients without a key choose how many there are
		x.LogRefusal(cmp.Or(x.problem, "caller_left"))
	}
	x.endpoint.series.observe(x)
	g.setSpanAttributes(x)
	g.log(x)
	clear(x.fields)
	*x = exchange{fields: x.fields[:0]}
	g.exchanges.Put(x)
	g.metrics.inFlight.Dec()
}

// requestID is the id of one request, kept as bytes: most requests need it for
// their header and their line in the log only.
type requestID struct {
	text [filters.MaxBytes]byte
	n    int
}

// draw makes up an id: 128 random bits as hex. It needs to be unique, not secret,
// so it comes from the runtime's own generator, which takes no lock and no system
// call.
func (id *requestID) draw() {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	id.n = hex.Encode(id.text[:], raw[:])
}

// set takes an id over. It must be a valid filter value.
func (id *requestID) set(s string) { id.n = copy(id.text[:], s) }

func (id *requestID) bytes() []byte { return id.text[:id.n] }

// String is for what may outlive the request.
func (id *requestID) String() string { return string(id.bytes()) }

// requestIDKey is where a context has the id of the request that it began with.
type requestIDKey struct{}

// withRequestID lets a fill that outlives its caller still name the request that
// caused it.
func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

func requestIDOf(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// ClientIP implements auth.Caller: the caller's address behind the trusted
// proxies, worked out only when somebody asks for it.
func (x *exchange) ClientIP() netip.Addr { return x.clientAddress() }

// Deadline implements auth.Caller.
func (x *exchange) Deadline() time.Time { return x.begin.Add(x.gateway.opts.RequestTimeout) }

// LogRefusal implements auth.Caller. What it decides is for the record of the request, too. A second reason changes
// nothing.
func (x *exchange) LogRefusal(reason string) bool {
	if !x.refused {
		x.refused, x.suppressed = true, !x.gateway.refusals.allow(reason)
	}
	return !x.suppressed
}

// clientAddress is the caller's address behind the trusted proxies; zero if it cannot be parsed.
func (x *exchange) clientAddress() netip.Addr {
	if !x.client.IsValid() {
		x.client = x.gateway.proxies.client(x.request.Header[forwardedForField], x.peer().Addr())
	}
	return x.client
}

// fromProxy reports whether a trusted proxy sent the request.
func (x *exchange) fromProxy() bool {
	return len(x.gateway.proxies) > 0 && x.gateway.proxies.trust(x.peer().Addr())
}

// peer is the address at the other end of the connection; zero if it cannot be parsed.
func (x *exchange) peer() netip.AddrPort {
	ap, err := netip.ParseAddrPort(x.request.RemoteAddr)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()) // no network contains an address with a zone
}
