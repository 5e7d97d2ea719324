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
		refuses(t, tc.from, tc.to, tc.field, tc.says)
	}
	for _, g := range []struct {
		from, to, field string
		wrong           map[string]string // what stands for $, and the key that is named
	}{
		{"filtering: upstream", "filtering: upstream\n  paging: $", "buyer.paging.", map[string]string{
			"{style: pages}": "style", "{style: page}": "param", "{style: offset}": "param", "{style: cursor, param: c}": "cursor",
			"{style: next_url}": "next", "{style: next_url, next: a..b}": "next", "{style: link_header, next: a}": "next", "{style: link_header, param: a}": "param",
			"{style: none, size: 5, size_param: x}": "size", "{style: page, param: p, size: 5}": "size_param", "{style: page, param: p, size_param: x}": "size",
			"{style: page, param: p, ends_short: true}": "ends_short", "{style: page, param: p, max_pages: -1}": "max_pages", "{style: offset, param: p, first: 1}": "first",
			"{style: offset, param: p, total_pages: x}": "total_pages", "{style: next_url, next: a, size_param: q, size: -1}": "size",
		}},
		{"      items: replies\n", "      items: comments\n      fetch: $\n", "buyer.fields.responses.fetch.", map[string]string{
			`{path: "/v2/{id}"}`: "id", `{path: "v2/{id}", id: uuid}`: "path", `{path: "/v2", id: uuid}`: "path", `{path: "/v2/{ids}", id: uuid}`: "path",
			`{path: "/v2/{id}", id: "a..b"}`: "id", `{path: "/v2/{ids}", id: uuid, batch: 5}`: "key", `{path: "/v2/{ids}", id: uuid, batch: -5}`: "batch",
			`{path: "/v2/{id}", id: uuid, join: ","}`: "join", `{path: "/v2/{id}", id: uuid, key: k}`: "key", `{path: "/v2/{ids}", id: uuid, batch: 5, key: k, join: repeat}`: "join",
			`{path: "/v2", query: {q: "x {ids}"}, id: uuid, batch: 5, key: k, join: repeat}`: "join", `{path: "/v2/{id}", id: uuid, paging: {style: nosuch}}`: "paging.style",
			`{path: "/v2/{id}", query: {"a{id}": b}, id: uuid}`: "query.a{id}", `{path: "/r/{id}", id: uuid, expect: [{path: rc}]}`: "expect[0]",
		}},
		{"title: subject\n    status", "title: $\n    status", "seller.fields.title.", map[string]string{
			"{path: a, const: b}": "const", "{const: null}": "const", "{path: a, unknown_values: keep}": "unknown_values",
			"{path: a, values: {A: b}, unknown_values: perhaps}": "unknown_values", "{path: a, values_join: x}": "values_join", "{path: a, empty: perhaps}": "empty",
			"{path: [a, b..c]}": "path[1]", "{path: a, values: {1: x}, null_values: [1]}": "null_values", "{path: a, cut: ['(']}": "cut[0]", "{path: a, cut: [x, 'x*']}": "cut[1]",
			"{lookup: {in: a, key: b, by: c}}": "lookup.take", "{lookup: {in: a, key: [b, c], by: d, take: e}}": "lookup.by", "{lookup: {in: a, key: 'b[', by: d, take: e}}": "lookup.key",
			"{lookup: {in: a, key: [b, ''], by: [c], take: e}}": "lookup.by", "{path: a, lookup: {in: a, key: b, by: c, take: d}}": "lookup",
		}},
		{"items: replies", "items: replies\n      where: [$]", "buyer.fields.responses.where", map[string]string{
			"{path: a}": "[0]", "{path: a, equals: 1, in: [b]}": "[0]", "{equals: 1}": "[0].path", "{path: 'a[', equals: 1}": "[0].path",
			"{path: a, absent: true, missing: include}": "[0].missing", "{path: a, equals: 1}, {path: a, equals: 1, missing: show}": "[1].missing",
		}},
		{"items: result.items", "expect: [$]\n  items: result.items", "buyer.expect", map[string]string{
			"{path: rc}": "[0]", "{path: rc, equals: 0, absent: true}": "[0]", "{path: rc, equals: null}": "[0]", "{equals: 0}": "[0].path", "{path: a, absent: true}, {path: 'a..b', equals: 0}": "[1].path",
		}},
		{"items: result.items", "items: result.items\n  reply: $", "buyer.reply.", map[string]string{
			"{format: csv}": "format", "{charset: klingon}": "charset", "{media_types: [html]}": "media_types[0]", "{media_types: ['text/*']}": "media_types[0]",
			"{empty_statuses: [404, 500]}": "empty_statuses[1]", "{empty_statuses: [200]}": "empty_statuses[0]",
		}},
		{"items: result.items", "items: $", "buyer.", map[string]string{`"@this"` + "\n  reply: {format: xml}": "items"}}, // an element is no list
		{"[uuid, ", "[$, uuid, ", "buyer.", map[string]string{`"@key"`: "internal_ids"}},
		{"created_at: {", "created_at: {$, ", "buyer.fields.created_at.", map[string]string{"join: x": "join", "null_values: [0]": "null_values"}},
		// Of a repeated group only the last match would go, and the rest of the id leave.
		{"items: result.items", "internal_id_patterns: ['$']\n  items: result.items", "buyer.internal_id_patterns", map[string]string{
			`[0-9a-f]{8}(-[0-9a-f]{4}){3}`: "[0]", `A(\d)+`: "[0]", `A((\d)x)*`: "[0]",
		}},
	} {
		for value, key := range g.wrong {
			refuses(t, g.from, strings.Replace(g.to, "$", value, 1), g.field+key, "")
		}
	}
	repeated := changed(t, "values: {N: pending, A: answered}}\n    inquiry_type: {path: category, default: null}", "values: {N: pending, A: pending}, values_join: repeat}\n    inquiry_type: {path: category, default: null}",
		`state: "{status}"`, `state: "s:{status}"`)
	if _, wrong := compileSection(t, repeated); wrong["buyer.fields.status.values_join"] == "" {
		t.Errorf("repeat within a text: %v", wrong)
	}
	for _, pattern := range []string{`#([0-9]{4,})`, `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}`} {
		planFrom(t, changed(t, "items: result.items", "internal_id_patterns: ['"+pattern+"']\n  items: result.items"), "buyer")
	}
}

// refuses checks that the sample's section with a change is refused at a key.
func refuses(t *testing.T, from, to, key, says string) {
	t.Helper()
	if _, wrong := compileSection(t, changed(t, from, to)); wrong[key] == "" || !strings.Contains(wrong[key], says) {
		t.Errorf("%s: want %q about %s, got %v", to, says, key, wrong)
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
