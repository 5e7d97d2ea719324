package timeparse

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// withMask and without read the same times, by hand and by package time.
const withMask, without = "2006-01-02 15:04:05", "2006-01-02 15:04:05.999"

func TestTimes(t *testing.T) {
	for _, tc := range []struct{ format, zone, in, want string }{
		{"", "", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"},
		{"rfc3339", "", "2026-01-02T03:04:05.678912+09:00", "2026-01-01T18:04:05.678Z"},
		{"rfc3339", "", "2026-01-02 03:04:05", ""},
		{"rfc3339", "", "2026-01-02T03:04:05", ""},
		{withMask, "Asia/Seoul", "2026-01-02 03:04:05", "2026-01-01T18:04:05.000Z"},
		{withMask, "", "2026-01-02 03:04:05", "2026-01-02T03:04:05.000Z"},
		{withMask, "", "2026-01-02 03:04:05.5", "2026-01-02T03:04:05.500Z"},
		{withMask, "America/New_York", "2026-07-02 03:04:05", "2026-07-02T07:04:05.000Z"},
		{withMask, "America/New_York", "2026-01-02 03:04:05", "2026-01-02T08:04:05.000Z"},
		{withMask, "", "2026-02-30 03:04:05", ""},
		{withMask, "", "2024-02-29 03:04:05", "2024-02-29T03:04:05.000Z"},
		{withMask, "", "2026-01-02 24:00:00", ""},
		{withMask, "", "0000-01-02 00:00:00", ""},
		{withMask, "", "", ""},
		{"20060102", "", "20260131", "2026-01-31T00:00:00.000Z"},
		{"2006-01-02T15:04:05-0700", "", "2026-01-02T03:04:05+0900", "2026-01-01T18:04:05.000Z"},
		{"02 Jan 2006", "Asia/Seoul", "02 Mar 2026", "2026-03-01T15:00:00.000Z"},
		{"unix", "", "1700000000", "2023-11-14T22:13:20.000Z"},
		{"unix", "", "1700000000.5", "2023-11-14T22:13:20.500Z"},
		{"unix", "", "1700000000.123", "2023-11-14T22:13:20.123Z"},
		{"unix", "", "1700000000.12399", "2023-11-14T22:13:20.123Z"},
		{"unix", "", "-0.001", "1969-12-31T23:59:59.999Z"},
		{"unix", "", "-1", "1969-12-31T23:59:59.000Z"},
		{"unix", "", "1e20", ""}, {"unix", "", "NaN", ""}, {"unix", "", "Inf", ""}, {"unix", "", "soon", ""}, {"unix", "", "1700000000000", ""},
		{"unix_ms", "", "1700000000123", "2023-11-14T22:13:20.123Z"},
		{"odata", "", "/Date(1492098664000+0900)/", "2017-04-13T15:51:04.000Z"},
		{"odata", "", "/Date(1492098664123)/", "2017-04-13T15:51:04.123Z"},
		{"odata", "", "/Date(-1000)/", "1969-12-31T23:59:59.000Z"},
		{"odata", "", "/Date(x)/", ""}, {"odata", "", "1492098664000", ""}, {"odata", "", "/Date(1+x)/", ""}, {"odata", "", "/Date(1.5)/", ""},
		// The clocks of Berlin and New York are put back and forward; those of Seoul were last in
		// 1988. A time that comes twice is the earlier one, whatever package time takes.
		{withMask, "Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T00:30:00.000Z"},
		{without, "Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T00:30:00.000Z"},
		{withMask, "Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25T02:00:00.000Z"},
		{withMask, "Europe/Berlin", "2026-10-25 01:59:59", "2026-10-24T23:59:59.000Z"},
		{withMask, "Europe/Berlin", "2026-10-26 02:30:00", "2026-10-26T01:30:00.000Z"},
		{withMask, "Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:30:00.000Z"}, // never
		{withMask, "Europe/Berlin", "2026-03-29 03:00:00", "2026-03-29T01:00:00.000Z"},
		{withMask, "America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00.000Z"},
		{without, "America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00.000Z"},
		{withMask, "America/New_York", "2026-11-01 02:00:00", "2026-11-01T07:00:00.000Z"},
		{withMask, "America/New_York", "2026-03-08 03:00:00", "2026-03-08T07:00:00.000Z"},
		{withMask, "Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T14:45:00.000Z"}, // half an hour
		{withMask, "Asia/Seoul", "1988-10-09 02:30:00", "1988-10-08T16:30:00.000Z"},
		{withMask, "Asia/Seoul", "2026-03-08 03:00:00", "2026-03-07T18:00:00.000Z"},
	} {
		parse, formatErr, zoneErr := New(tc.format, tc.zone)
		if formatErr != nil || zoneErr != nil {
			t.Errorf("%q %q: %v %v", tc.format, tc.zone, formatErr, zoneErr)
			continue
		}
		got, ok := parse(tc.in)
		if !ok && tc.want == "" {
			continue
		}
		if text := got.Format("2006-01-02T15:04:05.000Z07:00"); !ok || text != tc.want {
			t.Errorf("%q in %q, %s: %s %v, want %q", tc.in, tc.format, tc.zone, text, ok, tc.want)
		}
	}
}

// reader is a parser and what package time needs to read the same.
type reader struct {
	parse  Parser
	layout string
	loc    *time.Location
}

func newReader(t testing.TB, layout, zone string) reader {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	if layout == time.RFC3339 {
		return reader{standard(layout, newZone(time.UTC)), layout, loc}
	}
	return reader{layoutParser(layout, newZone(loc)), layout, loc}
}

// sameAsTime holds the parser against package time, in the years that a reply may have.
// Of times that a clock shows twice it wants the first.
func (r reader) sameAsTime(t rapid.TB, in string) {
	t.Helper()
	got, ok := r.parse(in)
	want, err := time.ParseInLocation(r.layout, in, r.loc)
	const clock = "2006-01-02 15:04:05.999999999"
	for ago := 24 * time.Hour; ago > 0 && err == nil && r.layout != time.RFC3339; ago -= 15 * time.Minute {
		if first := want.Add(-ago); first.In(r.loc).Format(clock) == want.In(r.loc).Format(clock) {
			want = first
			break
		}
	}
	want, good := inRange(want.UTC(), err == nil)
	if ok != good || ok && (!got.Equal(want) || got.Location() != time.UTC) {
		t.Fatalf("%q in %q at %v: %v %v, package time has %v %v", in, r.layout, r.loc, got, ok, want, err)
	}
}

// Wherever and whenever a clock stands, also in the hours that never come, a time means
// what package time says, and in those that come twice the first.
func TestLayoutsEqualTimeInEveryZone(t *testing.T) {
	layouts := []string{withMask, without, "20060102150405", "2006/01/02 15:04", "02-01-2006", "15:04:05 02/01/2006", "2006-01-02T15", "2006 2006-01-02"}
	zones := []string{"UTC", "Asia/Seoul", "America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza", "Pacific/Apia", "Asia/Kathmandu"}
	changes := map[string][]time.Time{} // of the clocks of a zone
	for _, zone := range zones {
		loc := newReader(t, withMask, zone).loc
		changes[zone] = []time.Time{time.Unix(0, 0)}
		for at := time.Date(1960, 1, 1, 0, 0, 0, 0, loc); at.Year() < 2110; at = at.AddDate(0, 0, 3) {
			if start, _ := at.ZoneBounds(); start.Year() >= 1960 && !slices.Contains(changes[zone], start) {
				changes[zone] = append(changes[zone], start)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		layout, zone := rapid.SampledFrom(layouts).Draw(t, "layout"), rapid.SampledFrom(zones).Draw(t, "zone")
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(-63e9, 254e9).Draw(t, "unix"), 0)
		if rapid.Bool().Draw(t, "near a change") {
			at = rapid.SampledFrom(changes[zone]).Draw(t, "change")
			at = at.Add(time.Duration(rapid.IntRange(-3*86400, 3*86400).Draw(t, "seconds")) * time.Second)
		}
		in := []byte(at.In(loc).Format(layout))
		if rapid.IntRange(0, 3).Draw(t, "damage") == 0 {
			in[rapid.IntRange(0, len(in)-1).Draw(t, "where")] = rapid.SampledFrom([]byte("0123456789 -:T/x\xb2Zé")).Draw(t, "byte")
		}
		reader{layoutParser(layout, newZone(loc)), layout, loc}.sameAsTime(t, string(in))
	})
}

func FuzzTimes(f *testing.F) {
	f.Add("2026-03-01 09:30:00", uint8(0))
	f.Add("2024-02-29T23:59:59.999Z", uint8(1))
	f.Add("20261101013000", uint8(2))
	var readers []reader
	for _, layout := range []string{withMask, time.RFC3339, "20060102150405"} {
		readers = append(readers, newReader(f, layout, "America/New_York"))
	}
	f.Fuzz(func(t *testing.T, in string, which uint8) { readers[int(which)%len(readers)].sameAsTime(t, in) })
}

// BenchmarkTimes supports the decision to read times of fixed width by hand: "without" is
// package time.
func BenchmarkTimes(b *testing.B) {
	for name, tc := range map[string]struct{ layout, zone, in string }{
		"layout": {withMask, "Asia/Seoul", "2026-03-14 09:30:00"}, "without": {without, "Asia/Seoul", "2026-03-14 09:30:00"},
		"layout, summer time": {withMask, "America/New_York", "2026-07-14 09:30:00"}, "rfc3339": {time.RFC3339, "UTC", "2026-03-14T09:30:00.123+09:00"},
	} {
		b.Run(name, func(b *testing.B) {
			r := newReader(b, tc.layout, tc.zone)
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := r.parse(tc.in); !ok {
					b.Fatal(tc.in)
				}
			}
		})
	}
}
