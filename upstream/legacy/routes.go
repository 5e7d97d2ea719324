package legacy

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

func (s *Server) routeTable() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/tickets", s.serveList(KindBuyer, func(r *http.Request) (string, filter) {
		q := r.URL.Query()
		return q.Get("customer"), filter{states: all(q["state"]), categories: all(q["category"])}
	}))
	mux.HandleFunc("GET /first/{n}/v2/tickets", s.serveList(KindBuyer, firstList))
	// This endpoint is the older one: it ignores every query parameter.
	mux.HandleFunc("GET /v2/vendors/{account}/tickets", s.serveList(KindSeller, func(r *http.Request) (string, filter) {
		return r.PathValue("account"), filter{}
	}))
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) {
		s.stats.login.Add(1)
		s.disclose(w.Header())
		login(w)
	})
	s.adminRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.stats.other.Add(1)
		s.disclose(w.Header())
		http.Error(w, "no such page on "+backendHost, http.StatusNotFound)
	})
	return mux
}

// filter holds the legacy's codes; an empty list lets everything through.
type filter struct {
	states, categories []string
	first              *int // this many of BuyerBusy's records; nil: the account's own list
}

// all accepts a parameter given several times, or once with commas.
func all(values []string) []string {
	var codes []string
	for _, v := range values {
		if v != "" {
			codes = append(codes, strings.Split(v, ",")...)
		}
	}
	return codes
}

func (f filter) match(t *ticket) bool {
	return (len(f.states) == 0 || slices.Contains(f.states, states[t.state].buyer)) &&
		(len(f.categories) == 0 || slices.Contains(f.categories, categories[t.category].buyer))
}

// serveList answers with the list that from reads out of a request, unless a
// fault has another idea.
func (s *Server) serveList(kind string, from func(*http.Request) (string, filter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer s.stats.enter(kind)()
		s.disclose(w.Header())
		account, f := from(r)
		fault, faulty := s.faults.next(kind, account)
		delay := time.Duration(s.latency.Load())
		if faulty {
			s.stats.fault(fault.Name)
			if fault.Name != FaultDrip {
				delay += fault.Delay
			}
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
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// list returns a rendered reply that must not be changed.
func (s *Server) list(kind, account string, f filter) []byte {
	s.catchUp()
	s.mu.RLock()
	defer s.mu.RUnlock()
	key := bodyKey{kind, account, strings.Join(f.states, ","), strings.Join(f.categories, ",")}
	if f.first != nil {
		return s.first(account, key, f)
	}
	version := s.data.version(kind, account)
	if body, ok := s.bodies.get(key, version); ok {
		return body
	}
	body := envelope(kind, s.records(kind, account, f))
	s.bodies.put(key, version, body)
	return body
}

// records renders what a filter lets through. The caller holds mu.
func (s *Server) records(kind, account string, f filter) [][]byte {
	var records [][]byte
	for _, t := range s.data.list(kind, account) {
		if f.first != nil && len(records) == *f.first {
			break
		}
		if f.match(t) {
			records = append(records, s.data.record(kind, t))
		}
	}
	return records
}

func (d *dataset) version(kind, account string) int {
	if b := d.byBuyer[account]; kind == KindBuyer && b != nil {
		return b.version
	}
	if c := d.byCompany[account]; kind == KindSeller && c != nil {
		return c.version
	}
	return 0
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

func sendJSON(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", mediaType(kind))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
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

func login(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(loginPage)) // as above
}

func loginURL(r *http.Request) string {
	return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}
