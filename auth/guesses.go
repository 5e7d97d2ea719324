package auth

import (
	"context"
	"errors"
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
// client. A token is reserved before a key is looked up that the node does not know, and
// refunded where the key exists. So guessing is bounded, however many guesses come at once, and
// keys that exist cost nothing. A look-up that fails costs a token, too: a client may send what
// makes it fail. It is safe for concurrent use; nil is no limit.
type Guesses struct {
	perSecond, burst float64
	now              func() time.Time
	seed             maphash.Seed

	mu    sync.Mutex
	slots [guessSlots]guessSlot
}

// guessSlot is the bucket of a client.
type guessSlot struct {
	spent    float64       // tokens that are gone and not yet refilled
	failed   float64       // those of them that look-ups which failed have cost
	reserved int           // tokens of look-ups under way
	at       time.Time     // of the last refill
	turn     chan struct{} // capacity 1: who receives may try to reserve again; nil: nobody has waited yet
}

// NewGuesses returns nil where the configuration sets no limit. now is the clock; nil: the wall clock.
func NewGuesses(c rate.Plan, now func() time.Time) *Guesses {
	if c.PerSecond <= 0 {
		return nil
	}
	if now == nil {
		now = time.Now
	}
	return &Guesses{perSecond: c.PerSecond, burst: float64(c.EffectiveBurst()), now: now, seed: maphash.MakeSeed()}
}

// errFailing is for a client whose look-ups have used up what it may guess by failing.
var errFailing = errors.New("too many look-ups for this client have failed")

// Reserve takes a token for a look-up; call Refund when that has ended. Where look-ups under way hold
// the last tokens, a client that has spent less than half of its own waits for one: many callers with
// good keys may come at once to a node that knows none of them. The error is that of ctx, errFailing,
// or a *TooManyGuesses.
func (g *Guesses) Reserve(ctx context.Context, client string) error {
	if g == nil || client == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { g.slot(client).next(g.burst) }()
	for {
		s := g.slot(client)
		switch {
		case s.spent+float64(s.reserved)+1 <= g.burst:
			s.reserved++
			return nil
		case s.spent < g.burst/2: // what is missing is reserved, and may be refunded
		case s.failed >= 1:
			return errFailing
		default:
			return &TooManyGuesses{RetryAfter: time.Duration(math.Ceil((s.spent + float64(s.reserved) + 1 - g.burst) / g.perSecond * float64(time.Second)))}
		}
		if s.turn == nil {
			s.turn = make(chan struct{}, 1)
		}
		g.mu.Unlock()
		select {
		case <-s.turn:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Refund gives a token back, unless the look-up that it was reserved for found no key or failed.
// A look-up that was never sent costs nothing. For a key that exists Refund also gives back one token
// that a failed look-up has cost: that failure may have been the key store's.
func (g *Guesses) Refund(client string, err error) {
	if g == nil || client == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slot(client)
	s.reserved--
	switch {
	case err == nil:
		back := min(s.failed, 1)
		s.failed, s.spent = s.failed-back, s.spent-back
	case errors.Is(err, ErrUnknownKey):
		s.spent++
	case !errors.Is(err, ErrNotAsked):
		s.failed, s.spent = s.failed+1, s.spent+1
	}
	s.next(g.burst)
}

// next lets one of those who wait try again, if it would not wait any more.
func (s *guessSlot) next(burst float64) {
	if s.spent+float64(s.reserved)+1 <= burst || s.spent >= burst/2 {
		select {
		case s.turn <- struct{}{}:
		default: // somebody has been told, or nobody has waited
		}
	}
}

// slot returns the client's slot, refilled. g.mu is held.
func (g *Guesses) slot(client string) *guessSlot {
	s := &g.slots[maphash.String(g.seed, network(client))%guessSlots]
	now := g.now()
	if elapsed := now.Sub(s.at); elapsed > 0 {
		refill := elapsed.Seconds() * g.perSecond
		s.failed = max(0, s.failed-refill)
		s.spent = max(0, s.spent-refill)
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
