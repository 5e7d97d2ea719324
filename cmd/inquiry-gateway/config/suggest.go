package config

import "strings"

// Nearest gives the known name that was probably meant, or "".
func Nearest(key string, known []string) string {
	key = strings.ToLower(key)
	best, least := "", 1+len(key)/3
	if least > 4 {
		least = 4
	}
	for _, k := range known {
		d := distance(key, k, least)
		if d >= min(len(key), len(k)) {
			continue // nothing of the one is left in the other
		}
		if d < least || (d == least && best == "") {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour to get from a to b. It stops at more than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var before, last []int // the two rows above the current one
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
