package upstream

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const goodTicket = `{"uuid":"6f1c2a34-1111-4222-8333-944455566677","customer":{"id":"acme"},"subject":"Late","body":{"text":"Where is it?"},
 "state":"N","category":"delivery","opened":"2026-03-01 09:30:00",
 "replies":[{"uuid":"aaaaaaaa-1111-4222-8333-944455566677","text":"On its way","by":{"role":"S"},"at":"2026-03-02T01:02:03.456+09:00"}]}`

func mapBuyer(t testing.TB, section, body string, want Request) (*reply, *Error) {
	t.Helper()
	want.Kind, want.Account = "buyer", "acme"
	r := newReply(planFrom(t, section, "buyer"), want)
	return r, r.whole(body)
}

func TestMapBuyer(t *testing.T) {
	r, err := mapBuyer(t, mappingYAML, "\ufeff"+`{"result":{"items":[`+goodTicket+`]}}`, Request{})
	if err != nil {
		t.Fatal(err)
	}
	got := r.list[0]
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
	r := newReply(planFrom(t, mappingYAML, "seller"), Request{Account: "7"})
	err := r.whole(`[{"uuid":1,"vendor":{"id":7},"subject":90071992547409931,"state":"A","customer":{"name":true},"opened":"2026-03-01T00:00:00Z"}]`)
	if err != nil {
		t.Fatal(err)
	}
	got := r.list[0]
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
		{"no object", goodTicket, `"text"`, "record", "not an object"},
		{"null record", goodTicket, `null`, "record", "not an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := strings.Replace(`{"result":{"items":[`+goodTicket+`]}}`, tc.from, tc.to, 1)
			_, err := mapBuyer(t, mappingYAML, body, Request{})
			if err == nil || err.Failure != FailureInvalid || err.Reason != tc.reason || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestMapNullable(t *testing.T) {
	body := `{"result":{"items":[` + goodTicket + `]}}`
	body = strings.Replace(body, `"category":"delivery",`, ``, 1)
	body = strings.Replace(body, `{"role":"S"}`, `null`, 1)
	r, err := mapBuyer(t, mappingYAML, body, Request{})
	if err != nil {
		t.Fatal(err)
	}
	if r.list[0].InquiryType.Valid || r.list[0].Responses[0].ResponderType.Valid {
		t.Errorf("got %+v", r.list[0])
	}
	for _, replies := range []string{`"replies":null`, `"replies":[]`, `"other":1`} {
		body := goodTicket[:strings.Index(goodTicket, `"replies"`)] + replies + "}"
		r, err := mapBuyer(t, mappingYAML, `{"result":{"items":[`+body+`]}}`, Request{})
		if err != nil || len(r.list[0].Responses) != 0 {
			t.Errorf("%s: %v %+v", replies, err, r.list)
		}
	}
}

func TestMapItems(t *testing.T) {
	for body, reason := range map[string]string{
		`{"result":{"items":[]}}`: "", `{"result":{"items":null}}`: "items", `{"result":{"items":{}}}`: "items", `{"result":{}}`: "items",
		`{}`: "items", `[]`: "items", `"x"`: "items", `{"result":{"items":[]}} x`: "json", `{"result":{"items":[]},"result":1}`: "json",
		"{\"result\":{\"items\":[]},\"x\":\"\xff\"}": "json",
	} {
		r, err := mapBuyer(t, mappingYAML, body, Request{})
		if reason == "" && (err != nil || r.list == nil) || reason != "" && (err == nil || err.Reason != reason) {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

func TestItemsMayBeMissing(t *testing.T) {
	section := strings.Replace(mappingYAML, "items: result.items", "items: result.items\n  items_optional: true", 1)
	for body, reason := range map[string]string{`{"result":{}}`: "", `{}`: "", `{"result":{"items":null}}`: "items", `{"result":{"items":7}}`: "items"} {
		r, err := mapBuyer(t, section, body, Request{})
		if reason == "" && (err != nil || len(r.list) != 0) || reason != "" && (err == nil || err.Reason != reason) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestItemsInAnObject(t *testing.T) {
	quoting := strings.Replace(goodTicket, "Where is it?", "as k-0002 said", 1)
	for _, items := range []string{`"result.items|@values"`, `result.items.@values`, `"result|items|@values"`} {
		section := strings.NewReplacer("items: result.items", "items: "+items, "[uuid, ", `["@key", uuid, `, "items: replies", `items: "replies.@values"`).Replace(mappingYAML)
		replies := strings.NewReplacer(`"replies":[`, `"replies":{"0":`, `]}`, `}}`)
		body := `{"result":{"items":{"k-0001":` + replies.Replace(quoting) + `,"k-0002":` + replies.Replace(goodTicket) + `}}}`
		r, err := mapBuyer(t, section, body, Request{})
		if err != nil || len(r.list) != 2 || len(r.list[1].Responses) != 1 || r.list[0].Content != "as [removed] said" {
			t.Errorf("%s: %+v %v", items, r.list, err)
		}
		for body, reason := range map[string]string{`{"result":{"items":{}}}`: "", `{"result":{}}`: "items", `{"error":"x"}`: "items", `{"result":{"items":[]}}`: "items", `{"result":{"items":{"a":1}}}`: "record"} {
			r, err = mapBuyer(t, section, body, Request{})
			if reason == "" && (err != nil || len(r.list) != 0) || reason != "" && (err == nil || err.Reason != reason) {
				t.Errorf("%s, %s: %+v %v", items, body, r.list, err)
			}
		}
	}
	section := strings.Replace(mappingYAML, "[uuid, ", `["@key", uuid, `, 1)
	if found := fieldsOf(t, configFrom(t, section).Validate()); found["buyer.internal_ids"] == "" {
		t.Errorf("keys of an array: %v", found)
	}
}

func TestOwnerInSeveralPlaces(t *testing.T) {
	section := strings.Replace(mappingYAML, "owner: customer.id", "owner: [customer.id.value, customer.id]", 1)
	for owner, ok := range map[string]bool{`"acme"`: true, `{"value":"acme"}`: true, `{"value":"zorg"}`: false, `{"x":"acme"}`: false, `null`: false} {
		_, err := mapBuyer(t, section, `{"result":{"items":[`+strings.Replace(goodTicket, `"id":"acme"`, `"id":`+owner, 1)+`]}}`, Request{})
		if (err == nil) != ok {
			t.Errorf("%s: %v", owner, err)
		}
	}
}

func TestSkipInvalid(t *testing.T) {
	section := strings.Replace(mappingYAML, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip", 1)
	bad := strings.Replace(goodTicket, `"subject":"Late",`, "", 1)
	r, err := mapBuyer(t, section, `{"result":{"items":[`+bad+","+goodTicket+`,7]}}`, Request{})
	if err != nil || len(r.list) != 1 || r.skipped["title"] != 1 || r.skipped["record"] != 1 || r.seen != 3 {
		t.Fatalf("%v %+v %v", err, r.list, r.skipped)
	}
	if len(r.list[0].Responses) != 1 {
		t.Errorf("responses of the good record: %+v", r.list[0].Responses)
	}
	stranger := strings.Replace(goodTicket, `"id":"acme"`, `"id":"other"`, 1)
	if _, err := mapBuyer(t, section, `{"result":{"items":[`+stranger+`]}}`, Request{}); err == nil || err.Reason != "owner" {
		t.Errorf("skip must not cover a foreign record: %v", err)
	}
}

func TestComplexPathsEqualSimpleOnes(t *testing.T) {
	complex := strings.NewReplacer(
		"items: result.items", `items: "result|items"`,
		"title: subject\n    content: body.text", "title: \"@this.subject\"\n    content: \"body|text\"",
		"items: replies", `items: "replies|@this"`,
		"internal_ids: [uuid, \"replies.#.uuid\"]", "internal_ids: [\"@this.uuid\", \"replies|#.uuid\"]",
		"owner: customer.id", `owner: "{customer}|customer.id"`,
	).Replace(mappingYAML)
	body := tickets(40)
	a, errA := mapBuyer(t, mappingYAML, body, Request{})
	b, errB := mapBuyer(t, complex, body, Request{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	for i := range a.list {
		x, y := a.list[i], b.list[i]
		if x.Title != y.Title || x.Content != y.Content || !x.CreatedAt.Equal(y.CreatedAt) || len(x.Responses) != 1 || x.Responses[0] != y.Responses[0] {
			t.Fatalf("record %d differs:\n%+v\n%+v", i, x, y)
		}
	}
	if a.removed["content"] == 0 || a.removed["content"] != b.removed["content"] {
		t.Errorf("ids removed: %v and %v", a.removed, b.removed)
	}
}

func TestGatewayFilters(t *testing.T) {
	answered := strings.NewReplacer(`"state":"N"`, `"state":"A"`, `"delivery"`, `"refund"`).Replace(goodTicket)
	body := `{"result":{"items":[` + goodTicket + "," + answered + `]}}`
	for want, n := range map[Request]int{{}: 2, {Status: "pending"}: 1, {InquiryType: "refund"}: 1, {Status: "pending", InquiryType: "refund"}: 0} {
		r, err := mapBuyer(t, mappingYAML, body, want)
		if err != nil || len(r.list) != n || r.seen != 2 {
			t.Errorf("%+v: %d records, %v", want, len(r.list), err)
		}
	}
}

func TestFilterAsk(t *testing.T) {
	values := map[string]string{"N": "pending", "A": "answered", "C": "closed", "X": "closed"}
	status := &textPlan{values: values}
	byDefault := &textPlan{values: map[string]string{"1": "refund"}, def: Default{Set: true, Value: "general"}}
	free := &textPlan{}
	keep := &textPlan{values: values, keep: true}
	fixed := &textPlan{fixed: Default{Set: true, Value: "open"}}
	joined := &textPlan{join: Default{Set: true}}
	for _, tc := range []struct {
		field      *textPlan
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
	}
}

func TestRequestURL(t *testing.T) {
	cfg := EndpointConfig{Path: "/a/{account}/b", Query: map[string]string{
		"z": "fixed", "s": "{status}", "q": "owner:{account}[ state:{status}]", "lit": "[[{{x}}]]"}}
	p := &problems{}
	plan := requestSpec{cfg.Path, cfg.Query, []string{varAccount}, []string{varAccount, varStatus, varType}}.compile("buyer", p)
	if p.err() != nil {
		t.Fatal(p.err())
	}
	plan.base = "http://h/base"
	for _, tc := range []struct{ account, status, want string }{
		{"acme", "", "http://h/base/a/acme/b?lit=%5B%7Bx%7D%5D&q=owner%3Aacme&z=fixed"},
		{"a-1", "N&x", "http://h/base/a/a-1/b?lit=%5B%7Bx%7D%5D&q=owner%3Aa-1+state%3AN%26x&s=N%26x&z=fixed"},
		{"a/../b", "", ""}, {"..", "", ""}, {".", "", ""}, {"", "", ""}, {"a b", "", ""},
	} {
		got, err := plan.url(vars{varAccount: {tc.account}, varStatus: {tc.status}})
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%q: %s %v", tc.account, got, err)
		}
	}
	delete(cfg.Query, "q")
	plan = requestSpec{cfg.Path, cfg.Query, []string{varAccount}, []string{varAccount, varStatus, varType}}.compile("buyer", p)
	if got, _ := plan.url(vars{varAccount: {"a/../b c?d"}}); !strings.HasPrefix(got, "/a/a%2F..%2Fb%20c%3Fd/b?") {
		t.Errorf("escaped to %s", got)
	}
}

// A list of records that come and go in any order maps to the good ones in that
// order, whatever else is in the objects.
func TestMapKeepsOrder(t *testing.T) {
	section := strings.Replace(mappingYAML, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip", 1)
	plan := planFrom(t, section, "buyer")
	rapid.Check(t, func(t *rapid.T) {
		var records, want []string
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			title := rapid.StringMatching(`[a-zA-Z가-힣 ]{0,12}`).Draw(t, "title")
			extra := rapid.SampledFrom([]string{"null", "-1.5e3", `"a\u00e9\"b"`, `[1,[],{"a":{}}]`, `{"subject":"no","state":["A"]}`}).Draw(t, "extra")
			record := strings.Replace(goodTicket, `"subject":"Late"`, `"x":`+extra+`,"subject":"`+title+`"`, 1)
			if rapid.Bool().Draw(t, "broken") {
				record = strings.Replace(record, `"state":"N"`, `"state":[`+extra+`]`, 1)
			} else {
				want = append(want, title)
			}
			records = append(records, record)
		}
		r := newReply(plan, Request{Account: "acme"})
		if err := r.whole(`{"result":{"items":[` + strings.Join(records, ",") + `]}}`); err != nil {
			t.Fatal(err)
		}
		if len(r.list) != len(want) {
			t.Fatalf("%d records, want %d", len(r.list), len(want))
		}
		for i := range want {
			if r.list[i].Title != want[i] || len(r.list[i].Responses) != 1 {
				t.Fatalf("record %d: %+v, want %q", i, r.list[i], want[i])
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(`{"result":{"items":[` + goodTicket + `]}}`)
	f.Add(`{"result":{"items":[{}]}}`)
	f.Add(`[]`)
	f.Add("<!doctype html>")
	f.Add(tickets(3))
	plan := planFrom(f, mappingYAML, "buyer")
	f.Fuzz(func(t *testing.T, body string) {
		r := newReply(plan, Request{Account: "acme"})
		if err := r.whole(body); err != nil {
			if err.Failure != FailureInvalid || err.Reason == "" {
				t.Errorf("failure %v", err)
			}
			return
		}
		for _, inq := range r.list {
			if inq.Status != "pending" && inq.Status != "answered" || inq.CreatedAt.Location() != time.UTC {
				t.Errorf("record %+v", inq)
			}
		}
	})
}

// A string that is not UTF-8 refuses the whole reply, and nothing of it counts.
func TestNotUTF8(t *testing.T) {
	section := strings.Replace(mappingYAML, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip", 1)
	bad := strings.Replace(goodTicket, `"subject":"Late",`, "", 1)
	invalid := strings.Replace(goodTicket, `"Late"`, "\"La\xe2\x82te\"", 1)
	stranger := strings.Replace(goodTicket, `"id":"acme"`, `"id":"other"`, 1)
	for _, records := range []string{invalid, bad + "," + invalid, invalid + "," + bad, stranger + "," + invalid, goodTicket + "," + invalid + "]", "7\xff"} {
		r, err := mapBuyer(t, section, `{"result":{"items":[`+records+`]}}`, Request{})
		if err == nil || err.Reason != "json" || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%q: %v", records, err)
		}
		if r.foreign != 0 || len(r.skipped) != 0 || r.seen != 0 || len(r.list) != 0 {
			t.Errorf("%q counted: %d foreign, %v skipped, %d seen", records, r.foreign, r.skipped, r.seen)
		}
	}
}
