// Package timeparse reads the times of a legacy system in a configured format.
//
// Zones are named by IANA names and their data is part of the program, because a container
// may have none. An abbreviation such as KST is refused: it names no offset.
package timeparse

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known on machines without a zone database, too
)

// A Parser reads one time. It returns false where the text is no time of the
// format, or one outside the years 1 to 9999, which RFC 3339 can write. The time
// is in UTC. A Parser is safe for concurrent use.
type Parser func(s string) (time.Time, bool)

// New returns the parser of a format: rfc3339 (also for an empty format), unix,
// unix_ms, odata, or a layout of package time. zone is the IANA name of the zone
// of times that name none; empty means UTC, and rfc3339 then wants an offset in each time. Where clocks are put back and a local time
// comes twice, either of the two is taken, as by package time. Each error says what is wrong with the format, or with the
// zone.
func New(format, zone string) (parse Parser, formatErr, zoneErr error) {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		zoneErr = fmt.Errorf("unknown time zone %q; use an IANA name such as Asia/Seoul", zone)
		loc = time.UTC
	}
	parse, hasZone, formatErr := in(format, loc)
	if format = cmp.Or(format, "rfc3339"); format == "rfc3339" && zone != "" {
		parse, hasZone = firstOf(parse, standard("2006-01-02T15:04:05", loc)), false
	}
	if zoneErr == nil && formatErr == nil && zone != "" && hasZone {
		zoneErr = errors.New("a zone is for layouts that hold none; these times say theirs themselves, remove the key")
	}
	return parse, formatErr, zoneErr
}

// NamesZone tells whether times of a good format say which zone they are of.
func NamesZone(format string) bool {
	_, hasZone, err := in(format, time.UTC)
	return hasZone || err != nil
}

// in returns the parser of a format whose times are in a zone, unless they name one.
func in(format string, loc *time.Location) (parse Parser, hasZone bool, err error) {
	switch format {
	case "", "rfc3339":
		return standard(time.RFC3339, time.UTC), true, nil
	case "unix":
		return func(s string) (time.Time, bool) { return parseUnix(s, 1) }, true, nil
	case "unix_ms":
		return func(s string) (time.Time, bool) { return parseUnix(s, 1000) }, true, nil
	case "odata":
		return parseOData, true, nil
	}
	hasZone, err = checkLayout(format)
	return standard(format, loc), hasZone, err
}

// checkLayout refuses a layout that cannot carry a date, and tells whether it carries
// the zone. It tries it out on times that differ in one part only, because a Go layout
// has no grammar that could be checked.
func checkLayout(layout string) (hasZone bool, err error) {
	at := time.Date(2021, time.November, 23, 14, 35, 46, 0, time.UTC)
	text := at.Format(layout)
	for _, part := range []struct {
		name  string
		other time.Time
	}{
		{"year", at.AddDate(1, 0, 0)}, {"month", at.AddDate(0, -1, 0)}, {"day", at.AddDate(0, 0, -1)},
	} {
		if part.other.Format(layout) == text {
			return false, fmt.Errorf("the time layout %q holds no %s; use rfc3339, unix, unix_ms, odata or a Go layout such as 2006-01-02 15:04:05", layout, part.name)
		}
	}
	if strings.Contains(layout, "MST") {
		return false, fmt.Errorf("the time layout %q has a zone's abbreviation, which names no offset; use -07:00, or a layout without zone and the key zone", layout)
	}
	back, err := time.Parse(layout, text)
	if err != nil || back.Year() != at.Year() || back.YearDay() != at.YearDay() {
		return false, fmt.Errorf("the time layout %q cannot be read back; write the time 2006-01-02 15:04:05 in the legacy's notation", layout)
	}
	east := at.In(time.FixedZone("", 9*3600))
	same := time.Date(2021, time.November, 23, 14, 35, 46, 0, east.Location())
	return same.Format(layout) != text, nil
}

// inRange keeps to the years that RFC 3339 can write.
func inRange(t time.Time, ok bool) (time.Time, bool) {
	return t, ok && t.Year() >= 1 && t.Year() <= 9999
}

// firstOf returns a parser of two formats.
func firstOf(a, b Parser) Parser {
	return func(s string) (time.Time, bool) {
		if t, ok := a(s); ok {
			return t, true
		}
		return b(s)
	}
}

// standard is package time's own parser.
func standard(layout string, loc *time.Location) Parser {
	return func(s string) (time.Time, bool) {
		t, err := time.ParseInLocation(layout, s, loc)
		return inRange(t.UTC(), err == nil)
	}
}

// parseUnix reads seconds or milliseconds since 1970, as a number or as a string, with
// a fraction or without. Numbers past 1<<52 milliseconds are refused before they could
// overflow.
func parseUnix(s string, perSecond float64) (time.Time, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	f *= 1000 / perSecond
	if err != nil || !(math.Abs(f) < 1<<52) {
		return time.Time{}, false
	}
	const binary = 1.0 / 1024 // 1700000000.123 is a little less as a binary number
	return inRange(time.UnixMilli(int64(math.Floor(f+binary))).UTC(), true)
}

var odata = regexp.MustCompile(`^/Date\((-?[0-9]+)(?:[+-][0-9]{1,4})?\)/$`)

// parseOData reads /Date(1492098664000+0900)/. The offset says where the
// legacy was, not when: the milliseconds count from 1970 in UTC.
func parseOData(s string) (time.Time, bool) {
	found := odata.FindStringSubmatch(strings.TrimSpace(s))
	if found == nil {
		return time.Time{}, false
	}
	return parseUnix(found[1], 1000)
}
