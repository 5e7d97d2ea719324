package redistier

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

var errSkipped = errors.New("redis is skipped: its breaker is open")

// isDenied tells whether Redis refused for want of a permission.
func isDenied(err error) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && (strings.HasPrefix(reply.Error(), "NOPERM") || strings.Contains(reply.Error(), "can't run this command"))
}

// isOutage tells a Redis that cannot serve from one that answered, be it with
// an error about this one command.
func isOutage(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	reply, ok := errors.AsType[redis.Error](err)
	return !ok || begins(reply, "LOADING", "CLUSTERDOWN", "MASTERDOWN", "WRONGPASS", "NOAUTH", "ERR invalid password")
}

// begins tells whether an error of Redis has one of these codes.
func begins(err error, codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool { return strings.HasPrefix(err.Error(), code) })
}

// Results of a call, as labels of metrics and spans.
const (
	resultOK      = "ok"
	resultSkipped = "skipped" // the breaker kept it away
)

// ResultOf is the word for how a call ended: ok, skipped, canceled, timeout or
// error.
func ResultOf(err error) string {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil):
		return resultOK
	case errors.Is(err, errSkipped):
		return resultSkipped
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "error"
}

// isPassing tells whether a write may work soon: Redis is away, or another
// server is about to take it.
func isPassing(err error) bool {
	return isOutage(err) || begins(err, "READONLY", "MOVED", "ASK", "TRYAGAIN", "NOREPLICAS")
}
