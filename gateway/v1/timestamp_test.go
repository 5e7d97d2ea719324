package v1

import (
	"testing"
	"time"
)

// That other times are written as package time does is what TestListsEqualEncodingJSON holds.
func TestAppendTime(t *testing.T) {
	zone := func(hours int) *time.Location { return time.FixedZone("", hours*3600) }
	for _, c := range []struct {
		name string
		at   time.Time
		want string
	}{
		{"milliseconds are cut off", time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, time.UTC), "2026-01-02T03:04:05.999Z"},
		{"no fraction", time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC), "2026-12-31T23:59:59.000Z"},
		{"another zone", time.Date(2026, 1, 1, 3, 0, 0, 7_000_000, zone(9)), "2025-12-31T18:00:00.007Z"},
		{"before 1970", time.Date(1969, 12, 31, 23, 59, 59, 1, time.UTC), "1969-12-31T23:59:59.000Z"},
		{"zero time", time.Time{}, "0001-01-01T00:00:00.000Z"},
		{"year 0", time.Date(0, 2, 29, 0, 0, 0, 0, time.UTC), "0000-02-29T00:00:00.000Z"},
		{"last", time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), "9999-12-31T23:59:59.999Z"},
		{"year -1", time.Date(-1, 12, 31, 23, 59, 59, 0, time.UTC), "0000-01-01T00:00:00.000Z"},
		{"year -1 in UTC only", time.Date(0, 1, 1, 0, 0, 0, 0, zone(9)), "0000-01-01T00:00:00.000Z"},
		{"year 10000", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "9999-12-31T23:59:59.999Z"},
		{"year 10000 in its zone only", time.Date(10000, 1, 1, 8, 0, 0, 0, zone(9)), "9999-12-31T23:00:00.000Z"},
		{"far away", time.Unix(1<<50, 0), "9999-12-31T23:59:59.999Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(appendTime(nil, c.at)); got != `"`+c.want+`"` {
				t.Errorf("got %s, want %q", got, c.want)
			}
		})
	}
}
