package timeparse

import (
	"testing"
	"time"
)

const layout = "2006-01-02 15:04:05"

func TestTimes(t *testing.T) {
	for _, tc := range []struct{ format, zone, in, want string }{
		{"", "", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"},
		{"rfc3339", "", "2026-01-02T03:04:05.678912+09:00", "2026-01-01T18:04:05.678Z"},
		{"rfc3339", "", "2026-01-02 03:04:05", ""},
		{"rfc3339", "", "2026-01-02T03:04:05", ""},
		{layout, "Asia/Seoul", "2026-01-02 03:04:05", "2026-01-01T18:04:05.000Z"},
		{layout, "", "2026-01-02 03:04:05", "2026-01-02T03:04:05.000Z"},
		{layout, "", "2026-01-02 03:04:05.5", "2026-01-02T03:04:05.500Z"},
		{layout, "America/New_York", "2026-07-02 03:04:05", "2026-07-02T07:04:05.000Z"},
		{layout, "America/New_York", "2026-01-02 03:04:05", "2026-01-02T08:04:05.000Z"},
		{layout, "", "2026-02-30 03:04:05", ""},
		{layout, "", "2024-02-29 03:04:05", "2024-02-29T03:04:05.000Z"},
		{layout, "", "2026-01-02 24:00:00", ""},
		{layout, "", "0000-01-02 00:00:00", ""},
		{layout, "", "", ""},
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
		{"rfc3339", "Asia/Seoul", "2026-01-02T03:04:05", "2026-01-01T18:04:05.000Z"}, // with an offset or without one
		{"", "Asia/Seoul", "2026-01-02T03:04:05.5", "2026-01-01T18:04:05.500Z"},
		{"", "Asia/Seoul", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"},
		{"", "Asia/Seoul", "2026-01-02 03:04:05", ""},
		// The clocks of Berlin and New York are put back and forward; those of Seoul were last in 1988.
		{layout, "Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25T02:00:00.000Z"},
		{layout, "Europe/Berlin", "2026-10-25 01:59:59", "2026-10-24T23:59:59.000Z"},
		{layout, "Europe/Berlin", "2026-10-26 02:30:00", "2026-10-26T01:30:00.000Z"},
		{layout, "Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:30:00.000Z"}, // never
		{layout, "Europe/Berlin", "2026-03-29 03:00:00", "2026-03-29T01:00:00.000Z"},
		{layout, "America/New_York", "2026-11-01 02:00:00", "2026-11-01T07:00:00.000Z"},
		{layout, "America/New_York", "2026-03-08 03:00:00", "2026-03-08T07:00:00.000Z"},
		{layout, "Asia/Seoul", "2026-03-08 03:00:00", "2026-03-07T18:00:00.000Z"},
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

// An hour that comes twice, as clocks are put back, is one of the two.
func TestClockChange(t *testing.T) {
	parse, _, _ := New(layout, "Europe/Berlin")
	at, ok := parse("2026-10-25 02:30:00")
	if text := at.Format("15:04"); !ok || text != "00:30" && text != "01:30" {
		t.Errorf("%v, %v", at, ok)
	}
}

// Whatever a text is, a time of it is one of RFC 3339, in UTC.
func FuzzTimes(f *testing.F) {
	for i, s := range []string{"2026-03-01 09:30:00", "2024-02-29T23:59:59.999Z", "20261101013000", "1700000000.5", "/Date(1492098664000+0900)/", "2024-02-29T23:59:59"} {
		f.Add(s, uint8(i))
	}
	formats := []string{layout, "rfc3339", "20060102150405", "unix", "odata", "unix_ms"}
	f.Fuzz(func(t *testing.T, in string, which uint8) {
		for _, zone := range []string{"", "America/New_York"} {
			parse, formatErr, _ := New(formats[int(which)%len(formats)], zone)
			if formatErr != nil {
				t.Fatal(formatErr)
			}
			at, ok := parse(in)
			if again, err := time.Parse(time.RFC3339Nano, at.Format(time.RFC3339Nano)); ok && (err != nil || !again.Equal(at) || at.Location() != time.UTC) {
				t.Errorf("%q: %v, %v", in, at, err)
			}
		}
	})
}
