package mapping

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/internal/testkit"
)

func TestMapBuyer(t *testing.T) {
	r, err := mapBuyer(t, testkit.SampleYAML, "\ufeff"+testkit.SampleList(testkit.SampleTicket), Request{})
	if err != nil {
		t.Fatal(err)
	}
	got := r.List[0]
	if got.Title != "Late" || got.Content != "Where is it?" || got.Status != "pending" || got.InquiryType != (NullString{"delivery", true}) {
		t.Errorf("got %+v", got)
	}
	if want := time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC); !got.CreatedAt.Equal(want) || got.CreatedAt.Location() != time.UTC {
		t.Errorf("created at %v", got.CreatedAt)
	}
	if len(got.Responses) != 1 || got.Responses[0].Content != "On its way" || got.Responses[0].ResponderType.String != "staff" {
		t.Errorf("responses %+v", got.Responses)
	}
	if want := time.Date(2026, 3, 1, 16, 2, 3, 456e6, time.UTC); !got.Responses[0].CreatedAt.Equal(want) {
		t.Errorf("response at %v", got.Responses[0].CreatedAt)
	}
}

func TestMapSellerOverBareArray(t *testing.T) {
	r := planFrom(t, testkit.SampleYAML, "seller").NewBuilder(Request{Account: "7"})
	err := whole(r, `[{"uuid":1,"vendor":{"id":7},"subject":90071992547409931,"state":"A","customer":{"name":true},"opened":"2026-03-01T00:00:00Z"}]`)
	if err != nil {
		t.Fatal(err)
	}
	got := r.List[0]
	if got.Title != "90071992547409931" || got.CompanyName != "true" || got.InquiryType.String != "general" || got.Status != "answered" {
		t.Errorf("got %+v", got)
	}
}

func TestMapRefuses(t *testing.T) {
	for _, tc := range []struct{ name, from, to, reason, says string }{
		{"title missing", `"subject":"Late",`, ``, "record", "record 1: title: missing"},
		{"title null", `"subject":"Late"`, `"subject":null`, "record", "title: missing"},
		{"title object", `"subject":"Late"`, `"subject":{"a":"b"}`, "record", "title: an object"},
		{"unknown status", `"state":"N"`, `"state":"Z"`, "record", "status: a value that has no entry"},
		{"bad time", `"2026-03-01 09:30:00"`, `"2026-02-30 09:30:00"`, "record", "created_at: not a time"},
		{"time null", `"2026-03-01 09:30:00"`, `null`, "record", "created_at: missing"},
		{"replies no array", `"replies":[{`, `"replies":{"x":1},"other":[{`, "record", "responses: not the array"},
		{"reply no object", `"replies":[{`, `"replies":[5,{`, "record", "responses: not an object"},
		{"reply content", `"text":"On its way"`, `"text":null`, "record", "responses.content: missing"},
		{"reply role", `"role":"S"`, `"role":"X"`, "record", "responses.responder_type: a value"},
		{"reply time", `"at":"2026-03-02T01:02:03.456+09:00"`, `"at":"yesterday"`, "record", "responses.created_at: not a time"},
		{"stranger", `"id":"acme"`, `"id":"other"`, "owner", "another owner"},
		{"no owner", `"id":"acme"`, `"id":null`, "owner", "no owner"},
		{"owner in capitals", `"id":"acme"`, `"id":"ACME"`, "owner", "another owner"},
		{"no object", testkit.SampleTicket, `"text"`, "record", "not an object"},
		{"null record", testkit.SampleTicket, `null`, "record", "not an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := strings.Replace(testkit.SampleList(testkit.SampleTicket), tc.from, tc.to, 1)
			_, err := mapBuyer(t, testkit.SampleYAML, body, Request{})
			if reasonOf(t, err) != tc.reason || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMapNullable(t *testing.T) {
	body := testkit.SampleList(testkit.SampleTicket)
	body = strings.Replace(body, `"category":"delivery",`, ``, 1)
	body = strings.Replace(body, `{"role":"S"}`, `null`, 1)
	r, err := mapBuyer(t, testkit.SampleYAML, body, Request{})
	if err != nil {
		t.Fatal(err)
	}
	if r.List[0].InquiryType.Valid || r.List[0].Responses[0].ResponderType.Valid {
		t.Errorf("got %+v", r.List[0])
	}
	for _, replies := range []string{`"replies":null`, `"replies":[]`, `"other":1`} {
		body := testkit.SampleTicket[:strings.Index(testkit.SampleTicket, `"replies"`)] + replies + "}"
		r, err := mapBuyer(t, testkit.SampleYAML, testkit.SampleList(body), Request{})
		if err != nil || len(r.List[0].Responses) != 0 {
			t.Errorf("%s: %v %+v", replies, err, r.List)
		}
	}
}

func TestMapItems(t *testing.T) {
	optional := changed(t, "items: result.items", "items: result.items\n  items_optional: true")
	for section, replies := range map[string]map[string]string{
		testkit.SampleYAML: {
			`{"result":{"items":[]}}`: "", `{"result":{"items":null}}`: "items", `{"result":{"items":{}}}`: "items", `{"result":{}}`: "items",
			`{}`: "items", `[]`: "items", `"x"`: "items", `{"result":{"items":[]}} x`: "json", `{"result":{"items":[]},"result":1}`: "json",
			"{\"result\":{\"items\":[]},\"x\":\"\xff\"}": "json",
		},
		optional: {`{"result":{}}`: "", `{}`: "", `{"result":{"items":null}}`: "items", `{"result":{"items":7}}`: "items"},
	} {
		for body, reason := range replies {
			r, err := mapBuyer(t, section, body, Request{})
			if reasonOf(t, err) != reason || reason == "" && (r.List == nil || len(r.List) != 0) {
				t.Errorf("%q: got %v", body, err)
			}
		}
	}
}

func TestItemsInAnObject(t *testing.T) {
	quoting := strings.Replace(testkit.SampleTicket, "Where is it?", "as k-0002 said", 1)
	for _, items := range []string{`"result.items|@values"`, `result.items.@values`, `"result|items|@values"`} {
		section := changed(t, "items: result.items", "items: "+items, "[uuid, ", `["@key", uuid, `, "items: replies", `items: "replies.@values"`)
		replies := strings.NewReplacer(`"replies":[`, `"replies":{"0":`, `]}`, `}}`)
		body := `{"result":{"items":{"k-0001":` + replies.Replace(quoting) + `,"k-0002":` + replies.Replace(testkit.SampleTicket) + `}}}`
		r, err := mapBuyer(t, section, body, Request{})
		if err != nil || len(r.List) != 2 || len(r.List[1].Responses) != 1 || r.List[0].Content != "as [removed] said" {
			t.Errorf("%s: %+v %v", items, r.List, err)
		}
		for body, reason := range map[string]string{`{"result":{"items":{}}}`: "", `{"result":{}}`: "items", `{"error":"x"}`: "items", `{"result":{"items":[]}}`: "", `{"result":{"items":[1]}}`: "items", `{"result":{"items":{"a":1}}}`: "record"} {
			r, err = mapBuyer(t, section, body, Request{})
			if reasonOf(t, err) != reason || reason == "" && len(r.List) != 0 {
				t.Errorf("%s, %s: %+v %v", items, body, r.List, err)
			}
		}
	}
}

func TestOwnerInSeveralPlaces(t *testing.T) {
	section := changed(t, "owner: customer.id", "owner: [customer.id.value, customer.id]")
	for owner, ok := range map[string]bool{`"acme"`: true, `{"value":"acme"}`: true, `{"value":"zorg"}`: false, `{"x":"acme"}`: false, `null`: false} {
		_, err := mapBuyer(t, section, `{"result":{"items":[`+strings.Replace(testkit.SampleTicket, `"id":"acme"`, `"id":`+owner, 1)+`]}}`, Request{})
		if (err == nil) != ok {
			t.Errorf("%s: %v", owner, err)
		}
	}
}

func TestSkipInvalid(t *testing.T) {
	section := changed(t, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip")
	bad := strings.Replace(testkit.SampleTicket, `"subject":"Late",`, "", 1)
	r, err := mapBuyer(t, section, `{"result":{"items":[`+bad+","+testkit.SampleTicket+`,7]}}`, Request{})
	if err != nil || len(r.List) != 1 || r.Skipped["title"] != 1 || r.Skipped["record"] != 1 || r.Seen != 3 {
		t.Fatalf("%v %+v %v", err, r.List, r.Skipped)
	}
	if len(r.List[0].Responses) != 1 {
		t.Errorf("responses of the good record: %+v", r.List[0].Responses)
	}
	stranger := strings.Replace(testkit.SampleTicket, `"id":"acme"`, `"id":"other"`, 1)
	if _, err := mapBuyer(t, section, testkit.SampleList(stranger), Request{}); reasonOf(t, err) != "owner" {
		t.Errorf("skip must not cover a foreign record: %v", err)
	}
}

// What on_foreign_record drops is another account's. A record without an owner is nobody's to
// drop: all of a list could be lost unseen.
func TestDropForeign(t *testing.T) {
	section := changed(t, "filtering: upstream", "filtering: upstream\n  on_foreign_record: drop")
	stranger := strings.NewReplacer(`"id":"acme"`, `"id":"zorg"`, "Late", "Secret of zorg").Replace(testkit.SampleTicket)
	r, err := mapBuyer(t, section, testkit.SampleList(stranger, testkit.SampleTicket, stranger), Request{})
	if err != nil || len(r.List) != 1 || r.List[0].Title != "Late" || len(r.List[0].Responses) != 1 || r.Foreign != 2 {
		t.Errorf("%+v %v, %d foreign", r.List, err, r.Foreign)
	}
	none := strings.Replace(testkit.SampleTicket, `"customer":{"id":"acme"},`, "", 1)
	if _, err := mapBuyer(t, section, testkit.SampleList(testkit.SampleTicket, none), Request{}); err == nil || !strings.Contains(err.Error(), whyNoOwner) {
		t.Errorf("a record without an owner: %v", err)
	}
	section = strings.Replace(section, "on_foreign_record: drop", "on_foreign_record: drop\n  on_invalid_record: skip", 1)
	r, err = mapBuyer(t, section, testkit.SampleList(testkit.SampleTicket, none), Request{})
	if err != nil || len(r.List) != 1 || r.Skipped["owner"] != 1 || r.Foreign != 0 {
		t.Errorf("%+v %v", r, err)
	}
	unbound := strings.Replace(section, "  owner: customer.id\n", "", 1)
	if _, wrong := compileSection(t, unbound); wrong["buyer.on_foreign_record"] == "" {
		t.Errorf("got %v", wrong)
	}
}

func TestComplexPathsEqualSimpleOnes(t *testing.T) {
	complex := changed(t,
		"items: result.items", `items: "result|items"`,
		"title: subject\n    content: body.text", "title: \"@this.subject\"\n    content: \"body|text\"",
		"items: replies", `items: "replies|@this"`,
		"internal_ids: [uuid, \"replies.#.uuid\"]", "internal_ids: [\"@this.uuid\", \"replies|#.uuid\"]",
		"owner: customer.id", `owner: "{customer}|customer.id"`,
	)
	body := testkit.SampleTickets(40)
	a, errA := mapBuyer(t, testkit.SampleYAML, body, Request{})
	b, errB := mapBuyer(t, complex, body, Request{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	for i := range a.List {
		x, y := a.List[i], b.List[i]
		if x.Title != y.Title || x.Content != y.Content || !x.CreatedAt.Equal(y.CreatedAt) || len(x.Responses) != 1 || x.Responses[0] != y.Responses[0] {
			t.Fatalf("record %d differs:\n%+v\n%+v", i, x, y)
		}
	}
	if a.Removed["content"] == 0 || a.Removed["content"] != b.Removed["content"] {
		t.Errorf("ids removed: %v and %v", a.Removed, b.Removed)
	}
}

func TestSweepOverTheWholeReply(t *testing.T) {
	other := strings.NewReplacer("6f1c2a34", "7f1c2a34", "aaaaaaaa", "bbbbbbbb", "Where is it?", "as in 6F1C2A34-1111-4222-8333-944455566677 and aaaaaaaa111142228333944455566677",
		"On its way", "see bbbbbbbb-1111-4222-8333-944455566677", `"Late"`, `"7f1c2a34-1111-4222-8333-944455566677"`).Replace(testkit.SampleTicket)
	r, err := mapBuyer(t, testkit.SampleYAML, `{"result":{"items":[`+other+","+testkit.SampleTicket+`]}}`, Request{})
	if err != nil {
		t.Fatal(err)
	}
	got := r.List[0]
	if got.Title != "[removed]" || got.Content != "as in [removed] and [removed]" || got.Responses[0].Content != "see [removed]" {
		t.Errorf("got %+v", got)
	}
	if r.Removed["title"] != 1 || r.Removed["content"] != 2 || r.Removed["responses.content"] != 1 {
		t.Errorf("counted %v", r.Removed)
	}
}

// A list of records that come and go in any order maps to the good ones in that
// order, whatever else is in the objects.
func TestMapKeepsOrder(t *testing.T) {
	section := changed(t, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip")
	plan := planFrom(t, section, "buyer")
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
		r := plan.NewBuilder(Request{Account: "acme"})
		if err := whole(r, `{"result":{"items":[`+strings.Join(records, ",")+`]}}`); err != nil {
			t.Fatal(err)
		}
		if len(r.List) != len(want) {
			t.Fatalf("%d records, want %d", len(r.List), len(want))
		}
		for i := range want {
			if r.List[i].Title != want[i] || len(r.List[i].Responses) != 1 {
				t.Fatalf("record %d: %+v, want %q", i, r.List[i], want[i])
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(testkit.SampleList(testkit.SampleTicket))
	f.Add(`{"result":{"items":[{}]}}`)
	f.Add(`[]`)
	f.Add("<!doctype html>")
	f.Add(testkit.SampleTickets(3))
	f.Add(`{"errors":[{}],"result":{"items":[]}}`)
	plan := planFrom(f, expecting(f, "{path: errors.0, absent: true}, {path: rc, equals: 0, missing: include}"), "buyer")
	f.Fuzz(func(t *testing.T, body string) {
		r := plan.NewBuilder(Request{Account: "acme"})
		if err := whole(r, body); err != nil {
			if reasonOf(t, err) == "" {
				t.Errorf("failure %v", err)
			}
			return
		}
		for _, inq := range r.List {
			if inq.Status != "pending" && inq.Status != "answered" || inq.CreatedAt.Location() != time.UTC {
				t.Errorf("record %+v", inq)
			}
		}
	})
}

// A string that is not UTF-8 refuses the whole reply, and nothing of it counts.
func TestNotUTF8(t *testing.T) {
	section := changed(t, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip")
	bad := strings.Replace(testkit.SampleTicket, `"subject":"Late",`, "", 1)
	invalid := strings.Replace(testkit.SampleTicket, `"Late"`, "\"La\xe2\x82te\"", 1)
	stranger := strings.Replace(testkit.SampleTicket, `"id":"acme"`, `"id":"other"`, 1)
	for _, records := range []string{invalid, bad + "," + invalid, invalid + "," + bad, stranger + "," + invalid, testkit.SampleTicket + "," + invalid + "]", "7\xff"} {
		r, err := mapBuyer(t, section, testkit.SampleList(records), Request{})
		if reasonOf(t, err) != "json" || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%q: %v", records, err)
		}
		if r.Foreign != 0 || len(r.Skipped) != 0 || r.Seen != 0 || len(r.List) != 0 {
			t.Errorf("%q counted: %d foreign, %v skipped, %d seen", records, r.Foreign, r.Skipped, r.Seen)
		}
	}
}
