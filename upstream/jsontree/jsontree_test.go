package jsontree

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// failer is what *testing.T and *rapid.T have in common here.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sameAsGJSON compares what is at a path of a valid document with gjson's answer, which is an
// oracle for paths without several values.
func sameAsGJSON(t failer, doc, path string) {
	t.Helper()
	p, err := CompilePath(path)
	if err != nil || several(p) || strings.Contains(path, "@") || strings.Contains(path, "-") || strings.Contains(path, "#") {
		return
	}
	root, err := Parse(doc)
	if err != nil && !errors.Is(err, ErrNotUTF8) {
		t.Fatalf("valid document refused: %v\n%s", err, doc)
	}
	got, want := root.Get(p), gjson.Get(doc, path)
	if got.Raw() != want.Raw || got.Present() != (want.Exists() && want.Type != gjson.Null) {
		t.Fatalf("%q: got %q, gjson has %q\n%s", path, got.Raw(), want.Raw, doc)
	}
	if got.Kind() != Text {
		return
	}
	// gjson joins half a pair with whatever escape follows; encoding/json and this package
	// do not.
	var std string
	if err := json.Unmarshal([]byte(got.Raw()), &std); err != nil || std != got.String() {
		t.Fatalf("%q: got %q, encoding/json has %q (%v)", path, got.String(), std, err)
	}
}

// keyGen prefers few names, so that paths meet something.
func keyGen() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "c", "id", "a.b", "a|b", "7", "", "é", "名", "a b", "@this", "#", "x\\y", "q\"q", "a*"}), rapid.String())
}

// jsonGen makes any JSON value with distinct names in each object.
func jsonGen(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 6
		if depth == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
		case 1:
			return rapid.SampledFrom([]string{"0", "-1", "9007199254740993", "123456789012345678901234567890", "1.50", "1e3", "-0.0", "2E-7"}).Draw(t, "number")
		case 2:
			return quote(rapid.String().Draw(t, "string"), rapid.Bool().Draw(t, "escaped"))
		case 3:
			return rapid.SampledFrom([]string{`"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\u0000\"\\\/\b\f\n\r\t"`, `""`, `"A"`}).Draw(t, "escape")
		case 4:
			n := rapid.IntRange(0, 4).Draw(t, "length")
			items := make([]string, n)
			for i := range items {
				items[i] = jsonGen(depth-1).Draw(t, "item")
			}
			return "[" + strings.Join(items, ", ") + "]"
		}
		keys := rapid.SliceOfNDistinct(keyGen(), 0, 5, rapid.ID[string]).Draw(t, "keys")
		members := make([]string, len(keys))
		for i, k := range keys {
			members[i] = quote(k, rapid.Bool().Draw(t, "escaped key")) + " :" + jsonGen(depth-1).Draw(t, "member")
		}
		return "{ " + strings.Join(members, ",\n") + "}"
	})
}

// quote writes a JSON string, with every character escaped if asked to.
func quote(s string, escaped bool) string {
	if !escaped {
		b, _ := json.Marshal(s)
		return string(b)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r > 0xffff {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	b.WriteByte('"')
	return b.String()
}

func TestTreeEqualsGJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := jsonGen(4).Draw(t, "doc")
		keys := rapid.SliceOfN(keyGen(), 1, 3).Draw(t, "path")
		for i, k := range keys {
			if rapid.Bool().Draw(t, "escape") {
				keys[i] = gjson.Escape(k)
			}
		}
		sameAsGJSON(t, doc, strings.Join(keys, "."))
	})
}

func FuzzTree(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":"x\n"}]}}`, "a.b")
	f.Add(`{"a.b":1,"a":{"b":2}}`, `a\.b`)
	f.Add(`[{"a":1}]`, "a")
	f.Add(`{"\u0061":"\ud83d\ude00"}`, "a")
	f.Add(`{"a":[{"b":1}],"1":2}`, "a.0.b")
	f.Fuzz(func(t *testing.T, doc, path string) {
		_, err := Parse(doc)
		ok, valid := err == nil, gjson.Valid(doc)
		if ok && !valid {
			t.Fatalf("accepted what gjson refuses: %q", doc)
		}
		if !ok {
			// Stricter than gjson in three points only.
			if valid && !errors.Is(err, ErrNotUTF8) && !strings.Contains(err.Error(), "duplicate") && !strings.Contains(err.Error(), "nested") {
				t.Fatalf("refused what gjson accepts: %v: %q", err, doc)
			}
			return
		}
		if !json.Valid([]byte(doc)) || !utf8.ValidString(doc) {
			t.Fatalf("accepted what encoding/json refuses: %q", doc)
		}
		sameAsGJSON(t, doc, path)
	})
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"a.b", `a\.b`, "..", "a.#(b==1).c", "@values", "a.-1", "a|b", "#.", `a.#(b=="x)")`, "@fromstr.a", "a."} {
		f.Add(path)
	}
	root, err := Parse(`{"a":[{"b":1},"{\"b\":[2]}"],"c":{"d":null}}`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := CompilePath(path)
		if err != nil {
			return
		}
		if p.String() != path {
			t.Errorf("%q reads %q", path, p)
		}
		visited := 0
		root.Visit(p, func(v Value) { visited++ })
		if v := root.Get(p); !several(p) && visited > 1 || several(p) && v.Len() != visited && v.Kind() == Array || (visited > 0) && v.Kind() == Missing {
			t.Errorf("%q: %d visited, got %q", path, visited, v.Raw())
		}
	})
}

func TestPaths(t *testing.T) {
	root, err := Parse(`{"a":[{"b":1,"c":["x","y"]},{"b":"2","c":[]},{"n":null}],"o":{"k":{"v":1},"l":{"v":2}},"0":"zero","-1":"minus","s":"{\"t\":[7]}","a.b":"dot","@x":"at","e":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"@this": root.Raw(), "a.0.b": "1", "a.-1": `{"n":null}`, "a.-2.b": `"2"`, "a.3": "", "a.-4": "", "a.b": "", "0": `"zero"`, "-1": `"minus"`,
		"a.#.b": `[1,"2"]`, "a.#.c": `[["x","y"],[]]`, "a.#.c.#": `["x","y"]`, "a.#.n": "[null]", "e.#": "[]", "e.#.a": "[]", "o.#": "", "x.#": "", "a.#.#": "[]",
		`a.#(b==1).c.1`: `"y"`, `a.#(b=="1").c.1`: `"y"`, `a.#(b==2).c`: "[]", `a.#(b==3).c`: "", `a.#(c.0=="x").b`: "1",
		"o.@values.v": "[1,2]", "a.@values.b": `[1,"2"]`, "s.@fromstr.t.0": "7", "s.@fromstr.t.#": "[7]", "a.@fromstr": "", "0.@fromstr": "",
		`a\.b`: `"dot"`, `\@x`: `"at"`, `\0`: `"zero"`, "@this.o.@this.k.v": "1", "a.2.n": "null", "a.2.n.x": "",
	} {
		if got := root.At(path).Raw(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for path, says := range map[string]string{
		"": "empty", ".a": "empty segment", "a.": "empty segment", "a..b": "empty segment", "..0.a": "empty segment",
		`a\`: "backslash", "a.#(b": "unbalanced", "a)": "no meaning", "a.{b": "no meaning", "@nope": "unknown modifier", "a.@": "unknown modifier", "a.@reverse": "unknown modifier",
		"@odata.nextLink": `write \@`, "a|b": "pipe", "a*": "no meaning", "a?": "no meaning", "#x": "no meaning", `a.#(b=="x)`: "quotation mark", `!"x"`: "no meaning", "[a,b].0": "no meaning",
		"a.#(b>1)": "a query is", "a.#(b==1)#": "where", "a.#(b==1)x": "dot", "a.#(b!=1)": "a query is", `a.#(b=="x"y)`: "not closed",
	} {
		if _, err := CompilePath(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: want %q, got %v", path, says, err)
		}
		if root.At(path).Kind() != Missing {
			t.Errorf("%q leads somewhere", path)
		}
	}
}

// What is attached is found by every path, and changes no text.
func TestAttach(t *testing.T) {
	record, _ := Parse(`{"id":7}`)
	detail, _ := Parse(`{"text":"x"}`)
	record.Attach("details", detail)
	text, _ := Parse(`"y"`)
	record.Attach("parts", ListOf(detail, text))
	record.Attach("none", ListOf())
	for v, want := range map[Value]string{
		record.At("details.text"): `"x"`, record.At("parts.0.text"): `"x"`, record.At("parts.-1"): `"y"`, record.At("parts.#.text"): `["x"]`,
		record: `{"id":7}`, record.At("parts"): `[{"text":"x"},"y"]`, record.At("none"): "[]", record.At("@values"): `[7,{"text":"x"},[{"text":"x"},"y"],[]]`,
	} {
		if v.Raw() != want {
			t.Errorf("got %s, want %s", v.Raw(), want)
		}
	}
}

func TestParserRefuses(t *testing.T) {
	for doc, says := range map[string]string{
		``: "value is expected", `{`: "name", `{"a"`: "colon", `{"a":1`: "ends within", `[1,]`: "value", `{"a":1,}`: "name", `[1 2]`: "comma",
		`"a`: "not closed", "\"a\nb\"": "control", `"\x"`: "escape", `"\u12g4"`: "escape", `01`: "follows", `1.`: "digit", `1e`: "digit", `-`: "value",
		`tru`: "word", `nul`: "word", `{} {}`: "follows", `{"a":1,"a":2}`: "duplicate", `{"a":1,"\u0061":2}`: "duplicate", `{"\u0061":1,"a":2}`: "duplicate", "[\"\xff\"": "UTF-8", "[\"\xff\"]": "UTF-8",
		`{"x":{"b":[{"k":1,"c":0,"k":1}]}}`:                           "duplicate",
		strings.Repeat("[", 101) + strings.Repeat("]", 101):           "deep",
		strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101): "deep",
		strings.Repeat("[", 1_000_000):                                "deep",
		`{` + manyMembers(500) + `,"k7":0}`:                           "duplicate",
		"[" + strings.Repeat("1,", maxValues) + "1]":                  "more than 2097152 values",
	} {
		if _, err := Parse(doc); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want %q", doc, err, says)
		}
	}
	if v, err := Parse(`{` + manyMembers(500) + `}`); err != nil || v.At("k499").Raw() != "499" {
		t.Errorf("many names: %v", err)
	}
}

// A reply of many small values costs a bounded multiple of its size.
func TestMemory(t *testing.T) {
	const size = 118_000
	for _, part := range []string{"[],", "1,", `{"":0},`, `[[[[[[""]]]]]],`} {
		text := "[" + strings.Repeat(part, size/len(part)) + "0]"
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		v, err := Parse(text)
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int(after.HeapAlloc) - int(before.HeapAlloc); err != nil || v.Len() == 0 || held > 8<<20 {
			t.Errorf("%s: %d bytes held, %v", part, held, err)
		}
	}
}

func manyMembers(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	return strings.Join(members, ",")
}

// several reports whether the path may lead to more than one value.
func several(p Path) bool {
	for i := range p.steps {
		if k := p.steps[i].kind; k == stepEach || k == stepValues {
			return true
		}
	}
	return false
}
