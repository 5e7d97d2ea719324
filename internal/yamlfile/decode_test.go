package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"
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
any: {n: 1, m: -1, f: 0.5, t: true, s: x, q: "1", o: 010, d: 2027-01-01, l: [1, ~]}
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
		Any:     map[string]any{"n": 1, "m": -1, "f": 0.5, "t": true, "s": "x", "q": "1", "o": "010", "d": "2027-01-01", "l": []any{1, nil}},
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
	got, err := decodeSection("inner:\nlist:\neither:\nmap: ~\ndoor: {}\n# name: x\n")
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
door: {name: a, type: code, digit: ["${NINE}"], rate: "${ONE}"}
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
	if got.Name != evil || got.Count != 9000 || !got.On || got.TTL.Seconds() != 45 || got.Door.Digit[0] != 9 || got.Door.Rate != 1 || fmt.Sprint(got.Map) != fmt.Sprint(want) {
		t.Errorf("got %+v", got)
	}
	if fmt.Sprintf("%#v", got.Any) != `[]interface {}{"9000", "true"}` {
		t.Errorf("quoted values became %#v, want texts", got.Any)
	}
	if got.Inner.Fields != "" || !slices.Equal(got.List, []string{"9000", "block 9000\n"}) {
		t.Errorf("got %q and %q", got.Inner.Fields, got.List)
	}
}
