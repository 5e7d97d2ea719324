package mapping

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
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

// expecting is the sample's buyer section with conditions on its replies.
func expecting(t testing.TB, conditions string) string {
	return changed(t, "items: result.items", "expect: ["+conditions+"]\n  items: result.items")
}

func TestExpect(t *testing.T) {
	for _, tc := range []struct{ expect, members, wrong, found string }{
		{"{path: rc, equals: 0}", `"rc":0`, "", ""},
		{"{path: rc, equals: 0}", `"rc":"0"`, "", ""},
		{"{path: rc, equals: 0}", `"rc":7`, "buyer.expect[0]: rc must be 0; found: number", "7"},
		{"{path: rc, equals: 0}", `"rc":0.0`, "buyer.expect[0]: rc must be 0; found: number", "0.0"},
		{"{path: rc, equals: 0}", `"rc":{"a":0}`, "buyer.expect[0]: rc must be 0; found: object", `{"a":0}`},
		{"{path: rc, equals: 0}", `"rc":null`, "buyer.expect[0]: rc must be 0; found: null", ""},
		{"{path: rc, equals: 0}", `"other":0`, "buyer.expect[0]: rc must be 0; found: missing", ""},
		{"{path: rc, equals: 0, missing: include}", `"other":0`, "", ""},
		{"{path: rc, not_equals: 9}", `"rc":"of acme"`, "", ""},
		{"{path: rc, not_equals: 9}", `"rc":9`, "buyer.expect[0]: rc must be there and not 9; found: number", "9"},
		{"{path: rc, in: [OK, WARN]}", `"rc":"WARN"`, "", ""},
		{"{path: rc, in: [OK, WARN]}", `"rc":"ok"`, "buyer.expect[0]: rc must be OK or WARN; found: string", `"ok"`},
		{"{path: errors, absent: true}", `"rc":0`, "", ""},
		{"{path: errors, absent: true}", `"errors":null`, "", ""},
		{"{path: errors, absent: true}", `"errors":[]`, "buyer.expect[0]: errors must be absent; found: array", "[]"},
		{"{path: errors.0, absent: true}", `"errors":[]`, "", ""},
		{"{path: a.done, equals: true}, {path: rc, equals: 0}", `"a":{"done":true},"rc":0`, "", ""},
		{"{path: a.done, equals: true}, {path: rc, equals: 0}", `"a":{"done":true},"rc":1`, "buyer.expect[1]: rc must be 0; found: number", "1"},
		{"{path: a.done, equals: true}, {path: rc, equals: 0}", `"a":{"done":false},"rc":1`, "buyer.expect[0]: a.done must be true; found: boolean", "false"},
		// The records come after the conditions: of a refused reply none is read.
		{"{path: rc, equals: 0}", `"result":{"items":[` + strings.Replace(testkit.SampleTicket, `"acme"`, `"zorg"`, 1) + `]},"rc":3`, "buyer.expect[0]: rc must be 0; found: number", "3"},
	} {
		reply := `{"result":{"items":[` + testkit.SampleTicket + `]},` + tc.members + `}`
		if strings.HasPrefix(tc.members, `"result"`) {
			reply = "{" + tc.members + "}"
		}
		r, err := mapBuyer(t, expecting(t, tc.expect), reply, Request{})
		if tc.wrong == "" {
			if err != nil || len(r.List) != 1 {
				t.Errorf("%s, %s: %v", tc.expect, tc.members, err)
			}
			continue
		}
		var refused *Error
		if !errors.As(err, &refused) || refused.Reason != "expect" || err.Error() != tc.wrong || refused.Found != tc.found {
			t.Errorf("%s, %s: %+v", tc.expect, tc.members, err)
		}
		if r.Seen+r.Foreign != 0 {
			t.Errorf("%s, %s: records were read: %+v", tc.expect, tc.members, r.Counts)
		}
	}
}

// What is no JSON is refused as such, not for what it does not say.
func TestExpectOfNoJSON(t *testing.T) {
	section := expecting(t, "{path: rc, equals: 0}")
	for _, reply := range []string{"", "<html>", `{"a":1`, `{"a":1,"a":1}`, "{\"a\":\"\xff\"}"} {
		if _, err := mapBuyer(t, section, reply, Request{}); reasonOf(t, err) != "json" {
			t.Errorf("%q: %v", reply, err)
		}
	}
	if _, err := mapBuyer(t, section, `{"rc":0,"rc":1,"result":{"items":[]}}`, Request{}); reasonOf(t, err) != "json" {
		t.Errorf("two result codes: %v", err)
	}
}
