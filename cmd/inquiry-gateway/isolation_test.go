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
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/testkit"
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

// Buyers and a seller ask in all orders, at once and one after the other, with whatever
// filters; each gets its own list every time.
func TestIsolation(t *testing.T) {
	t.Parallel()
	p := start(t, setup{legacy: legacy.Options{Seed: 3, Inquiries: 600}, yaml: "cache: {buyer: {ttl: 1ms, stale_while_revalidate: 1ms}}"})
	callers := p.callers[:4] // three buyers and a seller
	rapid.Check(t, func(rt *rapid.T) {
		type ask struct {
			caller int
			query  string
		}
		asks := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) ask {
			return ask{
				rapid.IntRange(0, len(callers)-1).Draw(rt, "caller"),
				rapid.SampledFrom([]string{"", "status=pending&", "status=answered&", "status=closed&", "status=nonsense&"}).Draw(rt, "status") +
					rapid.SampledFrom([]string{"", "inquiry_type=delivery", "inquiry_type=product", "inquiry_type=nonsense"}).Draw(rt, "type"),
			}
		}), 1, 12).Draw(rt, "asks")
		var group sync.WaitGroup
		answers := make([]answer, len(asks))
		for i, a := range asks {
			c := callers[a.caller]
			group.Go(func() { answers[i] = p.get(listOf(c.Kind)+"?"+a.query, c.Record.ID) })
		}
		group.Wait()
		for i, a := range asks {
			if c := callers[a.caller]; !p.isTruth(answers[i], c.Kind, c.Account.ID, a.query) {
				rt.Fatalf("%s %s: status %d, body %.500s", c.Record.ID, a.query, answers[i].status, answers[i].body)
			}
		}
	})
}

// One account's failing list holds that account, also where no other is asked for meanwhile:
// lists of others are fetched, and not served stale.
func TestOneAccountsFailingListIsNobodyElses(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	p := start(t, setup{
		yaml: "cache: {buyer: {ttl: 1s, stale_while_revalidate: 0s, stale_if_error: 10m}, seller: {ttl: 1s}}",
		now:  clock.Now,
		// fewer than there are lists of an account, each of which rests when it has failed
		upstream: []string{"max_records: 10000", "max_records: 10000\n  breaker: {min_requests: 10}"},
	})
	p.gets(http.StatusOK, buyerList, "other-buyer")
	for _, f := range []legacy.Fault{
		{Name: legacy.FaultStatus}, {Name: legacy.FaultStatus, Code: 503}, {Name: legacy.FaultTruncate},
	} {
		clock.Add(time.Minute) // past what worked lately, and the ttl of the lists that there are
		f.Kind, f.Account = legacy.KindBuyer, legacy.BuyerTypical
		p.fault(f)
		asked := 0
		p.eventually("the account is held", func() bool {
			p.get(buyerList+"?"+filterQuery(asked), "buyer")
			asked++
			return p.explained("--account", legacy.BuyerTypical, "--kind", "buyer").Upstream.Breaker == "open"
		})
		for id, account := range map[string]string{"other-buyer": legacy.BuyerOther, "empty-buyer": legacy.BuyerEmpty} {
			a := p.get(buyerList, id)
			if status := a.header.Get("Cache-Status"); a.status != http.StatusOK || strings.Contains(status, "detail=stale-error") || !p.isTruth(a, "buyer", account, "") {
				t.Errorf("%s: %s: %d %s", f.Name, id, a.status, status)
			}
		}
		p.system.ClearFaults("")
	}
}

// A list that cannot be had is asked for three times in ten seconds at most, however often it is
// wanted: all get the same error, and the list within 5 s of its being good.
func TestAListThatCannotBeHadRests(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	p := start(t, setup{now: clock.Now, upstream: []string{"max_records: 10000", "max_records: 10"}, onlyWhenTold: true})
	for range 25 {
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				a := p.get(buyerList, "buyer")
				if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), "upstream_invalid_response") || a.header.Get("Retry-After") != "5" {
					t.Errorf("%d, Retry-After %q: %.300s", a.status, a.header.Get("Retry-After"), a.body)
				}
			})
		}
		callers.Wait()
		clock.Add(10 * time.Second / 25)
	}
	if n := p.system.Requests().Buyer; n > 3 {
		t.Errorf("the legacy system was asked %d times", n)
	}
	p.gets(http.StatusOK, buyerList, "empty-buyer") // says nothing of this list
	p.gets(http.StatusBadGateway, buyerList, "buyer")
	p.edit("max_records: 10", "max_records: 10000") // a reload lets nobody wait
	p.reload()
	p.gets(http.StatusOK, buyerList, "buyer")

	other := legacy.Fault{Name: legacy.FaultWrongOwner, Kind: legacy.KindBuyer, Account: legacy.BuyerOther}
	p.fault(other)
	p.gets(http.StatusBadGateway, buyerList, "other-buyer")
	p.system.ClearFaults("")
	p.gets(http.StatusBadGateway, buyerList, "other-buyer")
	clock.Add(5 * time.Second)
	p.gets(http.StatusOK, buyerList, "other-buyer")
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
