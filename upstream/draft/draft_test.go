package draft

import (
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

// What is drafted is a good configuration, and maps the sample wherever every
// field was found.
func TestDraftsMapTheirSamples(t *testing.T) {
	files, _ := filepath.Glob("testdata/*/*.truth.json")
	whole := 0
	for _, file := range files {
		sample, want := load(t, file)
		p, err := Propose([][]byte{sample}, Options{Kind: want.Kind, Account: want.Account})
		if err != nil {
			t.Fatal(err)
		}
		x := compiled(t, p).Explainer(mapping.Request{Kind: want.Kind, Account: want.Account}, 1)
		if _, err := x.Take(string(sample)); err != nil {
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
	enums, base, err := FromOpenAPI([]byte(document))
	if err != nil || base != "https://legacy.example/api" || strings.Join(enums["state"], "") != "NAW" || strings.Join(enums["level"], "") != "12" {
		t.Fatalf("%v %s %v", enums, base, err)
	}
	sample, want := load(t, "testdata/design/nested.truth.json")
	p, err := Propose([][]byte{sample}, Options{Kind: want.Kind, Account: want.Account, Enums: enums, BaseURL: base})
	if err != nil || len(p.Status.Values) != 3 || !strings.Contains(p.YAML(), "W: w # TODO") || !strings.Contains(p.YAML(), `base_url: "https://legacy.example/api"`) {
		t.Errorf("%v\n%s", err, p.YAML())
	}
	for text, want := range map[string]string{"a: 1": "has no paths", "{": "is neither JSON nor YAML"} {
		if _, _, err := FromOpenAPI([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
