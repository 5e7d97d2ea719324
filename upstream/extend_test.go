package upstream

import (
	"strings"
	"testing"
)

// mapTitle maps one record with the given field for its title.
func mapTitle(t testing.TB, field, record string) (NullString, *reply, *Error) {
	t.Helper()
	section := strings.Replace(mappingYAML, "title: subject\n    status", "title: "+field+"\n    status", 1)
	r := newReply(planFrom(t, section, "seller"), Request{Account: "7"})
	err := r.whole(`[{"uuid":"id-0001","vendor":{"id":7},"state":"A","customer":{"name":"c"},"opened":"2026-03-01T00:00:00Z",` + record + `}]`)
	if err != nil {
		return NullString{}, r, err
	}
	return NullString{r.list[0].Title, true}, r, nil
}

func TestFieldExtensions(t *testing.T) {
	for _, tc := range []struct{ name, field, record, want, fails string }{
		{"first path", "[a, b]", `"a":"x","b":"y"`, "x", ""},
		{"second path", "[a, b]", `"a":null,"b":"y"`, "y", ""},
		{"object or string: object", "[a.display_value, a]", `"a":{"display_value":"d","value":"v"}`, "d", ""},
		{"object or string: string", "[a.display_value, a]", `"a":"s"`, "s", ""},
		{"no path", "{path: [a, b], default: z}", `"c":1`, "z", ""},
		{"const", "{const: Inquiry}", `"a":1`, "Inquiry", ""},
		{"join", `{path: [a, b, c], join: " "}`, `"a":"x","b":null,"c":3`, "x 3", ""},
		{"join elements", `{path: a, join: ", "}`, `"a":["x","y"]`, "x, y", ""},
		{"join nothing", `{path: [a, b], join: "-", default: none}`, `"c":1`, "none", ""},
		{"join object", `{path: a, join: "-"}`, `"a":{"b":1}`, "", "an object"},
		{"html", "{path: a, trim_html: true}", `"a":"<p>Hello &amp; <b>bye</b></p><script>x()</script><br>1 &lt; 2"`, "Hello & bye\n\n1 < 2", ""},
		{"unknown fails", "{path: a, values: {A: b}}", `"a":"C"`, "", "no entry"},
		{"unknown kept", "{path: a, values: {A: b}, unknown_values: keep}", `"a":"C"`, "C", ""},
		{"empty kept", "a", `"a":""`, "", ""},
		{"empty missing", "{path: a, empty: missing}", `"a":""`, "", "missing"},
		{"empty, next path", "{path: [a, b], empty: missing}", `"a":"","b":"y"`, "y", ""},
		{"empty, default", "{path: a, empty: missing, default: z}", `"a":""`, "z", ""},
		{"empty in values", `{path: a, values: {"": none}}`, `"a":""`, "none", ""},
		{"html that is empty", "{path: a, trim_html: true, empty: missing}", `"a":"<p> </p>"`, "", "missing"},
		{"number in values", "{path: a, values: {0: none, 1: one}}", `"a":0`, "none", ""},
		{"custom field list", `"f.#(id==360001).value"`, `"f":[{"id":1,"value":"n"},{"id":360001,"value":"y"}]`, "y", ""},
		{"values of an object", `{path: "a|@values", join: "/"}`, `"a":{"x":"1","y":"2"}`, "1/2", ""},
		{"id in HTML entities", "{path: a, trim_html: true}", `"a":"no. id&#45;0001"`, "no. [removed]", ""},
		{"id in a kept value", "{path: a, values: {A: b}, unknown_values: keep}", `"a":"id-0001"`, "[removed]", ""},
		{"id in a constant", "{const: id-0001}", `"a":1`, "id-0001", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _, err := mapTitle(t, tc.field, tc.record)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %q %v, want an error with %q", got.String, err, tc.fails)
				}
				return
			}
			if err != nil || got.String != tc.want {
				t.Errorf("got %q %v, want %q", got.String, err, tc.want)
			}
		})
	}
}

func TestFieldContradictions(t *testing.T) {
	for field, where := range map[string]string{
		"{path: a, const: b}":                                "title.const",
		"{const: null}":                                      "title.const",
		"{path: a, unknown_values: keep}":                    "title.unknown_values",
		"{path: a, values: {A: b}, unknown_values: perhaps}": "title.unknown_values",
		"{path: a, values_join: x}":                          "title.values_join",
		"{path: a, empty: perhaps}":                          "title.empty",
		"{path: [a, b..c]}":                                  "title.path[1]",
	} {
		section := strings.Replace(mappingYAML, "title: subject\n    status", "title: "+field+"\n    status", 1)
		if found := fieldsOf(t, configFrom(t, section).Validate()); found["seller.fields."+where] == "" {
			t.Errorf("%s: %v", field, found)
		}
	}
	section := strings.Replace(mappingYAML, "A: answered}}\n    inquiry_type: {path: category, default: null}\n    created_at: {", "A: answered}}\n    inquiry_type: {path: category, default: null}\n    created_at: {join: x, ", 1)
	if found := fieldsOf(t, configFrom(t, section).Validate()); found["buyer.fields.created_at.join"] == "" {
		t.Errorf("join of a time: %v", found)
	}
	section = strings.NewReplacer("values: {N: pending, A: answered}}\n    inquiry_type: {path: category, default: null}", "values: {N: pending, A: pending}, values_join: repeat}\n    inquiry_type: {path: category, default: null}",
		`state: "{status}"`, `state: "s:{status}"`).Replace(mappingYAML)
	if found := fieldsOf(t, configFrom(t, section).Validate()); found["buyer.fields.status.values_join"] == "" {
		t.Errorf("repeat within a text: %v", found)
	}
}

func TestRepeatedParameter(t *testing.T) {
	p := &problems{}
	plan := requestSpec{"/x", map[string]string{"s": "{status}", "q": "is:{status}"}, nil, []string{varStatus}}.compile("buyer", p)
	got, err := plan.url(vars{varAccount: {"a"}, varStatus: {"C", "X"}})
	if err != nil || got != "/x?q=is%3AC&s=C&s=X" {
		t.Errorf("%s %v", got, err)
	}
}

func FuzzHTML(f *testing.F) {
	f.Add("<p>a</p><script>b")
	f.Add("&lt;<!-- <b> -->")
	f.Fuzz(func(t *testing.T, s string) {
		if got := htmlText(s); strings.ContainsAny(s, "<&") && strings.TrimSpace(got) != got {
			t.Errorf("%q", got)
		}
	})
}
