package cache

import (
	"context"
	"time"

	"inquiry-gateway/cache/redistier"
)

const (
	leaseRenew = redistier.LeaseLife / 3
	// A waiter is woken by a message. In case it is lost the waiter also looks
	// by itself, ever less often, and more often while no messages arrive.
	pollFirst         = 5 * time.Millisecond
	pollMost          = 100 * time.Millisecond
	pollWithoutPubSub = 20 * time.Millisecond
)

// contend makes one node of the fleet fill. It returns with the lease, or with
// the flight settled, or with neither: then Redis is in trouble or the lease is
// stuck, and this node fills on its own. It waits as long as another node fills:
// that one's answer comes before any that begins later.
func (l *Lists) contend(ctx context.Context, f *flight) {
	defer f.maxWait.Stop()
	pause := pollFirst
	mode := redistier.Acquire
	var holder string
	var since time.Time // that it holds the lease, as far as is known here
	for {
		woken, forget := l.redis.Await(f.names) // before the read, so that no message falls between
		r, settled, err := l.look(ctx, f, mode)
		f.leased = err == nil && mode == redistier.Acquire && r.Won
		if err != nil || settled || f.leased {
			forget()
			return
		}
		f.waited = true
		if mode == redistier.Check {
			switch {
			case r.Holder == "": // it is gone and has left nothing
				forget()
				if l.abandon(f, false) {
					return
				}
				mode = redistier.Acquire
				continue
			case r.Holder != holder:
				holder, since = r.Holder, time.Now()
			case time.Since(since) > l.policy.Load().fills.Timeout: // longer than any fill takes
				forget()
				return
			}
		}
		mode = redistier.Check
		ok := l.pause(ctx, f, woken, pause)
		forget()
		if !ok {
			if ctx.Err() != nil || l.abandon(f, true) {
				return
			}
			f.maxWait.Reset(l.maxWait())
		}
		pause = min(2*pause, l.pollMost())
	}
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
	alone := f.callers == 0 && (late || !f.background)
	if alone && l.flights[f.key] == f {
		delete(l.flights, f.key) // who asks from now on starts another
	}
	l.mu.Unlock()
	if alone {
		l.complete(f, func() { f.err = ErrFillOverdue })
	}
	return alone
}

func (l *Lists) pollMost() time.Duration {
	if l.redis.Connected() {
		return pollMost
	}
	return pollWithoutPubSub
}

// pause waits for a message or for d; false: the flight has waited too long.
func (l *Lists) pause(ctx context.Context, f *flight, woken <-chan struct{}, d time.Duration) bool {
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
	l.wg.Go(func() {
		defer l.opts.Panics.Catch(nil)
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
	if !f.leased {
		return
	}
	f.leased = false
	n := f.names
	// An error leaves the lease to its end.
	l.wg.Go(func() { defer l.opts.Panics.Catch(nil); _ = l.redis.Release(l.life, n) })
}
