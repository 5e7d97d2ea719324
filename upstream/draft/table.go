package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"inquiry-gateway/upstream/decode"
)

// maxSampleBytes bounds a sample in XML after it has become JSON.
const maxSampleBytes = 64 << 20

// decodeAll reads the samples, all in JSON or all in XML, and the headers of those that have some. An
// error names the sample, counted from 1.
func decodeAll(samples [][]byte) (trees []any, header http.Header, xml bool, err error) {
	format := &decode.Format{Outline: &decode.Outline{}}
	samples = slices.Clone(samples)
	header = make(http.Header)
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
			d := json.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
			d.UseNumber()
			var tree any
			if err := d.Decode(&tree); err != nil {
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
	aside bool     // it is in a list, or in JSON in a text

	timing *timing // see times
	timed  bool
}

// The bounds of lists within lists, which are looked into in more than one way.
const (
	mostLists = 3
	mostKeys  = 12 // before a list that is taken for its one element
)

// tableOf makes columns of all single values of the records, in the order of their paths.
func tableOf(records []any) *table { return tableWithin(records, mostLists) }

func tableWithin(records []any, lists int) *table {
	t := &table{rows: len(records), lists: map[string]*table{}}
	byPath, inner := map[string]*column{}, map[string][]any{}
	var first []member // elements of lists
	longest := map[string]int{}
	var add func(keys []string, v any)
	add = func(keys []string, v any) {
		path, kind := pathOf(keys), "t"
		switch v := v.(type) {
		case nil:
			return
		case map[string]any:
			for key := range v {
				if hasPath(key) {
					add(append(slices.Clone(keys), key), v[key])
				}
			}
			return
		case []any:
			if lists == 0 {
				return
			}
			list := objects(v)
			inner[path] = append(inner[path], list...)
			longest[path] = max(longest[path], len(v))
			if len(v) > 0 {
				first = append(first, member{keys, v[0]})
			}
			for _, e := range list {
				if name, value := named(e.(map[string]any)); name != "" {
					add(append(slices.Clone(keys), asPath+name), value)
				}
			}
			return
		case string:
			var object map[string]any
			if d := json.NewDecoder(strings.NewReader(v)); strings.HasPrefix(v, "{") {
				d.UseNumber()
				if d.Decode(&object) == nil && !d.More() {
					add(append(slices.Clone(keys), asPath+"@fromstr"), object)
					return
				}
			}
		case json.Number:
			kind = "n"
		case bool:
			kind = "b"
		}
		c := byPath[path]
		if c == nil {
			c = &column{path: path, words: nameOf(keys), aside: aside(keys)}
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
	for len(first) > 0 { // those within are added meanwhile
		some, wrapped := first, map[string]bool{}
		first = nil
		for _, m := range some {
			path := pathOf(m.keys)
			is, known := wrapped[path]
			if !known {
				is = longest[path] == 1 && len(m.keys) < mostKeys && (len(inner[path]) == t.rows || !tableWithin(inner[path], lists-1).answers())
				wrapped[path] = is
			}
			if is {
				add(append(slices.Clone(m.keys), asPath+"0"), m.value)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		t.columns = append(t.columns, byPath[path])
	}
	for path, elements := range inner {
		if len(elements) > 0 {
			t.lists[path] = tableWithin(elements, lists-1)
		}
	}
	return t
}

// member is a value and where it stands.
type member struct {
	keys  []string
	value any
}

// asPath begins a key that is a part of a path as it stands.
const asPath = "\x00"

var plainName = regexp.MustCompile(`^[\pL\pN][\pL\pN _.-]*$`)

// named is the part of a path that finds an element of a list such as custom fields by its name, and its value. The
// name is empty where it is another sort of list.
func named(element map[string]any) (path string, value any) {
	for _, key := range []string{"name", "-name", "id", "-id"} {
		for _, its := range []string{"value", "values"} {
			name, isText := element[key].(string)
			number, isNumber := element[key].(json.Number)
			switch value, ok := element[its]; {
			case !ok:
			case isText && plainName.MatchString(name):
				return fmt.Sprintf("#(%s==%q).%s", key, name, its), value
			case isNumber:
				return fmt.Sprintf("#(%s==%s).%s", key, number, its), value
			}
		}
	}
	return "", nil
}

// aside tells whether a value is in a list, or in JSON in a text.
func aside(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, asPath) })
}

// answers tells whether a list may have responses: a text and a time in each element.
func (t *table) answers() bool {
	text, time := false, false
	for _, c := range t.columns {
		text, time = text || c.prose() >= 0.5, time || c.times() != nil
	}
	return text && time
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

// hasPath tells whether a path can name a key.
func hasPath(key string) bool { return key != "" && !strings.HasPrefix(key, asPath) }

// pathOf writes keys as a GJSON path.
func pathOf(keys []string) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		var b strings.Builder
		if part, ok := strings.CutPrefix(key, asPath); ok {
			parts[i] = part
			continue
		}
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
const hollow = " value values name text code label display raw data fields id key nm cd displayvalue rendered content body "

// nameOf are the words of a path's last key, and of the one before if the last says
// nothing by itself. createdAt, CREATED_AT and created-at are created and at.
func nameOf(keys []string) (words []string) {
	for i := len(keys) - 1; i >= 0; i-- {
		var b strings.Builder
		before, key := rune(0), keys[i]
		if strings.HasPrefix(key, asPath) {
			_, key, _ = strings.Cut(strings.TrimSuffix(strings.TrimSuffix(key, ".value"), ".values"), "==")
		}
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

// called tells whether a column's name has one of the words.
func (c *column) called(words string) bool {
	return slices.ContainsFunc(c.words, func(word string) bool {
		return strings.Contains(" "+words+" ", " "+word+" ") || strings.Contains(" "+words+" ", " "+strings.TrimSuffix(word, "s")+" ")
	})
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
	addrForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+$|^([a-z]+:)?//|^/\S*/\S*$`)
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
