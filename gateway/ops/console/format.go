package console

import (
	"math"
	"strconv"
	"time"
)

const unknown = "–" // there is no such figure: nothing happened, or the part is not there

// format writes a figure for a person, with its unit.
func format(value float64, unit string) string {
	if math.IsNaN(value) {
		return unknown
	}
	switch unit {
	case unitRate:
		return digits(value) + "/s"
	case unitRatio:
		return percent(value)
	case unitSeconds:
		return duration(value)
	case unitState:
		return stateName(value)
	}
	return digits(value)
}

// digits writes at least three significant ones, and all before the point.
func digits(value float64) string {
	if value == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(value))))
	scaled := strconv.FormatFloat(value, 'f', min(max(decimals, 0), 6), 64)
	return trimZeros(scaled)
}

func trimZeros(s string) string {
	for i := range s {
		if s[i] != '.' {
			continue
		}
		for s[len(s)-1] == '0' {
			s = s[:len(s)-1]
		}
		if s[len(s)-1] == '.' {
			s = s[:len(s)-1]
		}
		return s
	}
	return s
}

// percent never rounds to 100 or to 0 what is not quite that.
func percent(value float64) string {
	switch p := 100 * value; {
	case p > 99.99 && p < 100:
		return ">99.99 %"
	case p > 0 && p < 0.01:
		return "<0.01 %"
	default:
		return trimZeros(strconv.FormatFloat(p, 'f', 2, 64)) + " %"
	}
}

func duration(seconds float64) string {
	switch {
	case seconds == 0:
		return "0 s"
	case seconds < .001:
		return digits(seconds*1e6) + " µs"
	case seconds < 1:
		return digits(seconds*1e3) + " ms"
	case seconds < 120:
		return digits(seconds) + " s"
	case seconds < 7200:
		return digits(seconds/60) + " min"
	}
	return digits(seconds/3600) + " h"
}

func stateName(value float64) string {
	switch value {
	case 0:
		return "closed"
	case 1:
		return "half-open"
	case 2:
		return "open"
	}
	return unknown
}

// moment writes a time as those on call write it down: UTC, with seconds.
func moment(t time.Time) string { return t.UTC().Format("15:04:05") }
