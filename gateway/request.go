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

// request is one request on its way through the gateway: what its endpoint needs to know, its response,
// and what its log record says.
type request struct {
	id         requestID
	gateway    *Gateway
	endpoint   *endpoint
	ctx        context.Context
	ginContext *gin.Context
	http       *http.Request
	fast       headSender // nil: net/http has read the request
	client     netip.Addr // behind the trusted proxies; zero until clientAddress
	begin      time.Time

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
	logDecided bool          // LogRefusal has been called
	unlogged   bool          // it has no record
	sent       int           // bytes of the body
	duration   time.Duration
}

// headSender is the ResponseWriter of requests on the fast path. It takes the rendered head, as filling
// and sorting a header map is a tenth of what a hit costs.
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

// handler serves the requests that Gin routes to an endpoint. Over HTTP/1 a request goes on after its
// client has closed its half of the connection, as the client may still wait for the response. If it does
// not, writing the response fails.
func (g *Gateway) handler(e *endpoint) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := c.Request
		ctx := r.Context()
		if ctx.Done() != nil && (r.ProtoMajor == 1 || r.Method == "PRI") { // net/http passes on "PRI * HTTP/2.0" from an HTTP/1 connection, with ProtoMajor 2
			ctx = context.WithoutCancel(ctx)
		}
		if r.Body != http.NoBody { // net/http drains the body
			_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(bodyTime))
		}
		req := g.requests.Get().(*request)
		req.gateway, req.endpoint, req.ctx, req.ginContext, req.http, req.begin = g, e, ctx, c, r, time.Now()
		if w, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
			req.fast, _ = w.Unwrap().(headSender)
		}
		if within := g.opts.WriteTimeout; within > 0 {
			req.writeUntil(req.begin.Add(within))
		}
		if req.serve() {
			panic(http.ErrAbortHandler) // net/http drops the connection, and logs nothing
		}
	}
}

// serve responds to the request, counts it once and logs it, whatever happens. The request must not be used
// afterwards. After a panic the caller gets a 500, or its connection is closed if the response has begun.
func (req *request) serve() (cut bool) {
	req.gateway.metrics.inFlight.Inc()
	if req.gateway.tracer != nil {
		defer req.openSpan().End()
	}
	defer func() {
		defer req.end() // even if responding to a panic panics
		if thrown := recover(); thrown != nil {
			req.panicked(thrown)
		}
		cut = req.aborted
	}()
	req.identify()
	if req.fast == nil && headSize(req.http) > maxHeadSize { // the fast path reads less
		req.respond(errHeadTooLarge)
	} else {
		req.respond(req.endpoint.find(req))
	}
	return false
}

// maxHeadSize bounds the request line and header fields of a request that is served, in bytes.
const maxHeadSize = 16 << 10

var errHeadTooLarge = errors.New("the request line and header fields are too large")

// headSize is the approximate size of the request line and header fields over HTTP/1, in bytes.
func headSize(r *http.Request) int {
	size := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(": \r\n") + len(value)
		}
	}
	return size
}

// respond responds with what the endpoint has found: a list, a page, or an error.
func (req *request) respond(err error) {
	if req.principal.Account == "" {
		req.respondUnauthenticated(err)
	} else {
		req.write(err)
	}
}

// write writes the response.
func (req *request) write(err error) {
	switch {
	case err != nil && callerLeft(req.ctx):
		req.clientGone(err)
	case err != nil:
		req.writeError(err)
	case req.page != nil:
		req.writePage()
	default:
		req.writeList()
	}
}

// callerLeft reports whether the caller has gone, which only HTTP/2 tells. An error is then no failure of the
// legacy system.
func callerLeft(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// panicked logs a panic, which is a bug, and responds with a 500 if no response has begun.
func (req *request) panicked(thrown any) {
	req.gateway.metrics.panics.Inc()
	req.gateway.opts.Logger.Error("panic in a handler", "request_id", req.id.String(), "panic", fmt.Sprint(thrown), "stack", string(debug.Stack()))
	bug := fmt.Errorf("panic: %v", thrown)
	req.status, req.problem, req.cause = v1.InternalError.Status, v1.InternalError.Code, bug
	if req.aborted = req.headSent; !req.headSent {
		clear(req.fields)
		req.fields = req.fields[:0]
		req.identify()
		req.writeError(bug)
	}
}

// clientGone records that the caller has left, and gets no response.
func (req *request) clientGone(cause error) {
	req.status, req.problem, req.cause, req.aborted = statusClientClosedRequest, "", cause, true
}

// writeFailed records that the response could not be written. After writeBy the gateway itself has aborted it, and
// the caller may well be there: the status stays that of the response.
func (req *request) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) || !req.writeBy.IsZero() && !time.Now().Before(req.writeBy) {
		req.cause, req.aborted = cmp.Or(req.cause, err), true
	} else {
		req.clientGone(cmp.Or(req.cause, err))
	}
}

// writeUntil sets the deadline for writing the response.
func (req *request) writeUntil(at time.Time) {
	req.writeBy = at
	_ = http.NewResponseController(req.ginContext.Writer).SetWriteDeadline(at)
}

// errTooManyStreams is why a stream of a request without a valid key is reset.
var errTooManyStreams = errors.New("too many responses to unauthenticated clients wait to be read")

// respondUnauthenticated responds to a request without a valid key, whose client may read slowly on purpose. The
// time for it is bounded, and over HTTP/2 the number of such responses. It returns when the response is written.
func (req *request) respondUnauthenticated(err error) {
	req.writeUntil(time.Now().Add(unauthenticatedWriteTime))
	if req.http.ProtoMajor == 2 {
		streams := &req.gateway.unauthenticatedStreams
		defer streams.Add(-1)
		if streams.Add(1) > maxUnauthenticatedStreams {
			req.status, req.problem, req.cause, req.aborted = v1.RateLimited.Status, v1.RateLimited.Code, errTooManyStreams, true
			return
		}
	}
	req.write(err)
	under, ok := req.ginContext.Writer.(interface{ Unwrap() http.ResponseWriter })
	if !req.headSent || !ok {
		return
	}
	if err := http.NewResponseController(under.Unwrap()).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		req.writeFailed(err)
	}
}

// identify assigns the request its id, unless it has one, and adds the header fields of all responses. A valid id
// from a trusted proxy is kept, so that both logs name the same request; any other client's is ignored.
func (req *request) identify() {
	if req.id.n == 0 && req.fromProxy() {
		if ids := req.http.Header[requestIDField]; len(ids) > 0 && filters.Valid(ids[0]) {
			req.id.set(ids[0])
		}
	}
	if req.id.n == 0 {
		req.id.draw()
	}
	req.fields.addText("X-Request-Id", req.id.bytes())
	req.fields.add("X-Content-Type-Options", req.gateway.headers.nosniff)
}

// end counts the request, sets the attributes of its span, logs it and returns it to the pool.
func (req *request) end() {
	g := req.gateway
	req.duration = time.Since(req.begin)
	switch {
	case req.status >= http.StatusInternalServerError:
		req.unlogged = false
	case !req.admitted && (req.problem != "" || req.status == statusClientClosedRequest): // clients without a key choose how many there are
		req.LogRefusal(cmp.Or(req.problem, "caller_left"))
	}
	req.endpoint.series.observe(req)
	g.setSpanAttributes(req)
	g.log(req)
	clear(req.fields)
	*req = request{fields: req.fields[:0]}
	g.requests.Put(req)
	g.metrics.inFlight.Dec()
}

// requestID is the id of one request, kept as bytes: most requests need it for
// their header and their line in the log only.
type requestID struct {
	text [filters.MaxBytes]byte
	n    int
}

// draw sets a random id: 128 bits as hexadecimal digits. It has to be unique, not secret, so it comes from
// math/rand, which takes no lock and no system call.
func (id *requestID) draw() {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	id.n = hex.Encode(id.text[:], raw[:])
}

// set sets an id, which must be a valid filter value.
func (id *requestID) set(s string) { id.n = copy(id.text[:], s) }

func (id *requestID) bytes() []byte { return id.text[:id.n] }

// String is a copy that may outlive the request.
func (id *requestID) String() string { return string(id.bytes()) }

// requestIDKey is the context key of the request id.
type requestIDKey struct{}

// withRequestID lets a fill that outlives its caller name the request that caused it.
func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

func requestIDOf(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// ClientIP implements auth.Caller.
func (req *request) ClientIP() netip.Addr { return req.clientAddress() }

// Deadline implements auth.Caller.
func (req *request) Deadline() time.Time { return req.begin.Add(req.gateway.opts.RequestTimeout) }

// LogRefusal implements auth.Caller. The decision also holds for the record of the request. Further calls change
// nothing.
func (req *request) LogRefusal(reason string) bool {
	if !req.logDecided {
		req.logDecided, req.unlogged = true, !req.gateway.refusals.allow(reason)
	}
	return !req.unlogged
}

// clientAddress is the caller's address behind the trusted proxies; zero if it cannot be parsed.
func (req *request) clientAddress() netip.Addr {
	if !req.client.IsValid() {
		req.client = req.gateway.proxies.client(req.http.Header[forwardedForField], req.peer().Addr())
	}
	return req.client
}

// fromProxy reports whether a trusted proxy sent the request.
func (req *request) fromProxy() bool {
	return len(req.gateway.proxies) > 0 && req.gateway.proxies.trust(req.peer().Addr())
}

// peer is the address at the other end of the connection; zero if it cannot be parsed.
func (req *request) peer() netip.AddrPort {
	ap, err := netip.ParseAddrPort(req.http.RemoteAddr)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()) // no network contains an address with a zone
}
