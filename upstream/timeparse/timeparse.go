// Package timeparse reads the times of a legacy system in a configured format.
//
// Zones are named by IANA names and their data is part of the program, because a container
// may have none. An abbreviation such as KST is refused: it names no offset.
package timeparse

import (
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
// of a layout that has none; empty means UTC. Where clocks are put back and a local time
// comes twice, the earlier one is meant; where they are put forward and it never comes,
// what package time takes. Each error says what is wrong with the format, or with the
// zone.
func New(format, zone string) (parse Parser, formatErr, zoneErr error) {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		zoneErr = fmt.Errorf("unknown time zone %q; use an IANA name such as Asia/Seoul", zone)
		loc = time.UTC
	}
	parse, hasZone, formatErr := in(format, loc)
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
		return standard(time.RFC3339, newZone(time.UTC)), true, nil
	case "unix":
		return func(s string) (time.Time, bool) { return parseUnix(s, 1) }, true, nil
	case "unix_ms":
		return func(s string) (time.Time, bool) { return parseUnix(s, 1000) }, true, nil
	case "odata":
		return parseOData, true, nil
	}
	hasZone, err = checkLayout(format)
	return layoutParser(format, newZone(loc)), hasZone, err
}

// zoneOf is a zone whose local times are read.
type zoneOf struct {
	*time.Location
	steady time.Time // from here on clocks are never changed; zero: they are each year
}

// nearChange is longer than any change of clocks.
const nearChange = 25 * time.Hour

// newZone finds out until when the clocks of a zone were changed.
func newZone(loc *time.Location) zoneOf {
	z := zoneOf{Location: loc}
	if start, end := time.Now().In(loc).ZoneBounds(); end.IsZero() {
		z.steady = start.Add(nearChange)
	}
	return z
}

// earlier gives the earlier one of the two times that a local time is, in UTC. Package
// time takes this one in some zones and the later one in others.
func (z zoneOf) earlier(t time.Time) time.Time {
	if !z.steady.IsZero() && t.After(z.steady) {
		return t.UTC()
	}
	_, now := t.Zone()
	_, before := t.Add(-nearChange).Zone()
	if before > now { // they were put back in between, maybe after this time
		first := t.Add(time.Duration(now-before) * time.Second)
		if _, real := first.Zone(); real == before {
			t = first
		}
	}
	return t.UTC()
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

// standard is package time's own parser.
func standard(layout string, loc zoneOf) Parser {
	return func(s string) (time.Time, bool) {
		t, err := time.ParseInLocation(layout, s, loc.Location)
		return inRange(loc.earlier(t), err == nil)
	}
}

// layoutParser reads times of a layout. Most layouts are numbers of fixed width
// with marks between them: these are compared byte by byte, in half the time of
// package time. All else, and each value that is odd, is left to package time.
func layoutParser(layout string, loc zoneOf) Parser {
	slow := standard(layout, loc)
	var at [6]int  // of year, month, day, hour, minute and second; negative: nowhere
	mask := layout // with a d where a digit must be
	for part, token := range [...]string{"2006", "01", "02", "15", "04", "05"} {
		at[part] = strings.Index(mask, token)
		mask = strings.Replace(mask, token, "dddd"[:len(token)], 1)
	}
	if at[0] < 0 || at[1] < 0 || at[2] < 0 || strings.Trim(mask, "d-/: T") != "" {
		return slow
	}
	return func(s string) (time.Time, bool) {
		if !matches(s, mask) {
			return slow(s)
		}
		var n [6]int
		for part, i := range at {
			if i >= 0 {
				n[part] = int(s[i]-'0')*10 + int(s[i+1]-'0')
			}
		}
		year := n[0]*100 + int(s[at[0]+2]-'0')*10 + int(s[at[0]+3]-'0')
		if n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > 28 || n[3] > 23 || n[4] > 59 || n[5] > 59 {
			return slow(s) // it knows how long a month is
		}
		return inRange(loc.earlier(time.Date(year, time.Month(n[1]), n[2], n[3], n[4], n[5], 0, loc.Location)), true)
	}
}

// matches compares a text with a mask.
func matches(s, mask string) bool {
	if len(s) != len(mask) {
		return false
	}
	for i := range len(mask) {
		if c := mask[i]; c == 'd' && s[i]-'0' > 9 || c != 'd' && s[i] != c {
			return false
		}
	}
	return true
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
