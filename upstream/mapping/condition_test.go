package mapping

import (
	"fmt"
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	for where, want := range map[string]string{
		"{path: public, equals: true}":                               "a",
		"{path: public, equals: \"true\"}":                           "a",
		"{path: public, equals: true, missing: include}":             "aef",
		"{path: public, not_equals: false}":                          "acd",
		"{path: public, not_equals: false, missing: include}":        "acdef",
		"{path: public, in: [\"false\", \"7\"]}":                     "bc",
		"{path: public, absent: true}":                               "ef",
		"{path: public.x, absent: true}":                             "abcdef",
		"{path: \"public|@this\", equals: 7}":                        "c",
		"{path: public, absent: true}, {path: text, equals: e}":      "e",
		"{path: public, not_equals: 7}, {path: public, in: [\"t\"]}": "",
	} {
		replies := ""
		for text, public := range map[string]string{"a": "true", "b": "false", "c": "7", "d": `"x"`, "e": "null"} {
			replies += fmt.Sprintf(`{"uuid":"uu-%s-0001","text":%q,"public":%s,"by":{"role":"S"},"at":"2026-01-01T00:00:00Z"},`, text, text, public)
		}
		replies += `{"uuid":"uu-f-0001","text":"f","by":{"role":"S"},"at":"2026-01-01T00:00:00Z"},{"public":[true],"text":"g"}`
		body := `{"result":{"items":[{"customer":{"id":"acme"},"subject":"about uu-b-0001","body":{"text":"x"},"state":"N","opened":"2026-03-01 09:30:00","replies":[` + replies + `]}]}}`
		// The last reply is no valid one, but a list is no single value, so it is never shown.
		if strings.Contains(where, "public.x") {
			body = strings.Replace(body, `,{"public":[true],"text":"g"}`, "", 1)
		}
		r, err := mapBuyer(t, changed(t, "items: replies", "items: replies\n      where: ["+where+"]"), body, Request{})
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		got := ""
		for _, text := range []string{"a", "b", "c", "d", "e", "f"} {
			for _, response := range r.List[0].Responses {
				if response.Content == text {
					got += text
				}
			}
		}
		if got != want || len(r.List[0].Responses) != len(want) || r.List[0].Title != "about [removed]" {
			t.Errorf("%s: %q %+v, want %q", where, got, r.List[0], want)
		}
	}
}

// A record that is not shown breaks no rule, but belongs to somebody all the same.
func TestConditionsOfRecords(t *testing.T) {
	section := changed(t, "items: result.items", "items: result.items\n  where: [{path: draft, not_equals: true, missing: include}]")
	record := func(owner, state, rest string) string {
		return fmt.Sprintf(`{"uuid":"uu-00001","customer":{"id":%q},"subject":"see uu-00001 and rr-00001","body":{"text":"x"},"state":%q,"opened":"2026-03-01 09:30:00"%s}`, owner, state, rest)
	}
	body := func(records ...string) string { return `{"result":{"items":[` + strings.Join(records, ",") + `]}}` }
	hidden := record("acme", "odd", `,"draft":true,"replies":[{"uuid":"rr-00001","text":"x","by":{"role":"S"},"at":"2026-01-01T00:00:00Z"}]`)
	r, err := mapBuyer(t, section, body(hidden, record("acme", "N", "")), Request{})
	if err != nil || len(r.List) != 1 || len(r.List[0].Responses) != 0 || r.List[0].Title != "see [removed] and [removed]" || r.Skipped != nil {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := mapBuyer(t, section, body(strings.Replace(hidden, "acme", "zorg", 1)), Request{}); reasonOf(t, err) != "owner" {
		t.Error(err)
	}
	x := planFrom(t, section, "buyer").Explainer(Request{Account: "acme"}, 3)
	_, err = x.Take(body(hidden, record("acme", "N", "")))
	if x.Finish(); err != nil || x.Excluded != 1 || len(x.Violations) != 0 {
		t.Errorf("%+v %v", x.Explanation, err)
	}
	for _, u := range x.Unused {
		if u.Path == "draft" {
			t.Error("draft is used by where")
		}
	}
}

func TestConditionMistakes(t *testing.T) {
	for where, key := range map[string]string{
		"{path: a}": "[0]", "{path: a, equals: 1, in: [b]}": "[0]", "{equals: 1}": "[0].path", "{path: 'a[', equals: 1}": "[0].path",
		"{path: a, absent: true, missing: include}": "[0].missing", "{path: a, equals: 1}, {path: a, equals: 1, missing: show}": "[1].missing",
	} {
		_, wrong := compileSection(t, changed(t, "items: replies", "items: replies\n      where: ["+where+"]"))
		if wrong["buyer.fields.responses.where"+key] == "" {
			t.Errorf("%s: %v", where, wrong)
		}
	}
}
