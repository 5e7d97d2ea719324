package draft

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Choice is what is proposed for one public field.
type Choice struct {
	Path     string  // empty: nothing was found
	Lookup   *Lookup // nil: Path is within the record
	Format   string  // of a time
	Zone     string  // of a time without one
	TrimHTML bool
	Empty    bool // an empty text is a missing value
	Values   []Value
	Default  *string // nil: none; "null" is null
	doubts
}

// Value is one entry of values.
type Value struct {
	Legacy, Public string
	Unsure         bool // nothing says what it means
}

// doubts are what has to be looked at.
type doubts struct{ Doubts []string }

// doubt notes one of them. Its text may hold names and values of the samples.
func (d *doubts) doubt(format string, args ...any) {
	d.Doubts = append(d.Doubts, fmt.Sprintf(format, args...))
}

// scored is a column with how well it fits a field. Scores of two fields cannot be
// compared.
type scored struct {
	*column
	score float64
}

// best chooses the column with the highest score, if one has at least this. all are those
// that have, the best first. No other field can have the one that is chosen.
func (d *drafter) best(columns []*column, least float64, score func(*column) float64) (c Choice, all []scored) {
	for _, col := range columns {
		s := score(col)
		if col.lookup != nil {
			s -= joinCost
		}
		if s >= least {
			all = append(all, scored{col, s})
		}
	}
	slices.SortStableFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), len(a.path)-len(b.path))
	})
	if len(all) > 0 {
		col := all[0].column
		d.used[col] = true
		c = Choice{Path: col.path, Lookup: col.lookup, doubts: doubts{slices.Clone(col.Doubts)}}
	}
	return c, all
}

// near notes a column that fits nearly as well as the first.
func (c *Choice) near(all []scored, margin float64) {
	for _, other := range all[min(1, len(all)):] {
		if other.score > all[0].score-margin && !slices.Equal(other.cells, all[0].cells) {
			c.doubt("or is it %s?", other.path)
			return
		}
	}
}

// drafter chooses the fields of one table, and of the tables within it. A column is
// chosen once.
type drafter struct {
	vocabulary
	account string
	used    map[*column]bool
}

// free are the columns that no field has taken.
func (d *drafter) free(t *table) (columns []*column) {
	for _, c := range t.columns {
		if !d.used[c] && c.count() > 0 {
			columns = append(columns, c)
		}
	}
	return columns
}

// owner is the column that is the account in every record.
func (d *drafter) owner(t *table, names words) Choice {
	c, all := d.best(d.free(t), 0.01, func(col *column) float64 {
		hits := col.is(d.account) * float64(col.count()) / float64(t.rows)
		if hits == 0 {
			return 0
		}
		// The value is the proof; the name decides among columns that all have it.
		return 3*hits + names.score(col.keys)
	})
	if len(all) == 0 {
		return c
	}
	col := all[0]
	if n := col.is(d.account) * float64(col.count()); int(n+0.5) < col.rows() {
		c.doubt("only %d of %d records are this account's; others would be refused", int(n+0.5), col.rows())
	}
	if names.score(col.keys) <= 0 {
		c.doubt("the value is the account's, but is it the owner's?")
	}
	for _, other := range all[1:] { // the account's own number is in them all
		d.used[other.column] = other.score >= 3-joinCost || d.used[other.column]
	}
	c.near(all, 0.5)
	return c
}

// created is the earliest time of a record: what comes later is an update or an answer.
func (d *drafter) created(t *table) Choice {
	var times []*column
	for _, col := range d.free(t) {
		if col.time != nil {
			times = append(times, col)
		}
	}
	own := func(col *column) bool { return col.lookup == nil }
	if slices.ContainsFunc(times, own) { // another list has times of other things
		times = slices.DeleteFunc(times, func(col *column) bool { return !own(col) })
	}
	c, all := d.best(times, -1, func(col *column) float64 {
		score := 1.5*d.vocabulary.created.score(col.keys) + earliest(col, times)
		// A time that some records lack is that of an event, such as the answer.
		if !col.always() {
			score--
		}
		if col.time.dates {
			score -= 0.5
		}
		return score + 0.3*col.distinct() - 0.1*float64(len(col.keys))
	})
	if len(all) == 0 {
		return c
	}
	c.ofTime(all[0].column)
	c.near(all, 0.35)
	return c
}

// earliest is the share of records in which no other time is before this one. It is 0
// for a column without records.
func earliest(col *column, others []*column) float64 {
	n := 0
	for i, at := range col.time.at {
		before := func(c *column) bool { return !c.time.at[i].IsZero() && c.time.at[i].Before(at) }
		if !at.IsZero() && !slices.ContainsFunc(others, before) {
			n++
		}
	}
	return float64(n) / float64(max(col.rows(), 1))
}

// ofTime proposes the notation of a column of times.
func (c *Choice) ofTime(col *column) {
	if col.time.format != "rfc3339" {
		c.Format = col.time.format
	}
	if !col.time.zoned {
		c.Zone = "UTC"
		c.doubt("the times name no zone; write the legacy system's, such as Asia/Seoul")
	}
	for _, other := range col.time.others {
		c.doubt("the format may be %s, too", other)
	}
	if col.time.dates {
		c.doubt("a date without a time of day")
	}
	if n := col.rows() - col.count(); n > 0 {
		c.doubt("%d of %d records have none, and would be refused", n, col.rows())
	}
}

// title is a short text that differs from record to record.
func (d *drafter) title(t *table) Choice {
	c, all := d.best(d.texts(t), 0.9, func(col *column) float64 {
		// Names of people and products come again, titles hardly do.
		score := 1.2*d.vocabulary.title.score(col.keys) + col.share(isProse)*(0.4+0.6*col.distinct())
		if length := col.length(); length > 120 || length < 4 {
			score -= 0.6
		}
		if col.share(isHTML) > 0.2 || col.share(hasLines) > 0.1 {
			score--
		}
		return score - col.unfit()
	})
	c.ofText(all, "title")
	return c
}

// content is the longest text.
func (d *drafter) content(t *table) Choice {
	columns := d.texts(t)
	longest := 1.0
	for _, col := range columns {
		longest = max(longest, col.length())
	}
	c, all := d.best(columns, 0.9, func(col *column) float64 {
		// Beside the longest text there may be its excerpt, or the same as HTML: names tell.
		score := d.vocabulary.content.score(col.keys) + 1.3*col.length()/longest + 0.5*col.share(isProse) + 0.3*col.share(hasLines)
		return score - col.unfit()
	})
	c.ofText(all, "content")
	return c
}

// hasLines tells whether a text has more than one line.
func hasLines(c cell) bool { return strings.Contains(c.text, "\n") }

// texts are the columns that may be written by a person.
func (d *drafter) texts(t *table) (columns []*column) {
	for _, col := range d.free(t) {
		if col.time == nil && col.share(func(x cell) bool { return x.kind == text }) > 0.5 && col.share(isCode) < 0.5 &&
			col.share(isAddress) < 0.3 {
			columns = append(columns, col)
		}
	}
	return columns
}

// unfit is what speaks against any field that each record has.
func (c *column) unfit() float64 {
	return 1.5*(1-float64(c.count())/float64(c.rows())) + 0.05*float64(len(c.keys))
}

// ofText says what is known of a text that a person wrote.
func (c *Choice) ofText(all []scored, name string) {
	if len(all) == 0 {
		return
	}
	col := all[0].column
	c.TrimHTML = col.share(isHTML) > 0.2
	c.lacks(col, "")
	c.near(all, 0.45)
	if len(col.cells) < 3 && all[0].score < 1.6 {
		c.doubt("chosen by few records; is it the %s?", name)
	}
}

// lacks proposes a default where some records have no value: without one each of them
// would be refused.
func (c *Choice) lacks(col *column, def string) {
	if n := col.rows() - col.count(); n > 0 {
		c.Default = &def
		c.doubt("%d of %d records have none; the default is shown for them", n, col.rows())
	}
}

// company is the name that a seller's record shows: that of a company, or else of
// whoever asks.
func (d *drafter) company(t *table) Choice {
	// A seller's inquiries come from companies, or from customers who stand for one.
	both := maps.Clone(d.vocabulary.company)
	for word, s := range d.vocabulary.buyer {
		both[word] = max(both[word], 0.6*s)
	}
	both["name"], both["nm"] = 0.3, 0.3
	c, all := d.best(d.texts(t), 0.4, func(col *column) float64 {
		return both.score(col.keys) + 0.3*col.share(isProse) - col.unfit() - 0.5*col.share(hasLines)
	})
	c.ofText(all, "company")
	if len(all) > 0 && all[0].score < 1 {
		c.doubt("chosen by its name alone")
	}
	return c
}
