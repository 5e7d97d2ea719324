package setting

import "strings"

// Nearest gives the known name that was probably meant, or "".
func Nearest(key string, known []string) string {
	key = strings.ToLower(key)
	best, least := "", min(1+len(key)/3, 4)
	for _, k := range known {
		if d := len(key) - len(k); max(d, -d) > least {
			continue
		}
		d := distance(key, k)
		if d < min(len(key), len(k)) && (d < least || d == least && best == "") { // else nothing of the one is left in the other
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
				}
			}
		}
	}
	return rows[len(a)][len(b)]
}
