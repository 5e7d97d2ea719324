package jsontree

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape returns the text of a valid JSON string without its quotation marks.
// Half a surrogate pair becomes U+FFFD, as in encoding/json, so that the result
// is always UTF-8.
func unescape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := hex4(s)
			s = s[4:]
			if utf16.IsSurrogate(r) {
				r, s = pair(r, s)
			}
			b.WriteRune(r)
			continue
		default: // a quotation mark, a slash or a backslash
		}
		b.WriteByte(c)
	}
}

// pair joins a surrogate with the one that follows in s, if there is one.
func pair(high rune, s string) (rune, string) {
	if len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
		if r := utf16.DecodeRune(high, hex4(s[2:])); r != utf8.RuneError {
			return r, s[6:]
		}
	}
	return utf8.RuneError, s
}

// hex4 reads the four digits after \u, which the parser has checked.
func hex4(s string) (r rune) {
	for i := range 4 {
		c := rune(s[i])
		if c > '9' {
			c += 9 // the low bits of letters begin at 1
		}
		r = r<<4 | c&0xf
	}
	return r
}
