package legacy

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Stats counts since the start. Buyer and seller are the lists; Login counts
// callers that followed a redirect; Other is every unknown path.
type Stats struct {
	Requests    Requests          `json:"requests"`
	Faults      map[FaultName]int `json:"faults"`        // requests that a fault acted on
	InFlight    int               `json:"in_flight"`     // lists being answered now
	MaxInFlight int               `json:"max_in_flight"` // highest so far
}

// Requests counts arrived requests per route.
type Requests struct {
	Buyer  int `json:"buyer"`
	Seller int `json:"seller"`
	Login  int `json:"login"`
	Other  int `json:"other"`
}

// Lists is the number of lists that were asked for.
func (r Requests) Lists() int { return r.Buyer + r.Seller }

// Requests returns the counters of arrived requests.
func (s *Server) Requests() Requests { return s.stats.requests() }

// Stats returns all counters.
func (s *Server) Stats() Stats {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	faults := make(map[FaultName]int, len(s.stats.faults))
	maps.Copy(faults, s.stats.faults)
	return Stats{
		Requests: s.stats.requests(), Faults: faults,
		InFlight: int(s.stats.inFlight.Load()), MaxInFlight: int(s.stats.maxInFlight.Load()),
	}
}

type counters struct {
	buyer, seller, login, other atomic.Int64
	inFlight, maxInFlight       atomic.Int64

	mu     sync.Mutex
	faults map[FaultName]int
}

func (c *counters) requests() Requests {
	return Requests{
		Buyer: int(c.buyer.Load()), Seller: int(c.seller.Load()),
		Login: int(c.login.Load()), Other: int(c.other.Load()),
	}
}

// enter counts a list request; the function it returns tells the end of it.
func (c *counters) enter(kind string) func() {
	if kind == KindSeller {
		c.seller.Add(1)
	} else {
		c.buyer.Add(1)
	}
	n := c.inFlight.Add(1)
	for high := c.maxInFlight.Load(); n > high && !c.maxInFlight.CompareAndSwap(high, n); {
		high = c.maxInFlight.Load()
	}
	return func() { c.inFlight.Add(-1) }
}

func (c *counters) fault(name FaultName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults == nil {
		c.faults = make(map[FaultName]int)
	}
	c.faults[name]++
}
