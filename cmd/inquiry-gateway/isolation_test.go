package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream/legacy"
)

// truth is the body that the legacy's own data calls for.
func truth(system *legacy.Server, kind, account, status, inquiryType string) []byte {
	body, _ := v1.Render(kind, system.Truth(kind, account, status, inquiryType)) // the legacy knows no other kinds
	return body
}

// isTruth says whether an answer is the list of that account, with the filters of a query.
func (p *program) isTruth(a answer, kind, account, query string) bool {
	p.t.Helper()
	filter, err := url.ParseQuery(query)
	must(p.t, err)
	return a.status == http.StatusOK && bytes.Equal(a.body, truth(p.system, kind, account, filter.Get("status"), filter.Get("inquiry_type")))
}

// Every list of every account, with and without filters, is what the legacy's
// data calls for, and no reply has an internal id or a header of the legacy's.
func TestNoInternalIDInAnyReply(t *testing.T) {
	t.Parallel()
	p := start(t, setup{legacy: legacy.Options{Seed: 7, Buyers: 60, Inquiries: 1500}, onlyWhenTold: true})
	lists, found := 0, idFinder(p.system)
	for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller} {
		for _, account := range p.system.Accounts(kind) {
			p.writeKeys(gatewaytest.Paid(kind, kind+"/"+account, account))
		}
	}
	p.reload()
	for _, c := range p.callers[len(sampleKeys()):] {
		for _, query := range []string{"", "status=pending", "status=closed", "inquiry_type=delivery", "status=answered&inquiry_type=refund"} {
			a := p.get(listOf(c.Kind)+"?"+query, c.Record.ID)
			if !p.isTruth(a, c.Kind, c.Account.ID, query) {
				t.Fatalf("%s %s: status %d\n%.2000s", c.Record.ID, query, a.status, a.body)
			}
			if id := found(a); id != "" {
				t.Fatalf("%s %s: %s is in the reply", c.Record.ID, query, id)
			}
			lists++
		}
	}
	if ids := len(p.system.InternalIDs()); ids < 2000 || lists < 300 {
		t.Fatalf("only %d ids and %d lists were looked at", ids, lists)
	}
}

// idFinder looks for internal ids by the words of a reply, so that a data set's
// thousands of ids cost one pass; markers are looked for as they are.
func idFinder(system *legacy.Server) func(answer) string {
	ids := map[string]bool{}
	for _, id := range system.InternalIDs() {
		ids[strings.ToLower(id)] = true
	}
	markers := system.Markers()
	notOfID := func(r rune) bool {
		return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '-' || r == '_')
	}
	return func(a answer) string {
		text := string(a.body)
		for name, values := range a.header {
			text += "\n" + name + ": " + strings.Join(values, ", ")
		}
		for _, word := range strings.FieldsFunc(text, notOfID) {
			if ids[strings.ToLower(word)] {
				return word
			}
		}
		if i := slices.IndexFunc(markers, func(m string) bool { return strings.Contains(text, m) }); i >= 0 {
			return markers[i]
		}
		return ""
	}
}

// panickyLog is a log that panics at one record, which the goroutine of a fetch writes.
type panickyLog struct {
	slog.Handler
	once *sync.Once
}

func (h panickyLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "a list cannot be fetched from the legacy system" {
		h.once.Do(func() { panic("a bug in the log") })
	}
	return h.Handler.Handle(ctx, r)
}

// A panic beside the request's goroutine costs this request and nothing else.
func TestPanicInAFetchIsOneFailedRequest(t *testing.T) {
	t.Parallel()
	p := start(t, setup{log: func(h slog.Handler) slog.Handler { return panickyLog{h, &sync.Once{}} }})
	p.fault(legacy.Fault{Name: legacy.FaultStatus})
	if a := p.get(buyerList, "buyer"); a.status != http.StatusInternalServerError || !strings.Contains(string(a.body), "internal_error") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if log := p.logs.String(); !strings.Contains(log, "a bug in the log") || !strings.Contains(log, "isolation_test.go") {
		t.Errorf("the log does not tell of the panic and where it was:\n%s", log)
	}
	if p.metric(`inquiry_gateway_panics_total{where="upstream"}`)+p.metric(`inquiry_gateway_panics_total{where="cache"}`) != 1 {
		t.Error("the panic is not counted")
	}
	p.system.ClearFaults("")
	p.comesToGet(http.StatusOK, buyerList, "buyer") // it rests for a moment
}
