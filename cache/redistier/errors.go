package redistier

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

var errSkipped = errors.New("redis is skipped: its breaker is open")

// isDenied tells whether Redis refused for want of a permission.
func isDenied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && (strings.HasPrefix(reply.Error(), "NOPERM") || strings.Contains(reply.Error(), "can't run this command"))
}

// isOutage tells a Redis that cannot serve from one that answered, be it with
// an error about this one command.
func isOutage(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return true
	}
	for _, code := range []string{"LOADING", "CLUSTERDOWN", "MASTERDOWN", "WRONGPASS", "NOAUTH", "ERR invalid password"} {
		if strings.HasPrefix(reply.Error(), code) {
			return true
		}
	}
	return false
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
	if isOutage(err) || errors.Is(err, ErrTooFewReplicas) {
		return true
	}
	for _, code := range []string{"READONLY", "MOVED", "ASK", "TRYAGAIN", "NOREPLICAS"} {
		if strings.HasPrefix(err.Error(), code) {
			return true
		}
	}
	return false
}
