package legacy

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"
)

// What a legacy system says about itself, and a gateway must not repeat.
const (
	serverName    = "LegacyDesk/2.3.1 (Unix)"
	poweredBy     = "PHP/5.6.40"
	backendHost   = "tkt-db-03.legacydesk.internal"
	sessionCookie = "LDSESSID"
	loginPhrase   = "LegacyDesk sign-in"
	crashPhrase   = "ORA-01089: immediate shutdown in progress"
)

const loginPage = "<!DOCTYPE html><html><head><title>" + loginPhrase + "</title></head>" +
	"<body><form method=post><input name=user><input name=password type=password></form></body></html>"

// routeTable holds all routes. A path that is none of them is counted and answered with
// 404.
func (s *Server) routeTable() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/tickets", s.serveList(KindBuyer, buyerQuery))
	mux.HandleFunc("GET /v2/vendors/{account}/tickets", s.serveList(KindSeller, sellerQuery))
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		s.stats.add(func(all *Stats) { all.Requests.Login++ })
		s.disclose(w.Header())
		login(w)
	})
	s.adminRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/" && loopback(r) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(panel) // a caller that left is not a concern
			return
		}
		s.stats.add(func(all *Stats) { all.Requests.Other++ })
		s.disclose(w.Header())
		http.Error(w, "no such page on "+backendHost, http.StatusNotFound)
	})
	return mux
}

// serveList answers with the list that from reads out of a request, unless a
// fault has another idea.
func (s *Server) serveList(kind string, from func(*http.Request) (string, filter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.stats.enter(kind)
		defer s.stats.add(func(all *Stats) { all.InFlight-- })
		s.disclose(w.Header())
		account, f := from(r)
		fault, faulty := s.faultSet.next(kind, account)
		delay := time.Duration(s.latency.Load())
		if faulty {
			s.stats.add(func(all *Stats) { all.Faults[fault.Name]++ })
			delay += fault.Delay
		}
		if !wait(r.Context(), delay) {
			return // nobody is left to be answered
		}
		if faulty {
			s.misbehave(w, r, call{kind, account, f, fault})
			return
		}
		sendJSON(w, kind, s.list(kind, account, f))
	}
}

// wait reports false where ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// disclose sets the headers of a talkative backend, among them permissions to
// cache that a gateway has to drop.
func (s *Server) disclose(h http.Header) {
	h.Set("Server", serverName)
	h.Set("X-Powered-By", poweredBy)
	h.Set("X-Backend-Host", backendHost)
	h.Set("X-Internal-Trace", s.data.traceID)
	h.Set("Set-Cookie", sessionCookie+"="+s.data.sessionID+"; path=/")
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("ETag", `"1-legacydesk"`)
}

// sendJSON sends a body, which need not be JSON, as JSON.
func sendJSON(w http.ResponseWriter, kind string, body []byte) {
	announce(w, kind, body)
	_, _ = w.Write(body) // a caller that left is not a concern of this server
}

// mediaType is spelled as old servers spell it: the names are case-insensitive
// (RFC 9110, section 8.3.1).
func mediaType(kind string) string {
	if kind == KindSeller {
		return "Application/JSON"
	}
	return "application/json;charset=UTF-8"
}

// login sends the login page.
func login(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(loginPage)) // as above
}

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
func (s *Server) Requests() Requests { return s.Stats().Requests }

// Stats returns all counters.
func (s *Server) Stats() Stats {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	copied := s.stats.all
	copied.Faults = maps.Clone(copied.Faults)
	return copied
}

// counters guard the statistics.
type counters struct {
	mu  sync.Mutex
	all Stats
}

// add lets count change the statistics under the lock.
func (c *counters) add(count func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count(&c.all)
}

// enter counts the arrival of a list request.
func (c *counters) enter(kind string) {
	c.add(func(all *Stats) {
		if kind == KindSeller {
			all.Requests.Seller++
		} else {
			all.Requests.Buyer++
		}
		all.InFlight++
		all.MaxInFlight = max(all.MaxInFlight, all.InFlight)
	})
}
