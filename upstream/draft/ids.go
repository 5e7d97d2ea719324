package draft

import (
	"slices"
	"strconv"
)

// minID is how short an id may be: shorter ones are cut out of texts that only
// happen to have such a number.
const minID = 3

// internalIDs are the paths whose values identify something and are shown nowhere.
// Those too short to be looked for in texts are given apart.
func (d *drafter) internalIDs(t *table) (paths, short []string) {
	for _, col := range d.free(t) {
		switch {
		case col.lookup != nil || col.time != nil || d.isAccount(col) || !d.identifies(col):
		case col.share(func(x cell) bool { return len(x.text) < minID }) > 0:
			short = append(short, col.path)
		default:
			paths = append(paths, col.path)
		}
	}
	return paths, short
}

// detailID adds what details are asked for with to the ids.
func (p *Proposal) detailID(t *table, path string) {
	for _, col := range t.columns {
		switch {
		case col.path != path || slices.Contains(p.IDs, path) || slices.Contains(p.Short, path):
		case col.share(func(x cell) bool { return len(x.text) < minID }) > 0:
			p.Short = append(p.Short, path)
		default:
			p.IDs = append(p.IDs, path)
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
		return x.kind != boolean && len(x.text) <= 64 && !isProse(x) && !hasLines(x) && !emailForm.MatchString(x.text) && !urlForm.MatchString(x.text)
	})
	codes := col.share(func(x cell) bool { return isCode(x) || whole(x.text) })
	last := split(col.keys[len(col.keys)-1])
	named := false
	for _, part := range last {
		named = named || d.vocabulary.id[part] > 0 && part != "cd" && part != "code"
	}
	switch {
	case uuids > 0.9:
		return true
	case words < 0.9:
		return false
	}
	return named && codes > 0.9 || codes > 0.9 && col.distinct() == 1 && col.count() >= 3 && col.length() >= 6 && !fraction(col)
}

func whole(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// fraction tells whether a column holds amounts.
func fraction(col *column) bool {
	return col.share(func(x cell) bool { return x.kind == number && !whole(x.text) }) > 0
}
