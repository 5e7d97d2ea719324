package address

import (
	"strings"
	"testing"
)

func TestTemplate(t *testing.T) {
	values := Values{"a": {"A"}, "b": {"B", "C"}, "none": nil, "empty": {""}}
	for text, want := range map[string]string{
		"x": "x", "{a}": "A", "{a}-{b}": "A-B", "[{a}]": "A", "[x{none}]y": "y", "y[x{empty}][-{a}]": "y-A", "[[x]]": "[x]", "{{a}}": "{a}",
		"[{a}[[1]]": "", "[x]y": "xy", "{none}": "", "x{none}": "", "": "", "[{none}]": "", "a]]b": "a]b", "[{a}]]]": "A]",
		"[{a}{[}1{]}]": "A[1]", "x[y{none}{]}]": "x", "[{a}{]}]]]": "A]]", "{[}x{]}": "[x]", "[{a}{]}": "",
	} {
		tpl, err := parseTemplate(text, []string{"a", "b", "none", "empty"})
		if err != nil {
			if want != "" {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if got, ok := tpl.render(values, strings.Clone); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", text, got, ok, want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{a}", "[{a}]", "[[", "]]", "{{}}", "x[y{a}]z", "[", "{", "[{a}]]]", "[{a}{]}]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := parseTemplate(text, []string{"a"})
		if err != nil {
			return
		}
		without, _ := tpl.render(Values{}, strings.Clone)
		with, _ := tpl.render(Values{"a": {"v"}}, strings.Clone)
		if len(without) > len(with) || strings.Contains(without, "{a}") && !strings.Contains(text, "{{a") {
			t.Errorf("%q gives %q and %q", text, with, without)
		}
		if !strings.ContainsAny(text, "{}[]") && with != text {
			t.Errorf("%q gives %q", text, with)
		}
	})
}
