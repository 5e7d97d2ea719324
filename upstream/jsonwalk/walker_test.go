package jsonwalk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

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
	record := root.SetList(List{Frame: 0}, NewNode(0))
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
			err := w.Walk("["+strings.Join(append(before, object), ",")+"]", root, 0)
			if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "duplicate") {
				t.Fatalf("after %q, %s: %v", before, object, err)
			}
			if wrong {
				continue
			}
			for i, name := range names {
				if got := w.Frame(0).Value(i); got.Raw != want[name] {
					t.Fatalf("after %q, %s: %q is %q, want %q", before, object, name, got.Raw, want[name])
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
		if err := w.Walk("["+strings.Join(records, ",")+"]", root, 0); err != nil {
			t.Fatal(err)
		}
	}
	if w.learnt > maxLearnt || len(w.roots) != 1 {
		t.Errorf("learnt %d, %d roots", w.learnt, len(w.roots))
	}
	if err := w.Walk(strings.Replace(records[0], "{", `{"k0-299":0,`, 1), root, 0); err == nil {
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
