package console

import (
	"math"
	"strconv"
	"strings"
)

// count writes a whole number with commas: 1,267.
func count(n float64) string {
	s := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent writes a share with two digits that count, and never as 0 or 100 what
// is not quite that.
func percent(share float64) string {
	switch p := 100 * share; {
	case p > 99.9 && p < 100:
		return ">99.9 %"
	case p > 0 && p < 0.01:
		return "<0.01 %"
	case p < 10:
		s := strconv.FormatFloat(p, 'g', 2, 64)
		return strings.TrimSuffix(s, ".0") + " %"
	default:
		return strconv.FormatFloat(math.Trunc(p), 'f', 0, 64) + " %"
	}
}

// duration writes whole seconds, minutes from two on.
func duration(seconds float64) string {
	if seconds < 120 {
		return strconv.Itoa(int(seconds)) + " s"
	}
	return strconv.Itoa(int(seconds/60)) + " min"
}
