package mapping

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/cases"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/decode"
)

// eachLine visits the lines of a file's cases that say what comes of what:
//
//	-- what it is about; the sample's configuration holds again --
//	key: value of the buyer's section; without a value the key goes
//	what is given => what comes of it
//
// Long lines go on in the next ones, which are indented.
func eachLine(t *testing.T, pattern string, visit func(at string, settings map[string]string, given, want string)) {
	t.Helper()
	for _, c := range cases.Read(t, pattern) {
		settings := map[string]string{}
		for line := range strings.Lines(strings.ReplaceAll(c.Text, "\n\t", " ")) {
			line = strings.TrimSpace(line)
			if given, want, ok := strings.Cut(line, " => "); ok {
				visit(fmt.Sprintf("%s, %s, %.300s", c.File, c.Name, given), settings, given, want)
			} else if line != "" {
				set(settings, line)
			}
		}
	}
}

// set takes a line "key: value".
func set(settings map[string]string, line string) {
	key, value, _ := strings.Cut(line, ":")
	settings[key] = strings.TrimSpace(value)
}

// sectionWith is the sample's configuration with other values.
func sectionWith(t testing.TB, settings map[string]string) string {
	t.Helper()
	var root map[string]any
	if err := yaml.Unmarshal([]byte(testkit.SampleYAML), &root); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(settings)) { // a section before what is in it
		var value any
		if err := yamlfile.Decode(settings[path], &value); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		keys := strings.Split(path, ".")
		if keys[0] != "seller" {
			keys = append([]string{"buyer"}, keys...)
		}
		at, last := root, keys[len(keys)-1]
		for _, key := range keys[:len(keys)-1] {
			inner, ok := at[key].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[key] = inner
			}
			at = inner
		}
		if at[last] = value; settings[path] == "" {
			delete(at, last)
		}
	}
	section, err := json.Marshal(root) // which is YAML
	if err != nil {
		t.Fatal(err)
	}
	return string(section)
}

// compileSection compiles both endpoints of a section, and gives the mistakes by
// their keys.
func compileSection(t testing.TB, text string) (plans map[string]*Plan, wrong map[string]string) {
	t.Helper()
	var section struct {
		BaseURL string         `yaml:"base_url"`
		Buyer   EndpointConfig `yaml:"buyer"`
		Seller  EndpointConfig `yaml:"seller"`
	}
	wrong = map[string]string{}
	if found, ok := errors.AsType[setting.Problems](yamlfile.Decode(text, &section)); ok {
		for _, p := range found {
			wrong[p.Key] = p.Message
		}
	}
	var problems setting.Problems
	plans = map[string]*Plan{
		"buyer":  Compile("buyer", section.Buyer, section.BaseURL, 10_000, &problems),
		"seller": Compile("seller", section.Seller, section.BaseURL, 10_000, &problems),
	}
	read := maps.Clone(wrong)
	for _, one := range problems {
		if strings.Contains(one.Message, one.Key+":") {
			t.Fatalf("a text that repeats its key: %v", one)
		}
		if read[one.Key] == "" {
			wrong[one.Key] = one.Message
		}
	}
	return plans, wrong
}

// planOf is the plan of the sample's buyers with other values.
func planOf(t testing.TB, settings ...string) *Plan {
	t.Helper()
	all := map[string]string{}
	for _, line := range settings {
		set(all, line)
	}
	plans, wrong := compileSection(t, sectionWith(t, all))
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	return plans["buyer"]
}

// read maps a list that is one reply.
func read(plan *Plan, want Query, body string, end End) (*Builder, error) {
	b := plan.NewBuilder(want)
	page, err := b.Take(body)
	if end.Records = page.Records; err == nil {
		err = b.CheckEnd(end)
	}
	if err == nil {
		b.RemoveIDs()
	}
	return b, err
}

// reasonOf is the reason of an error, empty for none.
func reasonOf(t testing.TB, err error) string {
	t.Helper()
	refused, ok := errors.AsType[*Error](err)
	if err != nil && !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if refused == nil {
		return ""
	}
	return refused.Reason
}

// What is wrong with a configuration is said at its key. Several settings have a semicolon
// between them.
func TestConfigurationsThatAreRefused(t *testing.T) {
	eachLine(t, "testdata/refused.txt", func(at string, ofCase map[string]string, given, want string) {
		settings := maps.Clone(ofCase)
		for line := range strings.SplitSeq(given, "; ") {
			set(settings, line)
		}
		key, says, _ := strings.Cut(want, ": ")
		key = strings.TrimSuffix(key, ":")
		if !strings.HasPrefix(key, "seller.") {
			key = "buyer." + key
		}
		_, wrong := compileSection(t, sectionWith(t, settings))
		if want == "ok" && len(wrong) > 0 || want != "ok" && (wrong[key] == "" || !strings.Contains(wrong[key], says)) {
			t.Errorf("%s: %v, want %s", at, wrong, want)
		}
	})
}

// What is given is a record after the other, each the sample's with other members, or after
// "reply" a whole reply, in which $ is the sample's record. Each case is explained, too.
func TestLists(t *testing.T) {
	eachLine(t, "testdata/lists/*", func(at string, settings map[string]string, given, want string) {
		newCase(t, at, settings, given).check(t, at, want)
	})
}

// listCase is a line of testdata/lists.
type listCase struct {
	plan *Plan
	want Query
	end  End
	body string
}

// newCase compiles the section and writes the reply. Settings are also what is asked for, and
// the end of the list.
func newCase(t *testing.T, at string, settings map[string]string, given string) listCase {
	t.Helper()
	var c listCase
	var end struct {
		Next   string
		Pages  int
		Header map[string]string
	}
	var kind struct{ Kind string }
	err := errors.Join(yaml.Unmarshal([]byte(settings["asked"]), &kind), yaml.Unmarshal([]byte(settings["asked"]), &c.want), yaml.Unmarshal([]byte(settings["end"]), &end))
	if err != nil {
		t.Fatal(err)
	}
	c.want.Account = cmp.Or(c.want.Account, acme.Account)
	c.end = End{Next: end.Next, Pages: max(end.Pages, 1), Header: http.Header{}}
	for name, value := range end.Header {
		c.end.Header.Set(name, value)
	}
	section := maps.Clone(settings)
	maps.DeleteFunc(section, func(key, _ string) bool { return key == "asked" || key == "end" })
	plans, wrong := compileSection(t, sectionWith(t, section))
	if len(wrong) > 0 {
		t.Fatalf("%s: %v", at, wrong)
	}
	c.plan = plans[cmp.Or(kind.Kind, "buyer")]
	c.body = c.reply(t, given)
	return c
}

// reply writes the reply that is given, as the mapping reads it.
func (c listCase) reply(t *testing.T, given string) string {
	t.Helper()
	body, whole := strings.CutPrefix(given, "reply ")
	body = strings.ReplaceAll(body, "$", testkit.SampleTicket)
	if !whole {
		var records []string
		for from := json.NewDecoder(strings.NewReader(given)); from.More(); {
			var changed any
			if err := from.Decode(&changed); err != nil {
				t.Fatalf("%s: %v", given, err)
			}
			if members, ok := changed.(map[string]any); ok {
				var record map[string]any
				if err := json.Unmarshal([]byte(testkit.SampleTicket), &record); err != nil {
					t.Fatal(err)
				}
				maps.Copy(record, members)
				changed = record
			}
			text, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, string(text))
		}
		body = testkit.SampleList(records...)
	}
	if !c.plan.Format.XML {
		return body
	}
	body, err := c.plan.Format.Decode(body, "", decode.AtMost(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// goesOn finds the mark in an error.
var goesOn = regexp.MustCompile(`(?:the list goes on|paging ended it): (?:the header )?(\S+)`)

func (c listCase) check(t *testing.T, at, want string) {
	t.Helper()
	b, err := read(c.plan, c.want, c.body, c.end)
	all := describeList(b)
	if refusal, bad := strings.CutPrefix(want, "! "); bad {
		reason, says, _ := strings.Cut(refusal, " ")
		text := fmt.Sprint(err) + "; " + strings.Join(all, "; ")
		if refused, ok := errors.AsType[*Error](err); ok {
			text += "; found " + refused.Found
		}
		for part := range strings.SplitSeq(says, "; ") {
			if reasonOf(t, err) != reason || !strings.Contains(text, part) {
				t.Errorf("%s:\ngot  %s\nwant %s", at, text, want)
			}
		}
	} else {
		for item := range strings.SplitSeq(strings.TrimSuffix(want, ";"), "; ") {
			if err != nil || !slices.Contains(all, strings.TrimSpace(item)) {
				t.Errorf("%s:\ngot  %s\n%v\nwant %s", at, strings.Join(all, "; "), err, item)
			}
		}
	}
	c.explain(t, at, b.List, err)
	if mark := goesOn.FindStringSubmatch(fmt.Sprint(err)); mark != nil {
		c.plan.Paging.IgnoreMarks = []string{mark[1]}
		if _, err := read(c.plan, c.want, c.body, c.end); err != nil {
			t.Errorf("%s, with %s ignored: %v", at, mark[1], err)
		}
	}
}

// explain compares what an operator is told with what the mapping did.
func (c listCase) explain(t *testing.T, at string, list []Inquiry, refused error) {
	t.Helper()
	x := c.plan.Explainer(c.want, 100)
	page, err := x.Take(c.body)
	if c.end.Records = page.Records; err == nil {
		err = x.CheckEnd(c.end)
	}
	x.Finish()
	wrong := len(x.Violations) + len(x.Owner.Foreign) + len(x.Owner.Missing)
	switch reason := reasonOf(t, refused); {
	case reason == "record" || reason == "owner":
		if err != nil || wrong == 0 {
			t.Errorf("%s: explained as %+v %v", at, x.Report, err)
		}
	case c.want.Status+c.want.InquiryType != "": // without the filters
	case reasonOf(t, err) != reason || refused == nil && !reflect.DeepEqual(x.List, list):
		t.Errorf("%s: explained as %+v %v", at, x.List, err)
	}
}

// describeList says what is in a list, and what was met besides. What is of the second record has
// a 2 before it.
func describeList(b *Builder) (all []string) {
	number := ""
	say := func(name, value string) {
		if value == "" {
			value = `""`
		}
		all = append(all, number+name+": "+strings.ReplaceAll(value, "\n", `\n`))
	}
	orNull := func(s NullString) string {
		if !s.Valid {
			return "null"
		}
		return s.String
	}
	const clock = "2006-01-02T15:04:05.999Z07:00"
	for i, inq := range b.List {
		if i > 0 {
			number = fmt.Sprint(i+1) + "."
		}
		say("title", inq.Title)
		say("content", inq.Content)
		say("status", inq.Status)
		say("type", orNull(inq.InquiryType))
		say("company", inq.CompanyName)
		say("created", inq.CreatedAt.Format(clock))
		say("responses", fmt.Sprint(len(inq.Responses)))
		for _, r := range inq.Responses {
			say("response", r.Content+", "+orNull(r.ResponderType)+", "+r.CreatedAt.Format(clock))
		}
	}
	number = ""
	for name, n := range map[string]int{"records": len(b.List), "seen": b.Seen, "foreign": b.Foreign, "hidden": b.Hidden} {
		say(name, fmt.Sprint(n))
	}
	for field, n := range b.Skipped {
		say("skipped "+field, fmt.Sprint(n))
	}
	for field, n := range b.Removed {
		say("removed "+field, fmt.Sprint(n))
	}
	b.EachDefaulted(func(field string, n int) { say("defaulted "+field, fmt.Sprint(n)) })
	return all
}
