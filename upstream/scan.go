package upstream

import "math/bits"

// str parses a string and tells whether there is an escape in it.
func (p *parser) str() (esc, ok bool) {
	s := p.s
	i := p.pos + 1
	for {
		i = plainRun(s, i)
		if i >= len(s) {
			p.pos = i
			return esc, p.fail("a string is not closed")
		}
		switch s[i] {
		case '"':
			p.pos = i + 1
			return esc, true
		case '\\':
			esc = true
			n := escapeLen(s[i:])
			if n == 0 {
				p.pos = i
				return esc, p.fail("unknown escape in a string")
			}
			i += n
		default:
			p.pos = i
			return esc, p.fail("control character in a string")
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainRun gives the index of the first byte at or after i that ends a run of
// ordinary string bytes: a quotation mark, a backslash or a control character.
// It looks at eight bytes at a time. A subtraction borrows only upwards, so the
// lowest byte that is flagged is always a true one.
func plainRun(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote := w ^ ones*'"'
		slash := w ^ ones*'\\'
		flags := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs
		if flags != 0 {
			return i + bits.TrailingZeros64(flags)/8
		}
	}
	for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= 0x20 {
		i++
	}
	return i
}

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

// isHex tells whether a byte is a hexadecimal digit.
func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// number parses by the grammar of RFC 8259 and keeps the text: no conversion,
// no digits lost.
func (p *parser) number() bool {
	if p.s[p.pos] == '-' {
		p.pos++
	}
	if p.pos < len(p.s) && p.s[p.pos] == '0' {
		p.pos++
	} else if !p.digits() {
		return p.fail("a value is expected")
	}
	if p.pos < len(p.s) && p.s[p.pos] == '.' {
		p.pos++
		if !p.digits() {
			return p.fail("a digit is expected")
		}
	}
	if p.pos < len(p.s) && p.s[p.pos]|0x20 == 'e' {
		p.pos++
		if p.pos < len(p.s) && (p.s[p.pos] == '+' || p.s[p.pos] == '-') {
			p.pos++
		}
		if !p.digits() {
			return p.fail("a digit is expected")
		}
	}
	return true
}

// digits skips digits and tells whether there was one.
func (p *parser) digits() bool {
	start := p.pos
	for p.pos < len(p.s) && p.s[p.pos] >= '0' && p.s[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}
