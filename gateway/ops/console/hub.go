package console

import "sync"

const (
	maxSubscribers = 16
	backlog        = 8 // events a subscriber may be behind before it is dropped
)

// hub hands events to subscribers without ever waiting for one.
type hub struct {
	mu          sync.Mutex
	closed      bool
	subscribers map[chan []byte]struct{}
}

// subscribe gives a channel of events. It is closed when the hub closes, or when
// the subscriber is too slow. False: there are too many, or the hub is closed.
func (h *hub) subscribe() (chan []byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.subscribers) >= maxSubscribers {
		return nil, false
	}
	if h.subscribers == nil {
		h.subscribers = map[chan []byte]struct{}{}
	}
	c := make(chan []byte, backlog)
	h.subscribers[c] = struct{}{}
	return c, true
}

// leave may be called at any time, also after the channel was closed.
func (h *hub) leave(c chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(c)
}

func (h *hub) drop(c chan []byte) {
	if _, ok := h.subscribers[c]; ok {
		delete(h.subscribers, c)
		close(c)
	}
}

// publish drops whoever has no room for the event.
func (h *hub) publish(event []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subscribers {
		select {
		case c <- event:
		default:
			h.drop(c)
		}
	}
}

// busy reports whether there is anybody to publish to.
func (h *hub) busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subscribers) > 0
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.subscribers {
		h.drop(c)
	}
}
