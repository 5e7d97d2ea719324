package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
)

// exchange is one request on its way through the gateway: what every handler
// may need to know of it, and the notes that become its one log record.
type exchange struct {
	id      requestID
	gateway *Gateway
	request *http.Request
	conn    *joinedConn // nil: it cannot hold back
	begin   time.Time

	// Filled on the way, written once at the end.
	principal auth.Principal
	authTime  time.Duration
	rate      rate.Decision // zero: no limit applies
	list      cache.Result  // zero: no list was looked up
	cause     error         // of an error answer; never shown to the caller
	problem   string        // public error code; empty for a success
	unlogged  bool          // a summary of refusals counts it instead of a record
	status    int
	bytes     int
	duration  time.Duration

	fields // of the answer's header
}

// keepConnection notes that somebody has authenticated on the connection, and
// when: from then on it may be idle for longer.
func (x *exchange) keepConnection() {
	c := x.conn
	if c == nil {
		c = joinedFrom(x.request.Context())
	}
	if c != nil {
		c.asked.Store(x.begin.UnixNano())
	}
}

// statusClientClosedRequest is logged and counted where the caller left before
// the answer; it is never sent. The number is nginx's.
const statusClientClosedRequest = 499

// requestID is the id of one request, kept as bytes: most requests need it for
// their header and their record only.
type requestID struct {
	text [maxFilterBytes]byte
	n    int
}

// draw makes up an id: 128 random bits as hex. It needs to be unique, not
// secret, so it comes from the runtime's own generator, which takes no lock and
// no system call.
func (id *requestID) draw() {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	id.n = hex.Encode(id.text[:], raw[:])
}

// set takes an id over; it must be valid.
func (id *requestID) set(s string) { id.n = copy(id.text[:], s) }

func (id *requestID) bytes() []byte { return id.text[:id.n] }

// String is for what may outlive the request.
func (id *requestID) String() string { return string(id.bytes()) }

// validRequestID says whether an id from a trusted proxy can be taken over: it
// goes into logs and headers, so it is bounded and of a harmless alphabet.
func validRequestID(s string) bool { return validFilterValue(s) }

type contextKey struct{}

// withRequestID lets a fill that outlives its caller still name the request
// that caused it.
func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

func requestIDOf(ctx context.Context) string {
	id, _ := ctx.Value(contextKey{}).(string)
	return id
}
