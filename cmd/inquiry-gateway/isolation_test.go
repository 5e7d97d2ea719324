package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"inquiry-gateway/auth"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream/legacy"
)

// truth is the body that the legacy's own data calls for.
func truth(system *legacy.Server, kind, account, status, inquiryType string) []byte {
	body, _ := v1.Render(kind, system.Truth(kind, account, status, inquiryType)) // the legacy knows no other kinds
	return body
}

// Every list of every account, with and without filters, is what the legacy's
// data calls for, and no reply has an internal id or a header of the legacy's.
func TestNoInternalIDInAnyReply(t *testing.T) {
	t.Parallel()
	p := start(t, setup{legacy: legacy.Options{Seed: 7}})
	all := newKeys(p)
	found := idFinder(p.system)
	lists := 0
	for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller} {
		for _, account := range p.system.Accounts(kind) {
			for _, query := range []string{"", "?status=pending", "?status=closed", "?inquiry_type=delivery", "?status=answered&inquiry_type=refund"} {
				r := p.request(http.MethodGet, listOf(kind)+query, "")
				r.Header.Set("Authorization", "Bearer "+all[kind+" "+account])
				a := p.do(r)
				values := r.URL.Query()
				if want := truth(p.system, kind, account, values.Get("status"), values.Get("inquiry_type")); a.status != http.StatusOK || !bytes.Equal(a.body, want) {
					t.Fatalf("%s %s %s: status %d\n got %.2000s\nwant %.2000s", kind, account, query, a.status, a.body, want)
				}
				if id := found(a); id != "" {
					t.Fatalf("%s %s %s: %s is in the reply", kind, account, query, id)
				}
				lists++
			}
		}
	}
	if len(p.system.InternalIDs()) < 5000 || lists < 500 {
		t.Fatalf("only %d ids and %d lists were looked at", len(p.system.InternalIDs()), lists)
	}
}

// newKeys makes a key for each account of the legacy system.
func newKeys(p *program) map[string]string {
	var callers []caller
	for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller} {
		for _, account := range p.system.Accounts(kind) {
			callers = append(callers, caller{kind: kind, account: auth.Account{ID: account, APIAccess: auth.AccessPaid},
				record: auth.KeyRecord{ID: kind + "/" + account, Scopes: []string{auth.ScopeInquiriesRead}}})
		}
	}
	keys := map[string]string{}
	p.writeKeys(callers)
	p.reload()
	for _, c := range callers {
		keys[c.kind+" "+c.account.ID] = p.keys[c.record.ID]
	}
	return keys
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

// Two buyers and a seller ask in all orders, at once and one after the other,
// with whatever filters; each gets its own list every time.
func TestIsolation(t *testing.T) {
	t.Parallel()
	p := start(t, setup{legacy: legacy.Options{Seed: 3, Inquiries: 600}, yaml: "cache: {buyer: {ttl: 1ms, stale_while_revalidate: 1ms}}"})
	accounts := map[string]string{"buyer": legacy.BuyerTypical, "other-buyer": legacy.BuyerOther, "empty-buyer": legacy.BuyerEmpty, "seller": legacy.SellerTypical}
	rapid.Check(t, func(rt *rapid.T) {
		type ask struct{ key, status, inquiryType string }
		asks := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) ask {
			return ask{
				rapid.SampledFrom([]string{"buyer", "other-buyer", "empty-buyer", "seller"}).Draw(rt, "key"),
				rapid.SampledFrom([]string{"", "pending", "answered", "closed", "nonsense"}).Draw(rt, "status"),
				rapid.SampledFrom([]string{"", "delivery", "product", "nonsense"}).Draw(rt, "type"),
			}
		}), 1, 12).Draw(rt, "asks")
		var group sync.WaitGroup
		answers := make([]answer, len(asks))
		for i, a := range asks {
			kind := strings.TrimPrefix(strings.TrimPrefix(a.key, "other-"), "empty-")
			query := "?"
			if a.status != "" {
				query += "status=" + a.status + "&"
			}
			if a.inquiryType != "" {
				query += "inquiry_type=" + a.inquiryType
			}
			r := p.request(http.MethodGet, listOf(kind)+query, a.key)
			group.Go(func() { answers[i] = p.do(r) })
		}
		group.Wait()
		for i, a := range asks {
			kind := strings.TrimPrefix(strings.TrimPrefix(a.key, "other-"), "empty-")
			if want := truth(p.system, kind, accounts[a.key], a.status, a.inquiryType); answers[i].status != http.StatusOK || !bytes.Equal(answers[i].body, want) {
				rt.Fatalf("%+v: status %d, body %.500s\nwant %.500s", a, answers[i].status, answers[i].body, want)
			}
		}
	})
}

// A record that the legacy gives to the wrong account is never shown.
func TestForeignRecordIsRefused(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	if err := p.system.SetFault(legacy.Fault{Name: legacy.FaultWrongOwner}); err != nil {
		t.Fatal(err)
	}
	for key, list := range map[string]string{"buyer": buyerList, "seller": sellerList} {
		a := p.get(list, key)
		var envelope struct {
			Data   []any
			Errors []struct{ Code string }
		}
		if err := json.Unmarshal(a.body, &envelope); err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusBadGateway || len(envelope.Data) != 0 || len(envelope.Errors) != 1 || envelope.Errors[0].Code != "upstream_invalid_response" {
			t.Errorf("%s: %d %s", key, a.status, a.body)
		}
	}
	if metrics := string(p.ops("/metrics").body); !strings.Contains(metrics, `inquiry_gateway_upstream_foreign_records_total{kind="buyer"} 1`) {
		t.Error("the foreign record is not counted")
	}
}

// panickyLog is a log that panics at one record, which the goroutine of a fetch writes.
type panickyLog struct {
	slog.Handler
	once *sync.Once
}

func (h panickyLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "fetches from the legacy system begin to fail" {
		h.once.Do(func() { panic("a bug in the log") })
	}
	return h.Handler.Handle(ctx, r)
}

// A panic beside the request's goroutine costs this request and nothing else.
func TestPanicInAFetchIsOneFailedRequest(t *testing.T) {
	p := start(t, setup{log: func(h slog.Handler) slog.Handler { return panickyLog{h, &sync.Once{}} }})
	fault(legacy.Fault{Name: legacy.FaultStatus})(p)
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
	p.gets(http.StatusOK, buyerList, "buyer")
}
