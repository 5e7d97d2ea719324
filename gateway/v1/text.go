package v1

import (
	"math/bits"
	"unicode/utf8"

	"inquiry-gateway/upstream"
)

const (
	hexDigits = "0123456789abcdef"

	// Eight bytes at a time: the same byte in each of the eight places.
	ones  = 0x0101010101010101
	highs = 0x80 * ones

	// U+2028 and U+2029 begin with this byte. JSON allows them as they are;
	// JavaScript before 2019 does not, so they are escaped.
	separatorLead = 0xe2
)

func appendNullString(dst []byte, s upstream.NullString) []byte {
	if !s.Valid {
		return append(dst, `null`...)
	}
	return AppendString(dst, s.String)
}

// AppendString appends s as a JSON string (RFC 8259, section 7), byte for byte
// as encoding/json does with HTML escaping off: each byte that is not part of
// valid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	if !utf8.ValidString(s) {
		return append(appendRepaired(dst, s), '"')
	}
	for {
		n := plain(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		var used int
		dst, used = appendSpecial(dst, s[n:])
		s = s[n+used:]
	}
}

// appendRepaired is the slow way for text that is not valid UTF-8.
func appendRepaired(dst []byte, s string) []byte {
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, `\ufffd`...)
		} else {
			dst, size = appendSpecial(dst, s)
		}
		s = s[size:]
	}
	return dst
}

// appendSpecial appends the first character of s, escaped where it has to be,
// and tells how many bytes of s it was. s is not empty and starts with a valid
// character.
func appendSpecial(dst []byte, s string) ([]byte, int) {
	switch c := s[0]; {
	case c == '"' || c == '\\':
		return append(dst, '\\', c), 1
	case c < 0x20:
		return appendControl(dst, c), 1
	case c < utf8.RuneSelf:
		return append(dst, c), 1
	}
	r, size := utf8.DecodeRuneInString(s)
	if r == '\u2028' || r == '\u2029' {
		return append(dst, '\\', 'u', '2', '0', '2', hexDigits[r&0xf]), size
	}
	return append(dst, s[:size]...), size
}

func appendControl(dst []byte, c byte) []byte {
	switch c {
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// plain counts the leading bytes of s that need no look: everything but
// control characters, quotes, backslashes and the lead byte of the separators.
func plain(s string) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		// A borrow can mark a byte too many, but only above one marked
		// rightly, so the lowest mark is always right.
		mark := (w - 0x20*ones) &^ w
		mark |= zero(w ^ '"'*ones)
		mark |= zero(w ^ '\\'*ones)
		mark |= zero(w ^ separatorLead*ones)
		if mark &= highs; mark != 0 {
			return i + bits.TrailingZeros64(mark)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c == separatorLead {
			return i
		}
	}
	return i
}

// zero marks the high bit of each byte of w that is zero.
func zero(w uint64) uint64 { return (w - ones) &^ w }
