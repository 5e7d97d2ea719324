package upstream

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
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
		{"unix", "", "-1", "1969-12-31T23:59:59.000Z"},
		{"unix", "", "1e20", ""}, {"unix", "", "NaN", ""}, {"unix", "", "Inf", ""}, {"unix", "", "soon", ""}, {"unix", "", "1700000000000", ""},
		{"unix_ms", "", "1700000000123", "2023-11-14T22:13:20.123Z"},
		{"odata", "", "/Date(1492098664000+0900)/", "2017-04-13T15:51:04.000Z"},
		{"odata", "", "/Date(1492098664123)/", "2017-04-13T15:51:04.123Z"},
		{"odata", "", "/Date(-1000)/", "1969-12-31T23:59:59.000Z"},
		{"odata", "", "/Date(x)/", ""}, {"odata", "", "1492098664000", ""}, {"odata", "", "/Date(1+x)/", ""}, {"odata", "", "/Date(1.5)/", ""},
	} {
		parse, formatErr, zoneErr := timeParser(tc.format, tc.zone)
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

// The fast reading of layouts means exactly what package time means.
func TestLayoutParserEqualsTime(t *testing.T) {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	layouts := []string{"2006-01-02 15:04:05", "2006/01/02 15:04", "02-01-2006", "20060102T150405"}
	rapid.Check(t, func(t *rapid.T) {
		layout := rapid.SampledFrom(layouts).Draw(t, "layout")
		in := rapid.OneOf(
			rapid.Custom(func(t *rapid.T) string {
				n := func(lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, "n") }
				return fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d", n(0, 9999), n(0, 13), n(0, 32), n(0, 25), n(0, 61), n(0, 61))
			}),
			rapid.Custom(func(t *rapid.T) string {
				return time.Unix(rapid.Int64Range(-62e9, 250e9).Draw(t, "unix"), 0).UTC().Format(layout)
			}),
			rapid.StringMatching(`[0-9 :/T-]{8,19}`),
		).Draw(t, "in")
		got, ok := layoutParser(layout, seoul)(in)
		want, err := time.ParseInLocation(layout, in, seoul)
		if want = want.UTC(); err == nil && (want.Year() < 1 || want.Year() > 9999) {
			return
		}
		if ok != (err == nil) || ok && !got.Equal(want) {
			t.Fatalf("%q in %q: %v %v, package time has %v %v", in, layout, got, ok, want, err)
		}
	})
}
