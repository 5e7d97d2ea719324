package draft

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
)

// maxSampleBytes bounds a sample in XML after it has become JSON.
const maxSampleBytes = 64 << 20

// samples are parsed replies.
type samples struct {
	trees  []jsontree.Value
	header http.Header // of those that have some
	xml    bool
}

// parse parses replies, all in JSON or all in XML. An error names the sample, counted from 1.
func parse(texts [][]byte) (*samples, error) {
	s, format := &samples{header: http.Header{}}, &decode.Format{Outline: &decode.Outline{}}
	bodies := make([]string, len(texts))
	for i, text := range texts {
		header, body := decode.Saved(text)
		for name, values := range header {
			s.header[name] = append(s.header[name], values...)
		}
		bodies[i] = string(body)
		start := bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n")
		s.xml = s.xml || bytes.HasPrefix(start, []byte("<"))
	}
	format.XML = s.xml
	// An XML list of one element looks like none. What is a list in any sample is one in
	// all, so XML is read twice.
	for range 2 {
		s.trees = nil
		for i, body := range bodies {
			text, err := format.Decode(body, "", decode.AtMost(maxSampleBytes))
			if err != nil {
				return nil, fmt.Errorf("sample %d cannot be read: %w", i+1, err)
			}
			tree, err := jsontree.Parse(text)
			if err != nil {
				return nil, fmt.Errorf("sample %d is not JSON: %w", i+1, err)
			}
			s.trees = append(s.trees, tree)
			markLists(tree, format.Outline)
		}
	}
	return s, nil
}

// markLists marks the names of all elements that are lists in a tree.
func markLists(v jsontree.Value, at *decode.Outline) {
	for name, one := range v.All() {
		if v.Kind() == jsontree.Array {
			at.List = true
			markLists(one, at)
		} else {
			markLists(one, at.Below(name))
		}
	}
}

// list is a list of records that the samples have.
type list struct {
	path    string
	records []jsontree.Value
	keyed   bool // the members of an object, not of an array
	table   *table
	weight  int
}

// findList chooses the largest list: the one with the most values, of which the account, texts and times
// count more. second is another one that is nearly as large.
func (s *samples) findList(account string) (best, second *list) {
	all := map[string]*list{}
	var visit func(path string, v jsontree.Value)
	visit = func(path string, v jsontree.Value) {
		l := &list{path: cmp.Or(path, "@this")}
		switch v.Kind() {
		case jsontree.Array:
			l.records = objects(v)
		case jsontree.Object:
			if l.records = sameShape(v); l.records != nil {
				l.keyed, l.path = true, below(path, "@values")
				break
			}
			for name, one := range v.All() {
				visit(below(path, pathOf(name)), one)
			}
		}
		if before := all[l.path]; before != nil {
			before.records = append(before.records, l.records...)
		} else if len(l.records) > 0 {
			all[l.path] = l
		}
	}
	for _, tree := range s.trees {
		visit("", tree)
	}
	lists := slices.Collect(maps.Values(all))
	for _, l := range lists {
		l.table = tableOf(l.records)
		for _, c := range l.table.columns {
			l.weight += len(c.texts)
			if slices.Contains(c.texts, account) || c.isProse() || c.times() != nil {
				l.weight += 3 * len(c.texts)
			}
		}
	}
	slices.SortFunc(lists, func(a, b *list) int { return cmp.Or(b.weight-a.weight, strings.Compare(a.path, b.path)) })
	switch {
	case len(lists) == 0:
		return nil, nil
	case len(lists) > 1 && 3*lists[1].weight > 2*lists[0].weight:
		return lists[0], lists[1]
	}
	return lists[0], nil
}

// sameShape returns the members of an object whose keys are ids: two objects or more, with nearly the same keys.
func sameShape(object jsontree.Value) (members []jsontree.Value) {
	seen, shared := map[string]int{}, 0
	for _, member := range object.All() {
		if member.Kind() != jsontree.Object || member.Len() < 3 {
			return nil
		}
		for key := range member.All() {
			if seen[key]++; seen[key] == object.Len() {
				shared++
			}
		}
		members = append(members, member)
	}
	if len(members) < 2 || 3*shared < 2*len(seen) {
		return nil
	}
	return members
}

// objects returns the elements of a list that are objects.
func objects(v jsontree.Value) (all []jsontree.Value) {
	for _, one := range v.All() {
		if one.Kind() == jsontree.Object {
			all = append(all, one)
		}
	}
	return all
}

// table is a list of records, with all single values at one path in a column.
type table struct {
	rows    int
	columns []*column         // by their paths
	lists   map[string]*table // lists of objects within the records, by path
}

// maxLists bounds lists within lists.
const maxLists = 3

func tableOf(records []jsontree.Value) *table { return tableWithin(records, maxLists) }

func tableWithin(records []jsontree.Value, lists int) *table {
	t := &table{rows: len(records), lists: map[string]*table{}}
	byPath, elements, longest := map[string]*column{}, map[string][]jsontree.Value{}, map[string]int{}
	var visit func(path string, v jsontree.Value)
	visit = func(path string, v jsontree.Value) {
		inner := v.At("@fromstr")
		switch {
		case v.Kind() == jsontree.Object:
			for name, member := range v.All() {
				visit(below(path, pathOf(name)), member)
			}
		case v.Kind() == jsontree.Array:
			named := false
			for _, element := range v.All() {
				if name, value := namedValue(element); name != "" {
					named = true
					visit(below(path, name), value)
				}
			}
			if longest[path] = max(longest[path], v.Len()); !named && lists > 0 {
				if !strings.Contains(path, ".0.") { // else they are in a list of their own
					elements[path] = append(elements[path], objects(v)...)
				}
				visit(below(path, "0"), v.At("0"))
			}
		case inner.Kind() == jsontree.Object:
			visit(below(path, "@fromstr"), inner)
		case v.Scalar():
			c := byPath[path]
			if c == nil {
				c = &column{path: path, words: wordsOf(path), bools: true}
				byPath[path] = c
			}
			c.texts = append(c.texts, v.String())
			c.bools = c.bools && (v.Kind() == jsontree.Bool || has("true false 0 1 Y N", v.String()))
		}
	}
	for _, record := range records {
		visit("", record)
	}
	// The first element stands for a list only where no list has more.
	first := func(path string) bool {
		for at := range longest {
			if longest[at] > 1 && strings.HasPrefix(path, below(at, "0")) {
				return true
			}
		}
		return false
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		if !first(path) {
			t.columns = append(t.columns, byPath[path])
		}
	}
	for path, all := range elements {
		if len(all) > 0 && !first(path) {
			t.lists[path] = tableWithin(all, lists-1)
		}
	}
	return t
}

// namedValue returns the part of a path that finds an element of a list such as custom fields by its name,
// and its value. The name is empty where it is another sort of list.
func namedValue(element jsontree.Value) (path string, value jsontree.Value) {
	for _, key := range []string{"name", "-name", "id", "-id", "fieldId", "-title"} {
		for _, its := range []string{"value", "values", "inline"} {
			name, value := element.Member(key), element.Member(its)
			switch {
			case value.Kind() == jsontree.Missing:
			case name.Kind() == jsontree.Text && plainName.MatchString(name.String()):
				return fmt.Sprintf("#(%s==%q).%s", key, name.String(), its), value
			case name.Kind() == jsontree.Number:
				return fmt.Sprintf("#(%s==%s).%s", key, name.String(), its), value
			}
		}
	}
	return "", value
}

// below joins two parts of a path.
func below(path, part string) string { return strings.TrimPrefix(path+"."+part, ".") }

// pathOf writes a key as a part of a path.
func pathOf(key string) string {
	var b strings.Builder
	for i, r := range key {
		if r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_$ /:-", r) || i == 0 && (r == '@' || unicode.IsDigit(r) || r == '-' && len(key) > 1 && unicode.IsDigit(rune(key[1]))) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return cmp.Or(b.String(), `\`+"\x00")
}
