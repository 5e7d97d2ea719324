package draft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Where is a value that may say that a record or response is not to be shown. It is
// proposed as a comment: no sample tells what may be public.
type Where struct {
	Path, Condition, Doubt string
}

// privacy tells which words of a name or value speak of what may be shown.
func privacy(words string) (hidden, shown bool) {
	for _, word := range split(words) {
		sort := sortOf(word, map[string]string{
			"hidden": "private internal hidden deleted secret confidential draft removed spam masked 비공개 비밀 비밀글 삭제 내부 del scrt hid",
			"shown":  "public visible published 공개 노출 pblc",
		})
		hidden, shown = hidden || sort == "hidden", shown || sort == "shown"
	}
	return hidden, shown
}

// where finds the columns that may tell what is shown: truth values by their name, and
// enumerations by one of their values.
func (d *drafter) where(t *table) (all []Where) {
	for _, col := range t.columns {
		if col.count() == 0 || col.lookup != nil || col.time != nil || len(col.set()) > maxValues || d.isAccount(col) {
			continue
		}
		hidden, shown := privacy(lastKey(col))
		if truth := truthOf(col); truth != nil && hidden != shown {
			value := truth[hidden]
			all = append(all, Where{col.path, "equals: " + quote(value), fmt.Sprintf("%s is %s for %d of %d", col.path, value, col.set()[value], col.rows())})
			continue
		}
		var keep []string
		found := 0
		for _, value := range slices.Sorted(maps.Keys(col.set())) {
			if hidden, _ := privacy(value); hidden && !strings.ContainsAny(value, " \n") {
				found += col.set()[value]
			} else {
				keep = append(keep, value)
			}
		}
		if found > 0 && len(keep) > 0 && col.kindOf(text) {
			all = append(all, Where{col.path, "in: " + yamlList(keep), fmt.Sprintf("%s says otherwise for %d of %d", col.path, found, col.rows())})
		}
	}
	return all
}

// truthOf gives the notation of false and true that all values of a column fit; nil if
// they are none. The key says whether the word of the name speaks against showing.
func truthOf(col *column) map[bool]string {
	for _, pair := range [][2]string{{"false", "true"}, {"0", "1"}, {"N", "Y"}, {"n", "y"}, {"no", "yes"}, {"False", "True"}} {
		if col.share(func(x cell) bool { return x.text == pair[0] || x.text == pair[1] }) == 1 {
			return map[bool]string{true: pair[0], false: pair[1]}
		}
	}
	return nil
}

// where writes each condition as a comment, to be taken by hand.
func (w *writer) where(all []Where) {
	for _, c := range all {
		w.line("# DOUBT: %s; if only these may be shown, remove the # of the next line. Nothing at the path then means not shown", oneLine(c.Doubt))
		w.line("# where: [{path: %s, %s}]", quote(c.Path), oneLine(c.Condition))
	}
}
