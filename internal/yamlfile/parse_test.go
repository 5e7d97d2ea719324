package yamlfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{"syntax", "name: [a\nttl: 1s\n", []string{"gateway.yaml:2:1: is not YAML here: ',' or ']' must be specified; a bracket above is not closed, or a comma is missing"}},
		{"tab", "\tname: x\n", []string{"gateway.yaml:1:5: is not YAML here: a tab indents this line; YAML allows blanks only"}},
		{"tab below a key", "inner:\n\tfields: x\n", []string{"gateway.yaml:2:1: is not YAML here: a tab indents this line; YAML allows blanks only"}},
		{"open quote", "name: \"x\n", []string{`gateway.yaml:1:7: is not YAML here: the " that opens here is not closed; put a " at the end of the value`}},
		{"open single quote", "name: 'x\n", []string{`gateway.yaml:1:7: is not YAML here: the ' that opens here is not closed; put a ' at the end of the value`}},
		{"less indentation", "inner:\n  fields: x\n filter: y\n", []string{"gateway.yaml:3:2: is not YAML here: the line is not indented like those above it; keys of one section begin in one column"}},
		{"more indentation", "inner:\n  fields: x\n    filter: y\n", []string{"gateway.yaml:2:11: is not YAML here: the line after this one is indented too far: it is read as a part of this value; begin it in the column of this key"}},
		{"second colon", "name: a: b\n", []string{"gateway.yaml:1:7: is not YAML here: there is a second colon in this line; put quotes around the value"}},
		{"text after a quote", "name: \"a\" b\n", []string{"gateway.yaml:1:11: is not YAML here: something follows the end of the value; put quotes around all of it"}},
		{"no blank after a colon", "inner:\n  fields:x\n  filter: y\n", []string{"gateway.yaml:2:3: is not YAML here: no key can be read here; write key: value, with a blank after the colon"}},
		{"no blank before a bracket", "inner:{filter: y}\n", []string{"gateway.yaml:1:1: inner:{filter: unknown key; write a blank after the colon: inner: ..."}},
		{"no colon", "name: x\nfoo\n", []string{"gateway.yaml:2:1: is not YAML here: no key can be read here; write key: value, with a blank after the colon"}},
		{"at sign", "name: @this\n", []string{"gateway.yaml:1:7: is not YAML here: '@' is a reserved character; put quotes around the value"}},
		{"variable in braces", "inner: {fields: ${PORT}, filter: 1}\n", []string{
			`gateway.yaml:1:18: is not YAML here: ',' or '}' must be specified; a bracket above is not closed, or a comma is missing; within { } or [ ] a variable must stand in quotes: "${NAME}"`}},
		{"text over two lines in braces", "inner: {fields: a b\n  c d, filter: 1}\n", []string{"gateway.yaml:2:3: is not YAML here: ',' or '}' must be specified; a bracket above is not closed, or a comma is missing; where this goes on with the text of the line above, write the text in one line, or put quotes around all of it"}},
		{"empty", "", []string{"gateway.yaml: is empty; it needs at least an upstream section"}},
		{"comments only", "# listen: x\n", []string{"gateway.yaml: is empty; it needs at least an upstream section"}},
		{"two documents", "name: a\n---\nname: b\n", []string{"gateway.yaml:3:5: a second YAML document begins here; keep one in the file"}},
		{"deep brackets", "any: " + strings.Repeat("[", 5000), []string{"gateway.yaml:1:106: is nested too deeply; is this the right file?"}},
		{"deep dashes", strings.Repeat("- ", 5000), []string{"gateway.yaml:1:1001: is nested too deeply; is this the right file?"}},
		{"many keys", strings.Repeat("a:\n", 50_000), []string{"gateway.yaml:10001:2: holds more than 10000 keys; is this the right file?"}},
		{"many keys in braces", "map: {" + strings.Repeat("x,", 50_000) + "}", []string{"gateway.yaml:1:20006: holds more than 10000 keys; is this the right file?"}},
		{"unknown anchor", "name: *nope\n", []string{"gateway.yaml:1:7: name: there is no anchor &nope before this line"}},
		{"anchor within itself", "any: &a [*a]\n", []string{"gateway.yaml:1:10: any[0]: there is no anchor &a before this line"}},
		{"merge of a text", "inner:\n  <<: x\n", []string{`gateway.yaml:2:7: inner: << wants a mapping such as *name, got the text "x"`}},
		{"unset variable", "inner:\n  fields: x${NOPE}\n", []string{
			"gateway.yaml:2:11: inner.fields: the environment variable NOPE is not set; set it, or write $${NOPE} for the literal text"}},
		{"shell default", "name: ${PORT:-1}\n", []string{`gateway.yaml:1:7: name: "${PORT:-1}" is no variable; write ${NAME}, or $${ for a literal ${`}},
		{"open variable", "name: a ${PORT\n", []string{`gateway.yaml:1:7: name: "${PORT" is no variable; write ${NAME}, or $${ for a literal ${`}},
		{"secret is not shown", "count: ${SECRET}\n", []string{"gateway.yaml:1:8: count: wants a whole number that is not too large, got the value of ${SECRET}"}},
		{"variable adds no keys", "count: ${EVIL}\n", []string{"gateway.yaml:1:8: count: wants a whole number that is not too large, got the value of ${EVIL}"}},
		{"several unset variables", "name: ${A}\nlist:\n  - ${B}\n", []string{
			"gateway.yaml:1:7: name: the environment variable A is not set; set it, or write $${A} for the literal text",
			"gateway.yaml:3:5: list[0]: the environment variable B is not set; set it, or write $${B} for the literal text"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decodeSection(tt.yaml)
			if got := lines(err); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestVariables(t *testing.T) {
	got, err := decodeSection(`
# ${NOPE} in a comment is not looked up
name: "${EVIL}"
count: ${PORT}
on: ${YES}
ttl: ${TTL}
map: {quoted: "${PORT}", literal: '$${PORT}', twice: "${DOLLAR}", many: "a${PORT}b${NOTHING}c$$d"}
any: ["${PORT}", '${YES}']
inner:
  fields: ${NOTHING}
list:
  - ${PORT}
  - |
    block ${PORT}
`)
	if err != nil {
		t.Fatal(err)
	}
	evil, _ := fakeEnv("EVIL")
	want := map[string]string{"quoted": "9000", "literal": "${PORT}", "twice": "${PORT}", "many": "a9000bc$$d"}
	if got.Name != evil || got.Count != 9000 || !got.On || got.TTL.Seconds() != 45 || fmt.Sprint(got.Map) != fmt.Sprint(want) {
		t.Errorf("got %+v", got)
	}
	if fmt.Sprintf("%#v", got.Any) != `[]interface {}{"9000", "true"}` {
		t.Errorf("quoted values became %#v, want texts", got.Any)
	}
	if got.Inner.Fields != "" || !slices.Equal(got.List, []string{"9000", "block 9000\n"}) {
		t.Errorf("got %q and %q", got.Inner.Fields, got.List)
	}
}

func TestAnchors(t *testing.T) {
	got, err := decodeSection(`
many:
  - &first {fields: a, filter: 1}
  - *first
  - <<: *first
    filter: 3
  - <<: [{fields: x}, *first]
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []inner{{Fields: "a", Filter: 1}, {Fields: "a", Filter: 1}, {Fields: "a", Filter: 3}, {Fields: "x", Filter: 1}}
	if !slices.Equal(got.Many, want) {
		t.Errorf("got %+v, want %+v", got.Many, want)
	}
}

func TestAliasBombIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("any:\n  - &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "  - &a%d [%s]\n", i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10))
	}
	_, err := decodeSection(b.String())
	want := "gateway.yaml:6:30: any[4][4]: is more than 50000 values with its aliases; write less"
	if got := lines(err); len(got) != 1 || got[0] != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("name: ${PORT}\ninner: {fields: [a, *b]}\n")
	f.Add("many: [&a {filter: 1}, {<<: *a}]\nsize: 16MiB\nttl: -3s\n")
	f.Add("either: |\n  x\n---\n? y\n: !!str z\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := decodeSection(text)
		for _, line := range lines(err) {
			if !strings.HasPrefix(line, "gateway.yaml:") {
				t.Errorf("line %q of %q names no file", line, err)
			}
		}
	})
}
