package mapping

import (
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// Records that are the members of an object are explained as those of an array are.
func TestExplainRecordsOfAnObject(t *testing.T) {
	x := planFrom(t, changed(t, "items: result.items", "items: result.items.@values"), "buyer").Explainer(Request{Account: "acme"}, 1)
	n, err := x.Take(`{"result":{"items":{"k-1":` + testkit.SampleTicket + `}}}`)
	x.Finish()
	if err != nil || n != 1 || len(x.Violations) != 0 || len(x.Served()) != 1 || len(x.Served()[0].Responses) != 1 {
		t.Fatalf("%d %v %+v %+v", n, err, x.Served(), x.Violations)
	}
	if f := x.Records[0].Fields[5]; !strings.HasPrefix(f.Mapped, "1 responses, the last: On its way") {
		t.Errorf("%+v", f)
	}
}

// A page that breaks off is explained as far as it goes.
func TestExplainABrokenPage(t *testing.T) {
	x := planFrom(t, testkit.SampleYAML, "buyer").Explainer(Request{Account: "acme"}, 9)
	_, err := x.Take(strings.TrimSuffix(testkit.SampleList(testkit.SampleTicket, "7"), "}"))
	x.Finish()
	if err == nil || x.Items != 2 || x.Replies != 0 || len(x.Records) != 1 || len(x.Violations) != 1 || len(x.Served()) != 1 {
		t.Errorf("%v %+v", err, x.Explanation)
	}
}

func TestProbeShowsLookups(t *testing.T) {
	x := planFrom(t, apiSection, "buyer").Explainer(Request{Account: "acme"}, 1)
	_, err := x.Take(apiReply("b1", apiEntries))
	if x.Finish(); err != nil || len(x.Violations) > 0 || x.Owner.Matches != 1 {
		t.Fatalf("%+v %v", x.Explanation, err)
	}
	f := x.Records[0].Fields[1]
	if f.Path != "included[rel.body.type, rel.body.id].attributes.text, attributes.html" || f.Raw != `"one"` || f.Mapped != "one" {
		t.Errorf("%+v", f)
	}
	if f := x.Records[0].Fields[4]; f.Raw != `"2026-02-01T00:00:00Z"` {
		t.Errorf("%+v", f)
	}
	for _, p := range x.Paths {
		if strings.Contains(p.Path, "[") {
			t.Errorf("%s is no path of a record", p)
		}
	}
	for _, u := range x.Unused {
		if strings.HasPrefix(u.Path, "rel.") {
			t.Errorf("%s is used to look up", u.Path)
		}
	}
}

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
		"none":                 {testkit.SampleYAML, testkit.SampleList(testkit.SampleTicket), ""},
		"a misspelt condition": {changed(t, "items: result.items", "where: [{path: pubic, equals: true}]\n  items: result.items"), testkit.SampleList(testkit.SampleTicket), "where[0]: pubic found in 0 of 1 records: no record would be shown"},
		"all are hidden":       {changed(t, "items: result.items", "where: [{path: state, equals: X}]\n  items: result.items"), testkit.SampleList(testkit.SampleTicket), "where shows none of 1 records"},
		"an absent one":        {changed(t, "items: result.items", "where: [{path: deleted, absent: true}]\n  items: result.items"), testkit.SampleList(testkit.SampleTicket), ""},
		"a bare code":          {changed(t, "state, values: {N: pending, A: answered}", "state"), testkit.SampleList(strings.Replace(testkit.SampleTicket, `"N"`, `10`, 1)), "status is the bare code 10"},
		"a truth value":        {changed(t, "title: subject", "title: late"), testkit.SampleList(strings.Replace(testkit.SampleTicket, "{", `{"late":false,`, 1)), "title is a truth value and is served as the text false"},
		"a short id":           {changed(t, "[uuid,", "[state, uuid,"), testkit.SampleList(testkit.SampleTicket), "state has ids of one or two characters"},
		"another case":         {changed(t, "filtering: upstream", "filtering: upstream\n  on_foreign_record: drop"), testkit.SampleList(testkit.SampleTicket, strings.Replace(testkit.SampleTicket, `"acme"`, `"Acme"`, 1)), "differs from the account in capitals only"},
	} {
		if got := doubtsOf(t, tc.section, tc.body); !strings.Contains(got, tc.want) || tc.want == "" && got != "" && !strings.Contains(got, "ids") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
