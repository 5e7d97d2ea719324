package jsonwalk

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// member writes a name in one of the notations that mean the same.
func nameGen(names []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom(names).Draw(t, "name")
		return quote(name, rapid.IntRange(0, 5).Draw(t, "escaped") == 0)
	})
}

// Whatever names the objects before had, in whatever order and notation, an
// object is refused if and only if it has one of them twice, and its values are
// found under their own names.
func TestKeyOrderCacheDecidesNothing(t *testing.T) {
	names := []string{"a", "b", "c", "ab", "", "é", "q\"q", `x\y`, "long name that is longer than the others by far, and than the cache holds", "d", "e", "f"}
	root := NewNode(0)
	slots := map[string]int{}
	for i, name := range names {
		root.At([]string{Each, name}, 0).AddSlot(i)
		slots[name] = i
	}
	rapid.Check(t, func(t *rapid.T) {
		w := walker(len(names))
		var before []string
		for range rapid.IntRange(1, 6).Draw(t, "objects") {
			members := rapid.SliceOfN(nameGen(names), 0, 8).Draw(t, "members")
			wrong := false
			want := map[string]string{}
			text := make([]string, len(members))
			for i, m := range members {
				var name string
				if err := json.Unmarshal([]byte(m), &name); err != nil {
					t.Fatal(err)
				}
				_, twice := want[name]
				wrong = wrong || twice
				want[name] = fmt.Sprint(i)
				text[i] = m + " : " + fmt.Sprint(i)
			}
			object := "{" + strings.Join(text, ",") + "}"
			w.Clear(0)
			err := w.Walk("["+strings.Join(append(before, object), ",")+"]", root, 0)
			if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "duplicate") {
				t.Fatalf("after %q, %s: %v", before, object, err)
			}
			if wrong {
				continue
			}
			for name, value := range want {
				if got := w.Frame(0).Value(slots[name]); got.Raw != value {
					t.Fatalf("after %q, %s: %q is %q, want %q", before, object, name, got.Raw, value)
				}
			}
			before = append(before, object)
		}
	})
}

// What is learnt is bounded, and a reply that has more is read all the same.
func TestCacheIsBounded(t *testing.T) {
	wide := func(prefix string, n int) string {
		members := make([]string, n)
		for i := range members {
			members[i] = fmt.Sprintf(`"%s%d":{"x":[{"y":%d}]}`, prefix, i, i)
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	w, root := walker(0), NewNode(0)
	records := make([]string, 40)
	for i := range records {
		records[i] = wide(fmt.Sprint("k", i, "-"), 300)
	}
	for range 2 {
		if err := w.Walk("["+strings.Join(records, ",")+"]", root, 0); err != nil {
			t.Fatal(err)
		}
	}
	if w.learnt > maxLearnt || len(w.roots) != 1 {
		t.Errorf("learnt %d, %d roots", w.learnt, len(w.roots))
	}
	if err := w.Walk(strings.Replace(wide("k", 300), "}}", `}},"k299":0,"k299":0`, 1), root, 0); err == nil {
		t.Error("a duplicate among many names was accepted")
	}
}

// Names that come in another order every time are found, and found twice, too.
func TestNamesInAnyOrder(t *testing.T) {
	const n = 3 * maxMisses
	root, slots := NewNode(0), make([]int, n)
	for i := range slots {
		root.At([]string{Each, fmt.Sprint("k", i)}, 0).AddSlot(i)
		slots[i] = i
	}
	rapid.Check(t, func(t *rapid.T) {
		w := walker(n)
		var objects []string
		for range 3 {
			order := rapid.Permutation(slots).Draw(t, "order")
			members := make([]string, n)
			for i, k := range order {
				members[i] = fmt.Sprintf(`"k%d":%d`, k, k+len(objects)*1000)
			}
			twice := rapid.IntRange(0, n-1).Draw(t, "twice")
			bad := "{" + strings.Join(members, ",") + "," + members[twice] + "}"
			if err := w.Walk("["+strings.Join(append(objects, bad), ",")+"]", root, 0); err == nil {
				t.Fatalf("accepted %s twice", members[twice])
			}
			objects = append(objects, "{"+strings.Join(members, ",")+"}")
			if err := w.Walk("["+strings.Join(objects, ",")+"]", root, 0); err != nil {
				t.Fatal(err)
			}
			for k, slot := range slots {
				if got, want := w.Frame(0).Value(slot).Raw, fmt.Sprint(k+(len(objects)-1)*1000); got != want {
					t.Fatalf("k%d is %s, want %s", k, got, want)
				}
			}
		}
	})
}
