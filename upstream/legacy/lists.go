package legacy

import (
	"net/http"
	"slices"
	"strings"
)

// filter holds the legacy's codes; an empty list lets everything through.
type filter struct {
	states, categories []string
}

// buyerQuery reads a request for a buyer's own list.
func buyerQuery(r *http.Request) (string, filter) {
	q := r.URL.Query()
	return q.Get("customer"), filter{all(q["state"]), all(q["category"])}
}

// sellerQuery ignores all parameters: this endpoint is the older one.
func sellerQuery(r *http.Request) (string, filter) {
	return r.PathValue("account"), filter{}
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

// match tells whether the filter lets a ticket through.
func (f filter) match(t *ticket) bool {
	return (len(f.states) == 0 || slices.Contains(f.states, states[t.state].buyer)) &&
		(len(f.categories) == 0 || slices.Contains(f.categories, categories[t.category].buyer))
}

// list returns a rendered reply that must not be changed.
func (s *Server) list(kind, account string, f filter) []byte {
	s.catchUp()
	s.mu.RLock()
	defer s.mu.RUnlock()
	key := bodyKey{kind, account, strings.Join(f.states, ","), strings.Join(f.categories, ",")}
	version := s.data.of(kind, account).version
	if text, ok := s.bodies.get(key, version); ok {
		return text
	}
	text := envelope(kind, s.records(kind, account, f))
	s.bodies.put(key, body{version, text})
	return text
}

// records renders what a filter lets through. The caller holds mu.
func (s *Server) records(kind, account string, f filter) [][]byte {
	var records [][]byte
	for _, t := range s.data.of(kind, account).tickets {
		if f.match(t) {
			records = append(records, s.data.record(kind, t))
		}
	}
	return records
}
