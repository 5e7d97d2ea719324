package jsonwalk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// Each stands for `#` in a path: every element of an array.
const Each = "#"

// SimplePath splits a path that names nothing but keys into those keys. A path with an
// index, a wildcard, a query, a modifier or a pipe is not simple and is left to gjson;
// so is # unless hashes are allowed, because only a list of ids has a use for several
// values. A key of digits only is not simple either: in an array it is an index.
func SimplePath(path string, hashes bool) ([]string, bool) {
	var keys []string
	var key strings.Builder
	plain := false // the key holds something that is not a digit
	end := func() bool {
		k := key.String()
		key.Reset()
		if k == "" || !plain {
			return false
		}
		plain = false
		keys = append(keys, k)
		return true
	}
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case c == '#' && hashes && key.Len() == 0 && (i+1 == len(path) || path[i+1] == '.'):
			key.WriteByte(c)
			plain = true
		case c == '.':
			if !end() {
				return nil, false
			}
		case c == '\\' && i+1 < len(path):
			i++
			key.WriteByte(path[i])
			plain = true
			if path[i] == '#' && key.Len() == 1 {
				return nil, false // a key that is called "#" must not become Each
			}
		case plainByte(c):
			key.WriteByte(c)
			plain = plain || c < '0' || c > '9'
		default:
			return nil, false
		}
	}
	if !end() {
		return nil, false
	}
	return keys, true
}

// plainByte tells whether a byte of a key means nothing but itself to gjson.
func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '_' || c == '-' || c == '$' || c == ' ' || c == '/' || c == ':' || c >= 0x80
}

// CheckPath finds what is wrong with a GJSON path without a document to try it
// on. gjson itself never complains: it answers that nothing is there.
func CheckPath(path string) error {
	if path == "" {
		return errors.New("the GJSON path is empty")
	}
	if strings.HasPrefix(path, "..") {
		return errors.New("a path that starts with \"..\" is for JSON lines; name the key instead")
	}
	if _, err := split(path); err != nil {
		return fmt.Errorf("GJSON path %q: %w", path, err)
	}
	return nil
}

// Segments are the parts of a path between its dots and pipes, as they are written. What
// stands in brackets stays together. Of a path that [CheckPath] refuses it gives those
// before the mistake.
func Segments(path string) []string {
	parts, _ := split(path)
	return parts
}

// split gives the parts of a path as far as they are right.
func split(path string) (parts []string, err error) {
	for i := 0; ; i++ { // past the dot or pipe
		n, err := checkSegment(path[i:])
		if err != nil {
			return parts, err
		}
		parts = append(parts, path[i:i+n])
		if i += n; i == len(path) {
			return parts, nil
		}
	}
}

// checkSegment checks one part of a path and gives its length. Its texts say what to
// write instead.
func checkSegment(s string) (int, error) {
	if s == "" || s[0] == '.' || s[0] == '|' {
		return 0, errors.New("empty segment; write each key between dots, \\. for a dot within a key")
	}
	switch s[0] {
	case '@':
		return checkModifier(s)
	case '#':
		if len(s) > 1 && s[1] == '(' {
			n, err := balanced(s[1:])
			if err != nil {
				return 0, err
			}
			n++
			if n < len(s) && s[n] == '#' {
				n++
			}
			return segmentEnd(s, n)
		}
		return segmentEnd(s, 1)
	case '{', '[':
		n, err := balanced(s)
		if err != nil {
			return 0, err
		}
		return segmentEnd(s, n)
	case '!':
		return 0, errors.New("a literal value (!) names nothing in the record; use default")
	}
	return plainSegment(s)
}

// plainSegment checks a part that is a key or a pattern.
func plainSegment(s string) (int, error) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				return 0, errors.New("ends in a backslash; write \\\\ for a backslash within a key")
			}
		case '.', '|':
			return i, nil
		case '(', ')', '{', '}', '[', ']', '"':
			return 0, fmt.Errorf("unbalanced %q; write \\%c if it belongs to the key", s[i], s[i])
		}
	}
	return len(s), nil
}

// checkModifier checks a part that starts with @, and its argument.
func checkModifier(s string) (int, error) {
	n := strings.IndexAny(s, ".|:")
	if n < 0 {
		n = len(s)
	}
	if !gjson.ModifierExists(s[1:n], nil) {
		return 0, fmt.Errorf("unknown modifier %q", s[:n])
	}
	if n == len(s) || s[n] != ':' {
		return n, nil
	}
	n++
	if n < len(s) && strings.IndexByte(`{["(`, s[n]) >= 0 {
		m, err := balanced(s[n:])
		if err != nil {
			return 0, err
		}
		return segmentEnd(s, n+m)
	}
	m := strings.IndexByte(s[n:], '|')
	if m < 0 {
		return len(s), nil
	}
	return n + m, nil
}

// segmentEnd checks that a part ends where its brackets do.
func segmentEnd(s string, n int) (int, error) {
	if n < len(s) && s[n] != '.' && s[n] != '|' {
		return 0, fmt.Errorf("%q is followed by %q where a dot is expected", s[:n], s[n:])
	}
	return n, nil
}

// balanced gives the length of the bracketed or quoted text that s starts with.
func balanced(s string) (int, error) {
	var open []byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			i++
		case '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			if i >= len(s) {
				return 0, errors.New("a quotation mark is not closed")
			}
		case '(':
			open = append(open, ')')
		case '[':
			open = append(open, ']')
		case '{':
			open = append(open, '}')
		case ')', ']', '}':
			if len(open) == 0 || open[len(open)-1] != c {
				return 0, fmt.Errorf("unbalanced %q", c)
			}
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			return i + 1, nil
		}
	}
	return 0, errors.New("unbalanced brackets: one is not closed")
}
