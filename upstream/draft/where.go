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

// marksPrivacy are the words of names and values that speak of what may be shown.
func marksPrivacy(word string) (hidden, shown bool) {
	switch word {
	case "private", "internal", "hidden", "deleted", "secret", "confidential", "draft", "removed", "spam", "masked", "비공개", "비밀", "비밀글", "삭제", "내부", "del", "scrt", "hid":
		return true, false
	case "public", "visible", "published", "공개", "노출", "pblc":
		return false, true
	}
	return false, false
}

// where finds the columns that may tell what is shown: truth values by their name, and
// enumerations by one of their values.
func (d *drafter) where(t *table) (all []Where) {
	for _, col := range t.columns {
		if col.count() == 0 || col.lookup != nil || col.time != nil || len(col.set()) > maxValues || d.isAccount(col) {
			continue
		}
		var hidden, shown bool
		for _, part := range split(lastKey(col)) {
			h, s := marksPrivacy(part)
			hidden, shown = hidden || h, shown || s
		}
		if truth := truthOf(col); truth != nil && hidden != shown {
			value := truth[hidden]
			all = append(all, Where{col.path, "equals: " + quote(value), fmt.Sprintf("%s is %s for %d of %d", col.path, value, col.set()[value], col.rows())})
			continue
		}
		var keep []string
		found := 0
		for _, value := range slices.Sorted(maps.Keys(col.set())) {
			if hiddenValue(value) {
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

func hiddenValue(value string) bool {
	if strings.ContainsAny(value, " \n") {
		return false
	}
	return slices.ContainsFunc(split(value), func(part string) bool { hidden, _ := marksPrivacy(part); return hidden })
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

func (w *writer) where(all []Where) {
	for _, c := range all {
		w.line("# DOUBT: %s; if only these may be shown, remove the # of the next line. Nothing at the path then means not shown", oneLine(c.Doubt))
		w.line("# where: [{path: %s, %s}]", quote(c.Path), oneLine(c.Condition))
	}
}
