package yamlfile

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseBytes(t *testing.T) {
	tests := []struct {
		text string
		want int64
		err  error
	}{
		{"0", 0, nil}, {"1", 1, nil}, {"1B", 1, nil}, {" 4KiB ", 4096, nil}, {"16 MiB", 16 << 20, nil},
		{"1GiB", 1 << 30, nil}, {"1kB", 1000, nil}, {"2MB", 2e6, nil}, {"3GB", 3e9, nil},
		{"9223372036854775807", math.MaxInt64, nil}, {"9223372036854775808", 0, errSizeRange},
		{"8589934592GiB", 0, errSizeRange}, {"8589934591GiB", 8589934591 << 30, nil},
		{"99999999999999999999", 0, errSizeRange}, {"18446744073709551615GiB", 0, errSizeRange},
		{"-1", 0, errNegative}, {"-1KiB", 0, errNegative},
		{"", 0, errNoSize}, {"KiB", 0, errNoSize}, {"1.5MiB", 0, errNoSize}, {"16M", 0, errNoSize},
		{"16mib", 0, errNoSize}, {"1 KiB B", 0, errNoSize}, {"+1", 0, errNoSize}, {"1_000", 0, errNoSize}, {"0x10", 0, errNoSize},
	}
	for _, tt := range tests {
		got, err := parseBytes(tt.text)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("parseBytes(%q) = %d, %v; want %d, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestBytesAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, math.MaxInt64).Draw(t, "size")
		size &^= 1<<rapid.IntRange(0, 40).Draw(t, "zero bits") - 1
		if got, err := parseBytes(FormatBytes(size)); err != nil || got != size {
			t.Fatalf("%d was written as %s and read as %d, %v", size, FormatBytes(size), got, err)
		}
	})
}

func TestBytesAgreeWithExactArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Uint64().Draw(t, "count")
		u := rapid.SampledFrom(units).Draw(t, "unit")
		exact := new(big.Int).Mul(new(big.Int).SetUint64(count), new(big.Int).SetUint64(u.size))
		got, err := parseBytes(fmt.Sprint(count, u.name))
		if !exact.IsInt64() {
			if !errors.Is(err, errSizeRange) {
				t.Fatalf("%d%s: got %d, %v; want the range error", count, u.name, got, err)
			}
		} else if err != nil || got != exact.Int64() {
			t.Fatalf("%d%s: got %d, %v; want %s", count, u.name, got, err, exact)
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	f.Add("16MiB")
	f.Add("-1 B")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseBytes(text); got < 0 || (err != nil && got != 0) {
			t.Errorf("parseBytes(%q) = %d, %v", text, got, err)
		}
	})
}

func TestDecodeReportsEachMistakeAtItsPlace(t *testing.T) {
	tests := []struct {
		name, yaml string
		want       []string // without the file's name
	}{
		{"unknown key, near", "inner:\n  feilds: x\n", []string{`2:3: inner.feilds: unknown key; did you mean "fields"?`}},
		{"unknown key, far", "inner: {zzzzzzzz: x}\n", []string{`1:9: inner.zzzzzzzz: unknown key; known here: fields, filter, ca_file`}},
		{"unknown key of one letter", "inner: {f: x}\n", []string{`1:9: inner.f: unknown key; known here: fields, filter, ca_file`}},
		{"case of a key", "Name: x\n", []string{`1:1: Name: unknown key; did you mean "name"?`}},
		{"variable in a key is not put in", "${PORT}: x\n", []string{
			"1:1: ${PORT}: unknown key; known here: name, on, count, ratio, size, ttl, until, list, map, any, pointer, either, inner, key_file, many, shared"}},
		{"double key", "name: a\nname: b\n", []string{"2:1: name: stands here a second time; the first is in line 1"}},
		{"double key in braces", "inner: {filter: 1, filter: 2}\n", []string{"1:20: inner.filter: stands here a second time; the first is in line 1"}},
		{"all at once", "nam: a\ncount: x\ninner:\n  filter: -1\nttl: 5\n", []string{
			`1:1: nam: unknown key; did you mean "name"?`,
			`2:8: count: wants a whole number that is not too large, got the text "x"`,
			`4:11: inner.filter: wants a whole number that is not too large, got the number -1`,
			`5:6: ttl: wants a duration such as 30s, got the number 5; add a unit (ms, s, m, h)`}},
		{"duration without sense", "ttl: soon\n", []string{`1:6: ttl: wants a duration such as 30s or 1h30m (units ms, s, m, h), got the text "soon"`}},
		{"duration in days", "ttl: 1d\n", []string{`1:6: ttl: wants a duration such as 30s or 1h30m (units ms, s, m, h), got the text "1d"`}},
		{"negative duration", "ttl: -3s\n", []string{`1:6: ttl: wants a duration of 0s or more, got the text "-3s"`}},
		{"duration as a list", "ttl: [1s]\n", []string{`1:6: ttl: wants a duration such as 30s, got a list`}},
		{"duration behind a pointer", "pointer: 10\n", []string{`1:10: pointer: wants a duration such as 30s, got the number 10; add a unit (ms, s, m, h)`}},
		{"size without sense", "size: 16 MB/s\n", []string{`1:7: size: wants a size such as 16MiB, 4KiB or a number of bytes (units B, KiB, MiB, GiB, kB, MB, GB), got the text "16 MB/s"`}},
		{"negative size", "size: -1\n", []string{"1:7: size: wants a size of 0 or more, got the number -1"}},
		{"size too large", "size: 9999999999GiB\n", []string{`1:7: size: wants a size below 8 EiB, got the text "9999999999GiB"`}},
		{"size as a mapping", "size: {a: 1}\n", []string{"1:7: size: wants a size such as 16MiB or a number of bytes, got a mapping"}},
		{"bool as a word", "on: yes\n", []string{`1:5: on: wants true or false (without quotes), got the text "yes"`}},
		{"bool in quotes", "on: 'true'\n", []string{`1:5: on: wants true or false (without quotes), got the quoted text "true"`}},
		{"number in quotes", "count: \"5\"\n", []string{`1:8: count: wants a whole number that is not too large, got the quoted text "5"`}},
		{"number too large", "inner: {filter: 65536}\n", []string{"1:17: inner.filter: wants a whole number that is not too large, got the number 65536"}},
		{"ratio not a number", "ratio: .nan\n", []string{`1:8: ratio: wants a number such as 0.5, got the text ".nan"`}},
		{"ratio infinite", "ratio: .inf\n", []string{`1:8: ratio: wants a number such as 0.5, got the text ".inf"`}},
		{"text is a list", "name: [a]\n", []string{"1:7: name: wants a text, got a list"}},
		{"time", "until: tomorrow\n", []string{`1:8: until: wants a time such as 2027-01-01T00:00:00Z, got the text "tomorrow"`}},
		{"list is a text", "list: a\n", []string{`1:7: list: wants a list such as [a, b], got the text "a"`}},
		{"item of a list", "many:\n  - fields: a\n  - filter: x\n", []string{`3:13: many[1].filter: wants a whole number that is not too large, got the text "x"`}},
		{"map is a list", "map: [a]\n", []string{"1:6: map: wants a mapping such as {key: value}, got a list"}},
		{"value of a map", "map:\n  k: [a]\n", []string{"2:6: map.k: wants a text, got a list"}},
		{"section is a text", "inner: x\n", []string{`1:8: inner: wants a mapping with keys of its own below it, got the text "x"`}},
		{"file is a list", "- a\n", []string{"1:1: wants a mapping with keys of its own below it, got a list"}},
		{"file is a text", "hello\n", []string{`1:1: wants a mapping with keys of its own below it, got the text "hello"`}},
		{"value missing", "name:\non: true\n", []string{"1:1: name: has no value; write one, or remove the key"}},
		{"value is null", "inner: {fields: null}\n", []string{"1:9: inner.fields: has no value; write one, or remove the key"}},
		{"custom type, nested", "either: {path: a, max: b}\n", []string{`1:24: either.max: wants a whole number that is not too large, got the text "b"`}},
		{"custom type, unknown key", "either:\n  pth: a\n", []string{`2:3: either.pth: unknown key; did you mean "path"?`}},
		{"custom type, wrong form", "either: [a]\n", []string{"1:9: either: wants a text, got a list"}},
		{"long value is cut", "count: " + strings.Repeat("y", 200) + "\n", []string{
			`1:8: count: wants a whole number that is not too large, got the text "` + strings.Repeat("y", 60) + `..."`}},
		{"tag", "count: !!str 5\n", []string{"1:8: count: the tag !!str is not supported; remove it"}},
		{"complex key", "? name\n: b\n", []string{"1:1: this kind of key is not supported; write a plain name"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decodeSection(tt.yaml)
			var want []string
			for _, w := range tt.want {
				want = append(want, "gateway.yaml:"+w)
			}
			if got := lines(err); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func TestDecodeTakesEveryForm(t *testing.T) {
	yaml := `
name: 'a: b # c'
on: true
count: -5
ratio: 1e-1
size: 16MiB
ttl: "1h30m"
until: 2027-01-01T00:00:00Z
list: []
map: {1: 2, true: no, "q": 'r'}
any: {n: 1, m: -1, f: 0.5, t: true, s: x, q: "1", l: [1, ~]}
pointer: 5s
either: just.a.path
inner: {fields: x}
many: [{fields: "1"}, {filter: 2}]
shared: s
`
	got, err := decodeSection(yaml)
	if err != nil {
		t.Fatal(err)
	}
	five := 5 * time.Second
	want := sample{
		Name: "a: b # c", On: true, Count: -5, Ratio: 0.1, Size: 16 << 20, TTL: 90 * time.Minute,
		Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		List:  []string{}, Map: map[string]string{"1": "2", "true": "no", "q": "r"},
		Any:     map[string]any{"n": uint64(1), "m": int64(-1), "f": 0.5, "t": true, "s": "x", "q": "1", "l": []any{uint64(1), nil}},
		Pointer: &five, Either: eitherForm{Path: "just.a.path"},
		Inner: inner{Fields: "x", Filter: 7, private: "kept"},
		Many:  []inner{{Fields: "1"}, {Filter: 2}}, shared: shared{"s"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodeKeepsDefaultsOfEmptySections(t *testing.T) {
	got, err := decodeSection("inner:\nlist:\neither:\npointer: null\nmap: ~\n# name: x\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "default" || got.Inner.Filter != 7 || len(got.List) != 2 || got.Pointer != nil {
		t.Errorf("got %+v, want the defaults", got)
	}
}

func TestDecodeBoundsWhatItReports(t *testing.T) {
	_, err := decodeSection(strings.Repeat("- x\n", 1))
	if len(lines(err)) != 1 {
		t.Errorf("got %v", err)
	}
	var many strings.Builder
	for range 10 * maxProblems {
		many.WriteString("name: x\n")
	}
	_, err = decodeSection(many.String())
	if got := len(lines(err)); got != maxProblems {
		t.Errorf("got %d lines, want %d", got, maxProblems)
	}
}
