package address

import (
	"encoding/json"
	"encoding/xml"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit/cases"
)

// compile compiles a request that is written in YAML, below a path where it has none.
func compile(t testing.TB, text string) (plan Template, wrong map[string]string) {
	t.Helper()
	in := struct {
		Path    string            `yaml:"path"`
		Query   map[string]string `yaml:"query"`
		Trust   string            `yaml:"trust"`
		Join    string            `yaml:"join"`
		JoinIDs string            `yaml:"join ids"`
		Sending `yaml:",inline"`
	}{Path: "/x"}
	if err := yaml.Unmarshal([]byte(text), &in); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	everywhere := []string{Account, Status, Type, IDs, Page, Cursor, Size}
	var problems setting.Problems
	plan = Spec{Path: in.Path, Query: in.Query, InPath: []string{Account}, InQuery: everywhere, Sending: in.Sending}.Compile("", "", &problems)
	if in.Trust != "" {
		plan.Trust(in.Trust)
	}
	if in.Join != "" {
		_, _ = plan.Join(Status, in.Join, "")
	}
	if in.JoinIDs != "" {
		_, _ = plan.Join(IDs, in.JoinIDs, "")
	}
	wrong = map[string]string{}
	for _, one := range problems {
		wrong[strings.TrimPrefix(one.Key, ".")] += one.Message
	}
	return plan, wrong
}

func lines(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRequests(t *testing.T) {
	for _, c := range cases.Read(t, "testdata/requests.txt") {
		title := c.Name
		config, steps, _ := strings.Cut(c.Text, "\n> ")
		plan, wrong := compile(t, config)
		if len(wrong) > 0 {
			t.Errorf("%s: %v", title, wrong)
		}
		for _, step := range strings.Split(steps, "\n> ") {
			given, results, _ := strings.Cut(strings.TrimSpace(step), "\n")
			r, err := plan.Request(valuesOf(t, given))
			for line := range strings.SplitSeq(results, "\n") {
				verb, want, _ := strings.Cut(line, " ")
				got := map[string]string{"=": r.URL, "body": r.Body}[verb]
				if verb == "type" {
					got = r.Headers["Content-Type"]
				}
				if text, err := strconv.Unquote(want); err == nil {
					want = text
				}
				refused := verb == "!" && err != nil && strings.Contains(err.Error(), want)
				if !refused && (verb == "!" || err != nil || got != want) {
					t.Errorf("%s: %s: got %q, %v\nwant %s", title, given, got, err, line)
				}
			}
		}
	}
}

// valuesOf reads values that are written in YAML, one or several for each name.
func valuesOf(t *testing.T, text string) Values {
	t.Helper()
	var in map[string]any
	if err := yaml.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	values := Values{}
	for name, v := range in {
		list, several := v.([]any)
		if !several {
			list = []any{v}
		}
		for _, one := range list {
			values[name] = append(values[name], one.(string))
		}
	}
	return values
}

// YAML cannot hold what is no UTF-8; a caller can.
func TestNoUTF8(t *testing.T) {
	plan, _ := compile(t, `{method: POST, body: {a: "{account}"}}`)
	if r, err := plan.Request(Values{Account: {"a\xff"}}); err == nil {
		t.Errorf("%q was sent", r.Body)
	}
}

func TestMistakes(t *testing.T) {
	for line := range strings.Lines(lines(t, "testdata/mistakes.txt")) {
		config, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue // a comment
		}
		key, says, _ := strings.Cut(want, ": ")
		if _, wrong := compile(t, config); !strings.Contains(wrong[key], says) || wrong[key] == "" {
			t.Errorf("%s: want %q at %s, got %v", config, says, key, wrong)
		}
	}
}

// Whatever a value is, it arrives as that one value, and nothing around it changes.
func TestAValueStaysOneValue(t *testing.T) {
	asJSON, _ := compile(t, `{method: POST, body: {a: "{account}", l: ["{status}"], t: "x", n: {s: "{inquiry_type}"}}}`)
	asForm, _ := compile(t, `{method: POST, body_type: form, body: {a: "{account}", s: "{status}", t: x}}`)
	asXML, _ := compile(t, `{method: POST, body_type: xml, body: "<r a='{account}'><a>{account}</a>[<s>{status}</s>]</r>"}`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a"'\\<>&{}\[\]\n/:=;-]{1,8}`), rapid.StringN(1, 12, -1))
		account, status, kind := text.Draw(t, "account"), text.Draw(t, "status"), text.Draw(t, "type")
		twice := []string{status, status}
		body := func(p Template) string {
			r, err := p.Request(Values{Account: {account}, Status: twice, Type: {kind}})
			if err != nil {
				t.Skip()
			}
			return r.Body
		}
		var tree struct {
			A string
			L []string
			T string
			N map[string]string
		}
		err := json.Unmarshal([]byte(body(asJSON)), &tree)
		if err != nil || tree.A != account || tree.T != "x" || !slices.Equal(tree.L, twice) || len(tree.N) != 1 || tree.N["s"] != kind {
			t.Errorf("JSON %+v, %v", tree, err)
		}
		form, err := url.ParseQuery(body(asForm))
		if err != nil || len(form) != 3 || form.Get("a") != account || !slices.Equal(form["s"], twice) || form.Get("t") != "x" {
			t.Errorf("form %v, %v", form, err)
		}
		var root struct {
			Attr string   `xml:"a,attr"`
			A    []string `xml:"a"`
			S    []string `xml:"s"`
		}
		err = xml.Unmarshal([]byte(body(asXML)), &root)
		if err != nil || root.Attr != account || !slices.Equal(root.A, []string{account}) || !slices.Equal(root.S, twice) {
			t.Errorf("XML %+v, %v, want %q", root, err, account)
		}
	})
}
