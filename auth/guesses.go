package auth

import (
	"context"
	"encoding/binary"
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
// client. A remote store reserves a token before it is asked about a key that it has never
// confirmed, and a good key gets it back. So guessing is bounded, however many guesses come at
// once, and good keys cost nothing. A look-up that fails costs a token, too: a client may send
// what makes it fail. One Guesses serves an Authenticator and its store. It is safe for
// concurrent use; nil is no limit.
type Guesses struct {
	perSecond, burst float64
	now              func() time.Time
	seed             maphash.Seed

	mu    sync.Mutex
	slots [guessSlots]guessSlot
}

// guessSlot is the bucket of a client, and the mark of a refused key that falls into this slot.
type guessSlot struct {
	guessed, failed float64       // tokens that were taken by the two sorts of answers, and not yet refilled
	at              time.Time     // of the last refill
	asking          int           // tokens reserved
	turn            chan struct{} // capacity 1: who receives may try to reserve again; nil: nobody has waited yet
	refused         uint64        // a part of the key's digest
}

func (s *guessSlot) taken() float64 { return s.guessed + s.failed }

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

// reserve takes a token for a look-up, which settle is told the end of. A client that has not
// taken much waits where others of its look-ups hold the last tokens: many callers with good keys
// may come at once to a node that knows none of them. The error is that of ctx, errFailing, or a
// *TooManyAttempts.
//
// A key that was refused here before may go on to twice the burst: one who guesses sends new
// keys, one who has a key sends it again.
func (g *Guesses) reserve(ctx context.Context, client string, d Digest) error {
	if g == nil || client == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	mark := binary.LittleEndian.Uint64(d[:])
	refused := &g.slots[mark%guessSlots].refused
	defer func() { g.next(g.slot(client)) }()
	for {
		s, most := g.slot(client), g.burst
		again := *refused == mark
		if again {
			most *= 2
		}
		switch {
		case s.taken()+float64(s.asking)+1 <= most:
			s.asking++
			if again {
				*refused = 0
			}
			return nil
		case s.taken() < g.burst/2: // what is missing is reserved, and may be given back
		case s.guessed+1 <= g.burst:
			*refused = mark
			return errFailing
		default:
			*refused = mark
			return &TooManyAttempts{RetryAfter: g.wait(s)}
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

// settle ends a reservation. A good key gives the token back, and one of a failure of before, which
// may have been the store's; a look-up that was not made gives it back.
func (g *Guesses) settle(client string, err error) {
	if g == nil || client == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slot(client)
	s.asking--
	switch {
	case err == nil:
		s.failed = max(0, s.failed-1)
	case errors.Is(err, ErrUnknownKey):
		s.guessed++
	case !errors.Is(err, errBusy) && !errors.Is(err, errClosed):
		s.failed = max(s.failed, min(s.failed+1, g.burst-s.guessed)) // none is refused for longer than that
	}
	g.next(s)
}

// next lets one of those who wait try again, if it would not wait any more. g.mu is held.
func (g *Guesses) next(s *guessSlot) {
	if s.taken()+float64(s.asking)+1 <= g.burst || s.taken() >= g.burst/2 {
		select {
		case s.turn <- struct{}{}:
		default: // somebody has been told, or nobody has waited
		}
	}
}

// take takes a token for a key that is known not to exist without anybody being asked.
func (g *Guesses) take(client string) (wait time.Duration, ok bool) {
	if g == nil || client == "" {
		return 0, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.slot(client)
	if s.taken()+float64(s.asking)+1 > g.burst {
		return g.wait(s), false
	}
	s.guessed++
	return 0, true
}

// wait is how long it takes until the slot has room for one more. g.mu is held.
func (g *Guesses) wait(s *guessSlot) time.Duration {
	return time.Duration(math.Ceil((s.taken() + float64(s.asking) + 1 - g.burst) / g.perSecond * float64(time.Second)))
}

// slot returns the client's slot, refilled. g.mu is held.
func (g *Guesses) slot(client string) *guessSlot {
	s := &g.slots[maphash.String(g.seed, network(client))%guessSlots]
	now := g.now()
	if elapsed := now.Sub(s.at); elapsed > 0 {
		refill := elapsed.Seconds() * g.perSecond
		s.guessed -= min(s.guessed, max(0, refill-s.failed))
		s.failed -= min(s.failed, refill)
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
