package measure

import (
	"bytes"
	"strconv"
	"strings"
)

// Series are the samples of one reading of /metrics by name and labels, as
// written: `name{a="b"}`.
type Series map[string]float64

// ParseSeries reads the Prometheus text format. Lines that are not samples are
// passed over.
func ParseSeries(text []byte) Series {
	s := make(Series)
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		at := bytes.LastIndexByte(line, ' ')
		if at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(string(line[at+1:]), 64)
		if err == nil {
			s[string(bytes.TrimSpace(line[:at]))] = value
		}
	}
	return s
}

// Sum adds up the samples of a name that carry all the labels, each written as
// `name="value"`.
func (s Series) Sum(name string, labels ...string) float64 {
	sum := 0.0
	for key, value := range s {
		if base, _, _ := strings.Cut(key, "{"); base == name && carries(key[len(base):], labels) {
			sum += value
		}
	}
	return sum
}

func carries(set string, labels []string) bool {
	for _, label := range labels {
		if !strings.Contains(set, "{"+label) && !strings.Contains(set, ","+label) {
			return false
		}
	}
	return true
}

// Minus gives what the counters have grown by since an earlier reading.
func (s Series) Minus(earlier Series) Series {
	grown := make(Series, len(s))
	for key, value := range s {
		grown[key] = value - earlier[key]
	}
	return grown
}
