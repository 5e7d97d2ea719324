package draft

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of what is looked at.
const (
	maxDepth   = 8
	maxColumns = 1000
	maxRows    = 2000
	maxKeyed   = 60 // keys of a list of keys and values
)

// kind is what a value of JSON is.
type kind uint8

const (
	missing kind = iota
	null
	boolean
	number
	text
)

// cell is the value of one record at one path; lists and objects are no cells.
type cell struct {
	kind kind
	text string
}

// filled tells whether there is a value other than null.
func (c cell) filled() bool { return c.kind > null }

// column is a path within the records with all its values.
type column struct {
	path  string
	keys  []string // of the path, unescaped
	cells []cell   // one for each record
	time  *timing  // nil: no times

	lookup *Lookup // nil: of the record itself
	doubts         // about the look-up
	could  int     // how many records may have a value; 0: all

	// Of an enumeration: what its codes mean, and the column that says it; nil: none does.
	labels map[string]string
	label  *column
}

// nested is a list of objects within the records. Its rows are the elements of all.
type nested struct {
	path     string
	keys     []string
	elements []any
	rows     table
	of       []int // the record of each row
}

// table is a list of objects, by path.
type table struct {
	rows    int
	columns []*column
	lists   []*nested
}

// builder makes a table out of records.
type builder struct {
	rows    int
	columns map[string]*column
	lists   map[string]*nested
}

// tableOf makes a table of the records, of at most maxRows. Columns and lists are in
// the order of their paths.
func tableOf(records []any) table {
	if len(records) > maxRows {
		records = records[:maxRows]
	}
	b := &builder{len(records), map[string]*column{}, map[string]*nested{}}
	for i, record := range records {
		b.add(i, record)
	}
	t := table{rows: b.rows}
	for _, path := range slices.Sorted(maps.Keys(b.lists)) {
		list := b.lists[path]
		list.rows = tableOf(list.elements)
		list.of = list.of[:list.rows.rows]
		t.lists = append(t.lists, list)
		b.keyed(list)
	}
	for _, path := range slices.Sorted(maps.Keys(b.columns)) {
		c := b.columns[path]
		c.time = timesOf(c)
		t.columns = append(t.columns, c)
	}
	return t
}

// visit shows a value and what is within it to see, objects before their members and
// these by their names. keys lead to it. What see returns false for is not entered, nor
// are arrays.
func visit(keys []string, v any, see func(keys []string, v any) (enter bool)) {
	object, _ := v.(map[string]any)
	if !see(keys, v) || len(keys) == maxDepth {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		visit(append(slices.Clone(keys), key), object[key], see)
	}
}

// add puts one record into the table.
func (b *builder) add(row int, record any) {
	visit(nil, record, func(keys []string, v any) bool {
		switch v := v.(type) {
		case map[string]any:
		case []any:
			b.addList(row, keys, v)
		default:
			if len(keys) > 0 {
				b.set(row, pathOf(keys), keys, cellOf(v))
			}
		}
		return true
	})
}

// set puts a value into the column of a path, which is made if there is room for it.
func (b *builder) set(row int, path string, keys []string, c cell) {
	col := b.columns[path]
	if col == nil {
		if len(b.columns) >= maxColumns {
			return
		}
		col = &column{path: path, keys: keys, cells: make([]cell, b.rows)}
		b.columns[path] = col
	}
	col.cells[row] = c
}

// addList notes a list of objects; of other lists nothing is mapped.
func (b *builder) addList(row int, keys []string, elements []any) {
	if len(elements) == 0 || len(keys) == 0 || len(keys) >= maxDepth || !allObjects(elements) {
		return
	}
	path := pathOf(keys)
	list := b.lists[path]
	if list == nil {
		list = &nested{path: path, keys: keys}
		b.lists[path] = list
	}
	list.elements = append(list.elements, elements...)
	for range elements {
		list.of = append(list.of, row)
	}
}

// keyed adds a column for each key of a list of keys and values, such as custom
// fields: in all records the same keys, each once.
func (b *builder) keyed(list *nested) {
	for _, names := range list.rows.columns {
		keys := names.set()
		if len(keys) < 2 || len(keys) > maxKeyed || names.count() < names.rows() || !eachOnce(names, list.of, b.rows, len(keys)) {
			continue
		}
		for _, values := range list.rows.columns {
			if values == names {
				continue
			}
			for i, c := range names.cells {
				query := c.text
				if c.kind == text {
					query = `"` + c.text + `"`
				}
				if strings.ContainsAny(c.text, `"\`) {
					continue
				}
				path := fmt.Sprintf("%s.#(%s==%s).%s", list.path, names.path, query, values.path)
				b.set(list.of[i], path, append(append(slices.Clone(list.keys), values.keys...), c.text), values.cells[i])
			}
		}
		return
	}
}

// eachOnce tells whether nearly all records have each of the keys once.
func eachOnce(names *column, of []int, records, keys int) bool {
	if records < 2 {
		return false
	}
	seen := map[string]bool{}
	for i, c := range names.cells {
		at := fmt.Sprint(of[i], " ", c.text)
		if seen[at] {
			return false
		}
		seen[at] = true
	}
	return float64(len(seen)) >= 0.7*float64(records*keys)
}

// cellOf is the cell for a value of JSON as it was decoded; a missing one for lists and
// objects.
func cellOf(v any) cell {
	switch v := v.(type) {
	case nil:
		return cell{kind: null}
	case bool:
		return cell{boolean, fmt.Sprint(v)}
	case json.Number:
		return cell{number, v.String()}
	case string:
		return cell{text, v}
	}
	return cell{}
}

// pathOf writes keys as a GJSON path.
func pathOf(keys []string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		var b strings.Builder
		for _, r := range key {
			if strings.ContainsRune(`\.*?|#@!{}[]()=<>%~:,&"'+^`, r) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		escaped[i] = b.String()
	}
	return strings.Join(escaped, ".")
}

// rows is how many records may have a value.
func (c *column) rows() int {
	if c.could > 0 {
		return c.could
	}
	return len(c.cells)
}

// count is how many records have a value, null not counted.
func (c *column) count() (n int) {
	for _, x := range c.cells {
		if x.filled() {
			n++
		}
	}
	return n
}

// always tells whether each record has a value.
func (c *column) always() bool { return c.count() == c.rows() && c.rows() > 0 }

// set gives the different values with how often each comes.
func (c *column) set() map[string]int {
	all := map[string]int{}
	for _, x := range c.cells {
		if x.filled() {
			all[x.text]++
		}
	}
	return all
}

// share is the part of the values for which a test holds; of none it is 0.
func (c *column) share(test func(cell) bool) float64 {
	n := 0
	for _, x := range c.cells {
		if x.filled() && test(x) {
			n++
		}
	}
	return float64(n) / float64(max(c.count(), 1))
}

// is the part of the values that are the text.
func (c *column) is(text string) float64 {
	return c.share(func(x cell) bool { return x.text == text })
}

// distinct is 1 if no value comes twice, and near 0 if all are the same.
func (c *column) distinct() float64 {
	return float64(len(c.set())) / float64(max(c.count(), 1))
}

// length is the mean number of characters of a value.
func (c *column) length() float64 {
	sum := 0
	for _, x := range c.cells { // what is not filled has no text
		sum += utf8.RuneCountInString(x.text)
	}
	return float64(sum) / float64(max(c.count(), 1))
}
