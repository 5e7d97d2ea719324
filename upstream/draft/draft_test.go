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

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit/cases"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/mapping"
)

func propose(sample, kind, account string) (*Proposal, error) {
	return Propose([][]byte{[]byte(sample)}, Options{Kind: kind, Account: account})
}

// compiled reads what a proposal writes as the gateway would. What is to be completed
// is as good as any name there.
func compiled(t *testing.T, p *Proposal) *mapping.Plan {
	t.Helper()
	text := YAML(p)
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

// Of systems that the rules were not made on, every line is right or has a mark, and the field that
// somebody would take who knows the system is among those that are named for it. What is drafted compiles.
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
		p, err := propose(string(sample), want["kind"][0], want["account"][0])
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		compiled(t, p)
		r := p.Responses
		fields, right := 0, 0
		check := func(field string, got string, paths oneOf, marked bool) {
			if fields++; slices.Contains(paths, got) {
				right++
			} else if !marked {
				t.Errorf("%s: %s is %q, and has to be one of %q\n%s", file, field, got, paths, YAML(p))
			}
		}
		for field, c := range map[string]Choice{
			"items": p.Items, "owner": p.Owner, "created_at": p.Created, "format": {Path: p.Created.Format, Doubts: p.Created.Doubts},
			"response_created": r.Created, "responses": r.Items,
		} {
			if want[field] != nil && (field != "responses" || p.Kind == "buyer") {
				check(field, c.Path, want[field], len(c.Doubts) > 0 || c.Path == "" && field != "format")
			}
		}
		check("paging", p.Paging.Style, strings.Split(want["paging"][0], "|"), len(p.Paging.Doubts) > 0)
		ids := p.IDs
		for _, id := range r.IDs {
			ids = append(ids, r.Items.Path+".#."+id)
		}
		for _, id := range want["ids"] {
			check("id", id, ids, len(p.doubts)+len(r.doubts) > 0)
		}
		for field, table := range map[string]*table{"title": p.table, "content": p.table, "status": p.table, "inquiry_type": p.table, "company_name": p.table, "response_content": r.table, "response_role": r.table} {
			path := want[field]
			if table == nil || path == nil || slices.Contains(path, "") || slices.Contains(path, "null") {
				continue
			}
			field = strings.Replace(strings.TrimPrefix(field, "response_"), "role", "responder_type", 1)
			lines := table.candidates(field)
			named := slices.IndexFunc(lines, func(line string) bool {
				return slices.ContainsFunc(path, func(path string) bool { return strings.HasPrefix(line, path+": ") })
			})
			if fields++; named >= 0 {
				right++
			} else {
				t.Errorf("%s: %s: one of %q is not among %q", file, field, path, lines)
			}
		}
		t.Logf("%-40s %2d right, %2d doubtful", name, right, fields-right)
		all, allRight = all+fields, allRight+right
	}
	if t.Logf("%d of %d right", allRight, all); 100*allRight < 80*all {
		t.Errorf("%d of %d right, less than 80 %%", allRight, all)
	}
}

// Of each system that there is an example for, the draft of its saved replies is as the example, or marked.
func TestExamples(t *testing.T) {
	tests, err := filepath.Glob("../../examples/tests/*.yaml")
	if err != nil || len(tests) < 15 {
		t.Fatalf("%d examples, %v", len(tests), err)
	}
	for _, file := range tests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var example struct {
			Upstream struct {
				Buyer  mapping.EndpointConfig `yaml:"buyer"`
				Seller mapping.EndpointConfig `yaml:"seller"`
			} `yaml:"upstream"`
		}
		config, err := os.ReadFile(filepath.Join("../../examples", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		_ = yamlfile.Decode(string(config), &example) // whose other sections are none of this
		found := regexp.MustCompile(`(?s)kind: (\w+)\n\s+account: "?([^"\n]+)"?.*?file: ([^ ,}\n]+)`).FindAllStringSubmatch(string(text), -1)
		if found == nil {
			t.Fatalf("%s has no case", file)
		}
		for _, one := range found {
			want := example.Upstream.Buyer
			if one[1] == "seller" {
				want = example.Upstream.Seller
			}
			if strings.Contains(one[3], "comments") {
				continue // a second request comes first
			}
			sample, err := os.ReadFile(filepath.Join("../../examples/tests", one[3]))
			if err != nil {
				t.Fatal(err)
			}
			p, err := propose(string(sample), one[1], one[2])
			if err != nil {
				t.Logf("%s, %s: %v", file, one[3], err)
				continue
			}
			compiled(t, p)
			for field, line := range map[string]struct {
				Choice
				want mapping.Paths
			}{
				"items": {p.Items, mapping.Paths{want.Items}}, "owner": {p.Owner, want.Owner.Path}, "created_at": {p.Created, want.Fields.CreatedAt.Path},
				"format": {Choice{Path: p.Created.Format, Doubts: p.Created.Doubts}, mapping.Paths{want.Fields.CreatedAt.Format}},
			} {
				good := slices.ContainsFunc(line.want, func(path string) bool {
					got, _, query := strings.Cut(line.Path, "#(") // by the name or the number of a custom field
					want, _, _ := strings.Cut(path, "#(")
					return strings.TrimSuffix(line.Path, ".$") == path || query && got == want
				})
				if !good && len(line.Doubts) == 0 && line.Path != "" {
					t.Errorf("%s, %s, %s: %s is %q, and has to be one of %q", file, one[1], one[3], field, line.Path, line.want)
				}
			}
			ids := slices.Clone(p.IDs)
			for _, id := range p.Responses.IDs {
				ids = append(ids, p.Responses.Items.Path+".#."+id)
			}
			for i := range ids {
				ids[i] = strings.TrimSuffix(ids[i], ".$")
			}
			for _, id := range want.InternalIDs {
				if p.Items.Path != want.Items || p.Responses.Items.Path == "" && strings.Contains(id, "#") {
					continue // in doubt, or not in this sample
				}
				if !strings.Contains(id, "details") && !slices.Contains(ids, id) && len(p.doubts) == 0 {
					t.Errorf("%s, %s: the id %s is missing among %q, and nothing is marked", file, one[3], id, p.IDs)
				}
			}
		}
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
			draft = YAML(p)
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

// The earliest of several times is proposed, in doubt where another one may be it as well: an order is
// older than the complaint about it.
func TestEarlierTimes(t *testing.T) {
	for _, other := range []string{"created_at", "openedAt", "submitted", "date_created", "ordered"} {
		p, err := propose(sampleOf(`[(({$base,"`+other+`":"2026-02-0#T10:00:00Z"}))]`), "buyer", "acme")
		if err != nil || len(p.Created.Doubts) == 0 || p.Created.Path != "at" {
			t.Errorf("at beside %s: %+v, %v", other, p.Created, err)
		}
	}
	for _, late := range []string{"updated_at", "closed", "due"} {
		p, err := propose(sampleOf(`[(({$base,"`+late+`":"2026-02-0#T10:00:00Z"}))]`), "buyer", "acme")
		if err != nil || len(p.Created.Doubts) > 0 || p.Created.Path != "at" {
			t.Errorf("at beside %s: %+v, %v", late, p.Created, err)
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
			if again, _ := propose(sample, kind, account); YAML(again) != YAML(p) {
				t.Errorf("%s, then %s", YAML(p), YAML(again))
			}
		}
	})
}
