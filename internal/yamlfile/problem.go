package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"inquiry-gateway/internal/setting"
)

// position is a place in the file; the zero value is the file as a whole.
type position struct{ line, column int }

// variable is a text that came from the environment, and what the file has for it.
type variable struct{ content, written string }

// report collects what is found on the way through one file.
type report struct {
	file      string
	problems  setting.Problems
	more      int // problems beyond maxProblems
	warnings  setting.Problems
	variables []variable
	// touched holds the keys that already have a problem of their own, so that
	// what follows from it is not told as a second one.
	touched []string
}

// maxProblems bounds what one broken file can print.
const maxProblems = 100

// add reports what is wrong with the text of the file, without the content of any variable.
func (r *report) add(at position, key, format string, args ...any) {
	r.note(at, key, fmt.Sprintf(format, args...))
	r.touched = append(r.touched, key)
}

// note keeps a problem. Those after maxProblems are counted.
func (r *report) note(at position, key, message string) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, r.problem(at, key, message))
}

// problem makes a problem whose key and message are on one line.
func (r *report) problem(at position, key, message string) setting.Problem {
	return setting.Problem{File: r.file, Line: at.line, Column: at.column, Key: oneLine(key), Message: oneLine(message)}
}

// hide notes what no message may show.
func (r *report) hide(content, written string) {
	if content != "" && content != written {
		r.variables = append(r.variables, variable{content, written})
	}
}

// hidden shows variables in a message as the file has them, because their content may be
// secret. One of less than wordLength characters is found only where it is a word.
func (r *report) hidden(message string) string {
	const wordLength = 4
	variables := slices.SortedStableFunc(slices.Values(r.variables), func(a, b variable) int { return cmp.Compare(len(b.content), len(a.content)) })
	var out strings.Builder
	for at := 0; at < len(message); {
		found := slices.IndexFunc(variables, func(v variable) bool {
			rest, ok := strings.CutPrefix(message[at:], v.content)
			return ok && (len(v.content) >= wordLength || !endsInWord(message[:at]) && !beginsWithWord(rest))
		})
		if found < 0 {
			out.WriteByte(message[at])
			at++
			continue
		}
		out.WriteString(variables[found].written)
		at += len(variables[found].content)
	}
	return out.String()
}

func endsInWord(s string) bool {
	c, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsLetter(c) || unicode.IsDigit(c)
}

func beginsWithWord(s string) bool {
	c, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(c) || unicode.IsDigit(c)
}

// oneLine keeps a text on one line of a terminal or a log, whatever it quotes.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
}

// Touch notes that a key has a problem: what follows from it is not told.
func (r *report) Touch(key string) { r.touched = append(r.touched, key) }

// Warnings are what is doubtful, in the order in which it was found.
func (r *report) Warnings() setting.Problems { return r.warnings }

// Follows tells whether a problem at key would only repeat an earlier one at
// that key, above or below it.
func (r *report) Follows(key string) bool {
	return slices.ContainsFunc(r.touched, func(t string) bool {
		return t == key || Under(t, key) || Under(key, t)
	})
}

// Under tells whether the path a lies below the path b.
func Under(a, b string) bool {
	rest, ok := strings.CutPrefix(a, b)
	return ok && (b == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// Keep drops the problems of keys that do not matter. Problems of the file as a whole stay, and all
// do where there were too many to report.
func (r *report) Keep(matters func(key string) bool) {
	if len(r.problems) < maxProblems {
		r.problems = slices.DeleteFunc(r.problems, func(p setting.Problem) bool { return p.Key != "" && !matters(p.Key) })
	}
}

// Err gives the collected problems in the order of the file, or nil.
func (r *report) Err() error {
	slices.SortStableFunc(r.problems, func(a, b setting.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := slices.Clone(r.problems)
	if r.more > 0 {
		all = append(all, r.problem(position{}, "", fmt.Sprint(r.more, " more problems")))
	}
	return all.Err()
}

// Nearest gives the known name that was probably meant, or "".
func Nearest(key string, known []string) string {
	key = strings.ToLower(key)
	best, least := "", min(1+len(key)/3, 4)
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
