package cache

import (
	"context"
	"time"

	"inquiry-gateway/cache/redistier"
)

const (
	leaseRenew = redistier.LeaseLife / 3
	// A waiter is woken by a message. In case it is lost the waiter also polls,
	// ever less often, and more often while no messages arrive.
	pollFirst         = 5 * time.Millisecond
	pollMost          = 100 * time.Millisecond
	pollWithoutPubSub = 20 * time.Millisecond
)

// contest is what a flight knows of the lease that it wants.
type contest struct {
	mode   redistier.Mode
	pause  time.Duration
	holder string
	since  time.Time // that it holds the lease, as far as is known here
}

// contend makes one node of the fleet fill. It returns with the lease, or with
// the flight settled, or with neither: then Redis is in trouble or the lease is
// stuck, and this node fills on its own. It waits as long as another node fills:
// that one's answer comes before any that begins later.
func (l *Lists) contend(ctx context.Context, f *flight) (settled bool) {
	defer f.maxWait.Stop()
	c := contest{mode: redistier.Acquire, pause: pollFirst}
	for again := true; again; {
		again, settled = l.contendOnce(ctx, f, &c)
	}
	return settled
}

// contendOnce asks for the lease or looks who has it, and waits a while if that is
// another node.
func (l *Lists) contendOnce(ctx context.Context, f *flight, c *contest) (again, settled bool) {
	woken, stop := l.redis.Await(f.names) // before the read, so that no message falls between
	defer stop()
	r, settled, err := l.read(ctx, f, c.mode)
	f.leased = err == nil && r.Won
	if err != nil || settled || f.leased {
		return false, settled
	}
	f.waited = true
	switch {
	case c.mode == redistier.Acquire:
		c.mode = redistier.Check
	case r.Holder == "": // the lease is gone and has left nothing
		c.mode = redistier.Acquire
		settled = l.abandon(f, false)
		return !settled, settled
	case r.Holder != c.holder:
		c.holder, c.since = r.Holder, time.Now()
	case time.Since(c.since) > l.policy.Load().fills.Timeout: // longer than any fill takes
		return false, false
	}
	if !pause(ctx, f, woken, c.pause) {
		if ctx.Err() != nil {
			return false, false
		}
		if l.abandon(f, true) {
			return false, true
		}
		f.maxWait.Reset(l.maxWait())
	}
	most := pollMost
	if !l.redis.Connected() {
		most = pollWithoutPubSub
	}
	c.pause = min(2*c.pause, most)
	return true, false
}

// maxWait is how long a flight waits for other nodes after its last caller came.
// By then all callers have left; it is a little longer than a stuck lease needs
// to be found out.
func (l *Lists) maxWait() time.Duration { return l.policy.Load().fills.Timeout + redistier.LeaseLife }

// abandon ends a flight that nobody waits for any more, so that it does not ask
// the legacy for nobody. A refresh has no callers, and is abandoned only if it
// has waited too long.
func (l *Lists) abandon(f *flight, late bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f.callers == 0 && (late || !f.background) && l.settle(f, Result{}, ErrFillOverdue)
}

// pause waits for a message or for d; false: the flight has waited too long.
func pause(ctx context.Context, f *flight, woken <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-woken:
	case <-t.C:
	case <-f.maxWait.C:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// keepLease renews the flight's lease until stop is called or the fill's time is
// up, so that a slow fill stays the only one, a dead node is found out quickly,
// and a fill that hangs is not waited for.
func (l *Lists) keepLease(ctx context.Context, f *flight) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	n := f.names
	l.background(func() {
		tick := time.NewTicker(leaseRenew)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if held, err := l.redis.Renew(ctx, n); err == nil && !held {
				return
			}
		}
	})
	return cancel
}

// release gives the lease back after a fill that stored nothing.
func (l *Lists) release(f *flight) {
	if f.leased {
		f.leased = false
		l.background(func() { _ = l.redis.Release(l.life, f.names) }) // an error leaves the lease to its end
	}
}
