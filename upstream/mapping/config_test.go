package mapping

import (
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/yamlfile"
)

func TestCompileRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, from, to string // a replacement in the good section
		field, says    string
	}{
		{"path without slash", "path: /v2/tickets\n  query: {customer", "path: v2/tickets\n  query: {customer", "buyer.path", "slash"},
		{"path with query", "path: /v2/tickets\n  query: {customer", "path: /v2/tickets?a=b\n  query: {customer", "buyer.path", "query"},
		{"unknown placeholder", `state: "{status}"`, `state: "{state}"`, "buyer.query.state", "unknown placeholder {state}"},
		{"open placeholder", `state: "{status}"`, `state: "{status"`, "buyer.query.state", "not closed"},
		{"open bracket", `state: "{status}"`, `state: "[{status}"`, "buyer.query.state", "not closed"},
		{"account lost with the filter", `state: "{status}"`, `state: "{account} {status}"`, "buyer.query.state", "brackets"},
		{"no status parameter", `state: "{status}", `, ``, "buyer.filtering", "{status}"},
		{"gateway filters but status is sent", "filtering: upstream", "filtering: gateway", "buyer.filtering", "remove"},
		{"unknown filtering", "filtering: upstream", "filtering: both", "buyer.filtering", "wants "},
		{"no items", "items: result.items", "", "buyer.items", "missing"},
		{"empty segment", "items: result.items", "items: result..items", "buyer.items", "empty segment"},
		{"brackets", "items: result.items", `items: "result.#(a==1"`, "buyer.items", "unbalanced"},
		{"modifier", "items: result.items", `items: "result.@nosuch"`, "buyer.items", "unknown modifier"},
		{"id path", "internal_ids: [uuid, ", "internal_ids: [uuid., ", "buyer.internal_ids[0]", "empty segment"},
		{"id pattern", "filtering: upstream", "filtering: upstream\n  internal_id_patterns: ['A(']", "buyer.internal_id_patterns[0]", "missing closing )"},
		{"id pattern of nothing", "filtering: upstream", "filtering: upstream\n  internal_id_patterns: [A, 'A*']", "buyer.internal_id_patterns[1]", "empty text"},
		{"id pattern of an edge", "filtering: upstream", "filtering: upstream\n  internal_id_patterns: ['\\b']", "buyer.internal_id_patterns[0]", "empty text"},
		{"long id pattern", "filtering: upstream", "filtering: upstream\n  internal_id_patterns: [" + strings.Repeat("a", 201) + "]", "buyer.internal_id_patterns[0]", "at most 200"},
		{"many id patterns", "filtering: upstream", "filtering: upstream\n  internal_id_patterns: [" + strings.Repeat("a, ", 21) + "]", "buyer.internal_id_patterns", "at most 20"},
		{"owner path", "owner: customer.id", "owner: customer.", "buyer.owner", "empty segment"},
		{"invalid record", "filtering: upstream", "filtering: upstream\n  on_invalid_record: drop", "buyer.on_invalid_record", "wants "},
		{"missing title", "    title: subject\n    content", "    content", "buyer.fields.title", "missing"},
		{"missing company", "    company_name: customer.name\n", "", "seller.fields.company_name", "missing"},
		{"missing response content", "content: text, ", "", "buyer.fields.responses.fields.content", "missing"},
		{"missing response items", "      items: replies\n", "", "buyer.fields.responses.items", "missing"},
		{"a second call without a path", "      items: replies\n", "      items: replies\n      fetch: {headers: {X-A: b}}\n", "buyer.fields.responses.fetch.path", "every record would get"},
		{"company for buyers", "    content: body.text", "    content: body.text\n    company_name: x", "buyer.fields.company_name", "no company_name"},
		{"content for sellers", "    company_name: customer.name", "    company_name: customer.name\n    content: x", "seller.fields.content", "no content"},
		{"null title", "title: subject\n    content", "title: {path: subject, default: null}\n    content", "buyer.fields.title.default", "never null"},
		{"null type for sellers", "default: general", "default: null", "seller.fields.inquiry_type.default", "never null"},
		{"layout", `"2006-01-02 15:04:05"`, `"YYYY-MM-DD"`, "buyer.fields.created_at.format", "no year"},
		{"layout without a day", `"2006-01-02 15:04:05"`, `"2006-01"`, "buyer.fields.created_at.format", "no day"},
		{"layout with abbreviation", `"2006-01-02 15:04:05"`, `"2006-01-02 MST"`, "buyer.fields.created_at.format", "abbreviation"},
		{"zone", "zone: Asia/Seoul", "zone: Asia/Soul", "buyer.fields.created_at.zone", "time zone"},
		{"zone twice", "created_at: opened\n", "created_at: {path: opened, zone: Asia/Seoul}\n", "seller.fields.created_at.zone", "remove"},
		{"default time", "created_at: opened\n", "created_at: {path: opened, default: x}\n", "seller.fields.created_at.default", "no default"},
		{"values of a time", "created_at: opened\n", "created_at: {path: opened, values: {a: b}}\n", "seller.fields.created_at.values", "texts"},
		{"format of a text", "company_name: customer.name", "company_name: {path: customer.name, zone: UTC}", "seller.fields.company_name", "times"},
		{"empty values", "values: {C: customer, S: staff}", "values: {}", "buyer.fields.responses.fields.responder_type.values", "empty"},
		{"responses for sellers", "    company_name: customer.name", "    company_name: customer.name\n    responses: {internal_ids: [a]}", "seller.fields.responses", "no responses"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, wrong := compileSection(t, changed(t, tc.from, tc.to)); !strings.Contains(wrong[tc.field], tc.says) {
				t.Errorf("want %q about %s, got %v", tc.says, tc.field, wrong)
			}
		})
	}
}

func TestNothingBindsTheAccount(t *testing.T) {
	unbound := []string{`customer: "{account}", `, ""}
	if _, wrong := compileSection(t, changed(t, unbound...)); len(wrong) > 0 {
		t.Errorf("an owner check alone binds the list: %v", wrong)
	}
	if _, wrong := compileSection(t, changed(t, append(unbound, "  owner: customer.id\n", "")...)); wrong["buyer.owner"] == "" {
		t.Errorf("got %v", wrong)
	}
}

func TestFieldForms(t *testing.T) {
	var got struct {
		A Field `yaml:"a" short:"path"`
		B Field `yaml:"b" short:"path"`
		C Field `yaml:"c" short:"path"`
		D Field `yaml:"d" short:"path"`
		E Field `yaml:"e" short:"path"`
		F Field `yaml:"f" short:"path"`
	}
	doc := `
a: subject
b: {path: x, default: null}
c: {path: [x, y], values: {1: one, N: no, true: yes}}
d: {path: x, default: 0}
e: {path: x}
f: [x, y]
`
	if err := yamlfile.Decode(doc, &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.A.Path, Paths{"subject"}) || got.A.Default.Set {
		t.Errorf("short form: %+v", got.A)
	}
	if !got.B.Default.Set || !got.B.Default.Null {
		t.Errorf("default: null reads as %+v", got.B.Default)
	}
	if len(got.C.Path) != 2 || got.C.Values["1"].Value != "one" || got.C.Values["true"].Value != "yes" {
		t.Errorf("list and values: %+v", got.C)
	}
	if got.D.Default != (Default{Set: true, Value: "0"}) {
		t.Errorf("default: 0 reads as %+v", got.D.Default)
	}
	if got.E.Default.Set {
		t.Errorf("no default reads as %+v", got.E.Default)
	}
	if len(got.F.Path) != 2 {
		t.Errorf("list in short form: %+v", got.F)
	}
	for _, bad := range []string{"a: {path: x, nosuch: 1}", "a: {path: {x: y}}", "a: {path: x, default: [y]}", "a: {path: x, values: {a: b, a: c}}"} {
		if err := yamlfile.Decode(bad, &got); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestPagingConfig(t *testing.T) {
	for paging, key := range map[string]string{
		"{style: pages}":                                      "style",
		"{style: page}":                                       "param",
		"{style: offset}":                                     "param",
		"{style: cursor, param: c}":                           "cursor",
		"{style: next_url}":                                   "next",
		"{style: next_url, next: a..b}":                       "next",
		"{style: link_header, next: a}":                       "next",
		"{style: link_header, param: a}":                      "param",
		"{style: none, size: 5, size_param: x}":               "size",
		"{style: page, param: p, size: 5}":                    "size_param",
		"{style: page, param: p, size_param: x}":              "size",
		"{style: page, param: p, ends_short: true}":           "ends_short",
		"{style: page, param: p, max_pages: -1}":              "max_pages",
		"{style: offset, param: p, first: 1}":                 "first",
		"{style: offset, param: p, total_pages: x}":           "total_pages",
		"{style: next_url, next: a, size_param: q, size: -1}": "size",
	} {
		if _, wrong := compileSection(t, changed(t, "filtering: upstream", "filtering: upstream\n  paging: "+paging)); wrong["buyer.paging."+key] == "" {
			t.Errorf("%s: %v", paging, wrong)
		}
	}
}

func TestSecondCallConfig(t *testing.T) {
	for fetch, where := range map[string]string{
		`{path: "/v2/{id}"}`:                                                             "fetch.id",
		`{path: "v2/{id}", id: uuid}`:                                                    "fetch.path",
		`{path: "/v2", id: uuid}`:                                                        "fetch.path",
		`{path: "/v2/{ids}", id: uuid}`:                                                  "fetch.path",
		`{path: "/v2/{id}", id: "a..b"}`:                                                 "fetch.id",
		`{path: "/v2/{ids}", id: uuid, batch: 5}`:                                        "fetch.key",
		`{path: "/v2/{ids}", id: uuid, batch: -5}`:                                       "fetch.batch",
		`{path: "/v2/{id}", id: uuid, join: ","}`:                                        "fetch.join",
		`{path: "/v2/{id}", id: uuid, key: k}`:                                           "fetch.key",
		`{path: "/v2/{ids}", id: uuid, batch: 5, key: k, join: repeat}`:                  "fetch.join",
		`{path: "/v2", query: {q: "x {ids}"}, id: uuid, batch: 5, key: k, join: repeat}`: "fetch.join",
		`{path: "/v2/{id}", id: uuid, paging: {style: nosuch}}`:                          "fetch.paging.style",
		`{path: "/v2/{id}", query: {"a{id}": b}, id: uuid}`:                              "fetch.query.a{id}",
	} {
		if _, wrong := compileSection(t, changed(t, "      items: replies\n", "      items: comments\n      fetch: "+fetch+"\n")); wrong["buyer.fields.responses."+where] == "" {
			t.Errorf("%s: %v", fetch, wrong)
		}
	}
}

func TestFieldContradictions(t *testing.T) {
	for field, where := range map[string]string{
		"{path: a, const: b}":                                "title.const",
		"{const: null}":                                      "title.const",
		"{path: a, unknown_values: keep}":                    "title.unknown_values",
		"{path: a, values: {A: b}, unknown_values: perhaps}": "title.unknown_values",
		"{path: a, values_join: x}":                          "title.values_join",
		"{path: a, empty: perhaps}":                          "title.empty",
		"{path: [a, b..c]}":                                  "title.path[1]",
	} {
		if _, wrong := compileSection(t, changed(t, "title: subject\n    status", "title: "+field+"\n    status")); wrong["seller.fields."+where] == "" {
			t.Errorf("%s: %v", field, wrong)
		}
	}
	if _, wrong := compileSection(t, changed(t, "A: answered}}\n    inquiry_type: {path: category, default: null}\n    created_at: {", "A: answered}}\n    inquiry_type: {path: category, default: null}\n    created_at: {join: x, ")); wrong["buyer.fields.created_at.join"] == "" {
		t.Errorf("join of a time: %v", wrong)
	}
	section := changed(t, "values: {N: pending, A: answered}}\n    inquiry_type: {path: category, default: null}", "values: {N: pending, A: pending}, values_join: repeat}\n    inquiry_type: {path: category, default: null}",
		`state: "{status}"`, `state: "s:{status}"`)
	if _, wrong := compileSection(t, section); wrong["buyer.fields.status.values_join"] == "" {
		t.Errorf("repeat within a text: %v", wrong)
	}
}
