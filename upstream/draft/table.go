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
	format := &decode.Format{Outline: &decode.Outline{}}
	for _, sample := range samples {
		text := bytes.TrimLeft(bytes.TrimPrefix(sample, []byte("\xef\xbb\xbf")), " \t\r\n")
		format.XML = format.XML || bytes.HasPrefix(text, []byte("<"))
	}
	// An XML list of one element looks like none. What is a list in any sample is one in
	// all, so XML is read twice.
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
			markLists(tree, format.Outline)
		}
		if !format.XML {
			break
		}
	}
	return trees, format.XML, nil
}

// markLists notes the names of all elements that are lists in a tree.
func markLists(v any, at *decode.Outline) {
	switch v := v.(type) {
	case []any:
		at.List = true
		for _, element := range v {
			markLists(element, at)
		}
	case map[string]any:
		for name, member := range v {
			markLists(member, at.Below(name))
		}
	}
}

// table is a list of records.
type table struct {
	rows    int
	columns []*column
	lists   map[string]*table // lists of objects within the records, by path
}

// column is what all records have at one path.
type column struct {
	path  string
	words []string // of its name, in small letters
	texts []string // the values other than null
	kinds string   // of these: t, n or b for each sort of value that occurs
	taken bool     // a field reads it

	timing *timing // see times
	timed  bool
}

// tableOf makes columns of all single values of the records, in the order of their paths.
func tableOf(records []any) *table {
	t := &table{rows: len(records), lists: map[string]*table{}}
	byPath, inner := map[string]*column{}, map[string][]any{}
	var add func(keys []string, v any)
	add = func(keys []string, v any) {
		path, kind := pathOf(keys), "t"
		switch v := v.(type) {
		case nil:
			return
		case map[string]any:
			for key := range v {
				if key != "" { // which no path names
					add(append(slices.Clone(keys), key), v[key])
				}
			}
			return
		case []any:
			inner[path] = append(inner[path], objects(v)...)
			return
		case json.Number:
			kind = "n"
		case bool:
			kind = "b"
		}
		c := byPath[path]
		if c == nil {
			c = &column{path: path, words: nameOf(keys)}
			byPath[path] = c
		}
		c.texts = append(c.texts, fmt.Sprint(v))
		if !strings.Contains(c.kinds, kind) {
			c.kinds += kind
		}
	}
	for _, record := range records {
		add(nil, record)
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		t.columns = append(t.columns, byPath[path])
	}
	for path, elements := range inner {
		if len(elements) > 0 {
			t.lists[path] = tableOf(elements)
		}
	}
	return t
}

// objects are the elements that have members.
func objects(list []any) (records []any) {
	for _, element := range list {
		if _, ok := element.(map[string]any); ok {
			records = append(records, element)
		}
	}
	return records
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
// nothing by itself. createdAt, CREATED_AT and created-at are created and at.
func nameOf(keys []string) (words []string) {
	for i := len(keys) - 1; i >= 0; i-- {
		var b strings.Builder
		before := rune(0)
		for _, r := range keys[i] {
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

// called tells whether a column's name has one of the words.
func (c *column) called(words string) bool {
	return slices.ContainsFunc(c.words, func(word string) bool { return strings.Contains(" "+words+" ", " "+word+" ") })
}

// all tells whether every value of a column is of a sort.
func (c *column) all(is func(string) bool) bool {
	return !slices.ContainsFunc(c.texts, func(s string) bool { return !is(s) })
}

// distinct are the different values, sorted.
func (c *column) distinct() []string { return slices.Compact(slices.Sorted(slices.Values(c.texts))) }

// length is the mean of the values' lengths, in characters.
func (c *column) length() int {
	return len([]rune(strings.Join(c.texts, ""))) / len(c.texts)
}

var (
	uuidForm = regexp.MustCompile(`(?i)^\{?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\}?$`)
	addrForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+$|^([a-z]+:)?//\S+$|^/\S*/\S*$`)
	codeForm = regexp.MustCompile(`^[^\s]*[0-9][^\s]*$`)
	tagForm  = regexp.MustCompile(`(?i)</?(p|br|div|span|b|i|a|ul|ol|li|strong|em|h[1-6]|table|td|tr|body|html)\b[^>]*>`)
)

// prose is the share of a column's values that may be words of a person, from 0 to 1:
// letters and a blank, or letters of a script whose words stand together.
func (c *column) prose() float64 {
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
	return float64(n) / float64(len(c.texts))
}
