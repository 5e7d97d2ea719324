package timeparse

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var someZones = []string{"UTC", "Asia/Seoul", "America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Gaza", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu"}

// sameTime holds a parser against package time, in the years that a reply may
// have. Of times that a clock shows twice it wants the first.
func sameTime(t rapid.TB, parse Parser, layout string, loc *time.Location, in string) {
	t.Helper()
	got, ok := parse(in)
	want, err := time.ParseInLocation(layout, in, loc)
	const clock = "2006-01-02 15:04:05.999999999"
	for ago := 24 * time.Hour; ago > 0 && err == nil && !strings.HasSuffix(layout, "Z07:00"); ago -= 15 * time.Minute {
		if first := want.Add(-ago); first.In(loc).Format(clock) == want.In(loc).Format(clock) {
			want = first
			break
		}
	}
	want, good := inRange(want.UTC(), err == nil)
	if ok != good || ok && (!got.Equal(want) || got.Location() != time.UTC) {
		t.Fatalf("%q in %q at %v: %v %v, package time has %v %v", in, layout, loc, got, ok, want, err)
	}
}

// Wherever and whenever a clock stands, also in the hours that come never, a time means
// what package time says, and in those that come twice the first.
func TestLayoutsEqualTimeInEveryZone(t *testing.T) {
	layouts := []string{"2006-01-02 15:04:05", "20060102150405", "2006/01/02 15:04", "02-01-2006", "15:04:05 02/01/2006", "2006-01-02T15", "2006 2006-01-02", "2006-01-02 15:04:05.000"}
	type reader struct {
		parse  Parser
		layout string
		loc    *time.Location
	}
	var readers []reader
	var changes [][]time.Time
	for _, zone := range someZones {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, layout := range layouts {
			readers = append(readers, reader{layoutParser(layout, newZone(loc)), layout, loc})
		}
		var list []time.Time
		for at := time.Date(1960, 1, 1, 0, 0, 0, 0, loc); at.Year() < 2110; at = at.AddDate(0, 0, 1) {
			_, before := at.Zone()
			if _, after := at.AddDate(0, 0, 1).Zone(); before != after {
				list = append(list, at)
			}
		}
		changes = append(changes, append(list, time.Unix(0, 0)))
	}
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(readers)-1).Draw(t, "reader")
		r := readers[i]
		at := time.Unix(rapid.Int64Range(-63e9, 254e9).Draw(t, "unix"), 0)
		if rapid.Bool().Draw(t, "near a change") {
			at = rapid.SampledFrom(changes[i/len(layouts)]).Draw(t, "change")
			at = at.Add(time.Duration(rapid.IntRange(-3*86400, 3*86400).Draw(t, "seconds")) * time.Second)
		}
		in := []byte(at.In(r.loc).Format(r.layout))
		if rapid.IntRange(0, 3).Draw(t, "damage") == 0 {
			in[rapid.IntRange(0, len(in)-1).Draw(t, "where")] = rapid.SampledFrom([]byte("0123456789 -:T/x\xb2Zé")).Draw(t, "byte")
		}
		sameTime(t, r.parse, r.layout, r.loc, string(in))
	})
}

func FuzzTimes(f *testing.F) {
	f.Add("2026-03-01 09:30:00", uint8(0))
	f.Add("2024-02-29T23:59:59.999Z", uint8(1))
	f.Add("20261101013000", uint8(2))
	layouts := []string{"2006-01-02 15:04:05", "", "20060102150405"}
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		f.Fatal(err)
	}
	parsers := []Parser{layoutParser(layouts[0], newZone(loc)), standard(time.RFC3339, newZone(time.UTC)), layoutParser(layouts[2], newZone(loc))}
	layouts[1] = time.RFC3339
	f.Fuzz(func(t *testing.T, in string, which uint8) {
		i := int(which) % len(parsers)
		sameTime(t, parsers[i], layouts[i], loc, in)
	})
}

// BenchmarkTimes supports the decision to read times of fixed width by hand.
func BenchmarkTimes(b *testing.B) {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		b.Fatal(err)
	}
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	const layout = "2006-01-02 15:04:05"
	for _, tc := range []struct {
		name  string
		parse func(string) (time.Time, bool)
		in    string
	}{
		{"layout", layoutParser(layout, newZone(seoul)), "2026-03-14 09:30:00"},
		{"layout, summer time", layoutParser(layout, newZone(york)), "2026-07-14 09:30:00"},
		{"package time", func(s string) (time.Time, bool) {
			t, err := time.ParseInLocation(layout, s, seoul)
			return t.UTC(), err == nil
		}, "2026-03-14 09:30:00"},
		{"rfc3339", standard(time.RFC3339, newZone(time.UTC)), "2026-03-14T09:30:00.123+09:00"},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := tc.parse(tc.in); !ok {
					b.Fatal(tc.in)
				}
			}
		})
	}
}
