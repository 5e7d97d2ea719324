package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// panickyLog is a log that panics at a record of a breaker: the breaker of the
// legacy logs inside of the goroutine whose request opens it.
type panickyLog struct {
	slog.Handler
	once *sync.Once
}

func (h panickyLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "circuit breaker changed" {
		h.once.Do(func() { panic("a bug in the log") })
	}
	return h.Handler.Handle(ctx, r)
}

// A panic beside the request's goroutine, here in that of a second call, costs
// this request and nothing else.
func TestPanicInASecondCallIsOneFailedRequest(t *testing.T) {
	u := &unruly{}
	p := start(t, setup{
		backend: u, log: func(h slog.Handler) slog.Handler { return panickyLog{h, &sync.Once{}} },
		upstream: []string{
			"items: replies # an array, an empty array or null", "items: replies\n        fetch: {path: \"/v2/tickets/{id}/replies\", id: uuid, concurrency: 1}",
			"max_records: 10000", "max_records: 10000\n  breaker: {window: 10s, min_requests: 2, failure_ratio: 0.5, open_for: 1s}",
		},
	})
	u.system = p.system
	u.answer(func(account string) http.HandlerFunc {
		if account == "" { // second calls and sellers
			return broken
		}
		return nil
	})
	if a := p.get(buyerList, "buyer"); a.status != http.StatusInternalServerError || !strings.Contains(string(a.body), "internal_error") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if log := p.logs.String(); !strings.Contains(log, "a bug in the log") || !strings.Contains(log, "second.go") {
		t.Errorf("the log does not tell of the panic and where it was:\n%s", log)
	}
	p.counted("upstream")
	u.answer(always(nil))
	p.gets(http.StatusOK, sellerList, "seller")
}

// counted checks that one panic was counted.
func (p *program) counted(where string) {
	p.t.Helper()
	if metrics := string(p.ops("/metrics").body); !strings.Contains(metrics, `inquiry_gateway_panics_total{where="`+where+`"} 1`) {
		p.t.Errorf("the panic in %s is not counted", where)
	}
}
