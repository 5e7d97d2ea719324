package cache

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pollEvery bounds how long a lost message can hide a purge. With the time that
// the breaker takes to let a poll through it stays under the promised second.
const pollEvery = 250 * time.Millisecond

// notice is one purge as it is told to the other nodes.
type notice struct {
	Before  uint64 // number of the fleet's purge before this one
	Seq     uint64 // number of this one
	Kind    string // or
	Account string // hashed
	Epoch   uint64
}

// String is the message; Redis puts the two numbers in front.
func (n notice) String() string {
	if n.Kind != "" {
		return "kind " + n.Kind + " " + strconv.FormatUint(n.Epoch, 10)
	}
	return "account " + n.Account + " " + strconv.FormatUint(n.Epoch, 10)
}

// parseNotice reads "<before> <seq> kind|account <name> <epoch>".
func parseNotice(s string) (notice, bool) {
	f := strings.Fields(s)
	if len(s) > 256 || len(f) != 5 {
		return notice{}, false
	}
	var n notice
	for i, to := range map[int]*uint64{0: &n.Before, 1: &n.Seq, 4: &n.Epoch} {
		var err error
		if *to, err = strconv.ParseUint(f[i], 10, 64); err != nil {
			return notice{}, false
		}
	}
	switch f[2] {
	case "kind":
		n.Kind = f[3]
	case "account":
		n.Account = f[3]
	default:
		return notice{}, false
	}
	return n, true
}

// watcher hears of purges and of the fills of other nodes.
type watcher struct {
	connected atomic.Bool // messages arrive
	mu        sync.Mutex
	known     bool
	last      uint64 // sequence number of the last purge heard of or polled
	lost      bool   // Redis has forgotten purges, and was not given them back yet
	wakes     map[string]*wake
}

// wake is closed when another node has ended its fill of a key.
type wake struct {
	done    chan struct{}
	waiting int
}

func newWatcher() *watcher { return &watcher{wakes: make(map[string]*wake)} }

// await registers interest in a key's fill; forget must be called.
func (w *watcher) await(key string) *wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.wakes[key]
	if k == nil {
		k = &wake{done: make(chan struct{})}
		w.wakes[key] = k
	}
	k.waiting++
	return k
}

func (w *watcher) forget(key string, k *wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.waiting--; k.waiting == 0 && w.wakes[key] == k {
		delete(w.wakes, key)
	}
}

func (w *watcher) filled(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.wakes[key]; k != nil {
		close(k.done)
		delete(w.wakes, key)
	}
}

// heard notes a message, and calls missed first if others were missed.
func (w *watcher) heard(n notice, missed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known && n.Before != w.last && n.Seq != w.last { // the latter: polled already
		missed()
		w.lost = w.lost || n.Before < w.last && n.Seq > w.last
	}
	w.last = max(w.last, n.Seq)
}

// polled notes the number of the last purge, and calls missed first if it is
// not the one heard of.
func (w *watcher) polled(seq uint64, missed func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.known || seq != w.last {
		missed()
	}
	w.lost = w.lost || seq < w.last
	w.known, w.last = true, seq
}

// takeLost tells whether Redis has forgotten purges, once.
func (w *watcher) takeLost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := w.lost
	w.lost = false
	return lost
}

// forgotten has the next poll give the purges back again.
func (w *watcher) forgotten() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = true
}

// watch runs until the cache is closed: one goroutine polls, one listens.
func (l *Lists) watch() {
	l.watchers.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			_ = l.poll(probing(l.life)) // an error is counted, and the next tick is the retry
			select {
			case <-l.life.Done():
				return
			case <-tick.C:
			}
		}
	})
	l.watchers.Go(func() {
		sub := l.redis.subscribe(l.life)
		defer func() { _ = sub.Close() }()
		messages := sub.ChannelWithSubscriptions()
		for {
			select {
			case <-l.life.Done():
				return
			case m, ok := <-messages:
				if !ok {
					return
				}
				l.hear(m)
			}
		}
	})
}

// hear takes one message.
func (l *Lists) hear(m any) {
	defer l.opts.Panics.Catch(nil) // of this message: the listener goes on
	switch m := m.(type) {
	case *redis.Subscription:
		l.watcher.connected.Store(m.Kind == "subscribe")
	case *redis.Message:
		if m.Channel == l.redis.fillChannel() {
			l.watcher.filled(m.Payload)
			return
		}
		n, ok := parseNotice(m.Payload)
		if !ok {
			l.opts.Logger.Warn("a purge message was not understood")
			return
		}
		l.apply(n)
	}
}

func (l *Lists) apply(n notice) {
	if i, ok := indexOf(n.Kind); ok {
		l.epochs.kinds[i].rise(n.Epoch)
	} else {
		c := l.epochs.of(n.Account)
		c.rise(n.Epoch)
		l.epochs.remember(n.Account, c, false)
	}
	l.watcher.heard(n, l.suspectAll)
}

// suspectAll makes the epochs of all accounts suspect: a purge may have been missed.
func (l *Lists) suspectAll() { l.epochs.suspectEpoch.Add(1) }

// poll reads the kinds' epochs and the number of the last purge. When it moved
// without a message, every account's epoch is suspect.
func (l *Lists) poll(ctx context.Context) (err error) {
	defer l.opts.Panics.Catch(func(p any) { err = fmt.Errorf("cache: panic: %v", p) })
	seq, kinds, err := l.redis.purges(ctx)
	if err != nil {
		return err
	}
	for i := range kinds {
		if l.epochs.kinds[i].learn(kinds[i], l.epochs.suspectEpoch.Load()) {
			l.restoreEpoch(ctx, l.redis.epochKey(Scope{Kind: kindNames[i]}), l.epochs.kinds[i].epoch.Load())
		}
	}
	l.watcher.polled(seq, l.suspectAll) // after the kinds: the number stands for all that it counts
	if l.watcher.takeLost() {
		return l.restoreOwn(ctx)
	}
	return nil
}

// restoreOwn gives a Redis that has lost its memory the purges of accounts that
// this node made, and tells the others, which may have missed them.
func (l *Lists) restoreOwn(ctx context.Context) error {
	for _, r := range l.epochs.own() {
		n := notice{Account: r.account, Epoch: r.cell.epoch.Load()}
		err := l.redis.restore(ctx, l.redis.accountKey(r.account)+"epoch", n.Epoch)
		if err == nil {
			err = l.announce(ctx, n)
		}
		if err != nil {
			l.watcher.forgotten()
			return err
		}
	}
	return nil
}

// announce tells the nodes of a purge. This node counts as told at once: its
// message, and the number in Redis, may be lost before it has read either.
func (l *Lists) announce(ctx context.Context, n notice) error {
	told, err := l.redis.announce(ctx, n)
	if err == nil {
		l.watcher.heard(told, l.suspectAll)
	}
	return err
}

// restoreEpoch gives a purge back to a Redis that has lost it.
func (l *Lists) restoreEpoch(ctx context.Context, key string, epoch uint64) {
	if err := l.redis.restore(ctx, key, epoch); err != nil {
		l.opts.Logger.Warn("a purge that Redis has lost could not be given back", "error", err)
		return
	}
	l.opts.Logger.Warn("Redis had lost a purge and has it back")
}
