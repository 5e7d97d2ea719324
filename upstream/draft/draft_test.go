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

// drafted is the section of a list as the gateway reads it.
type drafted struct {
	text string
	mapping.EndpointConfig
}

// draft writes the section of a list, which has to compile. What is to be completed is as good as any name there.
func draft(t *testing.T, sample, kind, account string) (drafted, error) {
	t.Helper()
	section, err := List(kind, account, [][]byte{[]byte(sample)})
	if err != nil {
		return drafted{}, err
	}
	text := File(section)
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
	d := drafted{text, file.Upstream.Buyer}
	if kind == "seller" {
		d.EndpointConfig = file.Upstream.Seller
	}
	var problems setting.Problems
	mapping.Compile(kind, d.EndpointConfig, file.Upstream.BaseURL, 10_000, &problems)
	if err := problems.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d, nil
}

// above returns the comments right above the nth line with a key.
func (d drafted) above(key string, nth int) (comments []string) {
	for line := range strings.Lines(d.text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			comments = append(comments, line)
			continue
		case !strings.HasPrefix(line, key+":"):
		case nth == 0:
			return comments
		default:
			nth--
		}
		comments = nil
	}
	return nil
}

// ids are the paths of internal ids, within a record.
func (d drafted) ids() []string {
	ids := slices.Clone(d.InternalIDs)
	for _, id := range d.Fields.Responses.InternalIDs {
		ids = append(ids, d.Fields.Responses.Items+".#."+id)
	}
	return ids
}

// single returns the only path, empty: it is to be completed.
func single(paths mapping.Paths) string {
	return strings.Replace(strings.Join(paths, " "), "TODO", "", 1)
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
	all, right := 0, 0
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
		d, err := draft(t, string(sample), want["kind"][0], want["account"][0])
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		check := func(field string, isRight, marked bool) {
			if all++; isRight {
				right++
			} else if !marked {
				t.Errorf("%s: %s has to be one of %q\n%s", file, field, want[field], d.text)
			}
		}
		r := d.Fields.Responses
		for _, c := range []struct{ field, got, key string }{
			{"items", d.Items, "items"}, {"owner", single(d.Owner.Path), "owner"}, {"created_at", single(d.Fields.CreatedAt.Path), "created_at"},
			{"format", d.Fields.CreatedAt.Format, "created_at"}, {"responses", strings.Replace(r.Items, "TODO", "", 1), "items 1"},
			{"response_created", single(r.Fields.CreatedAt.Path), "created_at 1"},
		} {
			if want[c.field] != nil && (want["kind"][0] == "buyer" || !strings.HasPrefix(c.field, "response")) {
				key, second := strings.CutSuffix(c.key, " 1")
				comments := d.above(key, map[bool]int{true: 1}[second])
				check(c.field, slices.Contains(want[c.field], c.got), len(comments) > 0 || c.got == "" && c.field != "format")
			}
		}
		check("paging", slices.Contains(strings.Split(want["paging"][0], "|"), d.Paging.Style), len(d.above("paging", 0)) > 0)
		for _, id := range want["ids"] {
			check("ids", slices.Contains(d.ids(), id), len(d.above("internal_ids", 0))+len(d.above("internal_ids", 1)) > 0)
		}
		for field, paths := range want {
			key, second := strings.CutPrefix(strings.Replace(field, "_role", "_responder_type", 1), "response_")
			if fieldWords[key] == "" || slices.Contains(paths, "") || slices.Contains(paths, "null") || second && r.Items == "TODO" {
				continue
			}
			nth := 0
			if second && key == "content" {
				nth = 1
			}
			check(field, slices.ContainsFunc(d.above(key, nth), func(line string) bool {
				return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(line, "#   "+path+": ") })
			}), false)
		}
	}
	if t.Logf("%d of %d right", right, all); 100*right < 80*all {
		t.Errorf("%d of %d right, less than 80 %%", right, all)
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
			d, err := draft(t, string(sample), one[1], one[2])
			if err != nil {
				t.Logf("%s, %s: %v", file, one[3], err)
				continue
			}
			for _, c := range []struct {
				key, got string
				want     mapping.Paths
			}{
				{"items", d.Items, mapping.Paths{want.Items}}, {"owner", single(d.Owner.Path), want.Owner.Path},
				{"created_at", single(d.Fields.CreatedAt.Path), want.Fields.CreatedAt.Path}, {"created_at", d.Fields.CreatedAt.Format, mapping.Paths{want.Fields.CreatedAt.Format}},
			} {
				good := slices.ContainsFunc(c.want, func(path string) bool {
					got, _, query := strings.Cut(c.got, "#(") // by the name or the number of a custom field
					want, _, _ := strings.Cut(path, "#(")
					return strings.TrimSuffix(c.got, ".$") == path || query && got == want
				})
				if !good && len(d.above(c.key, 0)) == 0 && c.got != "" {
					t.Errorf("%s, %s, %s: %s is %q, and has to be one of %q", file, one[1], one[3], c.key, c.got, c.want)
				}
			}
			ids := d.ids()
			for i := range ids {
				ids[i] = strings.TrimSuffix(ids[i], ".$")
			}
			for _, id := range want.InternalIDs {
				if d.Items != want.Items || d.Fields.Responses.Items == "TODO" && strings.Contains(id, "#") {
					continue // in doubt, or not in this sample
				}
				if !strings.Contains(id, "details") && !slices.Contains(ids, id) && len(d.above("internal_ids", 0)) == 0 {
					t.Errorf("%s, %s: the id %s is missing among %q, and nothing is marked", file, one[3], id, ids)
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
		d, err := draft(t, sampleOf(lines[0]), "buyer", "acme")
		for _, line := range lines[1:] {
			verb, part, _ := strings.Cut(line, " ")
			good := false
			switch verb {
			case "~":
				good = strings.Contains(d.text, part)
			case "-":
				good = !strings.Contains(d.text, part)
			case "!":
				good = err != nil && strings.Contains(err.Error(), part)
			}
			if !good {
				t.Errorf("%s: want %s\n%v\n%s", c.Name, line, err, d.text)
			}
		}
	}
	if _, err := List("buyer", "", nil); err == nil {
		t.Error("no account is taken")
	}
}

// The earliest of several times is proposed, in doubt where another one may be it as well: an order is
// older than the complaint about it.
func TestEarlierTimes(t *testing.T) {
	for _, other := range []string{"created_at", "openedAt", "submitted", "date_created", "ordered", "updated_at", "closed", "due"} {
		d, err := draft(t, sampleOf(`[(({$base,"`+other+`":"2026-02-0#T10:00:00Z"}))]`), "buyer", "acme")
		late := slices.Contains([]string{"updated_at", "closed", "due"}, other)
		if err != nil || len(d.above("created_at", 0)) > 0 == late || single(d.Fields.CreatedAt.Path) != "at" {
			t.Errorf("at beside %s: %v, %v", other, d.above("created_at", 0), err)
		}
	}
}

// Whatever the reply says, no key and no comment of the draft can become another, and
// the same sample gives the same draft.
func FuzzDraft(f *testing.F) {
	f.Add(`[{"id":1,"t":"a b c"}]`, "1")
	f.Add(`{"a\n#":{"x.y":[{"@id":"q","when":"2026-01-02","list":[{"k":1,"v":"a"},{"k":2,"v":"b"}]}]}}`, "q\n# x: y")
	f.Add(`{"d":{"1":{"a":1,"b":"${X}","c":2},"2":{"a":1,"b":"y","c":2}}}`, "1")
	f.Add(`[`+strings.Repeat(`{"t":"a b c","x":[`, 40)+strings.Repeat(`]}`, 40)+`]`, "x")
	f.Add(`{"b":[{"t":"a b c","at":"2026-01-02"}],"a":[{"t":"a b c","at":"2026-01-02"}]}`, "x")
	f.Fuzz(func(t *testing.T, sample, account string) {
		for _, kind := range []string{"buyer", "seller"} {
			d, err := draft(t, sample, kind, account)
			if err != nil {
				continue
			}
			if again, _ := draft(t, sample, kind, account); again.text != d.text {
				t.Errorf("%s, then %s", d.text, again.text)
			}
		}
	})
}
