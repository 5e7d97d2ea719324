package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

const knownBuyer = `path: /v2/tickets
query: {customer: "{account}", state: "{status}", category: "{inquiry_type}"}
filtering: upstream
items: result.items
where: [{path: state, not_equals: Z}]
internal_ids: [uuid, customer.ref, replies.#.uuid]
owner: customer.id
on_invalid_record: fail
fields:
  title: subject
  content: body.text
  status: {path: state, values: {N: pending, A: answered, C: closed}}
  inquiry_type: {path: category, values: {P: product, D: delivery, R: refund}, default: null}
  created_at: {path: opened, format: "2006-01-02 15:04:05", zone: Asia/Seoul}
  responses:
    items: replies
    fields:
      content: text
      responder_type: {path: by.role, values: {C: customer, S: staff}}
      created_at: {path: at, format: "2006-01-02 15:04:05", zone: Asia/Seoul}
`

const knownSeller = `path: /v2/vendors/{account}/tickets
filtering: gateway
items: data.list
internal_ids: [ticketId, rqstr, vendor.ref, thread.#.msgId]
owner: vendor.code
on_invalid_record: fail
fields:
  title: ttl
  status: {path: st.cd, values: {N: pending, A: answered, C: closed}}
  inquiry_type: {path: kind.cd, values: {PRD: product, DLV: delivery, RFD: refund, ETC: other}, default: other}
  company_name: vendor.corp.name.local
  created_at: {path: regDt, format: "20060102150405", zone: Asia/Seoul}
`

// keptLists are real replies of the runnable legacy system.
func keptLists(t *testing.T) (upstream.Config, []*upstream.Kept) {
	t.Helper()
	web := httptest.NewServer(legacy.New(legacy.Options{}))
	t.Cleanup(web.Close)
	section := upstream.DefaultConfig()
	section.BaseURL, section.KeepRepliesBytes = web.URL, 64<<20
	section, err := withEndpoints(section, ops.AnswersRequest{Buyer: knownBuyer, Seller: knownSeller})
	if err != nil {
		t.Fatal(err)
	}
	client, err := upstream.New(section, upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, want := range []upstream.Request{
		{Kind: "buyer", Account: legacy.BuyerTypical}, {Kind: "buyer", Account: legacy.BuyerTypical, Status: "pending"},
		{Kind: "buyer", Account: legacy.BuyerTypical, InquiryType: "delivery"}, {Kind: "seller", Account: legacy.SellerTypical},
	} {
		if _, err := client.Fetch(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	kept := client.Kept(10)
	if len(kept) != 4 {
		t.Fatalf("%d lists are kept", len(kept))
	}
	return section, kept
}

// mistakes are at least a hundred planted ones: what is replaced in a mapping, and by what.
func mistakes() (all [][3]string) {
	add := func(kind, old string, others ...string) {
		for _, other := range others {
			all = append(all, [3]string{kind, old, other})
		}
	}
	// Wrong and swapped paths.
	add("buyer", "title: subject", "title: subjct", "title: Subject", "title: body.text", "title: state", "title: uuid", "title: result.subject")
	add("buyer", "content: body.text", "content: body", "content: body.txt", "content: subject", "content: text", "content: customer.id")
	add("buyer", "status: {path: state,", "status: {path: status,", "status: {path: category,", "status: {path: state.code,", "status: {path: subject,")
	add("buyer", "path: category,", "path: kategory,", "path: state,", "path: category.code,", "path: replies.0.by.role,")
	add("buyer", "path: opened,", "path: open,", "path: updated,", "path: replies.0.at,", "path: at,")
	add("buyer", "items: replies", "items: reply", "items: replies.0", "items: responses")
	add("buyer", "content: text", "content: body.text", "content: txt", "content: at", "content: by.role")
	add("buyer", "path: by.role,", "path: role,", "path: by,", "path: text,")
	add("buyer", "{path: at,", "{path: opened,", "{path: sent,", "{path: text,")
	add("buyer", "items: result.items", "items: items", "items: result", "items: result.item", "items: data.list")
	add("buyer", "owner: customer.id", "owner: customer.ref", "owner: customer", "owner: id", "owner: uuid")
	add("seller", "title: ttl", "title: title", "title: ticketId", "title: vendor.corp.name.local", "title: st.cd")
	add("seller", "path: st.cd", "path: st", "path: kind.cd", "path: status")
	add("seller", "path: kind.cd", "path: kind", "path: st.cd", "path: type")
	add("seller", "company_name: vendor.corp.name.local", "company_name: vendor.corp.name", "company_name: vendor.code", "company_name: ttl", "company_name: vendor.name")
	add("seller", "path: regDt", "path: regdt", "path: ttl", "path: updDt")
	add("seller", "items: data.list", "items: list", "items: data", "items: result.items")
	add("seller", "owner: vendor.code", "owner: vendor.ref", "owner: code", "owner: vendor")
	// Wrong words.
	add("buyer", "N: pending", "N: answered", "N: open", "n: pending", "X: pending", "N: pendng")
	add("buyer", "A: answered", "A: pending", "A: closed", "a: answered", "A: answerd")
	add("buyer", "N: pending, A: answered,", "N: answered, A: pending,", "N: pending,", "A: answered,")
	add("buyer", "P: product, D: delivery", "D: product, P: delivery", "P: product", "D: delivery", "P: products, D: delivery")
	add("buyer", "D: delivery", "D: refund", "D: shipping")
	add("buyer", "C: customer, S: staff", "S: customer, C: staff", "C: customer", "S: staff", "C: buyer, S: staff")
	add("seller", "N: pending", "N: answered", "N: open", "A: pending", "X: pending")
	add("seller", "PRD: product", "PRD: delivery", "PRD: goods", "P: product")
	add("seller", "DLV: delivery", "DLV: product", "D: delivery")
	add("buyer", "default: null", "default: product", "default: delivery")
	// Wrong times.
	add("buyer", `path: opened, format: "2006-01-02 15:04:05"`, `path: opened, format: "2006-02-01 15:04:05"`, `path: opened, format: "2006-01-02"`, `path: opened, format: "02.01.2006 15:04"`, `path: opened, format: "2006-01-02 03:04:05"`)
	add("buyer", `path: at, format: "2006-01-02 15:04:05"`, `path: at, format: "2006-02-01 15:04:05"`, `path: at, format: "2006-01-02T15:04:05"`)
	add("buyer", `path: opened, format: "2006-01-02 15:04:05", zone: Asia/Seoul`, `path: opened, format: "2006-01-02 15:04:05", zone: UTC`, `path: opened, format: "2006-01-02 15:04:05", zone: Asia/Shanghai`, `path: opened, format: "2006-01-02 15:04:05", zone: America/New_York`)
	add("buyer", `path: at, format: "2006-01-02 15:04:05", zone: Asia/Seoul`, `path: at, format: "2006-01-02 15:04:05", zone: UTC`, `path: at, format: "2006-01-02 15:04:05", zone: Europe/Berlin`)
	add("seller", `format: "20060102150405"`, `format: "20060201150405"`, `format: "2006-01-02 15:04:05"`, `format: "200601021504"`)
	add("seller", "zone: Asia/Seoul", "zone: UTC", "zone: Asia/Kolkata")
	// Records that are shown or not, and their order.
	add("buyer", "where: [{path: state, not_equals: Z}]", "where: [{path: state, not_equals: N}]", "where: [{path: state, equals: A}]", "where: [{path: state, absent: true}]", "where: [{path: state, in: [Z]}]")
	add("buyer", "on_invalid_record: fail", "on_invalid_record: fail\nexpect: [{path: result.code, equals: 0}]")
	// What the legacy system is asked.
	add("buyer", "path: /v2/tickets\n", "path: /v1/tickets\n", "path: /v2/ticket\n", "path: /v2/tickets/{account}\n")
	add("buyer", `customer: "{account}"`, `client: "{account}"`, `customer: "{account}", expand: all`)
	add("buyer", `state: "{status}"`, `status: "{status}"`)
	add("buyer", `category: "{inquiry_type}"`, `kind: "{inquiry_type}"`)
	add("buyer", `query: {customer: "{account}", state: "{status}", category: "{inquiry_type}"}
filtering: upstream`, "query: {customer: \"{account}\"}\nfiltering: gateway")
	add("seller", "path: /v2/vendors/{account}/tickets", "path: /v2/vendors/{account}/ticket", "path: /v2/vendor/{account}/tickets")
	return all
}

// Each mistake shows, unless it is refused before: then nothing would be taken over.
func TestPlantedMistakesShow(t *testing.T) {
	testkit.Slow(t)
	section, kept := keptLists(t)
	var shown atomic.Int64
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range mistakes() {
		group.Go(func() error {
			name := fmt.Sprintf("%s: %q for %q", m[0], m[2], m[1])
			want := ops.AnswersRequest{Buyer: knownBuyer, Seller: knownSeller}
			text := map[string]*string{"buyer": &want.Buyer, "seller": &want.Seller}[m[0]]
			if !strings.Contains(*text, m[1]) {
				t.Errorf("%s: is not in the mapping", name)
			}
			*text = strings.Replace(*text, m[1], m[2], 1)
			after, err := withEndpoints(section, want)
			if err != nil {
				t.Logf("%s is refused: %v", name, err)
				return nil
			}
			if d, err := diffAnswers(t.Context(), section, after, kept); err != nil || !d.Differs() {
				t.Errorf("%s: nothing is shown, %v", name, err)
			}
			shown.Add(1)
			return nil
		})
	}
	if err := group.Wait(); err != nil || shown.Load() < 100 {
		t.Errorf("%d mistakes were tried, want 100", shown.Load())
	}
}

// Nothing is shown of a mapping that says the same in other words, and no text of a
// record whatever is shown.
func TestNoFalseAlarm(t *testing.T) {
	section, kept := keptLists(t)
	lines := strings.SplitAfter(knownSeller, "\n")
	for name, want := range map[string]ops.AnswersRequest{
		"the same":  {Buyer: knownBuyer, Seller: knownSeller},
		"comments":  {Buyer: "# tickets\n" + strings.ReplaceAll(knownBuyer, "\n", " # more\n"), Seller: knownSeller},
		"order":     {Buyer: strings.Replace(knownBuyer, `customer: "{account}", state: "{status}"`, `state: "{status}", customer: "{account}"`, 1), Seller: strings.Join(append(lines[4:], lines[:4]...), "")},
		"values":    {Buyer: strings.Replace(knownBuyer, "N: pending, A: answered, C: closed", "C: closed, A: answered, N: pending", 1), Seller: knownSeller},
		"defaults":  {Buyer: strings.Replace(strings.Replace(knownBuyer, "filtering: upstream\n", "", 1), "on_invalid_record: fail\n", "on_foreign_record: fail\npaging: {style: none}\n", 1), Seller: knownSeller},
		"block":     {Buyer: strings.Replace(knownBuyer, "title: subject", "title: {path: subject}", 1), Seller: strings.Replace(knownSeller, "title: ttl", "title:\n    path: ttl", 1)},
		"id order":  {Buyer: strings.Replace(knownBuyer, "[uuid, customer.ref, replies.#.uuid]", "[replies.#.uuid, customer.ref, uuid]", 1), Seller: knownSeller},
		"more":      {Buyer: strings.Replace(knownBuyer, "C: closed}", "C: closed, E: escalated}", 1), Seller: knownSeller},
		"condition": {Buyer: strings.Replace(knownBuyer, "where: [{path: state, not_equals: Z}]\n", "", 1), Seller: knownSeller},
		"method":    {Buyer: "method: GET\n" + knownBuyer, Seller: knownSeller},
	} {
		after, err := withEndpoints(section, want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d, err := diffAnswers(t.Context(), section, after, kept); err != nil || d.Differs() || d.Answers != len(kept) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := diffAnswers(late, section, section, kept); err != nil || d.Answers != 0 || d.Differs() {
		t.Errorf("without time: %+v, %v", d, err)
	}
	leak := strings.Replace(strings.Replace(knownBuyer, "title: subject", "title: body.text", 1), "responder_type: {path: by.role, values: {C: customer, S: staff}}", "responder_type: text", 1)
	after, err := withEndpoints(section, ops.AnswersRequest{Buyer: leak, Seller: knownSeller})
	if err != nil {
		t.Fatal(err)
	}
	d, err := diffAnswers(t.Context(), section, after, kept)
	text, _ := json.Marshal(d)
	if err != nil || d.Changed != 3 || !strings.Contains(string(text), `"field":"title"`) || !strings.Contains(string(text), `"before":"staff","after":"a text of `) {
		t.Errorf("%v: %s", err, text)
	}
}
