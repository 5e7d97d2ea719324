package auth

import (
	"net/netip"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"inquiry-gateway/internal/localcache"
)

// A client may send so many invalid keys at once, and so many per second in the long run.
const (
	InvalidKeyBurst      = 50
	InvalidKeysPerSecond = 5
)

// maxClients bounds the clients whose invalid keys are counted. Those seen least are evicted.
const maxClients = 50_000

// InvalidKeyLimiter limits how many keys that do not exist one client may send: a token bucket for each
// IPv4 address or IPv6 /64. It is safe for concurrent use; nil is no limit. Keys are counted after their look-up, so that
// those in flight together may exceed the burst. They are a debt, which is paid back.
type InvalidKeyLimiter struct {
	now     func() time.Time
	clients localcache.Cache[netip.Prefix, *rate.Limiter]
}

// NewInvalidKeyLimiter returns a limiter. now is the clock; nil: the wall clock.
func NewInvalidKeyLimiter(now func() time.Time) *InvalidKeyLimiter {
	if now == nil {
		now = time.Now
	}
	return &InvalidKeyLimiter{now, otter.Must(&otter.Options[netip.Prefix, *rate.Limiter]{MaximumSize: maxClients})}
}

// Wait is how long a client has to wait before it may send a key that this node does not know; 0: it may.
func (l *InvalidKeyLimiter) Wait(client netip.Addr) time.Duration {
	if l == nil {
		return 0
	}
	bucket, ok := l.clients.GetIfPresent(Network(client))
	if !ok {
		return 0
	}
	return max(0, time.Duration((1-bucket.TokensAt(l.now()))/InvalidKeysPerSecond*float64(time.Second)))
}

// Count records that a client has sent a key that does not exist.
func (l *InvalidKeyLimiter) Count(client netip.Addr) {
	if l == nil {
		return
	}
	network := Network(client)
	bucket, ok := l.clients.GetIfPresent(network)
	if !ok {
		bucket, _ = l.clients.SetIfAbsent(network, rate.NewLimiter(InvalidKeysPerSecond, InvalidKeyBurst))
	}
	bucket.ReserveN(l.now(), 1) // below zero, too: what was in flight together is paid back
}

// Network is what counts as one client: an IPv4 address, or the /64 that a single IPv6 host may
// choose its addresses from. That of no address is the zero Prefix.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits)
	return p
}
