// Package legacy is a runnable legacy inquiry system: the kind of backend that
// the gateway is put in front of and that nobody may change any more.
//
// It serves two lists with odd names, nested objects, letters for states, local
// times without a zone, and internal UUIDs in places where they should not be
// (inside texts too). It misbehaves on demand. The demo and the tests use it;
// [Server.Truth] tells what a correct gateway answers.
package legacy

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed mapping.yaml
var mapping string

//go:embed panel.html
var panel []byte

// Mapping returns the gateway's `upstream:` section that maps this system, as
// YAML with comments. Its base_url is [MappingBaseURL]; a caller that runs the
// system elsewhere replaces that.
func Mapping() []byte {
	_, text, _ := strings.Cut(mapping, "\n") // the first line says where editors find the schema, in this repository
	return []byte(text)
}

// MappingBaseURL is the base_url in [Mapping].
const MappingBaseURL = "http://127.0.0.1:9300"

// The two kinds of accounts, as the gateway names them.
const (
	KindBuyer  = "buyer"
	KindSeller = "seller"
)

// Sizes that zero values of [Options] stand for.
const (
	defaultBuyers    = 200
	DefaultInquiries = 5000
)

// Options shape a legacy system. The zero value is usable.
type Options struct {
	Seed      uint64 // same seed and sizes: same data, byte for byte
	Buyers    int    // 0: 200, at least 4
	Inquiries int    // over all buyers; 0: DefaultInquiries

	// Latency is spent before every list. 0: none.
	Latency time.Duration
	// ChangeEvery is the mean time between two changes of one buyer's list. The
	// moments follow from the seed and are applied when a list is next asked
	// for, so no goroutine runs. 0: lists never change by themselves.
	ChangeEvery time.Duration
}

// Server is the legacy system as an http.Handler. It starts no goroutine and
// needs no closing. All methods are safe for concurrent use.
type Server struct {
	*http.ServeMux
	replies atomic.Uint32 // lists that were sent

	mu         sync.Mutex // guards all that follows
	opts       Options
	data       *dataset
	nextChange time.Time
	stats      Stats
	faults     []Fault
	faultRand  *rand.Rand
}

// New makes a legacy system with generated data.
func New(opts Options) *Server {
	opts.Buyers = max(cmp.Or(opts.Buyers, defaultBuyers), 4)
	opts.Inquiries = max(cmp.Or(opts.Inquiries, DefaultInquiries), 1)
	s := &Server{ServeMux: http.NewServeMux(), opts: opts, data: generate(opts), faultRand: rand.New(rand.NewPCG(opts.Seed, 0xfa17))}
	s.nextChange = time.Now().Add(s.pause())
	s.HandleFunc("GET /v2/tickets", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		s.serveList(w, r, KindBuyer, q.Get("customer"), filter{codes(q["state"]), codes(q["category"])})
	})
	s.HandleFunc("GET /v2/vendors/{account}/tickets", func(w http.ResponseWriter, r *http.Request) {
		s.serveList(w, r, KindSeller, r.PathValue("account"), filter{}) // the older endpoint knows no filters
	})
	s.adminRoutes()
	s.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/" && loopback(r) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write(panel) // a caller that left is not a concern
			return
		}
		s.disclose(w.Header())
		http.Error(w, "no such page on "+backendHost, http.StatusNotFound)
	})
	return s
}

// What a legacy system says about itself, and a gateway must not repeat.
const (
	serverName    = "LegacyDesk/2.3.1 (Unix)"
	poweredBy     = "PHP/5.6.40"
	backendHost   = "tkt-db-03.legacydesk.internal"
	agentDomain   = "agents.legacydesk.internal"
	sessionCookie = "LDSESSID"
	internalNote  = "internal note: do not show"
	loginPhrase   = "LegacyDesk sign-in"
	crashPhrase   = "ORA-01089: immediate shutdown in progress"
	loginPage     = "<!DOCTYPE html><html><head><title>" + loginPhrase + "</title></head>" +
		"<body><form method=post><input name=user><input name=password type=password></form></body></html>"
)

// Markers returns strings of headers, error pages and fields that are not
// mapped. Like internal ids, none may be in any reply of the gateway.
func (s *Server) Markers() []string {
	return []string{serverName, poweredBy, backendHost, sessionCookie, agentDomain, internalNote, loginPhrase, crashPhrase}
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

// serveList answers with a list, unless a fault has another idea.
func (s *Server) serveList(w http.ResponseWriter, r *http.Request, kind, account string, f filter) {
	fault, delay := s.enter(kind, account)
	defer s.leave()
	s.disclose(w.Header())
	if !wait(r.Context(), delay) {
		return // nobody is left to be answered
	}
	switch fault.Name {
	case FaultStatus:
		http.Error(w, crashPhrase+" at "+backendHost, fault.Code)
		return
	case FaultRefuse:
		panic(http.ErrAbortHandler) // the documented way to drop a connection
	case FaultHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(loginPage))
		return
	case FaultGarbage:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(crashPhrase))
		return
	}
	body := s.list(kind, account, f, fault.Name == FaultWrongOwner)
	// No two replies are the same, even if their records are.
	body = fmt.Appendf(slices.Clip(body[:len(body)-1]), `,"requestId":"%08x","servedAt":%q}`, s.replies.Add(1), time.Now().UTC().Format(time.RFC3339Nano))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	// Spelled as old servers spell it: the names are case-insensitive (RFC 9110, section 8.3.1).
	w.Header().Set("Content-Type", map[string]string{KindBuyer: "application/json;charset=UTF-8", KindSeller: "Application/JSON"}[kind])
	if fault.Name == FaultTruncate {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
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

// filter holds the legacy's codes; an empty list lets everything through.
type filter struct{ states, categories []string }

// codes accepts a parameter given several times, or once with commas.
func codes(values []string) []string {
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' })
}

// Stats counts requests for lists.
type Stats struct {
	Requests Requests `json:"requests"`  // since the start
	InFlight int      `json:"in_flight"` // being answered now
}

// Requests counts the arrived requests for lists by kind.
type Requests struct {
	Buyer  int `json:"buyer"`
	Seller int `json:"seller"`
}

// Stats returns all counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Requests returns the counters of arrived requests.
func (s *Server) Requests() Requests { return s.Stats().Requests }

// SetLatency changes the time spent before every list, from the next request on.
func (s *Server) SetLatency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Latency = d
}

// enter counts the arrival of a request, and decides which fault acts on it and how long
// it takes.
func (s *Server) enter(kind, account string) (f Fault, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.InFlight++
	if kind == KindSeller {
		s.stats.Requests.Seller++
	} else {
		s.stats.Requests.Buyer++
	}
	f = s.nextFault(kind, account)
	return f, s.opts.Latency + f.Delay
}

// leave is the end of a request.
func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.InFlight--
}
