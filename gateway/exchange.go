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
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
	v1 "inquiry-gateway/gateway/v1"
)

// exchange is one request on its way through the gateway: what the handlers need
// to know of it, its answer, and what becomes its one log record.
type exchange struct {
	id      requestID
	gateway *Gateway
	ctx     context.Context
	request request
	conn    *front.Conn        // nil: none of a front.Listener's
	writer  gin.ResponseWriter // of the answer; nil: the front answers
	series  *endpointSeries    // that count it
	begin   time.Time

	// Filled on the way, written once at the end.
	fields
	status    int
	begun     bool // an answer is being written, and no other one can be
	principal auth.Principal
	admitted  bool // within its account's rate
	authTime  time.Duration
	rate      rate.Decision // zero: no limit applies
	limits    [128]byte     // what the answer says of it; longer ones are allocated
	list      cache.Result  // zero: no list was looked up
	page      http.Handler  // writes a document; nil: another answer
	cause     error         // of an error answer; never shown to the caller
	problem   string        // public error code; empty for a success
	refused   bool          // LogRefusal has decided on its record
	unlogged  bool          // a summary of refusals counts it instead of a record
	sent      int           // bytes of the body
	duration  time.Duration
}

// request is what the gateway reads of a request, whoever has parsed it. A field
// that was not sent is nil; else it has one value for each of its lines.
type request struct {
	Method string
	Query  string     // as it was sent
	Peer   netip.Addr // the other end of the connection
	Coded  bool       // it has Transfer-Encoding, or may have: others may see its end elsewhere

	Authorization, AcceptEncoding, IfNoneMatch []string
	RequestID, ForwardedFor                    []string // only trusted proxies may send them
}

// requestOf reads what net/http has parsed.
func requestOf(r *http.Request, c *front.Conn) request {
	h := r.Header
	return request{
		Method: r.Method, Query: r.URL.RawQuery, Peer: c.Peer(r),
		// Over HTTP/1.0 net/http passes Transfer-Encoding over, does not tell, and takes the
		// body for the next request.
		Coded:         len(r.TransferEncoding) > 0 || r.ProtoMajor == 1 && r.ProtoMinor == 0,
		Authorization: h["Authorization"], AcceptEncoding: h["Accept-Encoding"], IfNoneMatch: h["If-None-Match"],
		RequestID: h["X-Request-Id"], ForwardedFor: h["X-Forwarded-For"],
	}
}

// statusClientClosedRequest is logged and counted if the caller left before the
// answer. It is never sent. The number is nginx's.
const statusClientClosedRequest = 499

// bodyTime is how long the rest of a request with a body may take to come. No handler reads one.
const bodyTime = time.Second

// strangerTime is how long an answer to somebody without a good key may take to be written.
const strangerTime = 2 * time.Second

// maxStrangerStreams is how many answers to requests without a good key may be under way over
// HTTP/2. Each takes about 20 KiB while nobody reads it, and a connection may have many.
const maxStrangerStreams = 4096

// start gives an exchange that begins now.
func (g *Gateway) start(ctx context.Context, now time.Time) *exchange {
	x := g.exchanges.Get().(*exchange)
	x.gateway, x.ctx, x.begin, x.conn = g, ctx, now, front.FromContext(ctx)
	return x
}

// run answers the exchange by f, and ends it however f ends: it is counted once, leaves its
// one record, and must not be used any more. Where f panics the caller gets a 500, or a
// connection that is cut because an answer has begun. mine is false where f leaves the
// request to somebody else, and nothing is counted. cut: the connection must be closed.
func (x *exchange) run(f func() (mine bool)) (mine, cut bool) {
	g := x.gateway
	g.metrics.inFlight.Inc()
	defer g.metrics.inFlight.Dec()
	mine, thrown := x.try(f)
	if !mine && thrown == nil {
		g.release(x)
		return false, false
	}
	if thrown != nil && thrown != http.ErrAbortHandler && !x.begun { //nolint:errorlint // see try
		clear(x.fields)
		x.fields = x.fields[:0]
		x.identify()
		if _, again := x.try(func() bool { x.writeError(thrown); return true }); again == nil {
			thrown = nil
		}
	}
	switch thrown { //nolint:errorlint // see try
	case nil:
	case http.ErrAbortHandler:
		x.leave(thrown)
	default:
		x.status, x.problem, x.cause = v1.InternalError.Status, v1.InternalError.Code, thrown
	}
	cut = thrown != nil || x.status == statusClientClosedRequest
	g.end(x)
	return true, cut
}

// try calls f and gives what it has thrown; nil: nothing. http.ErrAbortHandler, with which a
// handler asks net/http to cut the connection, is given as it is; all else is a bug.
func (x *exchange) try(f func() bool) (mine bool, thrown error) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case http.ErrAbortHandler:
			thrown = http.ErrAbortHandler
		default:
			x.gateway.metrics.panics.Inc()
			x.identify() // the front may not have done so yet
			x.gateway.opts.Logger.Error("panic in a handler", "request_id", x.id.String(), "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			thrown = fmt.Errorf("panic: %v", value)
		}
	}()
	return f(), nil
}

// leave notes that the caller gets no answer.
func (x *exchange) leave(cause error) {
	x.status, x.problem, x.cause = statusClientClosedRequest, "", cause
}

// toStranger bounds the answer to a request without a good key, which may be read slowly on
// purpose. What it returns comes after the answer, and waits until it is written.
func (x *exchange) toStranger(http2 bool) (written func()) {
	_ = http.NewResponseController(x.writer).SetWriteDeadline(time.Now().Add(strangerTime))
	streams := &x.gateway.strangerStreams
	if http2 && streams.Add(1) > maxStrangerStreams {
		streams.Add(-1)
		panic(http.ErrAbortHandler)
	}
	return func() {
		if http2 {
			defer streams.Add(-1)
		}
		under, ok := x.writer.(interface{ Unwrap() http.ResponseWriter })
		if !x.begun || !ok {
			return
		}
		if err := http.NewResponseController(under.Unwrap()).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			x.leave(cmp.Or(x.cause, err))
		}
	}
}

// identify assigns the request its id, unless it has one, and adds the fields that all
// answers have. The id that a trusted proxy gave the request is taken over, so that its
// logs and these name the same request. An id goes into logs and headers, so it is bounded
// and of a harmless alphabet. One that a stranger sends is ignored.
func (x *exchange) identify() {
	if ids := x.request.RequestID; x.id.n > 0 {
	} else if len(ids) > 0 && x.gateway.proxies.trust(x.request.Peer) && validFilterValue(ids[0]) {
		x.id.set(ids[0])
	} else {
		x.id.draw()
	}
	x.addText("X-Request-Id", x.id.bytes())
	x.add("X-Content-Type-Options", x.gateway.headers.nosniff)
}

// end counts the exchange, describes it in its span, and writes its record.
func (g *Gateway) end(x *exchange) {
	x.duration = time.Since(x.begin)
	if !x.admitted { // whoever sends such requests chooses how many there are
		x.LogRefusal(cmp.Or(x.problem, x.series.endpoint))
	}
	x.series.observe(x)
	g.describe(x)
	g.log(x)
	g.release(x)
}

// release puts the exchange back. It must not be used any more.
func (g *Gateway) release(x *exchange) {
	clear(x.fields)
	*x = exchange{fields: x.fields[:0]}
	g.exchanges.Put(x)
}

// requestID is the id of one request, kept as bytes: most requests need it for
// their header and their record only.
type requestID struct {
	text [maxFilterBytes]byte
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
func (x *exchange) ClientIP() string { return x.clientAddress().String() }

// Deadline implements auth.Caller.
func (x *exchange) Deadline() time.Time { return x.begin.Add(x.gateway.opts.RequestTimeout) }

// LogRefusal implements auth.Caller. What it decides is for the record of the
// request too. A second reason changes nothing.
func (x *exchange) LogRefusal(reason string) bool {
	if !x.refused {
		who := refusal{account: x.principal.Account, reason: reason}
		if who.account == "" {
			who.client = auth.Network(x.clientAddress())
		}
		x.refused, x.unlogged = true, !x.gateway.refusals.logged(who)
	}
	return !x.unlogged
}

func (x *exchange) clientAddress() netip.Addr {
	return x.gateway.proxies.client(x.request.ForwardedFor, x.request.Peer)
}

// proxies are the networks whose X-Forwarded-For, X-Request-Id and traceparent are
// taken over.
type proxies []netip.Prefix

// trust takes 4-in-6 addresses for what they are.
func (p proxies) trust(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// client is the nearest address on the way to the peer, addr, that is not a trusted
// proxy. What a stranger wrote into X-Forwarded-For stands left of it and is not
// read.
func (p proxies) client(forwardedFor []string, addr netip.Addr) netip.Addr {
	if len(p) == 0 || !p.trust(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(forwardedFor, ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trust(addr); i-- {
		hop, ok := parseHop(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		addr = hop
	}
	return addr
}

// parseHop reads one address of X-Forwarded-For. Some proxies write its port too, and
// IPv6 in brackets. A zone is cut off: it can be any text, and means nothing here.
func parseHop(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if inner, found := strings.CutPrefix(s, "["); found {
		s = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap().WithZone(""), err == nil
}
