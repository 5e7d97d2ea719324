package address

import (
	"strings"
	"testing"
)

// parsed reads a text of a parameter.
func parsed(s string, known ...string) (*text, error) {
	t := &text{in: inParam}
	return t, t.parse(s, known)
}

func TestTemplate(t *testing.T) {
	values := Values{"a": {"A"}, "b": {"B", "C"}, "none": nil, "empty": {""}}
	for text, want := range map[string]string{
		"x": "x", "{a}": "A", "{a}-{b}": "A-B", "[{a}]": "A", "": "",
		"{none}": "", "x{none}": "", "[{none}]": "", "[x{none}]y": "y", "y[x{empty}][-{a}]": "y-A",
		// What is no placeholder, and no part with one, stands for itself.
		"[x]y": "[x]y", "a]]b": "a]]b", "[[x]]": "[[x]]", "[[{a}]]": "[A]", "{ a }": "{ a }", "{{a}}": "{A}",
		"q { a{ b } }": "q { a{ b } }", "date:[1 TO *] {a}": "date:[1 TO *] A",
		"[{a}{[}1{]}]": "A[1]", "x[y{none}{]}]": "x", "[{a}{]}]]": "A]]", "{[}x{]}": "{[}x{]}",
		"[{a}": "", "x{a": "", "{unknown}": "", "{a:number}": "", // refused
	} {
		tpl, err := parsed(text, "a", "b", "none", "empty")
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
	for _, s := range strings.Split("{account} a[{account}]b [[{account}]] {{account}} [x] {account [{account}{]}] x[y{account}z]", " ") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := parsed(s, Account)
		if err != nil {
			return
		}
		with, _ := text.render(Values{Account: {"v"}}, strings.Clone)
		without, _ := text.render(Values{}, strings.Clone)
		if text.plain() && with != s || strings.Contains(with, "{account}") || len(without) > len(with) {
			t.Errorf("%q gives %q and %q", s, with, without)
		}
	})
}
