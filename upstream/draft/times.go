package draft

import (
	"slices"
	"strconv"
	"time"

	"inquiry-gateway/upstream/timeparse"
)

// timing is the notation of a column of times.
type timing struct {
	format string
	zoned  bool        // the values name their zone
	others []string    // formats that all values fit, too
	dates  bool        // without a time of day
	at     []time.Time // of each record; zero: it has none
}

// layout is a notation that is tried.
type layout struct {
	format       string
	zoned, dates bool
}

// layouts are all of them, the ones with more in them first.
func layouts() (all []layout) {
	for _, f := range []string{
		"rfc3339", "odata", "2006-01-02T15:04:05.000-0700", "2006-01-02T15:04:05-0700", "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05-07:00", "2006-01-02 15:04:05 -0700",
		"2006-01-02 15:04:05.000-07:00", "2006-01-02 15:04:05Z07:00", time.RFC1123Z, "2 Jan 2006 15:04:05 -0700",
		time.RFC1123[:len(time.RFC1123)-3] + "GMT", "2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05Z", // the letters say which zone
	} {
		all = append(all, layout{f, true, false})
	}
	clocks := []string{"15:04:05", "15:04:05.000", "15:04:05.000000", "15:04", "3:04:05 PM", "3:04 PM"}
	days := []string{"2006-01-02", "2006/01/02", "2006.01.02", "2006. 01. 02.", "02/01/2006", "01/02/2006", "2/1/2006", "1/2/2006", "02.01.2006", "02-01-2006", "02-Jan-2006", "2 Jan 2006", "Jan 2, 2006"}
	for _, day := range days {
		for _, clock := range clocks {
			all = append(all, layout{day + " " + clock, false, false}, layout{day + "T" + clock, false, false})
		}
	}
	for _, f := range []string{"20060102150405", "20060102150405.000", "20060102 150405", "20060102T150405", "200601021504"} {
		all = append(all, layout{f, false, false})
	}
	for _, day := range append(days, "20060102") {
		all = append(all, layout{day, false, true})
	}
	return all
}

// timesOf tells how the times of a column are written; nil if it has none. The
// gateway's own parsers judge, so that what is proposed can be read. The first layout
// that all values fit is proposed. Another one that they fit, too, and that gives other
// times is noted, such as days and months in the other order.
func timesOf(c *column) *timing {
	if c.count() == 0 {
		return nil
	}
	if t := unixTimes(c); t != nil {
		return t
	}
	var found *timing
	for _, l := range layouts() {
		at := parsed(c, l.format)
		switch {
		case at == nil:
		case found == nil:
			found = &timing{format: l.format, zoned: l.zoned, dates: l.dates, at: at}
		case !slices.EqualFunc(found.at, at, time.Time.Equal):
			found.others = append(found.others, l.format)
		}
	}
	return found
}

// parsed gives the times of a column in a format; nil if it has none, or one value does
// not fit.
func parsed(c *column, format string) (at []time.Time) {
	parse, _, _ := timeparse.New(format, "")
	some := false
	at = make([]time.Time, len(c.cells))
	for i, x := range c.cells {
		if !x.filled() || x.text == "" {
			continue
		}
		t, ok := parse(x.text)
		if !ok || t.Year() < 1990 || t.Year() > 2100 {
			return nil
		}
		at[i], some = t, true
	}
	if !some {
		return nil
	}
	return at
}

// unixTimes takes numbers between the years 2000 and 2050 for times.
func unixTimes(c *column) *timing {
	for _, unit := range []struct {
		format string
		scale  float64
	}{{"unix", 1}, {"unix_ms", 1000}} {
		fits := c.share(func(x cell) bool {
			n, err := strconv.ParseFloat(x.text, 64)
			return err == nil && n >= 946684800*unit.scale && n < 2524608000*unit.scale
		})
		if fits < 1 {
			continue
		}
		if at := parsed(c, unit.format); at != nil {
			return &timing{format: unit.format, zoned: true, at: at}
		}
	}
	return nil
}
