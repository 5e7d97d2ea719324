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

// timing is the notation of a column of times.
type timing struct {
	format string
	other  string // a notation that all values fit, too
	mean   int64  // seconds
}

// isUnix reports whether the times are bare numbers.
func (t *timing) isUnix() bool { return strings.HasPrefix(t.format, "unix") }

// isZoned reports whether the values name their zone.
func (t *timing) isZoned() bool {
	return timeparse.NamesZone(t.format) || strings.HasSuffix(t.format, "UTC") || strings.HasSuffix(t.format, "GMT")
}

// hasClock reports whether they have a time of day.
func (t *timing) hasClock() bool { return t.isZoned() || strings.Contains(t.format, "04") }

// times tells how the times of a column are written; nil if it has none. The
// gateway's own parsers judge, so that what is proposed can be read.
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
			c.timing, before = &timing{format: format}, at
			for _, t := range at {
				c.timing.mean += t.Unix() / int64(len(at))
			}
			if c.timing.isUnix() { // their digits fit others, too
				return c.timing
			}
		case !slices.EqualFunc(at, before, time.Time.Equal):
			c.timing.other = format
		}
	}
	return c.timing
}

// parsed gives the times of a column in a format; nil if one value does not fit, or is in
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

// created is the column with the earliest times: of those that are in the most records, not
// the same in all, and with a time of day if any has one. Any other is named in a doubt.
func (t *table) created() (best Choice) {
	var all []*column
	for _, c := range t.columns {
		if c.times() != nil {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return best
	}
	slices.SortStableFunc(all, func(a, b *column) int {
		return cmp.Or(len(b.texts)-len(a.texts), falseFirst(len(a.distinct()) == 1, len(b.distinct()) == 1), falseFirst(!a.timing.hasClock(), !b.timing.hasClock()),
			cmp.Compare(a.timing.mean, b.timing.mean), falseFirst(!a.timing.isZoned(), !b.timing.isZoned()), falseFirst(a.called(lateWords), b.called(lateWords)))
	})
	c := all[0]
	best = Choice{Path: c.path, Format: strings.TrimPrefix(c.timing.format, "rfc3339")}
	if !c.timing.isZoned() {
		best.Zone = "UTC"
		best.doubt("the times name no zone: whose clock is it?")
	}
	if c.timing.other != "" {
		best.doubt("all values fit %q, too", c.timing.other)
	}
	if c.timing.isUnix() {
		best.doubt("these numbers are taken for times")
	}
	if !c.timing.hasClock() {
		best.doubt("a day without a time: all inquiries of a day have the same one")
	}
	if len(c.texts) < t.rows {
		best.doubt("it is missing in %d of %d", t.rows-len(c.texts), t.rows)
	}
	if c.called(lateWords) {
		best.doubt("the name says that it is another time")
	}
	for _, other := range all[1:] {
		if !other.called(lateWords) {
			best.doubt("or %s?", other.path)
		}
	}
	return best
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
