package upstream

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones must be known on machines without a zone database, too
)

// timePlan reads a field that holds a time.
type timePlan struct {
	name    string
	paths   []string // as they were written, for probe
	sources []source
	parse   func(s string) (time.Time, bool)
	format  string // for messages
}

// timeParser gives the function that reads times of a format, and a message
// for each key of the field that is wrong.
func timeParser(format, zone string) (parse func(string) (time.Time, bool), formatErr, zoneErr error) {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		zoneErr = fmt.Errorf("unknown time zone %q; use an IANA name such as Asia/Seoul", zone)
		loc = time.UTC
	}
	hasZone := true
	switch format {
	case "", "rfc3339":
		parse = rfc3339Parser()
	case "unix":
		parse = func(s string) (time.Time, bool) { return parseUnix(s, 1) }
	case "unix_ms":
		parse = func(s string) (time.Time, bool) { return parseUnix(s, 1000) }
	case "odata":
		parse = parseOData
	default:
		hasZone, formatErr = checkLayout(format)
		parse = layoutParser(format, loc)
	}
	if zone != "" && hasZone && zoneErr == nil && formatErr == nil {
		zoneErr = errors.New("a zone is for layouts that hold none; these times say theirs themselves, remove the key")
	}
	return parse, formatErr, zoneErr
}

// checkLayout refuses a layout that cannot carry a date, and tells whether it
// carries the zone.
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

// parseUnix reads seconds or milliseconds since 1970, as a number or as a
// string, with a fraction or without.
func parseUnix(s string, perSecond int64) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n > 1<<52 || n < -1<<52 {
			return time.Time{}, false
		}
		return inRange(time.UnixMilli(n/perSecond*1000+n%perSecond*1000/perSecond).UTC(), true)
	}
	f, err := strconv.ParseFloat(s, 64)
	f *= float64(1000 / perSecond)
	if err != nil || !(math.Abs(f) < 1<<52) {
		return time.Time{}, false
	}
	return inRange(time.UnixMilli(int64(math.Floor(f))).UTC(), true)
}

// parseOData reads /Date(1492098664000+0900)/. The offset says where the
// legacy was, not when: the milliseconds count from 1970 in UTC.
func parseOData(s string) (time.Time, bool) {
	body, ok := strings.CutPrefix(strings.TrimSpace(s), "/Date(")
	if !ok {
		return time.Time{}, false
	}
	body, ok = strings.CutSuffix(body, ")/")
	if !ok {
		return time.Time{}, false
	}
	if i := strings.LastIndexAny(body, "+-"); i > 0 {
		if _, err := strconv.ParseUint(body[i+1:], 10, 16); err != nil {
			return time.Time{}, false
		}
		body = body[:i]
	}
	if _, err := strconv.ParseInt(body, 10, 64); err != nil {
		return time.Time{}, false
	}
	return parseUnix(body, 1000)
}
