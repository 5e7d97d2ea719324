package mapping

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/internal/testkit"
)

var acme = Query{Account: "acme"}

// A list of records that come and go in any order maps to the good ones in that
// order, whatever else is in the objects.
func TestMapKeepsOrder(t *testing.T) {
	plan := planOf(t, "on_invalid_record: skip")
	rapid.Check(t, func(t *rapid.T) {
		var records, want []string
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			title := rapid.StringMatching(`[a-zA-Z가-힣 ]{0,12}`).Draw(t, "title")
			extra := rapid.SampledFrom([]string{"null", "-1.5e3", `"a\u00e9\"b"`, `[1,[],{"a":{}}]`, `{"subject":"no","state":["A"]}`}).Draw(t, "extra")
			record := strings.Replace(testkit.SampleTicket, `"subject":"Late"`, `"x":`+extra+`,"subject":"`+title+`"`, 1)
			if rapid.Bool().Draw(t, "broken") {
				record = strings.Replace(record, `"state":"N"`, `"state":[`+extra+`]`, 1)
			} else {
				want = append(want, title)
			}
			records = append(records, record)
		}
		b, err := read(plan, acme, testkit.SampleList(records...), End{Pages: 1})
		if err != nil || len(b.List) != len(want) {
			t.Fatalf("%d records, want %d: %v", len(b.List), len(want), err)
		}
		for i := range want {
			if b.List[i].Title != want[i] || len(b.List[i].Responses) != 1 {
				t.Fatalf("record %d: %+v, want %q", i, b.List[i], want[i])
			}
		}
	})
}

// A string that is not UTF-8 refuses the whole reply, and nothing of it counts. A mark of
// the byte order is no part of it.
func TestNotUTF8(t *testing.T) {
	plan := planOf(t, "on_invalid_record: skip")
	bad := strings.Replace(testkit.SampleTicket, `"subject":"Late",`, "", 1)
	invalid := strings.Replace(testkit.SampleTicket, `"Late"`, "\"La\xe2\x82te\"", 1)
	stranger := strings.Replace(testkit.SampleTicket, `"id":"acme"`, `"id":"other"`, 1)
	for _, records := range []string{invalid, bad + "," + invalid, invalid + "," + bad, stranger + "," + invalid, testkit.SampleTicket + "," + invalid + "]", "7\xff"} {
		b, err := read(plan, acme, testkit.SampleList(records), End{Pages: 1})
		if reasonOf(t, err) != "json" || !strings.Contains(err.Error(), "UTF-8; name its charset under reply.charset") {
			t.Errorf("%q: %v", records, err)
		}
		if b.Foreign != 0 || len(b.Skipped) != 0 || b.Seen != 0 || len(b.List) != 0 {
			t.Errorf("%q counted: %+v, %d inquiries", records, b.Counts, len(b.List))
		}
	}
}

// All pages of a list are bounded together. The tables of a reply are bounded, too, and are
// that reply's: an id may mean another thing on the next page.
func TestPages(t *testing.T) {
	plan := planOf(t, "fields.title: {path: name, lookup: {in: users, key: id, by: state}}")
	plan.MaxRecords = 2
	b := plan.NewBuilder(acme)
	page := func(entries string) string {
		return strings.TrimSuffix(testkit.SampleList(testkit.SampleTicket), "}") + `,"users":[` + entries + `]}`
	}
	for _, name := range []string{"one", "two"} {
		if _, err := b.Take(page(fmt.Sprintf(`{"id":"N","name":%q}`, name))); err != nil {
			t.Fatal(err)
		}
	}
	if b.List[0].Title != "one" || b.List[1].Title != "two" {
		t.Errorf("%+v", b.List)
	}
	for entries, says := range map[string]string{`{"id":"N","name":"three"}`: "more than 2 records", strings.Repeat("0,", 20) + "0": "more than 20 entries"} {
		if _, err := b.Take(page(entries)); reasonOf(t, err) != "too_many" || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add(testkit.SampleList(testkit.SampleTicket))
	f.Add(`{"result":{"items":[{}]}}`)
	f.Add(`[]`)
	f.Add("<!doctype html>")
	f.Add(testkit.SampleTickets(3))
	f.Add(`{"errors":[{}],"result":{"items":[]}}`)
	f.Add(`{"rc":"\u1","result":{"items":[]}}`)
	f.Add(`{"result":{"items":[]},"users":[{"id":"\u12","role":"S"}]}`)
	f.Add(`{"result":{"items":[{"customer":{"id":"acme"},"replies":[{"by":{"role":"\ud83d\`)
	f.Add(`{"users":[{"id":"S","role":"`)
	plan := planOf(f, "expect: [{path: errors.0, is: null}, {path: rc, is: [0, null]}]",
		"fields.responses.fields.responder_type: {path: role, lookup: {in: users, key: id, by: by.role}, default: null}")
	f.Fuzz(func(t *testing.T, body string) {
		x := plan.Explainer(acme, 3)
		_, _ = x.Take(body)
		x.Finish()
		_ = plan.expect.Any(body, false)
		b, err := read(plan, acme, body, End{Pages: 1})
		if err != nil {
			if reasonOf(t, err) == "" {
				t.Errorf("failure %v", err)
			}
			return
		}
		for _, inq := range b.List {
			if inq.Status != "pending" && inq.Status != "answered" || inq.CreatedAt.Location() != time.UTC {
				t.Errorf("record %+v", inq)
			}
		}
	})
}

func FuzzHTML(f *testing.F) {
	f.Add("<p>a</p><script>b")
	f.Add("&lt;<!-- <b> -->")
	f.Fuzz(func(t *testing.T, s string) {
		if got := htmlText(s); strings.ContainsAny(s, "<&") && strings.TrimSpace(got) != got {
			t.Errorf("%q", got)
		}
	})
}
