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
func SimplePath(path string, hashes bool) (keys []string, simple bool) {
	parts, err := split(path)
	if err != nil || strings.Join(parts, ".") != path { // there is a pipe
		return nil, false
	}
	for _, part := range parts {
		key, plain := plainKey(part)
		if plain = plain || hashes && part == Each; !plain {
			return nil, false
		}
		keys = append(keys, key)
	}
	return keys, true
}

// plainKey gives the key that a part of a path is, without escapes. plain is false where
// gjson could find something else, too.
func plainKey(part string) (key string, plain bool) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		c := part[i]
		switch {
		case c == '\\' && i+1 < len(part):
			i++
			plain = true
			c = part[i]
		case c < '0' || c > '9':
			if plain = true; !plainByte(c) {
				return part, false
			}
		}
		b.WriteByte(c)
	}
	key = b.String()
	return key, plain && key != Each // a key that is called "#" must not become Each
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
		n, err := segment(path[i:])
		if err != nil {
			return parts, err
		}
		parts = append(parts, path[i:i+n])
		if i += n; i == len(path) {
			return parts, nil
		}
	}
}

// segment gives the length of the part that a path starts with. Its errors say what to
// write instead.
func segment(s string) (n int, err error) {
	switch {
	case s == "" || s[0] == '.' || s[0] == '|':
		return 0, errors.New("empty segment; write each key between dots, \\. for a dot within a key")
	case s[0] == '!':
		return 0, errors.New("a literal value (!) names nothing in the record; use default")
	case s[0] == '@':
		n = strings.IndexAny(s+".", ".|:")
		if !gjson.ModifierExists(s[1:n], nil) {
			return 0, fmt.Errorf("unknown modifier %q", s[:n])
		}
		if n == len(s) || s[n] != ':' {
			return n, nil
		}
		if n++; n == len(s) || strings.IndexByte(`{["(`, s[n]) < 0 {
			return n + strings.IndexByte(s[n:]+"|", '|'), nil
		}
	case s[0] == '#':
		n = 1
	case s[0] != '{' && s[0] != '[':
		return plainSegment(s)
	}
	if s[0] != '#' || len(s) > 1 && s[1] == '(' {
		m, err := balanced(s[n:])
		if err != nil {
			return 0, err
		}
		if n += m; s[0] == '#' && n < len(s) && s[n] == '#' {
			n++
		}
	}
	switch {
	case n == len(s) || s[n] == '.' || s[n] == '|':
		return n, nil
	case strings.IndexByte(")]}", s[n]) >= 0:
		return 0, fmt.Errorf("unbalanced %q after %q, whose brackets are closed already; remove it", s[n], s[:n])
	}
	return 0, fmt.Errorf("%q is followed by %q where a dot is expected", s[:n], s[n:])
}

// plainSegment gives the length of a part that is a key or a pattern.
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
				return 0, fmt.Errorf("unbalanced %q: no bracket is open that it closes", c)
			}
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			return i + 1, nil
		}
	}
	return 0, errors.New("unbalanced brackets: one is not closed")
}
