package report

import (
	"math"
	"strconv"
)

// number writes a value with about three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a < 10_000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return grouped(int64(math.Round(v)))
}

// grouped writes a whole number with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// micros writes microseconds in the unit that reads best.
func micros(us float64) string {
	if us >= 1000 {
		return number(us/1000) + " ms"
	}
	return number(us) + " µs"
}

// Bytes writes a size in the unit that reads best.
func Bytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return number(n) + " " + units[i]
}

// Count writes a whole number for people.
func Count(n int) string { return grouped(int64(n)) }

// Number writes a value with about three digits that count.
func Number(v float64) string { return number(v) }
