package auth

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"net/netip"
	"sync"
	"time"
)

// attemptSlots bounds the memory of attempts. Clients that fall into one slot
// share its allowance; which ones do cannot be known from outside.
const attemptSlots = 8192

// attempts limits how often one client may send keys that do not exist: a token
// bucket per client. A remote store takes from it before it is asked, and gives
// back when there was a key after all. So it bounds guessing and costs a caller
// with good keys nothing.
type attempts struct {
	perSecond float64
	burst     float64
	now       func() time.Time
	seed      maphash.Seed

	mu    sync.Mutex
	slots [attemptSlots]attemptSlot
}

// attemptSlot is a bucket: what has been taken and not yet refilled.
type attemptSlot struct {
	taken float64
	at    time.Time
}

func newAttempts(perSecond float64, burst int, now func() time.Time) *attempts {
	return &attempts{perSecond: perSecond, burst: float64(burst), now: now, seed: maphash.MakeSeed()}
}

// take takes one attempt, or says how long to wait for the next one. For a key
// that has been refused before, again, it may go on to twice the burst: one who
// guesses sends new keys, one who has a key sends it again. In the long run it is
// still perSecond for both together.
func (a *attempts) take(client string, again bool) (wait time.Duration, ok bool) {
	if client == "" || a.perSecond <= 0 {
		return 0, true
	}
	most := a.burst
	if again {
		most *= 2
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.slot(client)
	if s.taken+1 > most {
		seconds := (s.taken + 1 - most) / a.perSecond
		return time.Duration(math.Ceil(seconds * float64(time.Second))), false
	}
	s.taken++
	return 0, true
}

// release gives back an attempt whose lookup did not fail.
func (a *attempts) release(client string) {
	if client == "" || a.perSecond <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.slot(client)
	s.taken = max(0, s.taken-1)
}

// slot returns the client's slot, refilled. a.mu is held.
func (a *attempts) slot(client string) *attemptSlot {
	s := &a.slots[maphash.String(a.seed, network(client))%attemptSlots]
	now := a.now()
	if elapsed := now.Sub(s.at); elapsed > 0 {
		s.taken = max(0, s.taken-elapsed.Seconds()*a.perSecond)
		s.at = now
	}
	return s
}

// refusedSlots bounds the memory of refused keys: of 2,000 others within a
// second one in ten makes a key be forgotten.
const refusedSlots = 16384

// refusedKeys holds keys that were refused without a lookup, by a part of their
// digests. A newer key overwrites one in the same slot.
type refusedKeys [refusedSlots]uint64

// seen reports whether a key was refused before, and forgets it.
func (r *refusedKeys) seen(d Digest) bool {
	slot, mark := r.slot(d)
	if *slot != mark {
		return false
	}
	*slot = 0
	return true
}

func (r *refusedKeys) add(d Digest) {
	slot, mark := r.slot(d)
	*slot = mark
}

func (r *refusedKeys) slot(d Digest) (slot *uint64, mark uint64) {
	mark = binary.LittleEndian.Uint64(d[:])
	return &r[mark%refusedSlots], mark
}

// Network is who counts as one client: an IPv4 address, or the /64 that a single
// IPv6 host may choose its addresses from. That of no address is the zero Prefix.
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
