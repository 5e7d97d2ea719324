package draft

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/redact"
)

// maxSampleBytes bounds a sample in XML after it has become JSON.
const maxSampleBytes = 64 << 20

// parseAll parses the samples, all in JSON or all in XML, and the headers of those that have some. An
// error names the sample, counted from 1.
func parseAll(samples [][]byte) (trees []jsontree.Value, header http.Header, xml bool, err error) {
	format := &decode.Format{Outline: &decode.Outline{}}
	samples, header = slices.Clone(samples), http.Header{}
	for i, sample := range samples {
		var head http.Header
		head, samples[i] = decode.Saved(sample)
		for name, values := range head {
			header[name] = append(header[name], values...)
		}
		text := bytes.TrimLeft(bytes.TrimPrefix(samples[i], []byte("\xef\xbb\xbf")), " \t\r\n")
		format.XML = format.XML || bytes.HasPrefix(text, []byte("<"))
	}
	// An XML list of one element looks like none. What is a list in any sample is one in
	// all, so XML is read twice.
	for range 2 {
		trees = nil
		for i, sample := range samples {
			text, err := format.Decode(string(sample), "", maxSampleBytes)
			if err != nil {
				return nil, nil, false, fmt.Errorf("sample %d cannot be read: %w", i+1, err)
			}
			tree, err := jsontree.Parse(strings.TrimPrefix(text, "\ufeff"))
			if err != nil {
				return nil, nil, false, fmt.Errorf("sample %d is not JSON: %w", i+1, err)
			}
			trees = append(trees, tree)
			markLists(tree, format.Outline)
		}
		if !format.XML {
			break
		}
	}
	return trees, header, format.XML, nil
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
func findList(trees []jsontree.Value, account string) (best, second *list) {
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
	for _, tree := range trees {
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

// sameShape returns the members of an object whose keys are ids: all are objects with nearly
// the same keys.
func sameShape(object jsontree.Value) (members []jsontree.Value) {
	seen, same, good := map[string]int{}, 0, true
	for _, member := range object.All() {
		good = good && member.Kind() == jsontree.Object && member.Len() >= 3
		for key := range member.All() {
			if seen[key]++; seen[key] == object.Len() {
				same++
			}
		}
		members = append(members, member)
	}
	if !good || len(members) < 2 || 3*same < 2*len(seen) {
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

// column is what all records have at one path.
type column struct {
	path   string
	words  []string // of its name, in small letters
	texts  []string // the values other than null
	bools  bool     // all are truth values
	timing *timing  // see times
	timed  bool
}

// maxLists bounds lists within lists.
const maxLists = 3

func tableOf(records []jsontree.Value) *table { return tableWithin(records, maxLists) }

func tableWithin(records []jsontree.Value, lists int) *table {
	t := &table{rows: len(records), lists: map[string]*table{}}
	byPath, elements, longest := map[string]*column{}, map[string][]jsontree.Value{}, map[string]int{}
	var visit func(path string, v jsontree.Value)
	visit = func(path string, v jsontree.Value) {
		var inner jsontree.Value
		if v.Kind() == jsontree.Text {
			inner = v.At("@fromstr")
		}
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
			c.bools = c.bools && (v.Kind() == jsontree.Bool || strings.Contains(" true false 0 1 Y N ", " "+v.String()+" ") && v.String() != "")
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

var plainName = regexp.MustCompile(`^[\pL\pN][\pL\pN _.-]*$`)

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
func below(path, part string) string {
	if path == "" {
		return part
	}
	return path + "." + part
}

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

// hollow are last names that say nothing: the one before them says it.
const hollow = " value values name text code label display raw data fields id key nm cd displayvalue rendered content body "

// wordsOf are the words of a path's last name, and of the one before if the last says nothing by
// itself. createdAt, CREATED_AT and created-at are created and at.
func wordsOf(path string) (words []string) {
	parts := strings.Split(strings.ReplaceAll(path, `\.`, " "), ".")
	for _, key := range slices.Backward(parts) {
		if _, name, ok := strings.Cut(key, "=="); ok {
			key = name
		}
		var b strings.Builder
		before := rune(0)
		for _, r := range key {
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				b.WriteByte(' ')
			}
			if before = r; !unicode.IsLetter(r) {
				r = ' '
			}
			b.WriteRune(unicode.ToLower(r))
		}
		own := strings.Fields(b.String())
		words = append(words, own...)
		if len(own) > 1 || len(own) == 1 && !strings.Contains(hollow, " "+own[0]+" ") {
			break
		}
	}
	return words
}

// called reports whether a column's name has one of the words.
func (c *column) called(words string) bool {
	return slices.ContainsFunc(c.words, func(word string) bool {
		return strings.Contains(" "+words+" ", " "+word+" ") || strings.Contains(" "+words+" ", " "+strings.TrimSuffix(word, "s")+" ")
	})
}

// all reports whether every value of a column is of a sort.
func (c *column) all(is func(string) bool) bool {
	return !slices.ContainsFunc(c.texts, func(s string) bool { return !is(s) })
}

// distinct returns the different values, sorted.
func (c *column) distinct() []string { return slices.Compact(slices.Sorted(slices.Values(c.texts))) }

var (
	addrForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+$|^([a-z]+:)?//|^/\S*/\S*$`)
	tagForm  = regexp.MustCompile(`(?i)</?(p|br|div|span|b|i|a|ul|ol|li|strong|em|h[1-6]|table|td|tr|body|html)\b[^>]*>`)
)

func isUUID(s string) bool { return redact.IsUUID(strings.Trim(s, "{}")) }

// isProse reports whether half of the values may be words of a person: letters and a blank, or
// letters of a script whose words stand together.
func (c *column) isProse() bool {
	n := 0
	for _, s := range c.texts {
		letters, wide := 0, 0
		for _, r := range s {
			if unicode.IsLetter(r) {
				letters++
			}
			if r >= 0x1100 {
				wide++
			}
		}
		if letters >= 3 && !addrForm.MatchString(s) && (strings.ContainsAny(strings.TrimSpace(s), " \n") || wide >= 4) {
			n++
		}
	}
	return 2*n >= len(c.texts)
}
