package address

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// What a configuration sends as credentials is found under its name, and hidden however
// it is escaped.
func TestSecrets(t *testing.T) {
	const soap = `<e><Security><UsernameToken><Username>gw1</Username><Password Type="x">p&amp;w</Password></UsernameToken></Security>` +
		`<a apiKey="k55">{account}</a></e>`
	for spec, want := range map[string]string{
		`{query: {api_key: "q w", customer: "{account}", page_token: "t0", "access-key": abc}}`: "abc, q w",
		`{query: {mot_de_passe: tr0mbone, Kennwort: geh3im}}`:                                   "geh3im, tr0mbone",
		`{headers: {X-Api-Key: k123, Accept: text/xml}}`:                                        "k123",
		`{body: {user: gw, password: 'p"w', auth: {id: inner, n: 4711, on: true}}}`:             `4711, inner, p"w`,
		`{body: {list: [{token: t1a}], note: "the password"}}`:                                  "t1a",
		`{body: {password: "{account}:s3cret"}, body_type: form}`:                               ":s3cret",
		`{body_type: xml, body: '` + soap + `'}`:                                                "gw1, k55, p&w",
		`{body_type: xml, body: '<e><password>s3c</e>'}`:                                        "s3c",
		`{body: {after: "{cursor}", nextToken: x123, status: "{status}"}}`:                      "",
	} {
		var in struct {
			Query   map[string]string `yaml:"query"`
			Sending `yaml:",inline"`
		}
		if err := yaml.Unmarshal([]byte(spec), &in); err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(Spec{Query: in.Query, Sending: in.Sending}.Secrets(), func(s string) bool { return s == "" })
		slices.Sort(got)
		if joined := strings.Join(got, ", "); joined != want {
			t.Errorf("%s: %q, want %q", spec, joined, want)
		}
	}
	hide := Hider([]string{`p"w d`, "&w d", `p"w d2`, "", "ab", "<x>"})
	for text, want := range map[string]string{
		`p"w d`: Hidden, `p"w d2`: Hidden, "a=p%22w+d&b": "a=(hidden)&b", "a=%26w%20d&b": "a=(hidden)&b", "/p%22w%20d/x": "/(hidden)/x",
		`{"a":"p\"w d"}`: `{"a":"(hidden)"}`, "<a>&lt;x&gt;</a>": "<a>(hidden)</a>", "ab": "ab", "": "",
	} {
		if got := hide(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
