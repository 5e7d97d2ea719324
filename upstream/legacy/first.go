package legacy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
)

// A load test needs thousands of buyers, and lists of a known length. Both come
// from one data set: GET /first/20/v2/tickets answers every buyer, also one
// that does not exist, with the first 20 of BuyerBusy's inquiries under the
// buyer's own name. All other parameters, faults and counters are as ever.

// firstList reads such a request. A length that is not a number gives an empty
// list.
func firstList(r *http.Request) (string, filter) {
	q := r.URL.Query()
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 0 {
		n = 0
	}
	return q.Get("customer"), filter{states: all(q["state"]), categories: all(q["category"]), first: &n}
}

// firstBodies keeps rendered replies, cut where the buyer's name goes. Without
// it a load test would measure the rendering. Its zero value is usable.
type firstBodies struct{ parts sync.Map } // firstKey to [][]byte

type firstKey struct {
	bodyKey
	n, version int
}

// first returns the reply for a buyer. The caller holds mu.
func (s *Server) first(account string, key bodyKey, f filter) []byte {
	k := firstKey{key, *f.first, s.data.version(KindBuyer, BuyerBusy)}
	k.account = BuyerBusy
	parts, ok := s.firsts.parts.Load(k)
	if !ok {
		const field = `"customer":{"id":`
		body := envelope(KindBuyer, s.records(KindBuyer, BuyerBusy, f))
		cut := bytes.SplitAfter(body, []byte(field))
		for i := range cut[1:] {
			cut[i+1] = bytes.TrimPrefix(cut[i+1], []byte(`"`+BuyerBusy+`"`))
		}
		parts, _ = s.firsts.parts.LoadOrStore(k, cut)
	}
	name, err := json.Marshal(account)
	if err != nil {
		panic("legacy: a string always marshals: " + err.Error())
	}
	return bytes.Join(parts.([][]byte), name)
}
