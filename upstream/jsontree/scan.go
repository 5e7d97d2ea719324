package jsontree

import (
	"math/bits"
	"unicode/utf8"
)

// str parses the string that starts at i and tells whether there is an escape
// in it. It looks at eight bytes at a time for what ends a run of ordinary
// bytes: a quotation mark, a backslash or a control character. A subtraction
// borrows only upwards, so the lowest byte that is flagged is always a true one.
func (p *parser) str(start int) (end int, esc bool) {
	s, i := p.s, start+1
	high := uint64(0) // the bytes so far, for those past ASCII
	for {
		if i+8 <= len(s) {
			b := s[i : i+8]
			w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
				uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
			flags := (((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones) | (w - ones*0x20)) &^ w & highs
			if flags == 0 {
				high |= w
				i += 8
				continue
			}
			high |= w & (flags&-flags - 1)
			i += bits.TrailingZeros64(flags) / 8
		} else if i >= len(s) {
			return p.fail(i, "a string is not closed"), esc
		}
		switch c := s[i]; {
		case c == '"':
			if high&highs != 0 && !utf8.ValidString(s[start:i]) {
				p.invalidUTF8 = true
			}
			return i + 1, esc
		case c == '\\':
			n := escapeLen(s[i:])
			if n == 0 {
				return p.fail(i, "unknown escape in a string"), esc
			}
			esc = true
			i += n
		case c < 0x20:
			return p.fail(i, "control character in a string"), esc
		default: // the last few bytes of the text come one by one
			high |= uint64(c)
			i++
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// escapeLen gives the length of the escape that s starts with, 0 for none.
func escapeLen(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(s) < 6 {
			return 0
		}
		for _, c := range []byte(s[2:6]) {
			if !isHex(c) {
				return 0
			}
		}
		return 6
	}
	return 0
}

// isHex is true for hexadecimal digits of both cases.
func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// number parses by the grammar of RFC 8259 and keeps the text: no conversion,
// no digits lost.
func (p *parser) number(i int) int {
	s := p.s
	if s[i] == '-' {
		i++
	}
	start := i
	if i = digits(s, i); i == start {
		return p.fail(i, "a value is expected")
	}
	if s[start] == '0' {
		i = start + 1 // a zero stands alone
	}
	if i < len(s) && s[i] == '.' {
		start = i + 1
		if i = digits(s, start); i == start {
			return p.fail(i, "a digit is expected")
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		start = i
		if i = digits(s, start); i == start {
			return p.fail(i, "a digit is expected")
		}
	}
	return i
}

// digits gives the position after the digits that start at i.
func digits(s string, i int) int {
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
