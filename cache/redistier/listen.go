package redistier

import (
	"context"
	"sync"
	"sync/atomic"
)

// waits are the flights of this node that wait for the fills of other nodes.
type waits struct {
	connected atomic.Bool // messages arrive
	mu        sync.Mutex
	byKey     map[string]*wait
}

// wait is closed when another node has ended its fill of a key.
type wait struct {
	done    chan struct{}
	waiting int
}

// Await returns a channel that is closed when another node ends its fill of the
// list. stop must be called.
func (t *Tier) Await(n Names) (done <-chan struct{}, stop func()) {
	t.waits.mu.Lock()
	defer t.waits.mu.Unlock()
	w := t.waits.byKey[n.Entry]
	if w == nil {
		w = &wait{done: make(chan struct{})}
		t.waits.byKey[n.Entry] = w
	}
	w.waiting++
	return w.done, func() {
		t.waits.mu.Lock()
		defer t.waits.mu.Unlock()
		if w.waiting--; w.waiting == 0 && t.waits.byKey[n.Entry] == w {
			delete(t.waits.byKey, n.Entry)
		}
	}
}

// Waiting is how many flights of this node wait.
func (t *Tier) Waiting() (n int) {
	t.waits.mu.Lock()
	defer t.waits.mu.Unlock()
	for _, w := range t.waits.byKey {
		n += w.waiting
	}
	return n
}

// wake tells all who wait for a key. Who waits from now on waits for the next fill.
func (w *waits) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.byKey[key]; k != nil {
		close(k.done)
		delete(w.byKey, key)
	}
}

// Connected tells whether messages arrive.
func (t *Tier) Connected() bool { return t.waits.connected.Load() }

// Listen hears the messages of the other nodes until ctx ends: it wakes who waits
// for a fill, and calls purged for each purge.
func (t *Tier) Listen(ctx context.Context, purged func(Notice)) {
	t.rdb.Listen(ctx, func(channel, payload string) { t.hear(channel, payload, purged) }, t.waits.connected.Store, t.purgeChannel(), t.fillChannel())
}

// hear takes in one message.
func (t *Tier) hear(channel, payload string, purged func(Notice)) {
	defer t.panics.Catch(nil) // of this message: the listener goes on
	if channel == t.fillChannel() {
		t.waits.wake(payload)
	} else if n, ok := parseNotice(payload); ok {
		purged(n)
	} else {
		t.log.Warn("a purge message was not understood")
	}
}
