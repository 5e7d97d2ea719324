package draft

import (
	"strings"
	"time"

	"inquiry-gateway/upstream/timeparse"
)

// notations are those that are tried, the ones with more in them first. Of two that all
// values fit and that give other times, such as days and months in the other order, the
// first is proposed with a doubt.
var notations = [...]string{
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
	zoned  bool // the values name their zone
	clock  bool // they have a time of day
	other  string
	at     []time.Time // of each value
}

// timesOf tells how the times of a column are written; nil if it has none. The
// gateway's own parsers judge, so that what is proposed can be read.
func timesOf(c *column) (found *timing) {
	if len(c.texts) == 0 || c.kinds == "b" {
		return nil
	}
	for _, unix := range []string{"unix", "unix_ms"} {
		if at := parsed(c, unix, 2000, 2050); at != nil {
			return &timing{format: unix, zoned: true, clock: true, at: at}
		}
	}
	for _, format := range notations {
		at := parsed(c, format, 1990, 2100)
		switch {
		case at == nil:
		case found == nil:
			zoned := !strings.HasPrefix(format, "20") && !strings.HasPrefix(format, "0") && !strings.HasPrefix(format, "1") && !strings.HasPrefix(format, "Jan")
			zoned = zoned || strings.Contains(format, "07") || strings.HasSuffix(format, "UTC")
			found = &timing{format: format, zoned: zoned, clock: zoned || strings.Contains(format, "04"), at: at}
		case !at[0].Equal(found.at[0]) || !at[len(at)-1].Equal(found.at[len(at)-1]):
			found.other = format
		}
	}
	return found
}

// parsed gives the times of a column in a format; nil if one value does not fit, or is in
// another year than any inquiry.
func parsed(c *column, format string, from, to int) (at []time.Time) {
	parse, _, _ := timeparse.New(format, "")
	for _, s := range c.texts {
		t, ok := parse(s)
		if !ok || t.Year() < from || t.Year() > to {
			return nil
		}
		at = append(at, t)
	}
	return at
}

// earliest chooses the column whose times are the earliest of each record: when it was
// made. what is not read as one with much doubt, such as a birthday, is marked.
func (t *table) earliest(taken map[*column]bool) (best Choice) {
	const late = "updated update modified changed closed resolved solved due last expires expiry deleted birth"
	var chosen *column
	var by *timing
	for _, c := range t.columns {
		of := timesOf(c)
		if of == nil || taken[c] || len(c.texts) < t.rows && by != nil && chosen != nil && len(chosen.texts) == t.rows {
			continue
		}
		if chosen == nil || len(c.texts) > len(chosen.texts) || before(of, by) || !before(by, of) && better(c, of, chosen, by, late) {
			chosen, by = c, of
		}
	}
	if chosen == nil {
		return best
	}
	best = Choice{Path: chosen.path, Format: by.format, column: chosen}
	if by.format == "rfc3339" {
		best.Format = ""
	}
	if !by.zoned {
		best.Zone = "UTC"
		best.doubt("the times name no zone: whose clock is it?")
	}
	switch {
	case by.other != "":
		best.doubt("all values fit %q, too", by.other)
	case chosen.called(late):
		best.doubt("the name says that it is another time")
	case strings.HasPrefix(by.format, "unix") && !chosen.called("created create at time timestamp ts date opened submitted registered"):
		best.doubt("these numbers are taken for times")
	case !by.clock:
		best.doubt("a day without a time: all inquiries of a day have the same one")
	}
	if len(chosen.texts) < t.rows {
		best.doubt("it is missing in %d of %d", t.rows-len(chosen.texts), t.rows)
	}
	for _, c := range t.columns {
		if other := timesOf(c); c != chosen && other != nil && len(c.texts) == len(chosen.texts) && !before(by, other) && !c.called(late) && !best.marked() {
			best.doubt("or %s, which has the same times?", c.path)
		}
	}
	taken[chosen] = true
	return best
}

// before tells whether the times of one column are earlier than another's, or as early
// in each record and earlier in one.
func before(a, b *timing) bool {
	earlier := false
	for i := range min(len(a.at), len(b.at)) {
		switch d := a.at[i].Sub(b.at[i]); {
		case d <= -time.Second:
			earlier = true
		case d >= time.Second:
			return false
		}
	}
	return earlier
}

// better tells of two columns with the same times which one to take: the finer one, and
// of two as fine the one that is not called after something that comes later.
func better(c *column, of *timing, chosen *column, by *timing, late string) bool {
	fine := func(t *timing) (n int) {
		for _, at := range t.at {
			if at.Nanosecond() != 0 {
				n++
			}
		}
		return n
	}
	if len(of.at) != len(by.at) || before(by, of) {
		return false
	}
	if a, b := fine(of), fine(by); a != b {
		return a > b
	}
	if a, b := of.clock, by.clock; a != b {
		return a
	}
	if a, b := of.zoned, by.zoned; a != b {
		return a
	}
	return chosen.called(late) && !c.called(late)
}
