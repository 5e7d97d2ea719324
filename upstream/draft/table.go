package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"inquiry-gateway/upstream/decode"
)

// maxSampleBytes bounds a sample in XML after it has become JSON.
const maxSampleBytes = 64 << 20

// decodeAll reads the samples, all in JSON or all in XML. An error names the sample,
// counted from 1.
func decodeAll(samples [][]byte) (trees []any, xml bool, err error) {
	format := &decode.Format{}
	for _, sample := range samples {
		text := bytes.TrimLeft(bytes.TrimPrefix(sample, []byte("\xef\xbb\xbf")), " \t\r\n")
		format.XML = format.XML || bytes.HasPrefix(text, []byte("<"))
	}
	for range 2 {
		trees = nil
		for i, sample := range samples {
			text, err := format.Decode(string(sample), "", maxSampleBytes)
			if err != nil {
				return nil, false, fmt.Errorf("sample %d cannot be read: %w", i+1, err)
			}
			d := json.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
			d.UseNumber()
			var tree any
			if err := d.Decode(&tree); err != nil {
				return nil, false, fmt.Errorf("sample %d is not JSON: %w", i+1, err)
			}
			trees = append(trees, tree)
		}
		if !format.XML {
			break
		}
		// An XML list of one element looks like none. What is a list in any sample is one
		// in all, so they are read twice.
		for _, tree := range trees {
			markLists(nil, tree, &format.Lists)
		}
	}
	return trees, format.XML, nil
}

// markLists notes the names of all elements that are lists in a tree.
func markLists(names []string, v any, lists *decode.Lists) {
	switch v := v.(type) {
	case []any:
		lists.Add(names)
		for _, element := range v {
			markLists(names, element, lists)
		}
	case map[string]any:
		for name, member := range v {
			markLists(append(slices.Clone(names), name), member, lists)
		}
	}
}

// column is what all records have at one path.
type column struct {
	path  string
	words []string // of its name, in small letters
	rows  []int    // of the records that have a value other than null
	texts []string // these values
	kinds string   // of these: t, n or b for each sort of value that occurs
}

// table is a list of records.
type table struct {
	rows    int
	columns []*column
	lists   map[string]*table // lists of objects within the records, by path
	parents []int             // of an inner list: the record of each row
}

// tableOf makes columns of all single values of the records, in the order of their paths.
func tableOf(records []any) *table {
	t := &table{lists: map[string]*table{}}
	byPath := map[string]*column{}
	inner := map[string][]any{}
	parents := map[string][]int{}
	var add func(keys []string, v any)
	add = func(keys []string, v any) {
		path := pathOf(keys)
		switch v := v.(type) {
		case nil:
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if key == "" {
					continue // no path names it
				}
				add(append(slices.Clone(keys), key), v[key])
			}
		case []any:
			for _, element := range v {
				if _, ok := element.(map[string]any); ok {
					inner[path] = append(inner[path], element)
					parents[path] = append(parents[path], t.rows)
				}
			}
		default:
			c := byPath[path]
			if c == nil {
				c = &column{path: path, words: nameOf(keys)}
				byPath[path] = c
			}
			c.rows, c.texts = append(c.rows, t.rows), append(c.texts, fmt.Sprint(v))
			kind := "t"
			switch v.(type) {
			case json.Number:
				kind = "n"
			case bool:
				kind = "b"
			}
			if !strings.Contains(c.kinds, kind) {
				c.kinds += kind
			}
		}
	}
	for _, record := range records {
		add(nil, record)
		t.rows++
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		t.columns = append(t.columns, byPath[path])
	}
	for path, elements := range inner {
		t.lists[path] = tableOf(elements)
		t.lists[path].parents = parents[path]
	}
	return t
}

// pathOf writes keys as a GJSON path.
func pathOf(keys []string) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		var b strings.Builder
		for _, r := range key {
			if r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_$ /:-", r) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		parts[i] = b.String()
	}
	return strings.Join(parts, ".")
}

// hollow are last keys that say nothing: the key before them says it.
const hollow = " value name text code label display raw data fields id key nm cd displayvalue rendered content body "

// nameOf are the words of a path's last key, and of the one before if the last says
// nothing by itself.
func nameOf(keys []string) (words []string) {
	for i := len(keys) - 1; i >= 0; i-- {
		own := split(keys[i])
		words = append(words, own...)
		if len(own) > 1 || len(own) == 1 && !strings.Contains(hollow, " "+own[0]+" ") {
			break
		}
	}
	return words
}

// split takes a name apart: createdAt, CREATED_AT and created-at are created and at.
func split(name string) []string {
	var b strings.Builder
	before := rune(0)
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		if before = r; !unicode.IsLetter(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// called tells whether a column's name has one of the words.
func (c *column) called(words string) bool {
	return slices.ContainsFunc(c.words, func(word string) bool { return strings.Contains(" "+words+" ", " "+word+" ") })
}

// all tells whether every value of a column is of a sort.
func (c *column) all(is func(string) bool) bool {
	return !slices.ContainsFunc(c.texts, func(s string) bool { return !is(s) })
}

// distinct are the different values, sorted.
func (c *column) distinct() []string {
	values := slices.Sorted(slices.Values(c.texts))
	return slices.Compact(values)
}

// length is the mean of the values' lengths, in characters.
func (c *column) length() int {
	n := 0
	for _, s := range c.texts {
		n += len([]rune(s))
	}
	return n / max(len(c.texts), 1)
}

var (
	uuidForm = regexp.MustCompile(`(?i)^\{?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\}?$`)
	addrForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+$|^([a-z]+:)?//\S+$|^/\S*/\S*$`)
	tagForm  = regexp.MustCompile(`(?i)</?(p|br|div|span|b|i|a|ul|ol|li|strong|em|h[1-6]|table|td|tr|body|html)\b[^>]*>`)
)

// isProse tells whether a value may be words of a person: letters and a blank, or
// letters of a script whose words stand together.
func isProse(s string) bool {
	letters, wide := 0, 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			letters++
		}
		if r >= 0x1100 {
			wide++
		}
	}
	return letters >= 3 && !addrForm.MatchString(s) && (strings.ContainsAny(strings.TrimSpace(s), " \n") || wide >= 4)
}

// prose is the share of a column's values that may be words of a person, from 0 to 1.
func (c *column) prose() float64 {
	n := 0
	for _, s := range c.texts {
		if isProse(s) {
			n++
		}
	}
	return float64(n) / float64(max(len(c.texts), 1))
}
