package console

import (
	"encoding/json"
	"net/http"
	"time"
)

// writeWait bounds how long one event may take to reach the connection's buffer:
// the ops listener itself bounds no write.
const writeWait = 5 * time.Second

// stream sends what happens as server-sent events: the history at first, then
// every second a point, and the parts of the page that changed.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	events, ok := c.hub.subscribe()
	if !ok {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many open consoles, or the gateway is stopping", http.StatusServiceUnavailable)
		return
	}
	defer c.hub.leave(events)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	out := http.NewResponseController(w)
	// The server's read timeout would end the request while it is answered.
	_ = out.SetReadDeadline(time.Time{}) // not supported: then there is none
	send := func(event []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(writeWait)) // as above
		_, err := w.Write(event)
		return err == nil && out.Flush() == nil
	}
	if !send(event("history", c.sampler.history())) {
		return
	}
	for {
		select {
		case e, open := <-events:
			if !open || !c.opts.Sessions.Authorized(r) || !send(e) { // its session may have ended
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// event is one server-sent event. JSON has no line break of its own.
func event(name string, data any) []byte {
	body, err := json.Marshal(data)
	if err != nil {
		// Only what this package makes gets here: texts, and numbers that write
		// themselves.
		panic("console: " + err.Error())
	}
	return append(append([]byte("event: "+name+"\ndata: "), body...), "\n\n"...)
}

// history is every point by column; "t" holds seconds since 1970.
func (s *sampler) history() map[string]any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.points.len()
	all, times := map[string]any{}, make([]int64, n)
	for i, c := range s.columns {
		values := make([]number, n)
		for j := range n {
			values[j] = s.points.at(j).values[i]
		}
		all[c.ID] = values
	}
	for j := range n {
		times[j] = s.points.at(j).at.Unix()
	}
	all["t"] = times
	return all
}

// latest is the newest point by column; nil before the first sample.
func (s *sampler) latest() map[string]any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.points.len() == 0 {
		return nil
	}
	p := s.points.at(s.points.len() - 1)
	all := map[string]any{"t": p.at.Unix()}
	for i, c := range s.columns {
		all[c.ID] = p.values[i]
	}
	return all
}
