package legacy

import (
	"bytes"
	"encoding/json"
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
	source := account
	if f.first != whole {
		source = BuyerBusy
	}
	parts := s.parts(kind, source, f)
	if len(parts) == 1 {
		return parts[0]
	}
	name, err := json.Marshal(account)
	if err != nil {
		panic("legacy: a string always marshals: " + err.Error())
	}
	return bytes.Join(parts, name)
}

// parts renders a reply, or finds it rendered. One for /first is cut where the
// buyer's name goes. The caller holds mu.
func (s *Server) parts(kind, account string, f filter) [][]byte {
	key, version := keyOf(kind, account, f), s.data.of(kind, account).version
	if parts, ok := s.bodies.get(key, version); ok {
		return parts
	}
	rendered := envelope(kind, s.records(kind, account, f))
	parts := [][]byte{rendered}
	if f.first != whole {
		const field = `"customer":{"id":`
		parts = bytes.SplitAfter(rendered, []byte(field))
		for i := range parts[1:] {
			parts[i+1] = bytes.TrimPrefix(parts[i+1], []byte(`"`+BuyerBusy+`"`))
		}
	}
	s.bodies.put(key, body{version, parts, len(rendered)})
	return parts
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
