package draft

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/mapping"
)

// compiled reads what a proposal writes as the gateway would.
func compiled(t *testing.T, p *Proposal) *mapping.Plan {
	t.Helper()
	text := p.YAML()
	var file struct {
		Upstream struct {
			BaseURL       string `yaml:"base_url"`
			Buyer, Seller mapping.EndpointConfig
		}
	}
	if err := yaml.UnmarshalWithOptions([]byte(text), &file, yaml.Strict()); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	endpoint := file.Upstream.Buyer
	if p.Kind == "seller" {
		endpoint = file.Upstream.Seller
	}
	var problems invalid.Problems
	plan := mapping.Compile(p.Kind, endpoint, file.Upstream.BaseURL, 10_000, &problems)
	if err := problems.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return plan
}

// What details are asked for with is an id, whatever it looks like.
func TestTheIDOfDetailsIsInternal(t *testing.T) {
	for sample, want := range map[string]string{`["a-0","a-1"]`: "internal_ids: [id]", `[7,8]`: "cut out of texts: id"} {
		p, err := Propose([][]byte{[]byte(sample)}, Options{Kind: "buyer", Account: "acme"})
		if err != nil || !strings.Contains(p.YAML(), want) {
			t.Errorf("%s: %v\n%s", sample, err, p.YAML())
		}
	}
}

// Of two lists that are alike the same one is proposed each time.
func TestTheSameSampleGivesTheSameDraft(t *testing.T) {
	const sample = `{"b":[{"t":"a b c","at":"2026-01-02"}],"a":[{"t":"a b c","at":"2026-01-02"}]}`
	for range 20 {
		p, err := Propose([][]byte{[]byte(sample)}, Options{Kind: "buyer", Account: "acme"})
		if err != nil || p.Items.Path != "a" {
			t.Fatalf("%v\n%s", err, p.YAML())
		}
	}
}

// What is drafted is a good configuration, and maps the sample wherever every
// field was found.
func TestDraftsMapTheirSamples(t *testing.T) {
	files, _ := filepath.Glob("testdata/*/*.truth.json")
	whole := 0
	for _, file := range files {
		samples, want := load(t, file)
		p, err := Propose(samples, Options{Kind: want.Kind, Account: want.Account})
		if err != nil {
			t.Fatal(err)
		}
		plan := compiled(t, p)
		if plan.Details != nil {
			continue // its fields are in other replies
		}
		x := plan.Explainer(mapping.Request{Kind: want.Kind, Account: want.Account}, 1)
		if _, err := x.Take(string(samples[0])); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, p.YAML())
		}
		missing := strings.Contains(p.YAML(), toComplete+" ") || strings.Contains(p.YAML(), ": "+toComplete)
		if missing {
			continue
		}
		whole++
		if x.Items != p.Records || len(x.Violations) > 0 || len(x.Owner.Foreign)+len(x.Owner.Missing) > 0 {
			t.Errorf("%s: %d of %d records, %+v %+v\n%s", file, x.Items, p.Records, x.Violations, x.Owner, p.YAML())
		}
	}
	if 2*whole < len(files) {
		t.Errorf("only %d of %d drafts are whole", whole, len(files))
	}
}

func TestDraftsAreRefusedClearly(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1`: "sample 1 is not JSON", `{"a": 1}`: "no sample has a list of objects", `[]`: "no sample has a list", `[[1,2],[3,4]]`: "no sample has a list",
	} {
		if _, err := Propose([][]byte{[]byte(text)}, Options{Kind: "buyer", Account: "a"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Propose(nil, Options{Kind: "buyer"}); err == nil {
		t.Error("no account is taken")
	}
}

// Whatever the reply says, no key and no comment of the draft can become another.
func FuzzPropose(f *testing.F) {
	f.Add(`[{"id":1,"t":"a b c"}]`, "1")
	f.Add(`{"a\n#":{"x.y":[{"@id":"q","when":"2026-01-02","list":[{"k":1,"v":"a"},{"k":2,"v":"b"}]}]}}`, "q\n# x: y")
	f.Add(`{"d":{"1":{"a":1,"b":"${X}","c":2},"2":{"a":1,"b":"y","c":2}}}`, "1")
	f.Add(`{"a":[{"id":"t-1","by":"u-1","hidden":true,"x":"a b c"},{"id":"t-2","by":"u-2","hidden":false,"x":"d e f"}],"u.\"s":[{"id":"u-1","n\n":"k l m"},{"id":"u-2","n\n":"n o p"}]}`, "k l m")
	f.Add(`{"ids":["a-1","a-2"]}`, "x")
	f.Fuzz(func(t *testing.T, sample, account string) {
		for _, kind := range []string{"buyer", "seller"} {
			p, err := Propose([][]byte{[]byte(sample)}, Options{Kind: kind, Account: account})
			if err == nil {
				compiled(t, p)
			}
		}
	})
}

// An OpenAPI document knows the codes that no sample has.
func TestEnumsOfOpenAPI(t *testing.T) {
	const document = `
openapi: 3.1.0
servers: [{url: https://legacy.example/api}]
paths: {}
components: {schemas: {Ticket: {properties: {state: {type: string, enum: [N, A, W, null]}, level: {enum: [1, 2]}}}}}
`
	samples, want := load(t, "testdata/design/nested.truth.json")
	o := Options{Kind: want.Kind, Account: want.Account}
	if err := o.FromOpenAPI([]byte(document)); err != nil || o.BaseURL != "https://legacy.example/api" || strings.Join(o.Enums["state"], "") != "NAW" || strings.Join(o.Enums["level"], "") != "12" {
		t.Fatalf("%+v %v", o, err)
	}
	p, err := Propose(samples, o)
	if err != nil || len(p.Status.Values) != 3 || !strings.Contains(p.YAML(), "W: w # TODO") || !strings.Contains(p.YAML(), `base_url: "https://legacy.example/api"`) {
		t.Errorf("%v\n%s", err, p.YAML())
	}
	stubs, want := load(t, "testdata/joined/hidden.truth.json")
	o = Options{Kind: want.Kind, Account: want.Account}
	const seconds = `paths: {/tickets: {}, "/tickets/{no}": {get: {}}, "/tickets/{no}/comments": {get: {}}, "/tickets/{no}/files": {get: {}}, "/shops/{id}": {get: {}}}`
	var reply struct {
		Tickets []map[string]any `json:"tickets"`
	}
	if err := json.Unmarshal(stubs[0], &reply); err != nil {
		t.Fatal(err)
	}
	for _, ticket := range reply.Tickets { // what is left has neither content nor answers
		delete(ticket, "question")
		delete(ticket, "answers")
	}
	stub, _ := json.Marshal(reply)
	if err := o.FromOpenAPI([]byte(seconds)); err != nil {
		t.Fatal(err)
	}
	p, err = Propose([][]byte{stub}, o)
	for _, want := range []string{`# details: {fetch: {path: "/tickets/{id}", id: ref}}`, `# fetch: {path: "/tickets/{id}/comments", id: ref}`} {
		if err != nil || !strings.Contains(p.YAML(), want) {
			t.Errorf("%v, without %s\n%s", err, want, p.YAML())
		}
	}
	for text, want := range map[string]string{"a: 1": "has no paths", "{": "is neither JSON nor YAML"} {
		if err := new(Options).FromOpenAPI([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
