// Package fleet keeps the requests of all gateways in front of one legacy system below
// one ceiling.
package fleet

import (
	"cmp"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// keyVersion changes with the form of the key: nodes of two forms do not
	// understand each other.
	keyVersion = "2"
	// callTimeout bounds one call of a client that does not say its own.
	callTimeout = 100 * time.Millisecond
)

// store keeps who has which part of the ceiling in Redis. It is safe for concurrent
// use.
type store struct {
	rdb     redis.Cmdable
	prefix  string
	timeout time.Duration // of one call
}

// newStore keeps its keys below prefix; empty: iq. A client may say how long a call may
// take.
func newStore(rdb redis.Cmdable, prefix string) *store {
	s := &store{rdb: rdb, prefix: cmp.Or(prefix, "iq") + ":" + keyVersion + ":", timeout: callTimeout}
	if c, ok := rdb.(interface{ CallTimeout() time.Duration }); ok {
		s.timeout = c.CallTimeout()
	}
	return s
}

func (s *store) ceilingKey() string { return s.prefix + "ceiling" }
