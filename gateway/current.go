package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"inquiry-gateway/gateway/httpwire"
)

// Current serves with the Gateway that is in force, which a reload replaces. It is
// safe for concurrent use; Set comes before the first request.
type Current struct{ inForce atomic.Pointer[servedBy] }

// servedBy is a Gateway with the write timeout of its configuration.
type servedBy struct {
	gateway  *Gateway
	write    time.Duration // how long the answer may take from its start
	ofServer bool          // the http.Server says so
}

// Set puts g in force for all requests from now on. An answer may take write, which
// the http.Server says already if ofServer is set.
func (c *Current) Set(g *Gateway, write time.Duration, ofServer bool) {
	c.inForce.Store(&servedBy{g, write, ofServer})
}

// Enabled implements httpwire.Lane.
func (c *Current) Enabled() bool {
	s := c.inForce.Load()
	return s != nil && s.gateway.opts.HitLane
}

// Answer implements httpwire.Lane.
func (c *Current) Answer(conn *httpwire.Conn, h *httpwire.Head, begin time.Time) (bool, error) {
	s := c.inForce.Load()
	return s.gateway.answerHit(conn, h, begin, s.write)
}

// ServeHTTP answers with the Gateway in force.
func (c *Current) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := c.inForce.Load()
	if !s.ofServer {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.write)) // else the server's holds
	}
	s.gateway.ServeHTTP(w, r)
}
