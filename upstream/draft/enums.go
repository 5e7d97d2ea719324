package draft

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// maxValues is how many different values an enumeration has at most.
const maxValues = 12

// enumerations are the columns with few short values that come again, with their labels.
func (d *drafter) enumerations(t *table) (columns []*column) {
	for _, col := range d.free(t) {
		// The less there are of the records, the less repetition can be asked for.
		set := col.set()
		delete(set, "")
		few := len(set) >= 1 && len(set) <= maxValues && (3*len(set) <= 2*col.count() || len(set) <= 4 && col.rows() <= 8)
		short := col.share(func(x cell) bool {
			return len([]rune(x.text)) <= 32 && !hasLines(x) && !isAddress(x) && !uuidForm.MatchString(x.text)
		}) == 1
		long := col.share(func(x cell) bool { return x.kind == number && len(x.text) > 4 }) > 0
		if col.time == nil && few && short && !long && !d.isAccount(col) {
			col.labels, col.label = labels(t, col)
			columns = append(columns, col)
		}
	}
	return columns
}

// isAccount tells whether nearly all values of a column are the account.
func (d *drafter) isAccount(col *column) bool {
	return col.is(d.account) > 0.9
}

// labels finds the column that says in words what a column of codes means: each code
// has one label, and each label one code. Of several it is the one with the most
// labels, and of these the last. It must look more like words than the codes do, see
// wordy.
func labels(t *table, codes *column) (found map[string]string, at *column) {
	for _, other := range t.columns {
		if other.time != nil || !sibling(codes, other) {
			continue
		}
		pairs, back, fits := map[string]string{}, map[string]string{}, other.wordy() > codes.wordy()
		for i, code := range codes.cells {
			label := other.cells[i]
			if !code.filled() || label.kind != text || code.text == "" || label.text == "" {
				continue
			}
			if l, ok := pairs[code.text]; ok && l != label.text {
				fits = false
			}
			if c, ok := back[label.text]; ok && c != code.text {
				fits = false
			}
			pairs[code.text], back[label.text] = label.text, code.text
		}
		if fits && len(pairs) > 0 && len(pairs) >= len(found) {
			found, at = pairs, other
		}
	}
	return found, at
}

// wordy is greater for labels than for codes: letters of words, not of abbreviations.
func (c *column) wordy() float64 {
	return 3*c.share(isProse) + 2*c.share(func(x cell) bool { return strings.ContainsFunc(x.text, isHangul) }) +
		c.share(func(x cell) bool { return strings.ContainsFunc(x.text, unicode.IsLower) }) + c.length()/100
}

// sibling tells whether two columns are of one object, or of names that begin alike.
func sibling(a, b *column) bool {
	if !beside(a, b) {
		return false
	}
	if len(a.keys) > 1 && hollowKey(lastKey(a)) {
		return true
	}
	x, y := split(lastKey(a)), split(lastKey(b))
	return len(x) > 0 && len(y) > 0 && x[0] == y[0]
}

// hollowKey tells whether no part of a key says anything.
func hollowKey(key string) bool {
	return !slices.ContainsFunc(split(key), func(part string) bool { return !hollow(part) })
}

// answered says of each record whether it has responses, or a time in a column that
// others lack: what a status goes with.
func answered(t *table, responses *nested) []bool {
	has := make([]bool, t.rows)
	if responses != nil {
		for _, row := range responses.of {
			has[row] = true
		}
		return has
	}
	for _, col := range t.columns {
		if col.time == nil || col.lookup != nil || !slices.ContainsFunc(col.time.at, time.Time.IsZero) {
			continue
		}
		for i, at := range col.time.at {
			has[i] = has[i] || !at.IsZero()
		}
	}
	return has
}

// foretells is how much better one knows whether a record is answered if one knows
// the value, from 0 to 1.
func foretells(col *column, has []bool) float64 {
	yes, no, all := map[string]int{}, map[string]int{}, 0
	for i, x := range col.cells {
		if has[i] {
			yes[x.text]++
			all++
		} else {
			no[x.text]++
		}
	}
	base, right := max(all, len(has)-all), 0
	for value := range col.set() {
		right += max(yes[value], no[value])
	}
	if base >= len(has) || len(col.set()) > len(has)/2 {
		return 0
	}
	return max(0, float64(right-base)/float64(len(has)-base))
}

// status is the enumeration that goes with being answered.
func (d *drafter) status(t *table, responses *nested, known map[string][]string) Choice {
	has := answered(t, responses)
	c, all := d.bestCode(t, 1.4, func(col *column) float64 {
		score := 1.5*d.vocabulary.status.score(col.keys) + 0.8*foretells(col, has) - col.unfit() + col.coded()
		// Values that are words for a state prove more than any name.
		score += 1.3 * col.share(func(x cell) bool { return lexicon(x.text) != "" || lexicon(col.labels[x.text]) != "" })
		if n := len(col.set()); n >= 2 {
			score += 0.4
		}
		if len(col.set()) == 2 && foretells(col, has) == 1 {
			score += 0.4 // a flag that is set when there is an answer
		}
		return score
	})
	if len(all) == 0 {
		return c
	}
	col := all[0].column
	c.values(col, known, lexicon)
	c.byAnswers(col, has)
	c.near(all, 0.5)
	c.doubt("only the values of these samples; the public words on the right are a proposal")
	c.lacks(col, "pending")
	return c
}

// byAnswers proposes words for values that say nothing, by whether all or none of
// their records are answered. They stay marked.
func (c *Choice) byAnswers(col *column, has []bool) {
	if foretells(col, has) == 0 {
		return
	}
	for i, v := range c.Values {
		answered, all := 0, 0
		for row, x := range col.cells {
			if x.text == v.Legacy {
				all++
				if has[row] {
					answered++
				}
			}
		}
		switch {
		case !v.Unsure || all == 0:
		case answered == all:
			c.Values[i].Public = "answered"
		case answered == 0:
			c.Values[i].Public = "pending"
		}
	}
}

// bestCode is best among the enumerations. No field can have the labels of the one that
// is chosen.
func (d *drafter) bestCode(t *table, least float64, score func(*column) float64) (c Choice, all []scored) {
	c, all = d.best(d.enumerations(t), least, score)
	if len(all) == 0 || all[0].label == nil {
		return c, all
	}
	label := all[0].label
	d.used[label] = true
	return c, slices.DeleteFunc(all, func(s scored) bool { return s.column == label })
}

// coded prefers a code to its label: codes change less, and filters need them.
func (c *column) coded() float64 {
	if c.label == nil {
		return 0
	}
	return 0.3
}

// category is the enumeration that sorts the inquiries.
func (d *drafter) category(t *table, buyer bool, known map[string][]string) Choice {
	c, all := d.bestCode(t, 0.9, func(col *column) float64 {
		score := 1.3*d.vocabulary.category.score(col.keys) - 0.05*float64(len(col.keys)) + col.coded()
		score += col.share(func(x cell) bool { return speaksOfType(x.text) || speaksOfType(col.labels[x.text]) })
		score -= col.share(func(x cell) bool { return x.kind == boolean })
		if len(col.set()) == 1 {
			score -= 0.7
		}
		return score
	})
	if len(all) == 0 {
		return c
	}
	col := all[0].column
	// What reads as a public word already needs no values.
	plain := col.share(func(x cell) bool { return x.text == "" || x.kind == text && wordForm.MatchString(x.text) }) == 1 && col.length() >= 4
	if !plain {
		c.values(col, known, slug)
		c.doubt("only the values of these samples; the public words on the right are a proposal")
	}
	c.near(all, 0.5)
	c.Empty = col.is("") > 0
	def := "null"
	if !buyer {
		def = "general"
	}
	if buyer || c.Empty || !col.always() {
		c.Default = &def
	}
	if !buyer && (c.Empty || !col.always()) {
		c.doubt("some records have none, which a seller's list cannot show; choose the default")
	}
	return c
}

// values proposes a public word for each value, from its label or itself. known are
// further values by the name of the field.
func (c *Choice) values(col *column, known map[string][]string, public func(string) string) {
	of, set := col.labels, col.set()
	for _, value := range known[lastKey(col)] {
		set[value] += 0
	}
	for _, legacy := range slices.Sorted(maps.Keys(set)) {
		if legacy == "" {
			continue
		}
		// A short code without a label, or a number, says nothing: the word is a guess.
		v := Value{Legacy: legacy, Public: cmp.Or(public(of[legacy]), public(legacy))}
		if v.Public == "" || of[legacy] == "" && len([]rune(legacy)) < 3 || digitForm.MatchString(v.Public) {
			v.Public, v.Unsure = cmp.Or(v.Public, cmp.Or(slug(cmp.Or(of[legacy], legacy)), "unknown")), true
		}
		c.Values = append(c.Values, v)
	}
}
