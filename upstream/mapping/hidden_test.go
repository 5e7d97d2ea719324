package mapping

import (
	"fmt"
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
)

// doubtsOf are those about a list, as an operator reads them.
func doubtsOf(t *testing.T, section, body string) string {
	t.Helper()
	x := planFrom(t, section, "buyer").Explainer(Request{Kind: "buyer", Account: "acme"}, 100)
	if _, err := x.Take(body); err != nil {
		t.Fatal(err)
	}
	x.Finish()
	var all []string
	for _, d := range x.Doubts {
		all = append(all, d.Text)
	}
	return strings.Join(all, "; ")
}

// What a list that would be served hides from its operator.
func TestDoubts(t *testing.T) {
	for name, tc := range map[string]struct{ section, body, want string }{
		"none":                 {sample.YAML, sample.List(sample.Ticket), ""},
		"a misspelt condition": {changed(t, "items: result.items", "where: [{path: pubic, equals: true}]\n  items: result.items"), sample.List(sample.Ticket), "where[0]: pubic found in 0 of 1 records: no record would be shown"},
		"all are hidden":       {changed(t, "items: result.items", "where: [{path: state, equals: X}]\n  items: result.items"), sample.List(sample.Ticket), "where shows none of 1 records"},
		"an absent one":        {changed(t, "items: result.items", "where: [{path: deleted, absent: true}]\n  items: result.items"), sample.List(sample.Ticket), ""},
		"a bare code":          {changed(t, "state, values: {N: pending, A: answered}", "state"), sample.List(strings.Replace(sample.Ticket, `"N"`, `10`, 1)), "status is the bare code 10"},
		"a truth value":        {changed(t, "title: subject", "title: late"), sample.List(strings.Replace(sample.Ticket, "{", `{"late":false,`, 1)), "title is a truth value and is served as the text false"},
		"a short id":           {changed(t, "[uuid,", "[state, uuid,"), sample.List(sample.Ticket), "state has ids of one or two characters"},
		"another case":         {changed(t, "filtering: upstream", "filtering: upstream\n  on_foreign_record: drop"), sample.List(sample.Ticket, strings.Replace(sample.Ticket, `"acme"`, `"Acme"`, 1)), "differs from the account in capitals only"},
	} {
		if got := doubtsOf(t, tc.section, tc.body); !strings.Contains(got, tc.want) || tc.want == "" && got != "" && !strings.Contains(got, "ids") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A record without an owner is nobody's to drop: all of a list could be lost unseen.
func TestDropKeepsToOtherAccounts(t *testing.T) {
	section := changed(t, "filtering: upstream", "filtering: upstream\n  on_foreign_record: drop")
	none := strings.Replace(sample.Ticket, `"customer":{"id":"acme"},`, "", 1)
	if _, err := mapBuyer(t, section, sample.List(sample.Ticket, none), Request{}); err == nil || !strings.Contains(err.Error(), whyNoOwner) {
		t.Errorf("a record without an owner: %v", err)
	}
	section = strings.Replace(section, "on_foreign_record: drop", "on_foreign_record: drop\n  on_invalid_record: skip", 1)
	r, err := mapBuyer(t, section, sample.List(sample.Ticket, none), Request{})
	if err != nil || len(r.List) != 1 || r.Skipped["owner"] != 1 || r.Foreign != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// Whole elements are taken from a table of the reply, so that a value there can hide one.
func TestResponsesOfATable(t *testing.T) {
	section := changed(t, "      items: replies\n", "      items: notes.data\n      lookup: {in: included, key: [type, id], by: [type, id]}\n      where: [{path: private, not_equals: true, missing: include}]\n")
	ticket := strings.Replace(sample.Ticket, `"replies":[`, `"notes":{"data":[{"type":"n","id":"1"},{"type":"n","id":"2"}]},"old":[`, 1)
	body := func(second string) string {
		return strings.TrimSuffix(sample.List(ticket), "}") + `,"included":[{"type":"n","id":"1","uuid":"bbbbbbbb-1111-4222-8333-944455566677","text":"On its way, bbbbbbbb-1111-4222-8333-944455566677","by":{"role":"S"},"at":"2026-03-02T01:02:03Z"},` + second + `]}`
	}
	const private = `{"type":"n","id":"2","private":true,"text":"A bad customer","by":{"role":"S"},"at":"2026-03-02T01:02:03Z"}`
	r, err := mapBuyer(t, section, body(private), Request{})
	if err != nil || len(r.List[0].Responses) != 1 || r.List[0].Responses[0].Content != "On its way, [removed]" {
		t.Fatalf("%+v %v", r.List, err)
	}
	if _, err = mapBuyer(t, section, body(strings.Replace(private, `"2"`, `"3"`, 1)), Request{}); err == nil || !strings.Contains(err.Error(), whyNoEntry) {
		t.Errorf("one is missing: %v", err)
	}
	if got := doubtsOf(t, section, body(private)); strings.Contains(got, "responses") {
		t.Errorf("paths of the entries are looked for in the elements: %s", got)
	}
	_, wrong := compileSection(t, changed(t, "      items: replies\n", "      items: notes\n      lookup: {in: included, key: [id]}\n"))
	if wrong["buyer.fields.responses.lookup.by"] == "" {
		t.Error(wrong)
	}
}

func TestCut(t *testing.T) {
	got, err := mapTitle(t, `{path: a, cut: ['\[/?code\]'], trim_html: true}`, `"a":"[code]<p>Hello</p>[/code]"`)
	if got != "Hello" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	_, wrong := compileSection(t, changed(t, "title: subject", "title: {path: a, cut: ['(', 'x*']}"))
	if wrong["buyer.fields.title.cut[0]"] == "" || wrong["buyer.fields.title.cut[1]"] == "" {
		t.Error(wrong)
	}
}

// PHP writes an object without members as an empty array.
func TestEmptyObjectsOfPHP(t *testing.T) {
	section := changed(t, "items: result.items", `items: "result.items.@values"`)
	for items, good := range map[string]bool{"[]": true, "[ ]": true, "{}": true, "[1]": false, `""`: false} {
		if _, err := mapBuyer(t, section, fmt.Sprintf(`{"result":{"items":%s}}`, items), Request{}); (err == nil) != good {
			t.Errorf("%s: %v", items, err)
		}
	}
}

// Of a repeated group only the last match would go, and the rest of the id leave.
func TestRepeatedGroupsAreRefused(t *testing.T) {
	for pattern, good := range map[string]bool{`#([0-9]{4,})`: true, `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}`: true, `[0-9a-f]{8}(-[0-9a-f]{4}){3}`: false, `A(\d)+`: false, `A((\d)x)*`: false} {
		_, wrong := compileSection(t, changed(t, "items: result.items", "internal_id_patterns: ['"+pattern+"']\n  items: result.items"))
		if (wrong["buyer.internal_id_patterns[0]"] == "") != good {
			t.Errorf("%s: %v", pattern, wrong)
		}
	}
}
