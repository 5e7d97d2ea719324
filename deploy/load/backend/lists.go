package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"

	"inquiry-gateway/upstream/legacy"
)

// lists gives out the legacy system's records under any buyer's name.
type lists struct {
	latency time.Duration
	records map[string][]json.RawMessage // by state; "" holds all

	mu    sync.RWMutex
	parts map[template][][]byte // a reply cut where the buyer's name goes
}

type template struct {
	records int
	state   string
}

func newLists(inquiries int, latency time.Duration) *lists {
	l := &lists{latency: latency, records: make(map[string][]json.RawMessage), parts: make(map[template][][]byte)}
	// With no more than the buyers that always exist, all but a few inquiries
	// are the busy one's.
	system := legacy.New(legacy.Options{Seed: 1, Buyers: 4, Inquiries: inquiries})
	for _, state := range []string{"", "N", "A", "C"} {
		w := httptest.NewRecorder()
		query := url.Values{"customer": {legacy.BuyerBusy}, "state": {state}}
		system.ServeHTTP(w, httptest.NewRequest("GET", "/v2/tickets?"+query.Encode(), nil))
		var reply struct {
			Result struct {
				Items []json.RawMessage `json:"items"`
			} `json:"result"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
			log.Fatalf("the legacy system's reply: %v", err)
		}
		l.records[state] = reply.Result.Items
	}
	return l
}

// body is the reply for a buyer with the newest n inquiries in a state.
func (l *lists) body(n int, buyer, state string) ([]byte, bool) {
	if n < 0 || n > len(l.records[state]) {
		return nil, false
	}
	if l.latency > 0 {
		time.Sleep(l.latency)
	}
	name, err := json.Marshal(buyer)
	if err != nil {
		return nil, false
	}
	return bytes.Join(l.template(n, state), name), true
}

func (l *lists) template(n int, state string) [][]byte {
	key := template{n, state}
	l.mu.RLock()
	parts, ok := l.parts[key]
	l.mu.RUnlock()
	if ok {
		return parts
	}
	parts = cut(l.records[state][:n])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts[key] = parts
	return parts
}

// cut puts records into the legacy's envelope and cuts it where the buyer is
// named.
func cut(records []json.RawMessage) [][]byte {
	body := fmt.Appendf(nil, `{"result":{"code":"OK","total":%d,"items":[`, len(records))
	for i, r := range records {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r...)
	}
	body = append(body, `]},"took_ms":3}`...)
	const field = `"customer":{"id":`
	parts := bytes.Split(body, []byte(field+`"`+legacy.BuyerBusy+`"`))
	for i := range parts[:len(parts)-1] {
		parts[i] = append(bytes.Clone(parts[i]), field...)
	}
	return parts
}
