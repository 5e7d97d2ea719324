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
	lookFirst = 5 * time.Millisecond
	lookMost  = 100 * time.Millisecond
	lookDeaf  = 20 * time.Millisecond
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
// the flight settled by what another node filled, or with neither: then Redis
// is in trouble or the wait was long enough, and this node fills on its own.
func (l *Lists) contend(ctx context.Context, f *flight) {
	patience := time.NewTimer(l.opts.FillTimeout / 2)
	defer patience.Stop()
	pause := lookFirst
	mode := readAndAcquire
	for {
		w := l.watcher.await(f.names.entry) // before the read, so that no message falls between
		r, settled, err := l.look(ctx, f, mode)
		f.leased = err == nil && mode == readAndAcquire && r.lease
		if err != nil || settled || f.leased {
			l.watcher.forget(f.names.entry, w)
			return
		}
		f.waited = true
		if mode == readAndCheck && !r.lease {
			mode = readAndAcquire // the holder is gone and has left nothing
			l.watcher.forget(f.names.entry, w)
			continue
		}
		mode = readAndCheck
		ok := l.pause(ctx, w, patience, pause)
		l.watcher.forget(f.names.entry, w)
		if !ok {
			return
		}
		pause = min(2*pause, l.lookMost())
	}
}

func (l *Lists) lookMost() time.Duration {
	if l.watcher.connected.Load() {
		return lookMost
	}
	return lookDeaf
}

// pause waits for a message or for d; false: the wait is over altogether.
func (l *Lists) pause(ctx context.Context, w *wake, patience *time.Timer, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
	case <-patience.C:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// keepLease renews the flight's lease until stop is called, so that a slow fill
// stays the only one and a dead node is found out quickly.
func (l *Lists) keepLease(ctx context.Context, f *flight) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	n := f.names
	l.wg.Go(func() {
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
	l.wg.Go(func() { _ = l.redis.release(l.life, n) })
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
