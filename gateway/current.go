package gateway

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Current serves with the Gateway that is in force, which a reload replaces. It is
// safe for concurrent use; Set comes before the first request.
type Current struct{ inForce atomic.Pointer[servedBy] }

type servedBy struct {
	gateway *Gateway
	// write is how long the answer may take from its start; 0: what the server says.
	write time.Duration
}

// Set puts g in force for all requests from now on. An answer may take write, or,
// where that is 0, as long as the http.Server says.
func (c *Current) Set(g *Gateway, write time.Duration) { c.inForce.Store(&servedBy{g, write}) }

// ServeHTTP answers with the Gateway in force.
func (c *Current) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := c.inForce.Load()
	if s.write > 0 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.write)) // else the server's holds
	}
	s.gateway.ServeHTTP(w, r)
}
