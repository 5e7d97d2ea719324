package auth

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"net/netip"
	"sync"
	"time"

	"inquiry-gateway/auth/rate"
)

// guessSlots bounds the memory of Guesses. Clients that fall into one slot share its
// allowance; which ones do cannot be known from outside.
const guessSlots = 8192

// Guesses limits how often one client may send keys that do not exist: a token bucket per
// client. A remote store looks before it is asked about a key that it has never confirmed, and
// the client is charged after the answer "unknown". So guessing is bounded and good keys cost
// nothing. One Guesses serves an Authenticator and its store. It is safe for concurrent use;
// nil is no limit.
type Guesses struct {
	perSecond, burst float64
	now              func() time.Time
	seed             maphash.Seed

	mu    sync.Mutex
	slots [guessSlots]guessSlot
}

// guessSlot is the bucket of a client, and the mark of a refused key that falls into this slot.
type guessSlot struct {
	taken   float64 // and not yet refilled
	at      time.Time
	refused uint64 // a part of the key's digest
}

// NewGuesses returns nil where the configuration sets no limit. now is the clock; nil: the wall clock.
func NewGuesses(c rate.Plan, now func() time.Time) *Guesses {
	if c.PerSecond <= 0 {
		return nil
	}
	if now == nil {
		now = time.Now
	}
	return &Guesses{perSecond: c.PerSecond, burst: float64(c.Most()), now: now, seed: maphash.MakeSeed()}
}

// look says whether the client may have a store asked about a key, or how long to wait. A key
// that was refused here before may go on to twice the burst: one who guesses sends new keys,
// one who has a key sends it again.
func (g *Guesses) look(client string, d Digest) (wait time.Duration, ok bool) {
	if g == nil || client == "" {
		return 0, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slot(client)
	if s.taken+1 <= g.burst {
		return 0, true
	}
	mark := binary.LittleEndian.Uint64(d[:])
	refused := &g.slots[mark%guessSlots].refused
	if *refused == mark && s.taken+1 <= 2*g.burst {
		*refused = 0
		return 0, true
	}
	*refused = mark
	return g.wait(s), false
}

// charge counts a key that a store was asked about and does not have.
func (g *Guesses) charge(client string) {
	if g == nil || client == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slot(client).taken++
}

// take looks and charges, for a key that is known not to exist without anybody being asked.
func (g *Guesses) take(client string) (wait time.Duration, ok bool) {
	if g == nil || client == "" {
		return 0, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slot(client)
	if s.taken+1 > g.burst {
		return g.wait(s), false
	}
	s.taken++
	return 0, true
}

// wait is how long it takes until the slot has room for one more. g.mu is held.
func (g *Guesses) wait(s *guessSlot) time.Duration {
	return time.Duration(math.Ceil((s.taken + 1 - g.burst) / g.perSecond * float64(time.Second)))
}

// slot returns the client's slot, refilled. g.mu is held.
func (g *Guesses) slot(client string) *guessSlot {
	s := &g.slots[maphash.String(g.seed, network(client))%guessSlots]
	now := g.now()
	if elapsed := now.Sub(s.at); elapsed > 0 {
		s.taken = max(0, s.taken-elapsed.Seconds()*g.perSecond)
		s.at = now
	}
	return s
}

// Network is who counts as one client: an IPv4 address, or the /64 that a single IPv6 host may
// choose its addresses from. That of no address is the zero Prefix.
func Network(a netip.Addr) netip.Prefix {
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.WithZone("").Prefix(bits)
	return p
}

// network is Network for a client's address as a text; others stay as they are.
func network(client string) string {
	addr, err := netip.ParseAddr(client)
	if err != nil || addr.Unmap().Is4() {
		return client
	}
	return Network(addr).String()
}
