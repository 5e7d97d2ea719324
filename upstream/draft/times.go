package draft

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/upstream/timeparse"
)

// notations are those that are tried, the ones with more in them first. Of two that all
// values fit and that give other times, such as days and months in the other order, the
// first is proposed with a doubt.
var notations = [...]string{
	"unix", "unix_ms",
	"rfc3339", "odata", "2006-01-02T15:04:05.000-0700", "2006-01-02T15:04:05-0700", "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05-07:00",
	"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05Z07:00", time.RFC1123Z, "Mon, 02 Jan 2006 15:04:05 GMT", "2006-01-02 15:04:05 UTC",
	"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006/01/02 15:04:05", "2006/01/02 15:04",
	"2006.01.02 15:04:05", "2006.01.02 15:04", "2006. 01. 02. 15:04", "02/01/2006 15:04:05", "01/02/2006 15:04:05", "02/01/2006 15:04",
	"01/02/2006 15:04", "1/2/2006 3:04:05 PM", "1/2/2006 3:04 PM", "02.01.2006 15:04:05", "02.01.2006 15:04", "02-01-2006 15:04:05",
	"02-Jan-2006 15:04:05", "Jan 2, 2006 3:04 PM", "20060102150405", "20060102 150405", "200601021504",
	"2006-01-02", "2006/01/02", "2006.01.02", "20060102", "02/01/2006", "01/02/2006", "02.01.2006", "02-Jan-2006", "Jan 2, 2006",
}

// timing is how the times of a column are written.
type timing struct {
	format string
	other  string // a notation that all values fit, too
	mean   int64  // seconds
	zoned  bool   // the values name their zone
	clock  bool   // they have a time of day
}

// times returns nil for a column without times. The gateway's own parsers judge, so that what is proposed can be read.
func (c *column) times() *timing {
	if c.timed || c.bools {
		return c.timing
	}
	c.timed = true
	var before []time.Time
	for _, format := range notations {
		at := parsed(c.texts, format)
		switch {
		case at == nil:
		case c.timing == nil:
			zoned := timeparse.NamesZone(format) || strings.HasSuffix(format, "UTC") || strings.HasSuffix(format, "GMT")
			c.timing, before = &timing{format: format, zoned: zoned, clock: zoned || strings.Contains(format, "04")}, at
			for _, t := range at {
				c.timing.mean += t.Unix() / int64(len(at))
			}
			if strings.HasPrefix(format, "unix") { // whose digits fit others, too
				return c.timing
			}
		case !slices.EqualFunc(at, before, time.Time.Equal):
			c.timing.other = format
		}
	}
	return c.timing
}

// parsed returns the times of a column in a format; nil if one value does not fit, or is in
// another year than any inquiry.
func parsed(texts []string, format string) (at []time.Time) {
	from, to := 1990, 2100
	if strings.HasPrefix(format, "unix") {
		from, to = 2000, 2050
	}
	parse, _, _ := timeparse.New(format, "")
	for _, s := range texts {
		t, ok := parse(s)
		if !ok || t.Year() < from || t.Year() > to {
			return nil
		}
		at = append(at, t)
	}
	return at
}

// lateWords are in the names of times that are none of creation.
const lateWords = "updated update modified changed closed resolved solved due last expires expiry deleted birth"

// timed returns the columns with times, the likeliest time of creation first: in the most records, not
// the same in all, with a time of day, and the earliest.
func (t *table) timed() (all []*column) {
	for _, c := range t.columns {
		if c.times() != nil {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *column) int {
		return cmp.Or(len(b.texts)-len(a.texts), falseFirst(len(a.distinct()) == 1, len(b.distinct()) == 1), falseFirst(!a.timing.clock, !b.timing.clock),
			cmp.Compare(a.timing.mean, b.timing.mean), falseFirst(!a.timing.zoned, !b.timing.zoned), falseFirst(a.called(lateWords), b.called(lateWords)))
	})
	return all
}

// created writes when the records were made.
func (w *writer) created(t *table) {
	all := t.timed()
	if len(all) == 0 {
		w.line("# TODO: no time was found")
		w.line("created_at: {path: %s}", ToComplete)
		return
	}
	c := all[0]
	how, keys := c.timing, "path: "+quote(c.path)
	if how.format != "rfc3339" {
		keys += ", format: " + quote(how.format)
	}
	if !how.zoned {
		keys += ", zone: UTC"
		w.doubt("the times name no zone: whose clock is it?")
	}
	if how.other != "" {
		w.doubt("all values fit %q, too", how.other)
	}
	if strings.HasPrefix(how.format, "unix") {
		w.doubt("these numbers are taken for times")
	}
	if !how.clock {
		w.doubt("a day without a time: all inquiries of a day have the same one")
	}
	if len(c.texts) < t.rows {
		w.doubt("it is missing in %d of %d", t.rows-len(c.texts), t.rows)
	}
	if c.called(lateWords) {
		w.doubt("the name says that it is another time")
	}
	for _, other := range all[1:] {
		if !other.called(lateWords) {
			w.doubt("or %s?", other.path)
		}
	}
	w.line("created_at: {%s}", keys)
}

// falseFirst compares two truth values.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
