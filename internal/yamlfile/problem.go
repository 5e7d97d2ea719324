package yamlfile

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"inquiry-gateway/internal/setting"
)

// position is a place in the file; the zero value is the file as a whole.
type position struct{ line, column int }

// report collects what is found on the way through one file.
type report struct {
	file     string
	problems setting.Problems
	more     int // problems beyond maxProblems
	warnings setting.Problems
	secrets  []secret
	// touched holds the keys that already have a problem of their own, so that what follows from it
	// is not told as a second one, and above all keys above those.
	touched, above map[string]bool
}

// secret is a text that came from the environment, and what the file has for it.
type secret struct{ content, written string }

// maxProblems bounds what one broken file can print.
const maxProblems = 100

// add reports what is wrong with the text of the file, without the content of any variable.
func (r *report) add(at position, key, format string, args ...any) {
	r.note(at, key, fmt.Sprintf(format, args...))
	r.Suppress(key)
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

// oneLine keeps a text on one line of a terminal or a log, whatever it quotes.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
}

// hide notes what no message may show.
func (r *report) hide(content, written string) {
	if content != "" && content != written {
		r.secrets = append(r.secrets, secret{content, written})
	}
}

// hidden shows variables in a message as the file has them, because their content may be secret.
// One of less than wordLength bytes is found only where it is a word.
func (r *report) hidden(message string) string {
	const wordLength = 4
	secrets := slices.SortedStableFunc(slices.Values(r.secrets), func(a, b secret) int { return cmp.Compare(len(b.content), len(a.content)) })
	var out strings.Builder
	for at := 0; at < len(message); {
		found := slices.IndexFunc(secrets, func(s secret) bool {
			rest, ok := strings.CutPrefix(message[at:], s.content)
			return ok && (len(s.content) >= wordLength || !endsInWord.MatchString(message[:at]) && !beginsWithWord.MatchString(rest))
		})
		if found < 0 {
			out.WriteByte(message[at])
			at++
			continue
		}
		out.WriteString(secrets[found].written)
		at += len(secrets[found].content)
	}
	return out.String()
}

var (
	endsInWord     = regexp.MustCompile(`[\pL\p{Nd}]$`)
	beginsWithWord = regexp.MustCompile(`^[\pL\p{Nd}]`)
)

// shorten bounds what an error quotes of the file, in characters: what stands there may be a
// key or a password that was pasted into the wrong place.
func shorten(s string) string {
	const most = 16
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// Suppress records that a key has a problem, so that those that follow from it are not reported.
func (r *report) Suppress(key string) {
	r.touched[key] = true
	for parent := range parents(key) {
		r.above[parent] = true
	}
}

// Suppressed tells whether there is a problem already at key, above it or below it.
func (r *report) Suppressed(key string) bool {
	for parent := range parents(key) {
		if r.touched[parent] {
			return true
		}
	}
	return r.touched[key] || r.above[key]
}

// parents are the keys above a key, from the root, which is empty.
func parents(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range key {
			if (i == 0 || c == '.' || c == '[') && !yield(key[:i]) {
				return
			}
		}
	}
}

// Warnings are what is doubtful, in the order in which it was found.
func (r *report) Warnings() setting.Problems { return r.warnings }

// Keep drops the problems of keys that do not matter. Problems of the file as a whole stay, and all
// do where there were too many to report.
func (r *report) Keep(matters func(key string) bool) {
	if r.more == 0 {
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
