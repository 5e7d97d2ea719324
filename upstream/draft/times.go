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
	zoned  bool   // the values name their zone
	clock  bool   // they have a time of day
	other  string // a notation that all values fit, too
	mean   int64  // seconds
	fine   int    // values with a part of a second
}

// times tells how the times of a column are written; nil if it has none. The
// gateway's own parsers judge, so that what is proposed can be read.
func (c *column) times() *timing {
	if !c.timed && !c.bools {
		var first, last time.Time
		for _, format := range notations {
			at := parsed(c.texts, format)
			switch {
			case at == nil:
			case c.timing != nil:
				if !at[0].Equal(first) || !at[len(at)-1].Equal(last) {
					c.timing.other = format
				}
			default:
				first, last = at[0], at[len(at)-1]
				unix := strings.HasPrefix(format, "unix")
				zoned := unix || format == "rfc3339" || format == "odata" || strings.Contains(format, "07") || strings.HasSuffix(format, "UTC") || strings.HasSuffix(format, "GMT")
				c.timing = &timing{format: format, zoned: zoned, clock: zoned || strings.Contains(format, "04")}
				for _, t := range at {
					c.timing.mean += t.Unix() / int64(len(at))
					c.timing.fine += min(t.Nanosecond(), 1)
				}
			}
			if c.timing != nil && strings.HasPrefix(c.timing.format, "unix") {
				break // their digits fit others, too
			}
		}
	}
	c.timed = true
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

// created is the column with the earliest times: of those that are in the most records, not
// the same in all, and with a time of day if any has one. Any other is named in a doubt.
func (t *table) created() (best Choice) {
	const late = "updated update modified changed closed resolved solved due last expires expiry deleted birth"
	rank := func(yes bool) int {
		if yes {
			return 0
		}
		return 1
	}
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
		x, y := a.timing, b.timing
		return cmp.Or(len(b.texts)-len(a.texts), rank(len(a.distinct()) > 1)-rank(len(b.distinct()) > 1), rank(x.clock)-rank(y.clock), cmp.Compare(x.mean, y.mean), y.fine-x.fine,
			rank(x.zoned)-rank(y.zoned), rank(!a.called(late))-rank(!b.called(late)))
	})
	c := all[0]
	best = Choice{Path: c.path, Format: c.timing.format}
	if best.Format == "rfc3339" {
		best.Format = ""
	}
	if !c.timing.zoned {
		best.Zone = "UTC"
		best.doubt("the times name no zone: whose clock is it?")
	}
	if c.timing.other != "" {
		best.doubt("all values fit %q, too", c.timing.other)
	}
	if strings.HasPrefix(c.timing.format, "unix") {
		best.doubt("these numbers are taken for times")
	}
	if !c.timing.clock {
		best.doubt("a day without a time: all inquiries of a day have the same one")
	}
	if len(c.texts) < t.rows {
		best.doubt("it is missing in %d of %d", t.rows-len(c.texts), t.rows)
	}
	var others []string
	for _, other := range all[1:] {
		if !other.called(late) {
			others = append(others, other.path)
		}
	}
	if c.called(late) {
		best.doubt("the name says that it is another time")
	}
	if len(others) > 0 {
		best.doubt("or %s?", strings.Join(others, ", "))
	}
	return best
}
