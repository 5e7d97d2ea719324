package v1

import "time"

// appendTime appends t as a JSON string in RFC 3339, in UTC with milliseconds
// and Z. What is finer than a millisecond is cut off, never rounded up, so that
// no record is shown as younger than it is. RFC 3339 has four digits for the
// year: a time outside the years 0 to 9999 becomes the nearest time inside.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	switch {
	case year < 0:
		return append(dst, `"0000-01-01T00:00:00.000Z"`...)
	case year > 9999:
		return append(dst, `"9999-12-31T23:59:59.999Z"`...)
	}
	hour, minute, second := t.Clock()
	milli := t.Nanosecond() / int(time.Millisecond)
	dst = append(dst, '"')
	dst = append2(append2(dst, year/100), year%100)
	dst = append2(append(dst, '-'), int(month))
	dst = append2(append(dst, '-'), day)
	dst = append2(append(dst, 'T'), hour)
	dst = append2(append(dst, ':'), minute)
	dst = append2(append(dst, ':'), second)
	dst = append(dst, '.', byte('0'+milli/100))
	return append(append2(dst, milli%100), 'Z', '"')
}

// append2 appends n, 0 to 99, as two digits.
func append2(dst []byte, n int) []byte {
	return append(dst, byte('0'+n/10), byte('0'+n%10))
}
