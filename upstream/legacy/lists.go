package legacy

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// filter holds the legacy's codes; an empty list lets everything through.
type filter struct {
	states, categories []string
	// A load test needs thousands of buyers, and lists of a known length. GET
	// /first/20/v2/tickets answers every buyer, also one that does not exist, with
	// the first 20 of BuyerBusy's inquiries under the buyer's own name.
	first int // whole: the account's own list
}

const whole = -1

// buyerQuery reads a request for a buyer's own list.
func buyerQuery(r *http.Request) (string, filter) {
	q := r.URL.Query()
	return q.Get("customer"), filter{all(q["state"]), all(q["category"]), whole}
}

// firstQuery reads such a request. A length that is not a number gives an empty
// list.
func firstQuery(r *http.Request) (string, filter) {
	account, f := buyerQuery(r)
	f.first, _ = strconv.Atoi(r.PathValue("n")) // 0 for an error
	f.first = max(f.first, 0)
	return account, f
}

// sellerQuery ignores all parameters: this endpoint is the older one.
func sellerQuery(r *http.Request) (string, filter) {
	return r.PathValue("account"), filter{first: whole}
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
	if f.first == whole {
		return s.rendered(kind, account, f)
	}
	customer := func(name string) []byte { return appendJSON([]byte(`"customer":{"id":`), name) }
	return bytes.ReplaceAll(s.rendered(kind, BuyerBusy, f), customer(BuyerBusy), customer(account))
}

// rendered renders a reply, or finds it rendered. The caller holds mu.
func (s *Server) rendered(kind, account string, f filter) []byte {
	key := bodyKey{kind, account, strings.Join(f.states, ","), strings.Join(f.categories, ","), f.first}
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
		if len(records) == f.first {
			break
		}
		if f.match(t) {
			records = append(records, s.data.record(kind, t))
		}
	}
	return records
}
