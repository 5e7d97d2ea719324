package draft

import (
	"encoding/json"
	"slices"
	"strings"
)

// Lookup says that a field stands in another list of the reply, in the entry whose key
// the record names.
type Lookup struct {
	In   string
	Key  []string // within an entry
	By   []string // within the record
	Take string   // within an entry
}

// String writes a look-up as a path: other list, keys, field.
func (l *Lookup) String() string { return l.In + "[" + strings.Join(l.By, ", ") + "]." + l.Take }

// joinCost is what a field in another list has to be better by than one of the record.
const joinCost = 0.25

// sideTables are the lists beside the records, each entry once.
func sideTables(all map[string]*found, items *found) (tables []*found) {
	for _, f := range all {
		if f.keyed || len(f.keys) >= len(items.keys) && slices.Equal(f.keys[:len(items.keys)], items.keys) {
			continue
		}
		seen, once := map[string]bool{}, []any{}
		for _, entry := range f.records {
			if text, err := json.Marshal(entry); err == nil && !seen[string(text)] {
				seen[string(text)] = true
				once = append(once, entry)
			}
		}
		tables = append(tables, &found{path: f.path, table: tableOf(once)})
	}
	slices.SortFunc(tables, func(a, b *found) int { return strings.Compare(a.path, b.path) })
	return tables
}

// join gives a table, and the lists within its records, the columns of the other
// lists of the reply whose keys its values are.
func (t *table) join(others []*found) {
	own := slices.Clone(t.columns)
	for _, other := range others {
		for _, by := range own {
			for _, key := range other.table.columns {
				t.joinBy(own, by, other, key)
			}
		}
	}
	for _, inner := range t.lists {
		inner.rows.join(others)
	}
}

// joinBy adds the columns of another list if its column key tells its entries apart
// and the values of by are such keys: alone, or together with a column beside each,
// as JSON:API has type and id.
func (t *table) joinBy(own []*column, by *column, other *found, key *column) {
	keys, bys := []*column{key}, []*column{by}
	for _, b := range own {
		for _, k := range other.table.columns {
			if beside(by, b) && beside(key, k) && lastKey(b) == lastKey(k) && lastKey(by) == lastKey(key) {
				if _, ok := entries([]*column{b, by}, []*column{k, key}); ok {
					keys, bys = []*column{k, key}, []*column{b, by}
				}
			}
		}
	}
	// Truth values and times are found in many columns, and are nobody's keys.
	at, ok := entries(bys, keys)
	if !ok || by.kindOf(boolean) || by.time != nil {
		return
	}
	if len(keys) == 2 && len(keys[0].set()) > len(keys[1].set()) {
		return // the other way round: it is joined by the column with more values
	}
	for _, take := range other.table.columns {
		if slices.Contains(keys, take) || len(t.columns) >= maxColumns {
			continue
		}
		l := &Lookup{In: other.path, Take: take.path}
		for i := range keys {
			l.Key, l.By = append(l.Key, keys[i].path), append(l.By, bys[i].path)
		}
		joined := &column{path: l.String(), keys: append(without(by.keys), take.keys...), cells: make([]cell, len(by.cells)), lookup: l}
		for row, entry := range at {
			if entry >= 0 {
				joined.cells[row] = take.cells[entry]
			}
		}
		if joined.count() == 0 {
			continue
		}
		if len(keys) == 1 && !certain(by, key, other.path) {
			joined.doubt("the values of %s may be in %s by chance", by.path, other.path)
		}
		joined.time = timesOf(joined)
		t.columns = append(t.columns, joined)
	}
}

// without are the keys of an id without what names it an id: the entry is spoken of.
func without(keys []string) (rest []string) {
	id := newVocabulary().id
	for _, key := range keys {
		parts := slices.DeleteFunc(split(key), func(part string) bool { return id[part] > 0 || hollow(part) })
		if len(parts) > 0 {
			rest = append(rest, strings.Join(parts, "_"))
		}
	}
	return rest
}

// entries finds for each row the entry of another list. It is false if the keys tell
// no entries apart, or a row names one that is not there.
func entries(by, key []*column) (at []int, ok bool) {
	index := map[string]int{}
	for i := range key[0].cells {
		name, there := nameOf(key, i)
		if _, twice := index[name]; twice || !there && len(key) == 1 {
			return nil, false
		}
		index[name] = i
	}
	named := 0
	for row := range by[0].cells {
		name, there := nameOf(by, row)
		entry, is := index[name]
		switch {
		case !there:
			entry = -1
		case !is:
			return nil, false
		default:
			named++
		}
		at = append(at, entry)
	}
	return at, named > 0
}

// nameOf joins the values of a row, such as type and id. It is false if one is missing.
func nameOf(columns []*column, row int) (name string, there bool) {
	for _, c := range columns {
		if !c.cells[row].filled() {
			return "", false
		}
		name += c.cells[row].text + "\x00"
	}
	return name, true
}

// certain tells whether values can hardly be keys by chance: several long ones, or
// a name like that of the list.
func certain(by, key *column, list string) bool {
	if len(by.set()) >= 2 && by.length() >= 3 {
		return true
	}
	names := split(list)
	for _, part := range split(lastKey(by)) {
		for _, name := range names {
			if n := min(len(part), len(name)); n >= 3 && (strings.HasPrefix(name, part[:n-min(n-3, 1)]) || strings.HasPrefix(part, name[:n-min(n-3, 1)])) {
				return true
			}
		}
	}
	return lastKey(by) == lastKey(key) && len(by.set()) >= 2
}

// lastKey is the name of a column without what leads to it.
func lastKey(c *column) string { return c.keys[len(c.keys)-1] }

// beside tells whether two columns are of the same object.
func beside(a, b *column) bool {
	n := len(a.keys) - 1
	return a != b && n == len(b.keys)-1 && slices.Equal(a.keys[:n], b.keys[:n])
}

// kindOf tells whether any value is of a kind.
func (c *column) kindOf(k kind) bool { return c.share(func(x cell) bool { return x.kind == k }) > 0 }
