package leakguard

import "strings"

// uuidDigits is how many hexadecimal digits a UUID has.
const uuidDigits = 32

// uuidSpans finds the UUIDs in a text: runs of hexadecimal digits and dashes with as many
// digits as one has, or more, as where two stand side by side. It looks at every 32nd
// byte only: a UUID is at least that long, so one of its bytes is among them.
func uuidSpans(s string, spans []span) []span {
	for i := uuidDigits - 1; i < len(s); {
		if !hexDash[s[i]] {
			i += uuidDigits
			continue
		}
		from, to := i, i+1
		for from > 0 && hexDash[s[from-1]] {
			from--
		}
		for to < len(s) && hexDash[s[to]] {
			to++
		}
		i = to + uuidDigits - 1 // s[to] is neither digit nor dash
		if to-from-strings.Count(s[from:to], "-") < uuidDigits {
			continue
		}
		for s[from] == '-' {
			from++
		}
		for s[to-1] == '-' {
			to--
		}
		spans = append(spans, span{from, to})
	}
	return spans
}

// isUUID tells whether an id has the digits of a UUID, and nothing but dashes between
// them.
func isUUID(id string) bool {
	digits := 0
	for i := range len(id) {
		if !hexDash[id[i]] {
			return false
		}
		if id[i] != '-' {
			digits++
		}
	}
	return digits == uuidDigits && id[0] != '-' && id[len(id)-1] != '-'
}

// hexDash is true for hexadecimal digits and dashes. It is never written to. A switch
// costs three times as much.
var hexDash = func() (table [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF-") {
		table[c] = true
	}
	return table
}()

// quotedUUID has the length of a UUID in a reply.
const quotedUUID = `"6f1c2a34-1111-4222-8333-9444555666aa"`

// AddQuoted adds the id if a UUID in its usual notation and in quotation marks
// starts at s[i]; that is a valid JSON string, too. It returns the length of what
// it read, 0 if it is something else.
func (set *Set) AddQuoted(s string, i int) int {
	end := i + len(quotedUUID)
	if len(s) < end || s[i] != '"' || s[end-1] != '"' || !usualUUID(s[i+1:end-1]) {
		return 0
	}
	set.uuids = true
	return len(quotedUUID)
}

// usualUUID tells whether a text is a UUID in the notation that nearly every id of a
// reply has. It reads eight digits at a time.
func usualUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	return notHex(four(s, 0)<<32|four(s, 4))|notHex(four(s, 9)<<32|four(s, 14))|
		notHex(four(s, 19)<<32|four(s, 24))|notHex(four(s, 28)<<32|four(s, 32)) == 0
}

// four are the bytes from i on.
func four(s string, i int) uint64 {
	b := s[i : i+4]
	return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
}

// ones has a 1 in each of its bytes.
const ones = 0x0101010101010101

// notHex is 0 if all eight bytes of w are hexadecimal digits. Each step does the same to
// all of them, and none carries into another one.
func notHex(w uint64) uint64 {
	letters := w >> 6 & ones // 1 for a letter
	v := w&(ones*0x0f) + letters*9
	bad := (w|letters<<5)&(ones*0xf0) ^ (ones+letters)*0x30 // digits are 3x, letters 4x or 6x
	bad |= v & (ones * 0x10)                                // 16 or more
	return bad | (v+ones*6)>>4&ones ^ letters               // 10 or more, but no letter, or the reverse
}
