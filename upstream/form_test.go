package upstream

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
func TestLearntNamesDecideNothing(t *testing.T) {
	names := []string{"a", "b", "c", "ab", "", "é", "q\"q", `x\y`, "long name that is longer than the others by far, and than a form learns", "d", "e", "f"}
	plan := &endpointPlan{root: &node{}}
	c := &compiler{plan: plan, root: plan.root}
	element := plan.root.at([]string{each}, frameReply)
	slots := map[string]int{}
	for _, name := range names {
		slots[name] = c.slot(element.at([]string{name}, frameReply))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newReply(plan, Request{})
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
			clear(r.frames[frameReply].slots)
			err := r.parse("["+strings.Join(append(before, object), ",")+"]", plan.root, frameReply)
			if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "duplicate") {
				t.Fatalf("after %q, %s: %v", before, object, err)
			}
			if wrong {
				continue
			}
			for name, value := range want {
				if got := r.frames[frameReply].value(slots[name]); got.raw != value {
					t.Fatalf("after %q, %s: %q is %q, want %q", before, object, name, got.raw, value)
				}
			}
			before = append(before, object)
		}
	})
}

// What is learnt is bounded, and a reply that has more is read all the same.
func TestFormsAreBounded(t *testing.T) {
	wide := func(prefix string, n int) string {
		members := make([]string, n)
		for i := range members {
			members[i] = fmt.Sprintf(`"%s%d":{"x":[{"y":%d}]}`, prefix, i, i)
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	r := newReply(&endpointPlan{root: &node{}}, Request{})
	records := make([]string, 40)
	for i := range records {
		records[i] = wide(fmt.Sprint("k", i, "-"), 300)
	}
	for range 2 {
		if err := r.parse("["+strings.Join(records, ",")+"]", r.plan.root, frameReply); err != nil {
			t.Fatal(err)
		}
	}
	if r.learnt > maxLearnt || len(r.forms) != 1 {
		t.Errorf("learnt %d, %d forms", r.learnt, len(r.forms))
	}
	if err := r.parse(strings.Replace(wide("k", 300), "}}", `}},"k299":0,"k299":0`, 1), r.plan.root, frameReply); err == nil {
		t.Error("a duplicate among many names was accepted")
	}
}

// Names that come in another order every time are found, and found twice, too.
func TestNamesInAnyOrder(t *testing.T) {
	const n = 3 * maxStrays
	plan := &endpointPlan{root: &node{}}
	c := &compiler{plan: plan, root: plan.root}
	slots := make([]int, n)
	for i := range slots {
		slots[i] = c.slot(plan.root.at([]string{each, fmt.Sprint("k", i)}, frameReply))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newReply(plan, Request{})
		var objects []string
		for range 3 {
			order := rapid.Permutation(slots).Draw(t, "order")
			members := make([]string, n)
			for i, k := range order {
				members[i] = fmt.Sprintf(`"k%d":%d`, k, k+len(objects)*1000)
			}
			twice := rapid.IntRange(0, n-1).Draw(t, "twice")
			bad := "{" + strings.Join(members, ",") + "," + members[twice] + "}"
			if err := r.parse("["+strings.Join(append(objects, bad), ",")+"]", plan.root, frameReply); err == nil {
				t.Fatalf("accepted %s twice", members[twice])
			}
			objects = append(objects, "{"+strings.Join(members, ",")+"}")
			if err := r.parse("["+strings.Join(objects, ",")+"]", plan.root, frameReply); err != nil {
				t.Fatal(err)
			}
			for k, slot := range slots {
				if got, want := r.frames[frameReply].value(slot).raw, fmt.Sprint(k+(len(objects)-1)*1000); got != want {
					t.Fatalf("k%d is %s, want %s", k, got, want)
				}
			}
		}
	})
}

// A string that is not UTF-8 refuses the whole reply, and nothing of it counts.
func TestNotUTF8(t *testing.T) {
	section := strings.Replace(mappingYAML, "filtering: upstream", "filtering: upstream\n  on_invalid_record: skip", 1)
	bad := strings.Replace(goodTicket, `"subject":"Late",`, "", 1)
	alien := strings.Replace(goodTicket, `"Late"`, "\"La\xe2\x82te\"", 1)
	stranger := strings.Replace(goodTicket, `"id":"acme"`, `"id":"other"`, 1)
	for _, records := range []string{alien, bad + "," + alien, alien + "," + bad, stranger + "," + alien, goodTicket + "," + alien + "]", "7\xff"} {
		r, err := mapBuyer(t, section, `{"result":{"items":[`+records+`]}}`, Request{})
		if err == nil || err.Reason != "json" || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%q: %v", records, err)
		}
		if r.foreign != 0 || len(r.skipped) != 0 || r.seen != 0 || len(r.list) != 0 {
			t.Errorf("%q counted: %d foreign, %v skipped, %d seen", records, r.foreign, r.skipped, r.seen)
		}
	}
}
