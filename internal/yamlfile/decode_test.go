package yamlfile

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEveryFormIsTaken(t *testing.T) {
	got, err := decodeSection(`
name: 'a: b # c'
on: true
count: -5
ratio: 1e-1
size: 16MiB
ttl: "1h30m"
until: 2027-01-01T00:00:00Z
list: []
map: {1: 2, true: no, "q": 'r', urn:state:open: pending, v: 1.10, ? tab : a	b}
any: {n: 1, m: -1, f: 0.5, t: true, s: x, q: "1", l: [1, ~]}
pointer: 5s
either: just.a.path
inner: {fields: a b
  c, filter: 7}
many: [{fields: "1"}, {filter: 2}]
door: {name: a, type: key, file: f, digit: [], rate: 0, wait: 1m, zone: UTC}
shared: s
`)
	if err != nil {
		t.Fatal(err)
	}
	five, minute := 5*time.Second, time.Minute
	want := sample{
		Name: "a: b # c", On: true, Count: -5, Ratio: 0.1, Size: 16 << 20, TTL: 90 * time.Minute,
		Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		List:  []string{}, Map: map[string]string{"1": "2", "true": "no", "q": "r", "urn:state:open": "pending", "v": "1.10", "tab": "a\tb"},
		Any:     map[string]any{"n": uint64(1), "m": int64(-1), "f": 0.5, "t": true, "s": "x", "q": "1", "l": []any{uint64(1), nil}},
		Pointer: &five, Either: eitherForm{Path: "just.a.path"},
		Inner: inner{Fields: "a b c", Filter: 7, private: "kept"},
		Many:  []inner{{Fields: "1"}, {Filter: 2}}, shared: shared{"s"},
		Door: door{Name: []string{"a"}, Type: "key", Lock: lock{"f"}, Digit: []int{}, Wait: &minute, Zone: "UTC"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// All keys of a section may be commented out.
func TestAnEmptySectionHasItsDefaults(t *testing.T) {
	got, err := decodeSection("inner:\nlist:\neither:\npointer: null\nmap: ~\ndoor: {}\n# name: x\n")
	if err != nil || got.Name != "default" || got.Inner.Filter != 7 || len(got.List) != 2 || got.Pointer != nil {
		t.Errorf("got %+v, %v; want the defaults", got, err)
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

func TestSizes(t *testing.T) {
	for text, want := range map[string]struct {
		size int64
		err  error
	}{
		" 4KiB ": {4096, nil}, "16 MiB": {16 << 20, nil}, "1GiB": {1 << 30, nil}, "1kB": {1000, nil}, "2MB": {2e6, nil}, "3GB": {3e9, nil},
		"-1KiB": {0, errNegative}, "": {0, errNoSize}, "KiB": {0, errNoSize}, "1.5MiB": {0, errNoSize}, "16M": {0, errNoSize},
		"16mib": {0, errNoSize}, "1 KiB B": {0, errNoSize}, "+1": {0, errNoSize}, "1_000": {0, errNoSize}, "0x10": {0, errNoSize}, "010": {0, errNoSize}, "0": {0, nil},
	} {
		if got, err := parseBytes(text); got != want.size || !errors.Is(err, want.err) {
			t.Errorf("%q is read as %d, %v; want %d, %v", text, got, err, want.size, want.err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		count, u := rapid.Uint64().Draw(t, "count"), rapid.SampledFrom(units).Draw(t, "unit")
		exact := new(big.Int).Mul(new(big.Int).SetUint64(count), new(big.Int).SetUint64(u.size))
		got, err := parseBytes(fmt.Sprint(count, u.name))
		if exact.IsInt64() != (err == nil) || err == nil && got != exact.Int64() || err != nil && !errors.Is(err, errSizeRange) {
			t.Fatalf("%d%s is read as %d, %v; want %s", count, u.name, got, err, exact)
		}
		size := int64(count>>1) &^ (1<<rapid.IntRange(0, 40).Draw(t, "zero bits") - 1)
		written := Format(reflect.ValueOf(size))
		if got, err := parseBytes(fmt.Sprint(written)); err != nil || got != size || Format(reflect.ValueOf(int64(math.MaxInt64))) != any(int64(math.MaxInt64)) {
			t.Fatalf("%d is written as %s and read as %d, %v", size, written, got, err)
		}
	})
}
