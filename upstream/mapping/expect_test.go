package mapping

import (
	"errors"
	"strings"
	"testing"

	"inquiry-gateway/upstream/internal/sample"
)

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
		{"{path: rc, equals: 0}", `"result":{"items":[` + strings.Replace(sample.Ticket, `"acme"`, `"zorg"`, 1) + `]},"rc":3`, "buyer.expect[0]: rc must be 0; found: number", "3"},
	} {
		reply := `{"result":{"items":[` + sample.Ticket + `]},` + tc.members + `}`
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

func TestExpectMistakes(t *testing.T) {
	for conditions, key := range map[string]string{
		"{path: rc}": "expect[0]", "{path: rc, equals: 0, absent: true}": "expect[0]", "{path: rc, equals: null}": "expect[0]",
		"{equals: 0}": "expect[0].path", "{path: a, absent: true}, {path: 'a..b', equals: 0}": "expect[1].path",
	} {
		if _, wrong := compileSection(t, expecting(t, conditions)); len(wrong) != 1 || wrong["buyer."+key] == "" {
			t.Errorf("%s: %v", conditions, wrong)
		}
		section := changed(t, "items: replies", "items: data\n      fetch: {path: \"/r/{id}\", id: uuid, expect: ["+conditions+"]}")
		if _, wrong := compileSection(t, section); wrong["buyer.fields.responses.fetch."+key] == "" {
			t.Errorf("of responses, %s: %v", conditions, wrong)
		}
	}
}

// Lists without conditions do not pay for them.
func TestExpectUnused(t *testing.T) {
	if plan := planFrom(t, sample.YAML, "buyer"); plan.expect != nil {
		t.Errorf("%+v", plan.expect)
	}
}
