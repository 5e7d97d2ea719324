package upstream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// fieldsOf gives the keys that a joined error complains about.
func fieldsOf(t *testing.T, err error) map[string]string {
	t.Helper()
	found := map[string]string{}
	var joined interface{ Unwrap() []error }
	if err == nil {
		return found
	}
	if !errors.As(err, &joined) {
		t.Fatalf("not a joined error: %v", err)
	}
	for _, e := range joined.Unwrap() {
		var f interface{ Field() string }
		if !errors.As(e, &f) {
			t.Fatalf("error without Field: %v", e)
		}
		if strings.Contains(e.Error(), f.Field()+":") {
			t.Errorf("the text repeats the field: %v", e)
		}
		found[f.Field()] = e.Error()
	}
	return found
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, from, to string // a replacement in the good section
		field, says    string
	}{
		{"no base", "base_url: http://legacy.test", "", "base_url", "missing"},
		{"relative base", "http://legacy.test", "legacy.test", "base_url", "absolute"},
		{"base with query", "http://legacy.test", "http://legacy.test?x=1", "base_url", "query"},
		{"base with password", "http://legacy.test", "http://u:p@legacy.test", "base_url", "auth"},
		{"path without slash", "path: /v2/tickets\n  query: {customer", "path: v2/tickets\n  query: {customer", "buyer.path", "slash"},
		{"path with query", "path: /v2/tickets\n  query: {customer", "path: /v2/tickets?a=b\n  query: {customer", "buyer.path", "query"},
		{"unknown placeholder", `state: "{status}"`, `state: "{state}"`, "buyer.query.state", "unknown placeholder {state}"},
		{"open placeholder", `state: "{status}"`, `state: "{status"`, "buyer.query.state", "not closed"},
		{"open bracket", `state: "{status}"`, `state: "[{status}"`, "buyer.query.state", "not closed"},
		{"account lost with the filter", `state: "{status}"`, `state: "{account} {status}"`, "buyer.query.state", "brackets"},
		{"no status parameter", `state: "{status}", `, ``, "buyer.filtering", "{status}"},
		{"gateway filters but status is sent", "filtering: upstream", "filtering: gateway", "buyer.filtering", "remove"},
		{"unknown filtering", "filtering: upstream", "filtering: both", "buyer.filtering", "neither"},
		{"no items", "items: result.items", "", "buyer.items", "missing"},
		{"empty segment", "items: result.items", "items: result..items", "buyer.items", "empty segment"},
		{"brackets", "items: result.items", `items: "result.#(a==1"`, "buyer.items", "unbalanced"},
		{"modifier", "items: result.items", `items: "result.@nosuch"`, "buyer.items", "unknown modifier"},
		{"id path", "internal_ids: [uuid, ", "internal_ids: [uuid., ", "buyer.internal_ids[0]", "empty segment"},
		{"owner path", "owner: customer.id", "owner: customer.", "buyer.owner", "empty segment"},
		{"invalid record", "filtering: upstream", "filtering: upstream\n  on_invalid_record: drop", "buyer.on_invalid_record", "neither"},
		{"missing title", "    title: subject\n    content", "    content", "buyer.fields.title", "missing"},
		{"missing company", "    company_name: customer.name\n", "", "seller.fields.company_name", "missing"},
		{"missing response content", "content: text, ", "", "buyer.fields.responses.fields.content", "missing"},
		{"missing response items", "      items: replies\n", "", "buyer.fields.responses.items", "missing"},
		{"company for buyers", "    content: body.text", "    content: body.text\n    company_name: x", "buyer.fields.company_name", "no company_name"},
		{"content for sellers", "    company_name: customer.name", "    company_name: customer.name\n    content: x", "seller.fields.content", "no content"},
		{"null title", "title: subject\n    content", "title: {path: subject, default: null}\n    content", "buyer.fields.title.default", "never null"},
		{"null type for sellers", "default: general", "default: null", "seller.fields.inquiry_type.default", "never null"},
		{"layout", `"2006-01-02 15:04:05"`, `"YYYY-MM-DD"`, "buyer.fields.created_at.format", "no year"},
		{"layout without a day", `"2006-01-02 15:04:05"`, `"2006-01"`, "buyer.fields.created_at.format", "no day"},
		{"layout with abbreviation", `"2006-01-02 15:04:05"`, `"2006-01-02 MST"`, "buyer.fields.created_at.format", "abbreviation"},
		{"zone", "zone: Asia/Seoul", "zone: Asia/Soul", "buyer.fields.created_at.zone", "unknown time zone"},
		{"zone twice", "created_at: opened\n", "created_at: {path: opened, zone: Asia/Seoul}\n", "seller.fields.created_at.zone", "remove"},
		{"default time", "created_at: opened\n", "created_at: {path: opened, default: x}\n", "seller.fields.created_at.default", "no default"},
		{"values of a time", "created_at: opened\n", "created_at: {path: opened, values: {a: b}}\n", "seller.fields.created_at.values", "texts"},
		{"format of a text", "company_name: customer.name", "company_name: {path: customer.name, zone: UTC}", "seller.fields.company_name", "times"},
		{"empty values", "values: {C: customer, S: staff}", "values: {}", "buyer.fields.responses.fields.responder_type.values", "empty"},
		{"timeout", "base_url:", "timeout: 0s\nbase_url:", "timeout", "greater than zero"},
		{"bytes", "base_url:", "max_response_bytes: 0\nbase_url:", "max_response_bytes", "greater than zero"},
		{"one account's part above all", "base_url:", "max_concurrent_per_account: 65\nbase_url:", "max_concurrent_per_account", "max_concurrent (64)"},
		{"one account's part below zero", "base_url:", "max_concurrent_per_account: -1\nbase_url:", "max_concurrent_per_account", "leave it out"},
		{"budget", "base_url:", "retry: {budget: 2}\nbase_url:", "retry.budget", "between"},
		{"ratio", "base_url:", "breaker: {failure_ratio: 0}\nbase_url:", "breaker.failure_ratio", "above 0"},
		{"header", "base_url:", "headers: {\"a b\": c}\nbase_url:", "headers.a b", "valid"},
		{"placeholder in a header", "base_url:", "headers: {x-customer: \"{account}\"}\nbase_url:", "headers.x-customer", "path and query"},
		{"too many bytes", "base_url:", "max_response_bytes: 2000000000\nbase_url:", "max_response_bytes", "1GiB"},
		{"responses for sellers", "    company_name: customer.name", "    company_name: customer.name\n    responses: {internal_ids: [a]}", "seller.fields.responses", "no responses"},
		{"own header", "base_url:", "headers: {via: c}\nbase_url:", "headers.via", "itself"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			section := strings.Replace(mappingYAML, tc.from, tc.to, 1)
			if section == mappingYAML {
				t.Fatal("the replacement changed nothing")
			}
			found := fieldsOf(t, configFrom(t, section).Validate())
			if !strings.Contains(found[tc.field], tc.says) {
				t.Errorf("want %q about %s, got %v", tc.says, tc.field, found)
			}
		})
	}
}

func TestNothingBindsTheAccount(t *testing.T) {
	section := strings.Replace(mappingYAML, `customer: "{account}", `, "", 1)
	if err := configFrom(t, section).Validate(); err != nil {
		t.Errorf("an owner check alone binds the list: %v", err)
	}
	section = strings.Replace(section, "  owner: customer.id\n", "", 1)
	if found := fieldsOf(t, configFrom(t, section).Validate()); found["buyer.owner"] == "" {
		t.Errorf("got %v", found)
	}
}

func TestValidateReportsEverything(t *testing.T) {
	found := fieldsOf(t, DefaultConfig().Validate())
	for _, field := range []string{"base_url", "buyer.path", "buyer.items", "buyer.fields.title", "seller.fields.created_at", "buyer.fields.responses.fields.responder_type"} {
		if found[field] == "" {
			t.Errorf("nothing said about %s", field)
		}
	}
	if _, err := New(DefaultConfig(), Options{}); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

func TestFieldForms(t *testing.T) {
	var got struct{ A, B, C, D, E, F Field }
	doc := `
a: subject
b: {path: x, default: null}
c: {path: [x, y], values: {1: one, N: no, true: yes}}
d: {path: x, default: 0}
e: {path: x}
f: [x, y]
`
	if err := yaml.UnmarshalWithOptions([]byte(doc), &got, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.A.Path, Paths{"subject"}) || got.A.Default.Set {
		t.Errorf("short form: %+v", got.A)
	}
	if !got.B.Default.Set || !got.B.Default.Null {
		t.Errorf("default: null reads as %+v", got.B.Default)
	}
	if len(got.C.Path) != 2 || got.C.Values["1"] != "one" || got.C.Values["true"] != "yes" {
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
		if err := yaml.UnmarshalWithOptions([]byte(bad), &got, yaml.Strict()); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestDefaultConfig(t *testing.T) {
	cfg := configFrom(t, mappingYAML)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	if cfg.Timeout != 2*time.Second || cfg.MaxResponseBytes != 16<<20 || cfg.MaxRecords != 10000 || cfg.Retry.Attempts != 2 || cfg.Breaker.OpenFor != 5*time.Second {
		t.Errorf("defaults: %+v", cfg)
	}
}
