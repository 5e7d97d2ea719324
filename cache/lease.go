package cache

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// leaseLife is how soon the fleet gets over a node that died with a lease.
	leaseLife  = time.Second
	leaseRenew = leaseLife / 3
	// A waiter is woken by a message. In case it is lost the waiter also looks
	// by itself, ever less often, and more often while no messages arrive.
	pollFirst         = 5 * time.Millisecond
	pollMost          = 100 * time.Millisecond
	pollWithoutPubSub = 20 * time.Millisecond
)

var (
	// releaseScript ends a lease if it is still ours, and wakes who waits.
	releaseScript = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 0`)
	renewScript = redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
)

// contend makes one node of the fleet fill. It returns with the lease, or with
// the flight settled, or with neither: then Redis is in trouble or the lease is
// stuck, and this node fills on its own. It waits as long as another node fills:
// that one's answer comes before any that begins later.
func (l *Lists) contend(ctx context.Context, f *flight) {
	defer f.maxWait.Stop()
	pause := pollFirst
	mode := readAndAcquire
	var holder string
	var since time.Time // that it holds the lease, as far as is known here
	for {
		w := l.watcher.await(f.names.entry) // before the read, so that no message falls between
		r, settled, err := l.look(ctx, f, mode)
		f.leased = err == nil && mode == readAndAcquire && r.lease
		if err != nil || settled || f.leased {
			l.watcher.forget(f.names.entry, w)
			return
		}
		f.waited = true
		if mode == readAndCheck {
			switch {
			case r.holder == "": // it is gone and has left nothing
				l.watcher.forget(f.names.entry, w)
				if l.abandon(f, false) {
					return
				}
				mode = readAndAcquire
				continue
			case r.holder != holder:
				holder, since = r.holder, time.Now()
			case time.Since(since) > l.policy.Load().fills.Timeout: // longer than any fill takes
				l.watcher.forget(f.names.entry, w)
				return
			}
		}
		mode = readAndCheck
		ok := l.pause(ctx, f, w, pause)
		l.watcher.forget(f.names.entry, w)
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
func (l *Lists) maxWait() time.Duration { return l.policy.Load().fills.Timeout + leaseLife }

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
	if l.watcher.connected.Load() {
		return pollMost
	}
	return pollWithoutPubSub
}

// pause waits for a message or for d; false: the flight has waited too long.
func (l *Lists) pause(ctx context.Context, f *flight, w *wake, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.done:
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
			if held, err := l.redis.renew(ctx, n); err == nil && !held {
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
	l.wg.Go(func() { defer l.opts.Panics.Catch(nil); _ = l.redis.release(l.life, n) })
}

func (s *store) renew(ctx context.Context, n names) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	held, err := renewScript.Run(ctx, s.rdb, []string{n.lease}, n.token, leaseLife.Milliseconds()).Int()
	return held == 1, err
}

func (s *store) release(ctx context.Context, n names) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return releaseScript.Run(ctx, s.rdb, []string{n.lease}, n.token, s.fillChannel(), n.entry).Err()
}
