package console

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// writeWait bounds how long one event may take to reach the connection's
	// buffer: the ops listener itself bounds no write.
	writeWait  = 5 * time.Second
	maxStreams = 16
)

// data answers with all that a page begins with.
func (c *Console) data(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"history": c.sampler.history(), "state": c.state(true)}) // the browser left; nobody to tell
}

// stream sends each new state as a server-sent event.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	if !c.hub.enter() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many open consoles, or the gateway is stopping", http.StatusServiceUnavailable)
		return
	}
	defer c.hub.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	out := http.NewResponseController(w)
	// The server's read timeout would end the request while it is answered.
	_ = out.SetReadDeadline(time.Time{}) // not supported: then there is none
	for u := c.hub.newest.Load(); !u.last && out.Flush() == nil; {
		select {
		case <-u.outdated:
			if !c.opts.Sessions.Authorized(r) { // its session may have ended
				return
			}
		case <-r.Context().Done():
			return
		}
		u = c.hub.newest.Load()
		_ = out.SetWriteDeadline(time.Now().Add(writeWait)) // as above
		if _, err := w.Write(u.event); err != nil {
			return
		}
	}
}

// event is one server-sent event. JSON has no line break of its own.
func event(s state) []byte {
	body, err := json.Marshal(s)
	if err != nil {
		body = []byte("null") // a what-if report that is no JSON; the page keeps what it has
	}
	return append(append([]byte("data: "), body...), "\n\n"...)
}

// update is an event, and what tells that there is a newer one.
type update struct {
	event    []byte
	outdated chan struct{} // closed by the next update
	last     bool          // there is none after it
}

// hub holds the newest event. Each tells the whole state, so a stream that is
// slow misses some and loses nothing, and nobody waits for it. It is safe for
// concurrent use; publish and close are called by one goroutine.
type hub struct {
	newest  atomic.Pointer[update]
	streams atomic.Int32
}

func newHub() *hub {
	h := &hub{}
	h.newest.Store(&update{outdated: make(chan struct{})})
	return h
}

// enter counts one stream more. False: there are too many, or the hub is closed.
func (h *hub) enter() bool {
	if h.newest.Load().last {
		return false
	}
	if h.streams.Add(1) > maxStreams {
		h.streams.Add(-1)
		return false
	}
	return true
}

func (h *hub) publish(event []byte) { h.replace(&update{event: event}) }

// close ends all streams.
func (h *hub) close() { h.replace(&update{last: true}) }

func (h *hub) replace(u *update) {
	u.outdated = make(chan struct{})
	close(h.newest.Swap(u).outdated)
}
