package draft

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// found is a list of records that the samples may hold.
type found struct {
	path    string
	keys    []string // that lead to it
	records []any
	keyed   bool // the members of an object, not of an array
	table   table
	score   float64
	first   int // the first sample that has it
	merged  int // records whose details are among the samples
}

// lists finds every list of objects in the samples that no other list is around.
func lists(samples []any) map[string]*found {
	all := map[string]*found{}
	for i, sample := range samples {
		visit(nil, sample, func(keys []string, v any) bool {
			f := &found{path: cmp.Or(pathOf(keys), "@this"), keys: keys, first: i}
			switch v := v.(type) {
			case []any:
				if allObjects(v) {
					f.records = slices.Clip(v)
				}
			case map[string]any:
				f.records, f.keyed = alike(v), true
				f.path = strings.TrimPrefix(pathOf(keys)+".@values", ".")
			}
			if before := all[f.path]; before != nil {
				before.records = append(before.records, f.records...)
			} else if len(f.records) > 0 {
				all[f.path] = f
			}
			return true
		})
	}
	return all
}

// in tells whether a sample has something at the path of the list.
func (f *found) in(sample any) bool {
	for _, key := range f.keys {
		object, _ := sample.(map[string]any)
		inner, ok := object[key]
		if !ok {
			return false
		}
		sample = inner
	}
	_, array := sample.([]any)
	return array != f.keyed
}

// allObjects tells whether a list has nothing but objects; an empty one has.
func allObjects(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(map[string]any); return !ok })
}

// alike gives the members of an object whose keys are ids: all are objects with
// nearly the same keys.
func alike(object map[string]any) (members []any) {
	if len(object) < 2 {
		return nil
	}
	seen := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		member, ok := object[key].(map[string]any)
		if !ok || len(member) < 3 {
			return nil
		}
		for key := range member {
			seen[key]++
		}
		members = append(members, member)
	}
	// Members with keys of their own are sections of one object, not records.
	same := 0
	for _, n := range seen {
		if n == len(object) {
			same++
		}
	}
	if 3*same < 2*len(seen) {
		return nil
	}
	return members
}

// ranked orders the lists: the one that looks most like inquiries first. Only lists of
// the first sample that has any are among them, since later samples may be details,
// which have lists of their own.
func ranked(samples []any, account string) []*found {
	var all []*found
	for _, f := range lists(samples) {
		f.table = tableOf(f.records)
		f.score = f.table.worth(account)
		all = append(all, f)
	}
	first := len(samples)
	for _, f := range all {
		first = min(first, f.first)
	}
	all = slices.DeleteFunc(all, func(f *found) bool { return f.first > first }) // what only details have
	slices.SortFunc(all, func(a, b *found) int {
		return cmp.Or(cmp.Compare(b.score, a.score), len(a.path)-len(b.path), strings.Compare(a.path, b.path))
	})
	return all
}

// worth is greater for a list with many different fields, a time, a long text, and
// the account in each record.
func (t *table) worth(account string) float64 {
	var times, texts, owned float64
	filled := 0
	for _, c := range t.columns {
		filled += c.count()
		if c.time != nil {
			times = 1
		}
		if c.length() >= 15 && c.share(isProse) > 0.5 {
			texts = 1
		}
		owned = max(owned, c.is(account)*float64(c.count())/float64(max(t.rows, 1)))
	}
	// Side tables and lists of attachments have few fields, and no text of a person.
	fields := min(float64(filled)/float64(max(t.rows, 1)), 30)
	return fields/30 + 2*times + 2*texts + 3*owned + min(float64(t.rows), 20)/20
}
