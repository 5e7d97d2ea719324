package gateway

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
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

// log writes the exchange's one record. Who asked is said by account and key
// id; never the key, a filter's records or an id of the legacy system.
func (g *Gateway) log(x *exchange, endpoint string) {
	level := slog.LevelInfo
	if x.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !g.logger.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 18)
	attrs = append(attrs,
		slog.String("request_id", x.id),
		slog.String("method", methodLabel(x.request.Method)),
		slog.String("endpoint", endpoint),
		slog.Int("status", x.status),
		seconds("duration_seconds", time.Since(x.begin)),
		slog.Int("bytes", x.bytes),
		slog.String("client_address", g.clientAddress(x.request)),
	)
	if x.principal.Account != "" {
		attrs = append(attrs, slog.String("account", x.principal.Account), slog.String("key_id", x.principal.KeyID), seconds("auth_seconds", x.authTime))
	}
	if x.list.Outcome != "" {
		attrs = append(attrs, slog.String("cache", string(x.list.Outcome)), slog.String("tier", x.list.Tier),
			seconds("age_seconds", x.list.Age), seconds("list_seconds", x.list.Wait))
	}
	if x.problem != "" {
		attrs = append(attrs, slog.String("error_code", x.problem))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.String("cause", x.cause.Error()))
	}
	g.logger.LogAttrs(context.Background(), level, "request", attrs...)
}

func seconds(key string, d time.Duration) slog.Attr { return slog.Float64(key, d.Seconds()) }

// methodLabel bounds what a caller can put into logs.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}
