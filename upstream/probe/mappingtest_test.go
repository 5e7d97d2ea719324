package probe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/mapping"
)

const examples = "../../examples"

// upstreamOf is the upstream section of a configuration.
func upstreamOf(t *testing.T, file string) upstream.Config {
	t.Helper()
	loaded, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Config.Upstream
}

// runFile runs the tests in a file.
func runFile(t *testing.T, cfg upstream.Config, file string) ([]Result, error) {
	t.Helper()
	var tests []Test
	if err := config.Read(file, &tests); err != nil {
		return nil, err
	}
	return RunTests(t.Context(), cfg, tests, filepath.Dir(file), v1.Render)
}

// Every shipped example has tests, and passes them. What the guide tells a new user
// to do with a saved reply works on each.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "keys.yaml" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			cfg := upstreamOf(t, file)
			results, err := runFile(t, cfg, filepath.Join(examples, "tests", name))
			if err != nil || len(results) < 4 {
				t.Fatalf("%d tests, %v", len(results), err)
			}
			for _, r := range results {
				if len(r.Differences) > 0 {
					t.Errorf("%s: %s", r.Name, strings.Join(r.Differences, "\n"))
				}
			}
			probeSamples(t, cfg, strings.TrimSuffix(name, ".yaml"))
		})
	}
}

func probeSamples(t *testing.T, cfg upstream.Config, name string) {
	account := "4711"
	if name == "salesforce" {
		account = "001D000000IqhSLIAZ"
	}
	samples, err := filepath.Glob(filepath.Join(examples, "tests", name+"*.[jx]*")) // JSON or XML
	if err != nil || len(samples) == 0 {
		t.Fatalf("%q, %v", samples, err)
	}
	for _, file := range samples {
		if strings.Contains(file, "comments") {
			continue // the reply to a second call
		}
		sample, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"buyer", "seller"} {
			p, err := Run(t.Context(), cfg, upstream.Request{Kind: kind, Account: account}, Options{Sample: sample})
			if err != nil || p.Problem != "" || p.Items == 0 || len(p.Violations) > 0 || p.Owner.Matches != p.Items {
				t.Errorf("%s %s: %+v %v", file, kind, p, err)
			}
		}
	}
}

// runText runs the tests in text with the mapping of the simplest example.
func runText(t *testing.T, text string) ([]Result, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return runFile(t, upstreamOf(t, filepath.Join(examples, "bare-array.yaml")), file)
}

// Lists within lists, and the key of the last record as the cursor, are paths of GJSON.
func TestPathsThatTheGuideNames(t *testing.T) {
	text := `- name: two pages
  kind: seller
  account: a
  replies:
    - {body: {groups: [{tickets: [&r {vendor: a, subject: s, open: true, customer_name: c, created: "/Date(0)/"}]}, {tickets: [*r, *r]}], keys: [{id: 7}, {id: 8}]}}
    - {to: "?after=8", body: {groups: [{tickets: [*r]}], keys: [{id: 9}]}}
    - {to: "?after=9", body: {groups: [], keys: []}}
  expect: {records: [{}, {}, {}, {}], asked: [after=8, after=9]}
- name: another reply is no empty list
  kind: seller
  account: a
  replies: [{body: {error: x}}]
  expect: {error: items}
`
	cfg := upstreamOf(t, filepath.Join(examples, "bare-array.yaml"))
	cfg.Seller.Items = "groups.#.tickets|@flatten"
	cfg.Seller.Paging = mapping.PagingConfig{Style: mapping.PageCursor, Param: "after", Cursor: "keys.@reverse.0.id"}
	file := filepath.Join(t.TempDir(), "tests.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	results, err := runFile(t, cfg, file)
	if err != nil || len(results) != 2 || len(results[0].Differences)+len(results[1].Differences) > 0 {
		t.Errorf("%+v, %v", results, err)
	}
}

const oneRecord = `  kind: seller
  account: a
  replies: [{body: [{vendor: a, subject: s, open: true, customer_name: c, created: "/Date(0)/"}]}]
`

func TestDifferences(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"all good", "- name: x\n" + oneRecord + "  expect: {records: [{title: s, created_at: 1970-01-01T00:00:00.000Z}]}\n", nil},
		{"one field", "- name: x\n" + oneRecord + "  expect: {records: [{title: other, status: pending, inquiry_type: null}]}\n",
			[]string{`records[0].inquiry_type: want null, got "general"`, `records[0].title: want "other", got "s"`}},
		{"no such field", "- name: x\n" + oneRecord + "  expect: {records: [{content: c}]}\n",
			[]string{`records[0].content: is no field of the public record; it has ["company_name" "created_at" "inquiry_type" "status" "title"]`}},
		{"too few", "- name: x\n" + oneRecord + "  expect: {records: [{}, {title: y}]}\n", []string{`records[1]: want {"title":"y"}, got no more`}},
		{"too many", "- name: x\n" + oneRecord + "  expect: {records: []}\n", []string{
			`records[0]: want no more, got {"company_name":"c","created_at":"1970-01-01T00:00:00.000Z","inquiry_type":"general","status":"pending","title":"s"}`}},
		{"no error", "- name: x\n" + oneRecord + "  expect: {error: owner}\n", []string{`error: want a text with "owner", got 1 records`}},
		{"another error", "- name: x\n  kind: buyer\n  account: a\n  replies: [{status: 500, body: x}]\n  expect: {error: owner}\n",
			[]string{`error: want a text with "owner", got "legacy system: upstream (status_5xx): status 500"`}},
		{"an error instead", "- name: x\n  kind: buyer\n  account: a\n  expect: {records: []}\n",
			[]string{`records: got none, but the error "legacy system: upstream (read): no saved reply is for GET /tickets.json?customer=a"`}},
		{"not asked", "- name: x\n" + oneRecord + "  expect: {asked: [page=2, vendor=a]}\n", []string{`asked: want "page=2", got ["GET /tickets.json?vendor=a"]`}},
		{"asked all the same", "- name: x\n" + oneRecord + "  expect: {asked: []}\n", []string{`asked: want no request, got ["GET /tickets.json?vendor=a"]`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			results, err := runText(t, tt.text)
			if err != nil || len(results) != 1 || !slices.Equal(results[0].Differences, tt.want) {
				t.Errorf("got %v\n%+v, want\n%q", err, results, tt.want)
			}
		})
	}
}

func TestFaultyTests(t *testing.T) {
	for text, want := range map[string]string{
		"- {nam: x}\n":                  `tests.yaml:1:4: [0].nam: unknown key; did you mean "name"?`,
		"- {kind: admin}\n":             `tests.yaml:1:10: [0].kind: wants buyer or seller, got the text "admin"`,
		"- {kind: buyer, account: a}\n": `test 1: expects nothing`,
		"- {kind: buyer, replies: [{}], expect: {records: []}}\n":                                 `a reply wants either file or body`,
		"- {kind: buyer, replies: [{file: none.json}], expect: {records: []}}\n":                  `none.json: no such file`,
		"- {kind: buyer, replies: [{to: \"http://a/\", body: x}], expect: {records: []}}\n":       `reply 1 is for "http://a/"; write a path`,
		"- {kind: buyer, replies: [{to: \"%zz\", body: x, status: ok}], expect: {records: []}}\n": `replies[0].status: wants a whole number`,
		"name: x\n": "wants a list",
	} {
		if _, err := runText(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
