package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ownTickets is a reply in which every text names its account.
func ownTickets(account string, n int) string {
	one := strings.NewReplacer(`"acme"`, `"`+account+`"`, "Late", "Late\\n"+account, "Where is it?", "by "+account+" 6f1c2a34-1111-4222-8333-944455566677", "On its way", "to "+account).Replace(goodTicket)
	return `{"result":{"items":[` + strings.Join(slices.Repeat([]string{one}, n), ",") + `]}}`
}

// checkOwn tells what in a list is not the account's.
func checkOwn(list []Inquiry, account string, n int) error {
	if list == nil || len(list) != n {
		return fmt.Errorf("%d records for %s, want %d", len(list), account, n)
	}
	for i, inq := range list {
		if inq.Title != "Late\n"+account || inq.Content != "by "+account+" [removed]" || len(inq.Responses) != 1 || inq.Responses[0].Content != "to "+account {
			return fmt.Errorf("record %d for %s: %+v", i, account, inq)
		}
	}
	return nil
}

// Lists of many accounts share their memory one after the other, and never at
// the same time.
func TestReleasedMemoryIsNobodys(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		account := r.URL.Query().Get("customer")
		serveJSON(ownTickets(account, len(account)))(w, r)
	}, nil)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 40 {
				account := strings.Repeat(string(rune('k'+g)), (i*7+g)%50+1)
				list, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: account})
				if err == nil {
					err = checkOwn(list.Inquiries, account, len(account))
				}
				if err != nil {
					t.Error(err)
					return
				}
				again := list
				list.Release()
				list.Release()
				again.Release() // a copy of the right is no second right
				if list.Inquiries != nil {
					t.Errorf("after the release: %v", list.Inquiries)
				}
			}
		})
	}
	all.Wait()
}

func TestReleaseOfNothing(t *testing.T) {
	var list List
	list.Release()
	list.Inquiries = []Inquiry{{Title: "made by hand"}}
	list.Release()
	if list.Inquiries != nil {
		t.Error("the list can still be read")
	}
}

// What goes round holds nothing of the list before, and the next one is not
// held back by it.
func TestReplyForgets(t *testing.T) {
	plan := planFrom(t, strings.Replace(mappingYAML, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip", 1), "buyer")
	broken := strings.Replace(goodTicket, `"at":"2026-03-02T01:02:03.456+09:00"}]`, `"at":"2026-03-02T01:02:03.456+09:00"},{"text":7}]`, 1)
	for _, body := range []string{
		ownTickets("acme", 30), ownTickets("other", 3), `{"result":{"items":[]}}`, `{"result":{"items":[` + goodTicket + `,7,` + broken + `]}}`,
		`{"result":{"items":[` + strings.Replace(goodTicket, "6f1c2a34-1111-4222-8333-944455566677", "INC0000017", 1) + `]}`, "\xff", "{", strings.Replace(ownTickets("acme", 9), "]}}", "],\"x\":\"\xff\"}}", 1),
		strings.Replace(ownTickets("acme", 2), "6f1c2a34", "no uuid", -1),
	} {
		r := plan.take(Request{Kind: "buyer", Account: "acme"})
		_ = r.read(body) // some fail: what they leave behind is what is looked at
		r.giveBack()
		for i, inq := range r.list[:cap(r.list)] {
			if inq.Title != "" || inq.Content != "" || inq.Responses != nil {
				t.Fatalf("%.40q left record %d: %+v", body, i, inq)
			}
		}
		for i, one := range r.responses[:cap(r.responses)] {
			if one != (Response{}) {
				t.Fatalf("%.40q left response %d: %+v", body, i, one)
			}
		}
		if r.want != (Request{}) || r.account != "" || r.seen != 0 || r.foreign != 0 || r.skipped != nil || r.removed != nil || r.err != nil || !r.ids.empty() || r.frames[frameRecord].text != "" {
			t.Fatalf("%.40q left %+v", body, r)
		}
		next := plan.take(Request{Kind: "buyer", Account: "acme"})
		if err := next.read(ownTickets("acme", 5)); err != nil {
			t.Fatalf("after %.40q: %v", body, err)
		}
		if err := checkOwn(next.list, "acme", 5); err != nil {
			t.Fatalf("after %.40q: %v", body, err)
		}
		next.giveBack()
	}
}

// One long list does not hold its memory while short ones follow.
func TestReplyLetsGo(t *testing.T) {
	plan := planFrom(t, mappingYAML, "buyer")
	r := plan.take(Request{Kind: "buyer", Account: "acme"})
	if err := r.read(tickets(5000)); err != nil {
		t.Fatal(err)
	}
	r.giveBack()
	if cap(r.list) < 5000 {
		t.Fatalf("room for %d records is kept", cap(r.list))
	}
	r.list, r.responses, r.ids.keys = r.list[:20], r.responses[:20], r.ids.keys[:20]
	r.giveBack()
	if cap(r.list) != 0 || r.list == nil || cap(r.responses) != 0 || cap(r.ids.keys) != 0 {
		t.Errorf("room for %d records and %d responses is kept", cap(r.list), cap(r.responses))
	}
}

// The inquiries of a list whose responses come by second requests are given
// back together with them.
func TestReleaseOfSecondCalls(t *testing.T) {
	section := strings.Replace(mappingYAML, "      items: replies\n", "      items: \"@this\"\n      fetch: {path: \"/v2/tickets/{id}/replies\", id: uuid, concurrency: 2}\n", 1)
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/replies") {
			serveJSON(`[{"text":"On its way","by":{"role":"S"},"at":"2026-03-02T01:02:03Z"}]`)(w, r)
			return
		}
		serveJSON(`{"result":{"items":[`+goodTicket+","+goodTicket+`]}}`)(w, r)
	}, func(c *Config) {
		second := configFrom(t, section)
		second.BaseURL, second.Timeout = c.BaseURL, c.Timeout
		*c = second
	})
	for range 10 {
		list, err := f.Fetch(t.Context(), acme)
		if err != nil {
			t.Fatal(err)
		}
		for _, inq := range list.Inquiries {
			if len(inq.Responses) != 1 || inq.Responses[0].Content != "On its way" {
				t.Fatalf("responses %+v", inq.Responses)
			}
		}
		list.Release()
	}
}
