package mapping

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/upstream/internal/sample"
)

func TestMapBuyer(t *testing.T) {
	r, err := mapBuyer(t, sample.YAML, "\ufeff"+sample.List(sample.Ticket), Request{})
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
	r := planFrom(t, sample.YAML, "seller").NewBuilder(Request{Account: "7"})
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
		{"no object", sample.Ticket, `"text"`, "record", "not an object"},
		{"null record", sample.Ticket, `null`, "record", "not an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := strings.Replace(sample.List(sample.Ticket), tc.from, tc.to, 1)
			_, err := mapBuyer(t, sample.YAML, body, Request{})
			if reasonOf(t, err) != tc.reason || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMapNullable(t *testing.T) {
	body := sample.List(sample.Ticket)
	body = strings.Replace(body, `"category":"delivery",`, ``, 1)
	body = strings.Replace(body, `{"role":"S"}`, `null`, 1)
	r, err := mapBuyer(t, sample.YAML, body, Request{})
	if err != nil {
		t.Fatal(err)
	}
	if r.List[0].InquiryType.Valid || r.List[0].Responses[0].ResponderType.Valid {
		t.Errorf("got %+v", r.List[0])
	}
	for _, replies := range []string{`"replies":null`, `"replies":[]`, `"other":1`} {
		body := sample.Ticket[:strings.Index(sample.Ticket, `"replies"`)] + replies + "}"
		r, err := mapBuyer(t, sample.YAML, sample.List(body), Request{})
		if err != nil || len(r.List[0].Responses) != 0 {
			t.Errorf("%s: %v %+v", replies, err, r.List)
		}
	}
}

func TestMapItems(t *testing.T) {
	for body, reason := range map[string]string{
		`{"result":{"items":[]}}`: "", `{"result":{"items":null}}`: "items", `{"result":{"items":{}}}`: "items", `{"result":{}}`: "items",
		`{}`: "items", `[]`: "items", `"x"`: "items", `{"result":{"items":[]}} x`: "json", `{"result":{"items":[]},"result":1}`: "json",
		"{\"result\":{\"items\":[]},\"x\":\"\xff\"}": "json",
	} {
		r, err := mapBuyer(t, sample.YAML, body, Request{})
		if reasonOf(t, err) != reason || reason == "" && r.List == nil {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

func TestItemsMayBeMissing(t *testing.T) {
	section := changed(t, "items: result.items", "items: result.items\n  items_optional: true")
	for body, reason := range map[string]string{`{"result":{}}`: "", `{}`: "", `{"result":{"items":null}}`: "items", `{"result":{"items":7}}`: "items"} {
		r, err := mapBuyer(t, section, body, Request{})
		if reasonOf(t, err) != reason || reason == "" && len(r.List) != 0 {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestItemsInAnObject(t *testing.T) {
	quoting := strings.Replace(sample.Ticket, "Where is it?", "as k-0002 said", 1)
	for _, items := range []string{`"result.items|@values"`, `result.items.@values`, `"result|items|@values"`} {
		section := changed(t, "items: result.items", "items: "+items, "[uuid, ", `["@key", uuid, `, "items: replies", `items: "replies.@values"`)
		replies := strings.NewReplacer(`"replies":[`, `"replies":{"0":`, `]}`, `}}`)
		body := `{"result":{"items":{"k-0001":` + replies.Replace(quoting) + `,"k-0002":` + replies.Replace(sample.Ticket) + `}}}`
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
	if _, wrong := compileSection(t, changed(t, "[uuid, ", `["@key", uuid, `)); wrong["buyer.internal_ids"] == "" {
		t.Errorf("keys of an array: %v", wrong)
	}
}

func TestOwnerInSeveralPlaces(t *testing.T) {
	section := changed(t, "owner: customer.id", "owner: [customer.id.value, customer.id]")
	for owner, ok := range map[string]bool{`"acme"`: true, `{"value":"acme"}`: true, `{"value":"zorg"}`: false, `{"x":"acme"}`: false, `null`: false} {
		_, err := mapBuyer(t, section, `{"result":{"items":[`+strings.Replace(sample.Ticket, `"id":"acme"`, `"id":`+owner, 1)+`]}}`, Request{})
		if (err == nil) != ok {
			t.Errorf("%s: %v", owner, err)
		}
	}
}

func TestSkipInvalid(t *testing.T) {
	section := changed(t, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip")
	bad := strings.Replace(sample.Ticket, `"subject":"Late",`, "", 1)
	r, err := mapBuyer(t, section, `{"result":{"items":[`+bad+","+sample.Ticket+`,7]}}`, Request{})
	if err != nil || len(r.List) != 1 || r.Skipped["title"] != 1 || r.Skipped["record"] != 1 || r.Seen != 3 {
		t.Fatalf("%v %+v %v", err, r.List, r.Skipped)
	}
	if len(r.List[0].Responses) != 1 {
		t.Errorf("responses of the good record: %+v", r.List[0].Responses)
	}
	stranger := strings.Replace(sample.Ticket, `"id":"acme"`, `"id":"other"`, 1)
	if _, err := mapBuyer(t, section, sample.List(stranger), Request{}); reasonOf(t, err) != "owner" {
		t.Errorf("skip must not cover a foreign record: %v", err)
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
	body := sample.Tickets(40)
	a, errA := mapBuyer(t, sample.YAML, body, Request{})
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

func TestGatewayFilters(t *testing.T) {
	answered := strings.NewReplacer(`"state":"N"`, `"state":"A"`, `"delivery"`, `"refund"`).Replace(sample.Ticket)
	body := `{"result":{"items":[` + sample.Ticket + "," + answered + `]}}`
	for want, n := range map[Request]int{{}: 2, {Status: "pending"}: 1, {InquiryType: "refund"}: 1, {Status: "pending", InquiryType: "refund"}: 0} {
		r, err := mapBuyer(t, sample.YAML, body, want)
		if err != nil || len(r.List) != n || r.Seen != 2 {
			t.Errorf("%+v: %d records, %v", want, len(r.List), err)
		}
	}
}

func TestFilterAsk(t *testing.T) {
	values := map[string]string{"N": "pending", "A": "answered", "C": "closed", "X": "closed"}
	status := &field{values: values}
	byDefault := &field{values: map[string]string{"1": "refund"}, def: Default{Set: true, Value: "general"}}
	free := &field{}
	keep := &field{values: values, keep: true}
	fixed := &field{fixed: Default{Set: true, Value: "open"}}
	joined := &field{join: Default{Set: true}}
	for _, tc := range []struct {
		field      *field
		join       string
		sent       bool
		want, send string
		impossible bool
	}{
		{status, "", true, "", "", false}, {status, "", true, "pending", "N", false}, {status, "", false, "pending", "", false},
		{status, "", true, "N", "", true}, {status, "", false, "nosuch", "", true}, {status, "", true, "closed", "", false},
		{status, ",", true, "closed", "C,X", false}, {status, "repeat", true, "closed", "C X", false}, {status, "repeat", false, "closed", "", false},
		{byDefault, "", true, "general", "", false}, {byDefault, "", true, "refund", "1", false}, {byDefault, "", true, "x", "", true},
		{free, "", true, "anything", "anything", false}, {free, "", false, "anything", "", false},
		{keep, "", true, "other", "other", false}, {keep, "", true, "N", "", true}, {keep, ",", true, "closed", "C,X,closed", false},
		{fixed, "", true, "open", "", false}, {fixed, "", true, "closed", "", true}, {joined, "", true, "a b", "", false},
	} {
		f := newFilter(tc.field, tc.join, tc.sent)
		if send, impossible := f.ask(tc.want); strings.Join(send, " ") != tc.send || impossible != tc.impossible {
			t.Errorf("%q: got %q %v, want %q", tc.want, send, impossible, tc.send)
		}
		all := f.asked(false)
		asked, ok := all.Values[tc.want]
		if !ok {
			asked = all.Other
		}
		want := AskedFor
		if tc.impossible {
			want = NoRecord
		} else if tc.send == "" {
			want = SelectedHere
		}
		if asked != want && tc.want != "" {
			t.Errorf("%q: told %d in advance, want %d", tc.want, asked, want)
		}
	}
}

// askedOf is what becomes of a value.
func askedOf(f Filter, value string) Asked {
	if a, ok := f.Values[value]; ok {
		return a
	}
	return f.Other
}

func TestFilters(t *testing.T) {
	joined := []string{"inquiry_type: {path: category, default: null}", `inquiry_type: {path: category, join: " ", default: null}`}
	fetched := []string{"      items: replies\n", "      items: comments\n      fetch: {path: \"/v2/{id}\", id: uuid}\n"}
	for _, tc := range []struct {
		name, section, kind        string
		status, inquiryType        string
		wantStatus, wantOfTheTypes Asked
	}{
		{"both are sent", sample.YAML, "buyer", "pending", "x", AskedFor, AskedFor},
		{"no such status", sample.YAML, "buyer", "nosuch", "x", NoRecord, AskedFor},
		{"neither is sent", sample.YAML, "seller", "pending", "general", SelectedHere, SelectedHere},
		{"no such status of a seller", sample.YAML, "seller", "nosuch", "x", NoRecord, SelectedHere},
		{"one cannot be named", changed(t, joined...), "buyer", "pending", "a b", AskedFor, SelectedHere},
		{"responses are fetched for what is kept", changed(t, append(joined, fetched...)...), "buyer", "pending", "a b", AskedFor, AskedFor},
		{"responses are fetched for the whole list once where the gateway filters", changed(t, append(fetched,
			"filtering: upstream", "filtering: gateway", `, state: "{status}"`, "", `, category: "{inquiry_type}"`, "")...), "buyer", "pending", "x", SelectedHere, SelectedHere},
	} {
		status, inquiryType := planFrom(t, tc.section, tc.kind).Filters()
		if a, b := askedOf(status, tc.status), askedOf(inquiryType, tc.inquiryType); a != tc.wantStatus || b != tc.wantOfTheTypes {
			t.Errorf("%s: %v and %v", tc.name, a, b)
		}
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
			record := strings.Replace(sample.Ticket, `"subject":"Late"`, `"x":`+extra+`,"subject":"`+title+`"`, 1)
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
	f.Add(sample.List(sample.Ticket))
	f.Add(`{"result":{"items":[{}]}}`)
	f.Add(`[]`)
	f.Add("<!doctype html>")
	f.Add(sample.Tickets(3))
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
	bad := strings.Replace(sample.Ticket, `"subject":"Late",`, "", 1)
	invalid := strings.Replace(sample.Ticket, `"Late"`, "\"La\xe2\x82te\"", 1)
	stranger := strings.Replace(sample.Ticket, `"id":"acme"`, `"id":"other"`, 1)
	for _, records := range []string{invalid, bad + "," + invalid, invalid + "," + bad, stranger + "," + invalid, sample.Ticket + "," + invalid + "]", "7\xff"} {
		r, err := mapBuyer(t, section, sample.List(records), Request{})
		if reasonOf(t, err) != "json" || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%q: %v", records, err)
		}
		if r.Foreign != 0 || len(r.Skipped) != 0 || r.Seen != 0 || len(r.List) != 0 {
			t.Errorf("%q counted: %d foreign, %v skipped, %d seen", records, r.Foreign, r.Skipped, r.Seen)
		}
	}
}
