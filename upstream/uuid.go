package upstream

import "strings"

// uuidDigits is how many hexadecimal digits a UUID has.
const uuidDigits = 32

// uuidSpans finds the UUIDs in a text. It looks at every 32nd byte only: a UUID
// is at least that long, so one of its bytes is among them.
func (set *idSet) uuidSpans(s string, spans []span) []span {
	for i := uuidDigits - 1; i < len(s); {
		if hexDash(s[i]) == 0 {
			i += uuidDigits
			continue
		}
		from, to := i, i+1
		for from > 0 && hexDash(s[from-1]) != 0 {
			from--
		}
		for to < len(s) && hexDash(s[to]) != 0 {
			to++
		}
		if to-from >= uuidDigits {
			spans = set.uuidsIn(s[:to], from, spans)
		}
		i = to + uuidDigits - 1 // s[to] is neither digit nor dash
	}
	return spans
}

// uuidsIn finds the UUIDs in the digits and dashes from a place to the end of s.
// If there are no more digits than one has, those are it. Among more of them it
// may begin anywhere: only what is known can be told apart, and then whatever
// is left that could be one.
func (set *idSet) uuidsIn(s string, from int, spans []span) []span {
	switch digits := len(s) - from - strings.Count(s[from:], "-"); {
	case digits < uuidDigits:
		return spans
	case digits == uuidDigits:
		for s[from] == '-' {
			from++
		}
		to := len(s)
		for s[to-1] == '-' {
			to--
		}
		return append(spans, span{from, to})
	}
	for _, known := range uuidsWithin(s, from, set.isUUID, nil) {
		spans = uuidsWithin(s[:known.from], from, anyUUID, spans)
		spans = append(spans, known)
		from = known.to
	}
	return uuidsWithin(s, from, anyUUID, spans)
}

// uuidsWithin tries every position.
func uuidsWithin(s string, from int, wanted func([16]byte) bool, spans []span) []span {
	for from < len(s) {
		if key, n := uuidAt(s[from:]); n > 0 && wanted(key) {
			spans = append(spans, span{from, from + n})
			from += n
			continue
		}
		from++
	}
	return spans
}

// anyUUID wants every one.
func anyUUID([16]byte) bool { return true }

// uuidAt reads 32 hexadecimal digits, dashes ignored, that s starts with. n is
// 0 if there are fewer.
func uuidAt(s string) (key [16]byte, n int) {
	digits := 0
	for n < len(s) {
		d := hexDash(s[n])
		if d == 0 || n == 0 && d == dash {
			return key, 0
		}
		n++
		if d == dash {
			continue
		}
		key[digits/2] = key[digits/2]<<4 | (d - 1)
		if digits++; digits == uuidDigits {
			return key, n
		}
	}
	return key, 0
}

// uuid36 reads the usual notation, which nearly every id of a reply is in, eight
// digits at a time.
func uuid36(s string) (key [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return key, false
	}
	bad := uint64(0)
	for i, at := range [4][2]int{{0, 4}, {9, 14}, {19, 24}, {28, 32}} {
		v, wrong := hex8(uint64(four(s, at[0]))<<32 | uint64(four(s, at[1])))
		bad |= wrong
		key[4*i], key[4*i+1], key[4*i+2], key[4*i+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
	}
	return key, bad == 0
}

// four gives the four bytes at i, the first one highest.
func four(s string, i int) uint32 {
	b := s[i : i+4]
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// hex8 reads eight hexadecimal digits, one in each byte of w. bad is 0 if all of
// them are digits. Each step does the same to all eight bytes, and none carries
// into another one.
func hex8(w uint64) (v uint32, bad uint64) {
	letters := w >> 6 & ones // 1 for a letter
	v64 := w&(ones*0x0f) + letters*9
	bad = (w|letters<<5)&(ones*0xf0) ^ (ones+letters)*0x30 // digits are 3x, letters 4x or 6x
	bad |= v64 & (ones * 0x10)                             // 16 or more
	bad |= (v64+ones*6)>>4&ones ^ letters                  // 10 or more, but no letter, or the reverse
	v64 = (v64>>4 | v64) & 0x00ff00ff00ff00ff
	v64 = (v64>>8 | v64) & 0x0000ffff0000ffff
	return uint32(v64>>16 | v64), bad
}

const dash = 0xff

// hexDash is the value of a hexadecimal digit plus one, dash for a dash, 0 for
// all other bytes.
func hexDash(c byte) byte { return hexDashTable[c] }

// hexDashTable has one byte for each byte. A switch costs three times as much.
const hexDashTable = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\x00\x00" +
	"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x00\x00\x00\x00\x00\x00" +
	"\x00\x0b\x0c\x0d\x0e\x0f\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x0b\x0c\x0d\x0e\x0f\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	pastASCII + pastASCII

const pastASCII = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
