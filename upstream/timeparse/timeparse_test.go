package timeparse

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	for _, tc := range []struct{ format, zone, in, want string }{
		{"", "", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"},
		{"rfc3339", "", "2026-01-02T03:04:05.678912+09:00", "2026-01-01T18:04:05.678Z"},
		{"rfc3339", "", "2026-01-02 03:04:05", ""},
		{"rfc3339", "", "2026-01-02T03:04:05", ""},
		{"2006-01-02 15:04:05", "Asia/Seoul", "2026-01-02 03:04:05", "2026-01-01T18:04:05.000Z"},
		{"2006-01-02 15:04:05", "", "2026-01-02 03:04:05", "2026-01-02T03:04:05.000Z"},
		{"2006-01-02 15:04:05", "", "2026-01-02 03:04:05.5", "2026-01-02T03:04:05.500Z"},
		{"2006-01-02 15:04:05", "America/New_York", "2026-07-02 03:04:05", "2026-07-02T07:04:05.000Z"},
		{"2006-01-02 15:04:05", "America/New_York", "2026-01-02 03:04:05", "2026-01-02T08:04:05.000Z"},
		{"2006-01-02 15:04:05", "", "2026-02-30 03:04:05", ""},
		{"2006-01-02 15:04:05", "", "2024-02-29 03:04:05", "2024-02-29T03:04:05.000Z"},
		{"2006-01-02 15:04:05", "", "2026-01-02 24:00:00", ""},
		{"2006-01-02 15:04:05", "", "0000-01-02 00:00:00", ""},
		{"2006-01-02 15:04:05", "", "", ""},
		{"20060102", "", "20260131", "2026-01-31T00:00:00.000Z"},
		{"2006-01-02T15:04:05-0700", "", "2026-01-02T03:04:05+0900", "2026-01-01T18:04:05.000Z"},
		{"02 Jan 2006", "Asia/Seoul", "02 Mar 2026", "2026-03-01T15:00:00.000Z"},
		{"unix", "", "1700000000", "2023-11-14T22:13:20.000Z"},
		{"unix", "", "1700000000.5", "2023-11-14T22:13:20.500Z"},
		{"unix", "", "1700000000.123", "2023-11-14T22:13:20.123Z"},
		{"unix", "", "-0.001", "1969-12-31T23:59:59.999Z"},
		{"unix", "", "1700000000.12399", "2023-11-14T22:13:20.123Z"},
		{"unix", "", "-1", "1969-12-31T23:59:59.000Z"},
		{"unix", "", "1e20", ""}, {"unix", "", "NaN", ""}, {"unix", "", "Inf", ""}, {"unix", "", "soon", ""}, {"unix", "", "1700000000000", ""},
		{"unix_ms", "", "1700000000123", "2023-11-14T22:13:20.123Z"},
		{"odata", "", "/Date(1492098664000+0900)/", "2017-04-13T15:51:04.000Z"},
		{"odata", "", "/Date(1492098664123)/", "2017-04-13T15:51:04.123Z"},
		{"odata", "", "/Date(-1000)/", "1969-12-31T23:59:59.000Z"},
		{"odata", "", "/Date(x)/", ""}, {"odata", "", "1492098664000", ""}, {"odata", "", "/Date(1+x)/", ""}, {"odata", "", "/Date(1.5)/", ""},
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
			t.Errorf("%q in %q: %s %v, want %q", tc.in, tc.format, text, ok, tc.want)
		}
	}
}

// The clocks of Berlin and New York are put back and forward; those of Seoul were last in
// 1988. A time that comes twice is the earlier one, whatever package time takes.
func TestTimesThatComeTwice(t *testing.T) {
	for _, tc := range []struct{ zone, local, want string }{
		{"Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T00:30:00Z"},
		{"Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25T02:00:00Z"},
		{"Europe/Berlin", "2026-10-25 01:59:59", "2026-10-24T23:59:59Z"},
		{"Europe/Berlin", "2026-10-26 02:30:00", "2026-10-26T01:30:00Z"},
		{"Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:30:00Z"}, // never
		{"Europe/Berlin", "2026-03-29 03:00:00", "2026-03-29T01:00:00Z"},
		{"America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00Z"},
		{"America/New_York", "2026-11-01 02:00:00", "2026-11-01T07:00:00Z"},
		{"America/New_York", "2026-03-08 03:00:00", "2026-03-08T07:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T14:45:00Z"}, // half an hour
		{"Asia/Seoul", "1988-10-09 02:30:00", "1988-10-08T16:30:00Z"},
		{"Asia/Seoul", "2026-03-08 03:00:00", "2026-03-07T18:00:00Z"},
	} {
		for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05.999"} { // with a mask, and without
			parse, formatErr, zoneErr := New(layout, tc.zone)
			if formatErr != nil || zoneErr != nil {
				t.Fatal(formatErr, zoneErr)
			}
			if got, ok := parse(tc.local); !ok || got.Format(time.RFC3339) != tc.want {
				t.Errorf("%s in %s: %v %v, want %s", tc.local, tc.zone, got, ok, tc.want)
			}
		}
	}
}
