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
func AppendString(dst []byte, s string) []byte { return appendText(append(dst, '"'), s) }

// appendText appends s without the first quotation mark.
func appendText(dst []byte, s string) []byte {
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

// appendSpecial appends the first character of s, escaped where it has to be,
// and tells how many bytes of s it was. s is not empty.
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
	switch {
	case r == utf8.RuneError && size == 1:
		return append(dst, `\ufffd`...), 1
	case r == '\u2028' || r == '\u2029':
		return append(dst, '\\', 'u', '2', '0', '2', hexDigits[r&0xf]), size
	}
	return append(dst, s[:size]...), size
}

// appendControl uses the short escapes that encoding/json uses, and \u for the rest.
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

// plain counts the leading bytes of s that need no look: whole characters that
// are not escaped and are plainly valid UTF-8. It is one pass over the text for
// both questions, eight bytes of ASCII or one other character at a time.
func plain(s string) int {
	i := 0
	for i+8 <= len(s) {
		mark := marks(eight(s[i : i+8]))
		if mark == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(mark) / 8
		if s[i] < utf8.RuneSelf {
			return i
		}
		from := i
		if i = letters(s, i); i == from {
			return i
		}
	}
	// The last bytes, together with some that may have been looked at.
	n := len(s)
	switch {
	case i == n:
		return n
	case n >= 8:
		if marks(eight(s[n-8:])) == 0 {
			return n
		}
	case n >= 4:
		if marks(uint64(four(s[:4]))|uint64(four(s[n-4:]))<<32) == 0 {
			return n
		}
	}
	for ; i < n; i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// marks sets the high bit of each byte that is escaped or not ASCII. A borrow
// can mark a byte too many, but only above one marked rightly, so the lowest
// mark is always right.
func marks(w uint64) uint64 {
	return ((w - 0x20*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones) | w) & highs
}

// eight gives the first eight bytes of s, the first one lowest.
func eight(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// four gives the first four bytes of s, the first one lowest.
func four(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// letters skips the characters of two and three bytes at i that are valid beyond
// question, which most texts in other scripts are made of, and the spaces between
// them. Those that begin with 0xe0, or with 0xed and more than 0x9f, may not be;
// the separators begin with 0xe2.
func letters(s string, i int) int {
	for i+4 <= len(s) {
		w := four(s[i : i+4])
		switch first := byte(w); {
		case w&0xc0c0f0 == 0x8080e0 && first != 0xe0 && first != separatorLead && w&0x20ff != 0x20ed:
			i += 3
			if byte(w>>24) == ' ' {
				i++
			}
		case w&0xc0e0 == 0x80c0 && w&0x1e != 0:
			i += 2
		default:
			return i
		}
	}
	return i
}
