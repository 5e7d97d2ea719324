package draft

import (
	"slices"
	"strconv"
)

// minID is how short an id may be: shorter ones are cut out of texts that only
// happen to have such a number.
const minID = 3

// ids are the paths of internal ids.
type ids struct {
	IDs   []string
	Short []string // those that are too short to be cut out of texts
}

// add puts a column among the ids, or among those that are too short if any of its
// values is.
func (i *ids) add(col *column, path string) {
	if col.share(func(x cell) bool { return len(x.text) < minID }) > 0 {
		i.Short = append(i.Short, path)
	} else {
		i.IDs = append(i.IDs, path)
	}
}

// addAll adds the columns whose values identify something and are shown nowhere, with
// prefix in front of their paths.
func (i *ids) addAll(d *drafter, t *table, prefix string) {
	for _, col := range d.free(t) {
		if col.lookup == nil && col.time == nil && !d.isAccount(col) && d.identifies(col) {
			i.add(col, prefix+col.path)
		}
	}
}

// addDetails adds the column that details are asked for with, whatever its values look
// like.
func (i *ids) addDetails(t *table, path string) {
	for _, col := range t.columns {
		if col.path == path && !slices.Contains(i.IDs, path) && !slices.Contains(i.Short, path) {
			i.add(col, path)
		}
	}
}

// identifies tells whether a column's values are ids: by their form, or by the
// column's name and few repetitions.
func (d *drafter) identifies(col *column) bool {
	uuids := col.share(func(x cell) bool {
		return uuidForm.MatchString(x.text) || hexForm.MatchString(x.text) && len(x.text) >= 24
	})
	words := col.share(func(x cell) bool {
		return x.kind != boolean && len(x.text) <= 64 && !isProse(x) && !hasLines(x) && !isAddress(x)
	})
	codes := col.share(func(x cell) bool { return isCode(x) || whole(x.text) })
	named := slices.ContainsFunc(split(lastKey(col)), func(part string) bool {
		return d.vocabulary.id[part] > 0 && part != "cd" && part != "code"
	})
	// Some values may be test data or left empty: nine of ten are enough.
	switch {
	case uuids > 0.9:
		return true
	case words < 0.9:
		return false
	}
	return named && codes > 0.9 || codes > 0.9 && col.distinct() == 1 && col.count() >= 3 && col.length() >= 6 && !fraction(col)
}

// whole tells whether a text is a number without a fraction.
func whole(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// fraction tells whether a column holds amounts.
func fraction(col *column) bool {
	return col.share(func(x cell) bool { return x.kind == number && !whole(x.text) }) > 0
}
