package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Problem is one thing that is wrong, or with a warning doubtful, in a
// configuration file.
type Problem struct {
	File    string `json:"-"`                // as it was given to Load
	Line    int    `json:"line,omitempty"`   // from 1; 0: the file as a whole
	Column  int    `json:"column,omitempty"` // from 1; 0: the line as a whole
	Key     string `json:"key,omitempty"`    // full path such as upstream.buyer.fields.title; may be empty
	Message string `json:"message"`          // what is wrong and what to do about it; holds no secret
}

// Error gives the problem on one line: file:line:column: key: message.
func (p Problem) Error() string {
	place, key := p.File, ""
	if p.Line > 0 {
		place += fmt.Sprintf(":%d", p.Line)
	}
	if p.Line > 0 && p.Column > 0 {
		place += fmt.Sprintf(":%d", p.Column)
	}
	if p.Key != "" {
		key = p.Key + ": "
	}
	return place + ": " + key + p.Message
}

// Problems is the error of Load: everything found in one go, in the order of
// the file's lines. It is never empty when it is returned as an error.
type Problems []Problem

// Error gives one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// position is a place in the file; the zero value is the file as a whole.
type position struct{ line, column int }

// report collects what is found on the way through one file.
type report struct {
	file     string
	problems Problems
	warnings Problems
	// variables are the values that variables gave, each followed by what the file says.
	variables []string
	// touched holds the keys that already have a problem of their own, so that
	// what follows from it is not told as a second one.
	touched []string
}

// maxProblems bounds what one broken file can print.
const maxProblems = 100

// add reports what is wrong with the text of the file. After maxProblems it is silent.
func (r *report) add(at position, key, format string, args ...any) {
	if len(r.problems) == maxProblems {
		return
	}
	r.problems = append(r.problems, r.problem(at, key, fmt.Sprintf(format, args...)))
	r.touched = append(r.touched, key)
}

// minHidden is the least length of a value of a variable that is hidden in messages: a
// shorter one is no secret, and may stand there for another reason.
const minHidden = 4

// problem makes a Problem whose key and message are on one line. It shows variables as
// the file has them, because their values may be secret.
func (r *report) problem(at position, key, message string) Problem {
	for i := 0; i < len(r.variables); i += 2 {
		if value := r.variables[i]; len(value) >= minHidden {
			message = strings.ReplaceAll(message, value, r.variables[i+1])
		}
	}
	return Problem{File: r.file, Line: at.line, Column: at.column, Key: oneLine(key), Message: oneLine(message)}
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

// follows tells whether a problem at key would only repeat an earlier one at
// that key, above or below it.
func (r *report) follows(key string) bool {
	return slices.ContainsFunc(r.touched, func(t string) bool {
		return t == key || under(t, key) || under(key, t)
	})
}

// under tells whether the path a lies below the path b.
func under(a, b string) bool {
	rest, ok := strings.CutPrefix(a, b)
	return ok && (b == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// err gives the collected problems in the order of the file, or nil.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.problems
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
