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

// report collects the problems and warnings of one file.
type report struct {
	file     string
	problems setting.Problems
	more     int // problems beyond maxProblems
	warnings setting.Problems
	secrets  []secret
	// suppressed holds the keys that already have a problem, so that its consequences are not reported as
	// further problems; above holds every parent of those keys.
	suppressed, above map[string]bool
}

// secret is a text that came from the environment, and what the file has for it.
type secret struct{ content, written string }

// maxProblems bounds what one broken file can print.
const maxProblems = 100

// reportAndSuppress reports a problem of the file's text, and suppresses its key. The message must not hold the content of a
// variable.
func (r *report) reportAndSuppress(at position, key, format string, args ...any) {
	r.report(at, key, fmt.Sprintf(format, args...))
	r.Suppress(key)
}

// report adds a problem. Those after maxProblems are only counted.
func (r *report) report(at position, key, message string) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, r.problem(at, key, message))
}

// problem returns a problem whose key and message are on one line.
func (r *report) problem(at position, key, message string) setting.Problem {
	return setting.Problem{File: r.file, Line: at.line, Column: at.column, Key: oneLine(key), Message: oneLine(message)}
}

// oneLine replaces the control characters of what a text quotes, so that it stays on one line of a terminal or a log.
func oneLine(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
}

// hide records the content of a variable, which no message may show.
func (r *report) hide(content, written string) {
	if content != "" && content != written {
		r.secrets = append(r.secrets, secret{content, written})
	}
}

// hidden replaces the contents of variables in a message by ${NAME} as the file has it, because they may be secret.
// A content of less than wordLength bytes is replaced only where it is a whole word.
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

// shorten bounds what an error quotes of the file, in characters: it may be a key or a password that
// was pasted into the wrong place.
func shorten(s string) string {
	const most = 16
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

// Suppress records that a key has a problem, so that further problems of the key are not reported.
func (r *report) Suppress(key string) {
	r.suppressed[key] = true
	for parent := range parents(key) {
		r.above[parent] = true
	}
}

// Suppressed reports whether a key, a parent of it or a key below it has been suppressed.
func (r *report) Suppressed(key string) bool {
	for parent := range parents(key) {
		if r.suppressed[parent] {
			return true
		}
	}
	return r.suppressed[key] || r.above[key]
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

// Warnings returns the warnings in the order in which they were found.
func (r *report) Warnings() setting.Problems { return r.warnings }

// KeepProblems drops the problems of keys that do not matter. Problems of the file as a whole stay; if there were too
// many to report, all stay.
func (r *report) KeepProblems(matters func(key string) bool) {
	if r.more == 0 {
		r.problems = slices.DeleteFunc(r.problems, func(p setting.Problem) bool { return p.Key != "" && !matters(p.Key) })
	}
}

// Err returns the problems in the order of the file, or nil.
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
