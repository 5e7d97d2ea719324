package draft

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/mapping"
)

// truth is what somebody who knows the system would write. Of several paths each is
// right.
type truth struct {
	Kind, Account, Items, Responses, Paging string
	Owner, Title, Content, Status           []string
	StatusValues                            []string `json:"status_values"`
	InquiryType                             []string `json:"inquiry_type"`
	CompanyName                             []string `json:"company_name"`
	CreatedAt                               []string `json:"created_at"`
	Format                                  *string
	ResponseContent                         []string `json:"response_content"`
	ResponseRole                            []string `json:"response_role"`
	ResponseCreated                         []string `json:"response_created"`
	IDs                                     []string
}

// compiled reads what a proposal writes as the gateway would. What is to be completed
// is as good as any name there.
func compiled(t *testing.T, p *Proposal) *mapping.Plan {
	t.Helper()
	text := p.YAML()
	var file struct {
		Upstream struct {
			BaseURL string                 `yaml:"base_url"`
			Auth    any                    `yaml:"auth"`
			Buyer   mapping.EndpointConfig `yaml:"buyer"`
			Seller  mapping.EndpointConfig `yaml:"seller"`
		} `yaml:"upstream"`
	}
	if err := yamlfile.Decode(strings.ReplaceAll(text, ToComplete, "TODO"), &file); err != nil {
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

// marked tells whether a line is not to be taken as it is.
func marked(c Choice) bool { return c.Path == "" || len(c.Doubts) > 0 }

// Of systems that the rules were not made on, most lines are right, and none is wrong
// without a mark. What is drafted compiles, and maps the sample.
func TestShapes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.truth.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d shapes, %v", len(files), err)
	}
	fields, right := 0, 0
	for _, file := range files {
		var want truth
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &want)
		}
		sample, readErr := os.ReadFile(strings.Replace(file, ".truth", "", 1))
		if err != nil || readErr != nil {
			t.Fatal(err, readErr)
		}
		p, err := Propose([][]byte{sample}, Options{Kind: want.Kind, Account: want.Account})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		check := func(field, got string, paths []string, marked bool) {
			if paths == nil {
				return
			}
			fields++
			switch {
			case slices.Contains(paths, got):
				right++
			case marked:
				t.Logf("%s %s: %q, but it is %q (marked)", filepath.Base(file), field, got, paths)
			default:
				t.Errorf("%s %s: %q, but it is %q", filepath.Base(file), field, got, paths)
			}
		}
		for field, of := range map[string]struct {
			Choice
			want []string
		}{
			"items": {p.Items, []string{want.Items}}, "owner": {p.Owner, want.Owner}, "title": {p.Title, want.Title}, "content": {p.Content, want.Content},
			"status": {p.Status, want.Status}, "inquiry_type": {p.InquiryType, want.InquiryType}, "company_name": {p.CompanyName, want.CompanyName},
			"created_at": {p.CreatedAt, want.CreatedAt}, "responses.content": {p.Responses.Content, want.ResponseContent},
			"responses.role": {p.Responses.Role, want.ResponseRole}, "responses.created_at": {p.Responses.Created, want.ResponseCreated},
		} {
			check(field, of.Path, of.want, marked(of.Choice))
		}
		if want.Format != nil {
			check("format", p.CreatedAt.Format, []string{*want.Format}, marked(p.CreatedAt))
		}
		if want.StatusValues != nil {
			slices.Sort(want.StatusValues)
			check("codes", strings.Join(p.Status.Codes, " "), []string{strings.Join(want.StatusValues, " ")}, true)
		}
		if want.Kind == "buyer" {
			check("responses", p.Responses.Items.Path, []string{want.Responses}, marked(p.Responses.Items))
		}
		for _, id := range want.IDs {
			list, path := p.IDs, id
			if inner, ok := strings.CutPrefix(id, want.Responses+".#."); ok && want.Responses != "" {
				list, path = p.Responses.IDs, inner
			}
			fields++
			if slices.Contains(list, path) {
				right++
			} else if !slices.Contains(p.short, path) {
				t.Errorf("%s: %q is no internal id, only %q", filepath.Base(file), id, list)
			}
		}
		check("paging", p.Paging.Style, strings.Split(want.Paging, "|"), len(p.Paging.Doubts) > 0)
		plan := compiled(t, p)
		if strings.Contains(p.YAML(), ": "+ToComplete+"\n    "+"created") || p.CreatedAt.Path == "" {
			continue
		}
		x := plan.Explainer(mapping.Request{Kind: want.Kind, Account: want.Account}, 1)
		if _, err := x.Take(string(sample)); err != nil || x.Items != p.Records {
			t.Errorf("%s: %v, %d of %d records\n%s", file, err, x.Items, p.Records, p.YAML())
		}
	}
	t.Logf("%d of %d fields right", right, fields)
	if 100*right < 80*fields {
		t.Errorf("%d of %d fields right, less than 80 %%", right, fields)
	}
}

// A wrong line without a mark is the one mistake that counts.
func TestDoubts(t *testing.T) {
	records := func(format string) string {
		var list []string
		for _, r := range []string{"1", "2", "3", "4", "5", "6"} {
			list = append(list, strings.ReplaceAll(format, "~", r))
		}
		return strings.Join(list, ",")
	}
	const base = `"subject":"Parcel ~ is late","text":"Where is the parcel number ~ that I ordered in May?","acc":"acme","at":"2026-01-0~T10:00:00Z"`
	for name, tc := range map[string]struct{ sample, has, without string }{
		"a constant is no type": {`[` + records(`{`+base+`,"type":"ticket"}`) + `]`, "# DOUBT: it has one value in all records", ""},
		"the finer of two times": {`[` + records(`{`+base+`,"created_ms":"2026-01-0~T10:00:00.123Z"}`) + `]`,
			"# DOUBT: or at, which has the same times?\n      created_at: created_ms", ""},
		"a cursor beside a link": {`{"next":"https://inner.example/x?c=1","cursor":"abc","has_more":true,"d":[` + records(`{`+base+`}`) + `]}`, "# DOUBT: or style next_url by next?", "style: next_url"},
		"a link to another host": {`{"next":"https://inner.example/x?c=1","d":[` + records(`{`+base+`}`) + `]}`, "# DOUBT: its URL names the host inner.example", ""},
		"private notes": {`[` + records(`{`+base+`,"notes":[{"id":"note-~","private":true,"body":"We have sent parcel ~ again","at":"2026-02-0~T10:00:00Z"}]}`) + `]`,
			`- {path: private, in: ["false", "0", "N"], missing: include}`, ""},
		"private notes in another language": {`[` + records(`{`+base+`,"notizen":[{"id":"note-~","intern":true,"body":"We have sent parcel ~ again","at":"2026-02-0~T10:00:00Z"}]}`) + `]`,
			"# DOUBT: true or false in the records, and read by no field: intern;", ""},
		"pages in another language": {`{"treffer":60,"seite":1,"d":[` + records(`{`+base+`}`) + `]}`, "# DOUBT: or does one of these count records or pages, or name the next: seite = 1, treffer = 60?", ""},
		"an older constant":         {`[` + records(`{`+base+`,"customer_since":"2019-01-01T00:00:00Z"}`) + `]`, "created_at: at", ""},
		"seconds beside milliseconds": {`[` + records(`{"subject":"Parcel ~ is late","text":"Where is the parcel number ~ that I ordered in May?","acc":"acme","created":177~000000,"created_ms":177~000000123}`) + `]`,
			"# DOUBT: or created, which has the same times?\n      created_at: {path: created_ms, format: unix_ms}", ""},
		"short numbers of answers": {`[` + records(`{`+base+`,"notes":[{"no":1~,"body":"We have sent parcel ~ again","at":"2026-02-0~T10:00:00Z"}]}`) + `]`, "would be cut out of texts: no", ""},
		"an object keyed by ids":   {`{"d":{` + records(`"a~":{`+base+`}`) + `}}`, `items: "d.@values"`, "or is it"},
		"codes that some records lack": {`[` + records(`{"a":"PRD",`+base+`,"b":"N"}`) + `,` + records(`{"a":"DLV",`+base+`,"b":"Y"}`) + `,` + records(`{`+base+`,"b":"N"}`) + `]`,
			"status:\n        path: b", ""},
		"no zone":        {`[` + strings.ReplaceAll(records(`{`+base+`}`), "T10:00:00Z", " 10:00:00") + `]`, "# DOUBT: the times name no zone", ""},
		"the first page": {`{"total":60,"page":1,"d":[` + records(`{`+base+`}`) + `]}`, "first: 1, total: total", ""},
		"a sign-in":      {`[` + records(`{`+base+`}`) + `]`, "auth: {type: header, name: X-Api-Key, token_file: COMPLETE_ME}", ""},
	} {
		p, err := Propose([][]byte{[]byte(tc.sample)}, Options{Kind: "buyer", Account: "acme"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compiled(t, p)
		if text := p.YAML(); !strings.Contains(text, tc.has) || tc.without != "" && strings.Contains(text, tc.without) {
			t.Errorf("%s: want %q and not %q\n%s", name, tc.has, tc.without, text)
		}
	}
}

// The second kind goes into a configuration whose other lines stay as they are, so that no
// key is there twice.
func TestInto(t *testing.T) {
	p, err := Propose([][]byte{[]byte(`[{"subject":"Parcel 1 is late","acc":"acme","firm":"Acme Ltd","at":"2026-01-01T10:00:00Z"}]`)}, Options{Kind: "seller", Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		"# a\nupstream: # b\n  base_url: https://x # c\n\n  buyer:\n    path: /b\n# the end\nauth: {}\n": "    path: /b\n  # Drafted",
		"upstream:\n      base_url: https://x\n      buyer: {path: /b}\n\n\nlisten: 127.0.0.1:1":         "      seller:\n        # TODO",
		"upstream:\r\n  buyer: {path: /b}\r\n":                                                           "  seller:\r\n",
		"listen: 127.0.0.1:1":                                                                            "listen: 127.0.0.1:1\nupstream:\n  # TODO",
		"upstream:\nlisten: 127.0.0.1:1\n":                                                               "upstream:\n  # TODO: the address",
		"":                                                                                               "upstream:\n",
		"a: |\n  upstream:\n\n  x\nupstream:\n  buyer:\n    path: /b\n    body: |\n      a\n\n      b\n# c\n": "      b\n  # Drafted",
	} {
		got, err := p.Into(config)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v\n%s", config, err, got)
			continue
		}
		rest := strings.SplitAfter(got, "\n")
		for _, line := range strings.SplitAfter(config, "\n") {
			if i := slices.Index(rest, strings.TrimSuffix(line, "\n")+"\n"); line != "" && i < 0 {
				t.Errorf("%q: %q is gone\n%s", config, line, got)
			} else if line != "" {
				rest = rest[i+1:]
			}
		}
		var keys struct {
			Upstream map[string]any
		}
		if err := yaml.UnmarshalWithOptions([]byte(got), &keys); err != nil || keys.Upstream["seller"] == nil || strings.Contains(config, "buyer") != (keys.Upstream["buyer"] != nil) {
			t.Errorf("%q: %v\n%s", config, err, got)
		}
	}
	for config, want := range map[string]string{
		"upstream:\n  seller: {path: /b}\n": "line 2: upstream.seller is there already",
		"upstream: {buyer: {path: /b}}\n":   "line 1: upstream is written in braces",
		"upstream: x\n":                     "line 1: upstream is no section",
		"a: [\n":                            "sequence end token",
	} {
		if got, err := p.Into(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\n%s", config, err, got)
		}
	}
}

// A list in XML is one in every record, also where it has one element.
func TestDraftOfXML(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><inquiries count="6">`)
	for i, subject := range []string{"Where is my parcel?", "The invoice is wrong", "Please change the address", "Broken on arrival", "Charged twice", "Colour differs"} {
		replies := []string{"", "<reply><text>We look into it today.</text><at>2026-02-01T10:00:00Z</at><by>staff</by></reply>"}[i%2]
		if i == 3 {
			replies += "<reply><text>Thank you very much!</text><at>2026-02-02T10:00:00Z</at><by>customer</by></reply>"
		}
		b.WriteString(`<inquiry id="9999` + string(rune('0'+i)) + `"><customer no="4711">Acme</customer><subject>` + subject + `</subject><text>` + strings.Repeat(subject+" ", 5) +
			`</text><state>` + []string{"open", "answered"}[i%2] + `</state><topic>` + []string{"delivery", "billing"}[i/3] + `</topic><created>2026-01-0` + string(rune('1'+i)) + `T10:00:00Z</created><replies>` + replies + `</replies></inquiry>`)
	}
	b.WriteString(`<suite>2</suite></inquiries>`)
	p, err := Propose([][]byte{[]byte(b.String())}, Options{Kind: "buyer", Account: "4711"})
	if err != nil {
		t.Fatal(err)
	}
	compiled(t, p)
	for _, want := range []string{
		"reply: {format: xml}", "items: inquiries.inquiry", "owner: customer.-no", "title: subject", "content: text", "path: state", "path: topic", "created_at: created", "items: replies.reply", "path: by", "or name the next: inquiries.-count = 6, inquiries.suite = 2?",
	} {
		if !strings.Contains(p.YAML(), want) {
			t.Errorf("no %q\n%s", want, p.YAML())
		}
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

// Whatever the reply says, no key and no comment of the draft can become another, and
// the same sample gives the same draft.
func FuzzPropose(f *testing.F) {
	f.Add(`[{"id":1,"t":"a b c"}]`, "1")
	f.Add(`{"a\n#":{"x.y":[{"@id":"q","when":"2026-01-02","list":[{"k":1,"v":"a"},{"k":2,"v":"b"}]}]}}`, "q\n# x: y")
	f.Add(`{"d":{"1":{"a":1,"b":"${X}","c":2},"2":{"a":1,"b":"y","c":2}}}`, "1")
	f.Add(`{"b":[{"t":"a b c","at":"2026-01-02"}],"a":[{"t":"a b c","at":"2026-01-02"}]}`, "x")
	f.Fuzz(func(t *testing.T, sample, account string) {
		for _, kind := range []string{"buyer", "seller"} {
			p, err := Propose([][]byte{[]byte(sample)}, Options{Kind: kind, Account: account})
			if err != nil {
				continue
			}
			compiled(t, p)
			if again, _ := Propose([][]byte{[]byte(sample)}, Options{Kind: kind, Account: account}); again.YAML() != p.YAML() {
				t.Errorf("%s, then %s", p.YAML(), again.YAML())
			}
		}
	})
}
