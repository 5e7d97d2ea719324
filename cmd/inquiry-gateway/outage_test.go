package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/upstream/legacy"
)

// Large replies of many accounts stay within upstream.max_total_response_bytes: what does not fit is refused with 503 and
// Retry-After, is no evidence for the breaker, and does not stop small lists of others.
func TestLargeRepliesOfMany(t *testing.T) {
	t.Parallel()
	const many, fit = 12, 3 // of 900 KiB in three quarters of 4 MiB
	gate := make(chan struct{})
	large := fmt.Sprintf(`{"result":{"items":[]},"more":%q}`, strings.Repeat("x", 900<<10))
	accounts := []string{"small"}
	for i := range many {
		accounts = append(accounts, fmt.Sprint("large", i))
	}
	p := start(t, setup{
		yaml:     "request_timeout: 2m",
		upstream: []string{"timeout: 2s", "timeout: 1m\n  max_response_bytes: 1MiB\n  max_total_response_bytes: 4MiB"},
		backend: func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Get("customer") == "small" {
					_, _ = fmt.Fprint(w, `{"result":{"items":[]}}`)
					return
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(large)))
				_, _ = fmt.Fprint(w, large[:len(large)/2])
				_ = http.NewResponseController(w).Flush()
				select {
				case <-gate:
					_, _ = fmt.Fprint(w, large[len(large)/2:])
				case <-r.Context().Done():
				}
			})
		},
		prepare: func(p *program) {
			var callers []gatewaytest.Caller
			for _, account := range accounts {
				callers = append(callers, gatewaytest.Paid(legacy.KindBuyer, account, account))
			}
			p.writeKeys(callers...)
		},
	})
	p.client.Timeout = time.Minute
	answers := make(chan answer, many)
	for _, account := range accounts[1:] {
		go func() { answers <- p.get("/api/v1/buyer/inquiries", account) }()
	}
	for range many - fit {
		if a := <-answers; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("beyond the bound: status %d, %v", a.status, a.header)
		}
	}
	if a := p.get("/api/v1/buyer/inquiries", "small"); a.status != http.StatusOK {
		t.Errorf("a small list meanwhile: status %d", a.status)
	}
	close(gate)
	for range fit {
		if a := <-answers; a.status != http.StatusOK {
			t.Errorf("within the bound: status %d", a.status)
		}
	}
	for _, account := range []string{"small", "large0"} { // nothing is held any more
		if a := p.get("/api/v1/buyer/inquiries?status=pending", account); a.status != http.StatusOK {
			t.Errorf("afterwards, %s: status %d", account, a.status)
		}
	}
}
