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
	id      string
	request *http.Request
	begin   time.Time

	// Filled on the way, written once at the end.
	principal auth.Principal
	authTime  time.Duration
	rate      rate.Decision // zero: no limit applies
	list      cache.Result  // zero: no list was looked up
	cause     error         // of an error answer; never shown to the caller
	problem   string        // public error code; empty for a success
	status    int
	bytes     int
	duration  time.Duration
}

// statusClientClosedRequest is logged and counted where the caller left before
// the answer; it is never sent. The number is nginx's.
const statusClientClosedRequest = 499

// newRequestID gives 128 random bits as hex. It needs to be unique, not
// secret, so it comes from the runtime's own generator, which takes no lock
// and no system call.
func newRequestID() string {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(raw[8:], rand.Uint64())
	var text [32]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// validRequestID says whether an id from a trusted proxy can be taken over: it
// goes into logs and headers, so it is bounded and of a harmless alphabet.
func validRequestID(s string) bool { return validFilterValue(s) }

type requestIDKey struct{}

// withRequestID lets a fill that outlives its caller still name the request
// that caused it.
func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
