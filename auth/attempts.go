package auth

import (
	"hash/maphash"
	"math"
	"net/netip"
	"sync"
	"time"
)

// attemptSlots bounds the memory of attempts. Clients that fall into one slot
// share its allowance; which ones do cannot be known from outside.
const attemptSlots = 8192

// attempts limits how often one client may make a store look for keys that do
// not exist. A token bucket per client is taken from before the store is asked
// and given back when there was a key after all, so it bounds guessing and
// costs a caller with good keys nothing.
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

// take takes one attempt, or says how long to wait for the next one.
func (a *attempts) take(client string) (wait time.Duration, ok bool) {
	if client == "" || a.perSecond <= 0 {
		return 0, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.slot(client)
	if s.taken+1 > a.burst {
		seconds := (s.taken + 1 - a.burst) / a.perSecond
		return time.Duration(math.Ceil(seconds * float64(time.Second))), false
	}
	s.taken++
	return 0, true
}

// giveBack returns an attempt that was not in vain.
func (a *attempts) giveBack(client string) {
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

// network is who counts as one client: an IPv4 address, or the /64 that a
// single IPv6 host may choose its addresses from.
func network(client string) string {
	addr, err := netip.ParseAddr(client)
	if err != nil || addr.Unmap().Is4() {
		return client
	}
	prefix, err := addr.WithZone("").Prefix(64)
	if err != nil {
		return client
	}
	return prefix.String()
}
