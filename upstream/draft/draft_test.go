package draft

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit/cases"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/mapping"
)

func propose(sample, kind, account string) (*Proposal, error) {
	return Propose([][]byte{[]byte(sample)}, Options{Kind: kind, Account: account})
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
	var problems setting.Problems
	plan := mapping.Compile(p.Kind, endpoint, file.Upstream.BaseURL, 10_000, &problems)
	if err := problems.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return plan
}

// oneOf are texts each of which is right.
type oneOf []string

func (o *oneOf) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		*o = oneOf{""}
		return json.Unmarshal(text, &(*o)[0])
	}
	return json.Unmarshal(text, (*[]string)(o))
}

// Of systems that the rules were not made on, most lines are as somebody would write them
// who knows the system, and none is wrong without a mark. What is drafted compiles, and maps
// the sample.
func TestShapes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.truth.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d shapes, %v", len(files), err)
	}
	all, allRight := 0, 0
	for _, file := range files {
		truth, err := os.ReadFile(file)
		var want map[string]oneOf
		if err != nil || json.Unmarshal(truth, &want) != nil {
			t.Fatal(file, err)
		}
		name := strings.TrimSuffix(file, ".truth.json")
		sample, err := os.ReadFile(name + cmp.Or(strings.Join(want["ending"], ""), ".json"))
		if err != nil {
			t.Fatal(err)
		}
		fields, right, wrong := 0, 0, 0
		p, err := propose(string(sample), want["kind"][0], want["account"][0])
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		check := func(field string, got string, paths oneOf, marked bool) {
			fields++
			switch {
			case slices.Contains(paths, got):
				right++
			case !marked:
				wrong++
				t.Errorf("%s: %s is %q, and has to be one of %q", file, field, got, paths)
			}
		}
		r := p.Responses
		for field, c := range map[string]Choice{
			"items": p.Items, "owner": p.Owner, "title": p.Title, "content": p.Content, "status": p.Status, "inquiry_type": p.InquiryType,
			"company_name": p.CompanyName, "created_at": p.CreatedAt, "format": {Path: p.CreatedAt.Format, Doubts: p.CreatedAt.Doubts},
			"response_content": r.Content, "response_role": r.Role, "response_created": r.Created, "responses": r.Items,
		} {
			if want[field] != nil && (field != "responses" || p.Kind == "buyer") {
				check(field, c.Path, want[field], len(c.Doubts) > 0 || c.Path == "" && field != "format")
			}
		}
		check("paging", p.Paging.Style, strings.Split(want["paging"][0], "|"), len(p.Paging.Doubts) > 0)
		if codes := want["status_values"]; codes != nil {
			slices.Sort(codes)
			check("codes", strings.Join(p.Status.Codes, " "), oneOf{strings.Join(codes, " ")}, true)
		}
		ids := p.IDs
		for _, id := range r.IDs {
			ids = append(ids, r.Items.Path+".#."+id)
		}
		for _, id := range want["ids"] {
			if !slices.Contains(p.short, id) {
				check("id", id, ids, len(p.IDs) == 0)
			}
		}
		for _, form := range want["patterns"] {
			check("pattern", form, p.forms, false)
		}
		t.Logf("%-40s %2d right, %2d doubtful, %d wrong without a mark", name, right, fields-right-wrong, wrong)
		all, allRight = all+fields, allRight+right
		plan := compiled(t, p)
		if p.CreatedAt.Path == "" {
			continue // it is to be completed
		}
		x := plan.Explainer(mapping.Want{Account: p.Account}, 1)
		_, body := decode.Saved(sample)
		if want["ending"] != nil && want["ending"][0] == ".xml" {
			text, err := plan.Replies.Format.Decode(string(body), "", 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			body = []byte(text)
		}
		if _, err := x.Take(string(body)); err != nil || x.Items != p.Records {
			t.Errorf("%s: %v, %d of %d records\n%s", file, err, x.Items, p.Records, p.YAML())
		}
	}
	if t.Logf("%d of %d right", allRight, all); 100*allRight < 80*all {
		t.Errorf("%d of %d right, less than 80 %%", allRight, all)
	}
}

var repeated = regexp.MustCompile(`\(\((.*?)\)\)`)

// sampleOf writes a sample of testdata/marks.txt out.
func sampleOf(short string) string {
	const base = `"subject":"Parcel # is late","text":"Where is the parcel number # that I ordered in May?",` +
		`"acc":"acme","at":"2026-01-0#T10:00:00Z"`
	between := ","
	if strings.HasPrefix(short, "<") {
		between = ""
	}
	return repeated.ReplaceAllStringFunc(strings.ReplaceAll(short, "$base", base), func(one string) string {
		var six []string
		for _, n := range strings.Split("123456", "") {
			six = append(six, strings.ReplaceAll(one[2:len(one)-2], "#", n))
		}
		return strings.Join(six, between)
	})
}

// A wrong line without a mark is the one mistake that counts.
func TestMarks(t *testing.T) {
	for _, c := range cases.Read(t, "testdata/marks.txt") {
		lines := strings.Split(strings.TrimSpace(c.Text), "\n")
		p, err := propose(sampleOf(lines[0]), "buyer", "acme")
		draft := ""
		if err == nil {
			compiled(t, p)
			draft = p.YAML()
		}
		for _, line := range lines[1:] {
			verb, part, _ := strings.Cut(line, " ")
			good := false
			switch verb {
			case "~":
				good = strings.Contains(draft, part)
			case "-":
				good = !strings.Contains(draft, part)
			case "!":
				good = err != nil && strings.Contains(err.Error(), part)
			}
			if !good {
				t.Errorf("%s: want %s\n%v\n%s", c.Name, line, err, draft)
			}
		}
	}
	if _, err := Propose(nil, Options{Kind: "buyer"}); err == nil {
		t.Error("no account is taken")
	}
}

// The earliest of several times is proposed, and in doubt where another one is called as that of
// the inquiry's creation is: an order is older than the complaint about it.
func TestEarlierTimes(t *testing.T) {
	for _, early := range []string{"ordered_at", "order.ordered_at", "order_date", "shipped.time", "ts", "customer.created_at", "product.registered", "sale.date.opened"} {
		for _, late := range []string{"created_at", "openedAt", "submitted", "date_created", "registered_on"} {
			record := `{"subject":"Parcel # is late","text":"Where is the parcel number # that I ordered in May?","acc":"acme","LATE":"2026-02-0#T10:00:00Z",EARLY}`
			head, inner, end := `"`, strings.Split(early, "."), ""
			for _, key := range inner[:len(inner)-1] {
				head, end = head+key+`":{"`, end+"}"
			}
			member := head + inner[len(inner)-1] + `":"2026-01-0#T10:00:00Z"` + end
			sample := sampleOf("[((" + strings.NewReplacer("LATE", late, "EARLY", member).Replace(record) + "))]")
			p, err := propose(sample, "buyer", "acme")
			if err != nil || len(p.CreatedAt.Doubts) == 0 || p.CreatedAt.Path != early && p.CreatedAt.Path != late {
				t.Errorf("%s beside %s: %+v, %v", early, late, p.CreatedAt, err)
			}
		}
	}
	for _, late := range []string{"updated_at", "closed", "due", "order.shipped"} {
		p, err := propose(sampleOf(`[(({$base,"`+late+`":"2026-02-0#T10:00:00Z"}))]`), "buyer", "acme")
		if err != nil || len(p.CreatedAt.Doubts) > 0 || p.CreatedAt.Path != "at" {
			t.Errorf("at beside %s: %+v, %v", late, p.CreatedAt, err)
		}
	}
}

// The second kind goes into a configuration whose other lines stay as they are, so that no
// key is there twice.
func TestInto(t *testing.T) {
	p, err := propose(sampleOf(`[(({$base,"firm":"Acme Ltd"}))]`), "seller", "acme")
	if err != nil {
		t.Fatal(err)
	}
	const block = "    body: |\n      a\n\n      b\n"
	const commented = "# a\nupstream: # b\n  base_url: https://x # c\n\n  buyer:\n    path: /b\n# the end\nauth: {}\n"
	for config, want := range map[string]string{
		commented: "    path: /b\n  # Drafted",
		"upstream:\n      base_url: https://x\n      buyer: {path: /b}\n\n\nlisten: 127.0.0.1:1": "      seller:\n        # TODO",
		"upstream:\r\n  buyer: {path: /b}\r\n":                                                   "  seller:\r\n",
		"listen: 127.0.0.1:1":                                                                    "listen: 127.0.0.1:1\nupstream:\n  # TODO",
		"upstream:\nlisten: 127.0.0.1:1\n":                                                       "upstream:\n  # TODO: the address",
		"":                                                                                       "upstream:\n",
		"a: |\n  upstream:\n\n  x\nupstream:\n  buyer:\n    path: /b\n" + block + "# c\n": "      b\n  # Drafted",
	} {
		got, err := p.Into(config)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v\n%s", config, err, got)
			continue
		}
		rest := strings.SplitAfter(got, "\n")
		for line := range strings.Lines(config) { // each is there, in its order
			i := slices.Index(rest, strings.TrimSuffix(line, "\n")+"\n")
			if i < 0 {
				t.Fatalf("%q: %q is gone\n%s", config, line, got)
			}
			rest = rest[i+1:]
		}
		var keys struct {
			Upstream map[string]any
		}
		err = yaml.Unmarshal([]byte(got), &keys)
		if err != nil || keys.Upstream["seller"] == nil || strings.Contains(config, "buyer") != (keys.Upstream["buyer"] != nil) {
			t.Errorf("%q: %v\n%s", config, err, got)
		}
	}
	for config, want := range map[string]string{
		"upstream:\n  seller: {path: /b}\n": "line 2: upstream.seller is there already",
		"upstream: {buyer: {path: /b}}\n":   "line 1: upstream is written in braces",
		"upstream: x\n":                     "line 1: upstream is no section",
		"a: [\n":                            "did not find expected node content",
	} {
		if got, err := p.Into(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\n%s", config, err, got)
		}
	}
}

// Whatever the reply says, no key and no comment of the draft can become another, and
// the same sample gives the same draft.
func FuzzPropose(f *testing.F) {
	f.Add(`[{"id":1,"t":"a b c"}]`, "1")
	f.Add(`{"a\n#":{"x.y":[{"@id":"q","when":"2026-01-02","list":[{"k":1,"v":"a"},{"k":2,"v":"b"}]}]}}`, "q\n# x: y")
	f.Add(`{"d":{"1":{"a":1,"b":"${X}","c":2},"2":{"a":1,"b":"y","c":2}}}`, "1")
	f.Add(`[`+strings.Repeat(`{"t":"a b c","x":[`, 40)+strings.Repeat(`]}`, 40)+`]`, "x")
	f.Add(`{"b":[{"t":"a b c","at":"2026-01-02"}],"a":[{"t":"a b c","at":"2026-01-02"}]}`, "x")
	f.Fuzz(func(t *testing.T, sample, account string) {
		for _, kind := range []string{"buyer", "seller"} {
			p, err := propose(sample, kind, account)
			if err != nil {
				continue
			}
			compiled(t, p)
			if again, _ := propose(sample, kind, account); again.YAML() != p.YAML() {
				t.Errorf("%s, then %s", p.YAML(), again.YAML())
			}
		}
	})
}
