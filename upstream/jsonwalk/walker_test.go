package jsonwalk

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// anything is a sink that ignores everything.
type anything struct{}

func (anything) End(int, *Frame) bool      { return true }
func (anything) AddQuoted(string, int) int { return 0 }
func (anything) Add(string)                {}

// walker has one frame with so many slots.
func walker(slots int) *Walker {
	return NewWalker(anything{}, anything{}, new(Texts), []int{slots})
}

// sameAsGJSON compares what the walker finds at a simple path of a valid document with
// gjson's answer.
func sameAsGJSON(t failer, doc, path string) {
	t.Helper()
	keys, simple := SimplePath(path, false)
	if !simple {
		return
	}
	root, w := NewNode(0), walker(1)
	root.At(keys, 0).AddSlot(0)
	if _, err := w.Walk(doc, root, 0); err != nil && !errors.Is(err, ErrNotUTF8) {
		t.Fatalf("valid document refused: %v\n%s", err, doc)
	}
	got, want := w.Frame(0).Value(0), gjson.Get(doc, path)
	if got.Raw() != want.Raw || got.Kind != fromGJSON(want).Kind {
		t.Fatalf("%q: got %q, gjson has %q\n%s", path, got.Raw(), want.Raw, doc)
	}
	if got.Kind != Text {
		return
	}
	// gjson joins half a pair with whatever escape follows; encoding/json and this package
	// do not.
	if !strings.Contains(strings.ToLower(got.Raw()), `\ud`) && got.String() != want.String() {
		t.Fatalf("%q: got %q, gjson has %q", path, got.String(), want.String())
	}
	var std string
	if err := json.Unmarshal([]byte(got.Raw()), &std); err != nil || std != got.String() || got.In(new(Texts)) != std {
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
		path := strings.Join(keys, ".")
		if CheckPath(path) != nil {
			return
		}
		sameAsGJSON(t, doc, path)
	})
}

func FuzzTree(f *testing.F) {
	f.Add(`{"a":{"b":[1,{"c":"x\n"}]}}`, "a.b")
	f.Add(`{"a.b":1,"a":{"b":2}}`, `a\.b`)
	f.Add(`[{"a":1}]`, "a")
	f.Add(`{"\u0061":"\ud83d\ude00"}`, "a")
	f.Add(`{"a":[{"b":1}],"1":2}`, "a.0.b")
	f.Fuzz(func(t *testing.T, doc, path string) {
		_, err := walker(0).Walk(doc, nil, 0)
		ok := err == nil || errors.Is(err, ErrNotUTF8)
		valid := gjson.Valid(doc)
		if ok && !valid {
			t.Fatalf("accepted what gjson refuses: %q", doc)
		}
		if !ok {
			// Stricter than gjson in two points only.
			if valid && !strings.Contains(err.Error(), "duplicate") && !strings.Contains(err.Error(), "nested") {
				t.Fatalf("refused what gjson accepts: %v: %q", err, doc)
			}
			return
		}
		if !json.Valid([]byte(doc)) && utf8.ValidString(doc) {
			t.Fatalf("accepted what encoding/json refuses: %q", doc)
		}
		if CheckPath(path) == nil && utf8.ValidString(doc) {
			sameAsGJSON(t, doc, path)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"a.b", `a\.b`, "..", "a.#(b==1)#.c", "@reverse", "{a,b}", "a|b", "#.", `a.#(b=="x)")`, "@this:[", "!x", "a."} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		err := CheckPath(path)
		keys, simple := SimplePath(path, true)
		if simple && err != nil {
			t.Errorf("%q is simple %q and wrong: %v", path, keys, err)
		}
		if err == nil && len(path) < 200 {
			_ = gjson.Get(`{"a":[{"b":1}]}`, path) // must not panic on what was accepted
		}
	})
}

func TestCheckPath(t *testing.T) {
	for path, says := range map[string]string{
		"a": "", "a.b.c": "", "@this": "", "a.#.b": "", `a\.b`: "", `f.#(id==36).value`: "", `f.#(n=="x)y").v`: "", "a|@reverse": "",
		`a.#(b>1)#.c`: "", "a.@flatten:{\"deep\":true}": "", "{a,b.c}": "", "키.값": "", "@values": "", "a.#": "",
		"": "empty", ".a": "empty segment", "a.": "empty segment", "a..b": "empty segment", "a|": "empty segment", "..0.a": "JSON lines",
		`a\`: "backslash", "a.#(b": "unbalanced", "a)": "unbalanced", "a.{b": "unbalanced", "@nope": "unknown modifier", "a.@": "unknown modifier",
		"#x": "followed by", `a.#(b=="x)`: "quotation mark", `!"x"`: "default", "{a}b": "followed by", "a.#(b]": "no bracket is open", "a.#(b==1)].c": "closed already; remove it", "[a,b]]": "closed already; remove it", "a.#(b==[1]]": "no bracket is open",
	} {
		err := CheckPath(path)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: want %q, got %v", path, says, err)
		}
	}
}

func TestParserRefuses(t *testing.T) {
	for doc, says := range map[string]string{
		``: "value is expected", `{`: "name", `{"a"`: "colon", `{"a":1`: "ends within", `[1,]`: "value", `{"a":1,}`: "name", `[1 2]`: "comma",
		`"a`: "not closed", "\"a\nb\"": "control", `"\x"`: "escape", `"\u12g4"`: "escape", `01`: "follows", `1.`: "digit", `1e`: "digit", `-`: "value",
		`tru`: "word", `nul`: "word", `{} {}`: "follows", `{"a":1,"a":2}`: "duplicate", `{"a":1,"\u0061":2}`: "duplicate",
		`{"x":{"b":[{"k":1,"c":0,"k":1}]}}`:                           "duplicate",
		strings.Repeat("[", 101) + strings.Repeat("]", 101):           "deep",
		strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101): "deep",
		strings.Repeat("[", 1_000_000):                                "deep",
		`{` + manyMembers(500) + `,"k7":0}`:                           "duplicate",
	} {
		if _, err := walker(0).Walk(doc, nil, 0); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want %q", doc, err, says)
		}
	}
	if _, err := walker(0).Walk(`{`+manyMembers(500)+`}`, nil, 0); err != nil {
		t.Errorf("many names refused: %v", err)
	}
}

func manyMembers(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	return strings.Join(members, ",")
}

// Whatever names the objects before had, in whatever order and notation, an
// object is refused if and only if it has one of them twice, and its values are
// found under their own names.
func TestKeyOrderCacheDecidesNothing(t *testing.T) {
	odd := []string{"a", "b", "ab", "", "é", "q\"q", `x\y`, "long name that is longer than the others by far, and than the cache holds", "d", "e"}
	names := slices.Clone(odd)
	for len(names) < 3*maxMisses { // more than an object may have out of order
		names = append(names, fmt.Sprint("k", len(names)))
	}
	root := NewNode(0)
	record := root.SetItems(Items{Frame: 0}, NewNode(0))
	for i, name := range names {
		record.At([]string{name}, 0).AddSlot(i)
	}
	some := rapid.SliceOfN(rapid.SampledFrom(odd), 0, 8) // some come twice
	rapid.Check(t, func(t *rapid.T) {
		w := walker(len(names))
		var before []string
		for range rapid.IntRange(1, 6).Draw(t, "objects") {
			keys := rapid.OneOf(some, rapid.Permutation(names)).Draw(t, "names")
			want, members := map[string]string{}, make([]string, len(keys))
			for i, name := range keys {
				want[name] = fmt.Sprint(i)
				members[i] = quote(name, rapid.IntRange(0, 5).Draw(t, "escaped") == 0) + " : " + want[name]
			}
			object := "{" + strings.Join(members, ",") + "}"
			wrong := len(want) < len(keys)
			_, err := w.Walk("["+strings.Join(append(before, object), ",")+"]", root, 0)
			if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "duplicate") {
				t.Fatalf("after %q, %s: %v", before, object, err)
			}
			if wrong {
				continue
			}
			for i, name := range names {
				if got := w.Frame(0).Value(i); got.Raw() != want[name] {
					t.Fatalf("after %q, %s: %q is %q, want %q", before, object, name, got.Raw(), want[name])
				}
			}
			before = append(before, object)
		}
	})
}

// What is learnt is bounded, and a reply that has more is read all the same.
func TestCacheIsBounded(t *testing.T) {
	records := make([]string, 40)
	for i := range records {
		members := make([]string, 300)
		for k := range members {
			members[k] = fmt.Sprintf(`"k%d-%d":{"x":[{"y":%d}]}`, i, k, k)
		}
		records[i] = "{" + strings.Join(members, ",") + "}"
	}
	w, root := walker(0), NewNode(0)
	for range 2 {
		if _, err := w.Walk("["+strings.Join(records, ",")+"]", root, 0); err != nil {
			t.Fatal(err)
		}
	}
	if w.learnt > maxLearnt || len(w.roots) != 1 {
		t.Errorf("learnt %d, %d roots", w.learnt, len(w.roots))
	}
	if _, err := w.Walk(strings.Replace(records[0], "{", `{"k0-299":0,`, 1), root, 0); err == nil {
		t.Error("a duplicate among many names was accepted")
	}
}

// No text changes when others are made, whatever their sizes are.
func TestTextsStayAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var texts Texts
		want := rapid.SliceOf(rapid.StringN(0, 3000, -1)).Draw(t, "texts")
		got := make([]string, len(want))
		for i, s := range want {
			spare := rapid.IntRange(0, 100).Draw(t, "spare")
			got[i] = texts.Keep(append(texts.Room(len(s)+spare), s...))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("text %d is %q, want %q", i, got[i], want[i])
			}
		}
	})
}
