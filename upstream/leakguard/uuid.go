package leakguard

import "strings"

// uuid is the value of 32 hexadecimal digits.
type uuid struct{ high, low uint64 }

// uuidDigits is how many hexadecimal digits a UUID has.
const uuidDigits = 32

// uuidSpans finds the UUIDs in a text. It looks at every 32nd byte only: a UUID
// is at least that long, so one of its bytes is among them.
func (set *Set) uuidSpans(s string, spans []span) []span {
	for i := uuidDigits - 1; i < len(s); {
		if hexDash[s[i]] == 0 {
			i += uuidDigits
			continue
		}
		from, to := i, i+1
		for from > 0 && hexDash[s[from-1]] != 0 {
			from--
		}
		for to < len(s) && hexDash[s[to]] != 0 {
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
func (set *Set) uuidsIn(s string, from int, spans []span) []span {
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

// isUUID looks a key up. Most replies quote no id next to other digits, so the
// index is made at the first question.
func (set *Set) isUUID(key uuid) bool {
	if set.indexed != len(set.uuids) {
		set.indexed, set.known = len(set.uuids), make(map[uuid]struct{}, len(set.uuids))
		for _, key := range set.uuids {
			set.known[key] = struct{}{}
		}
	}
	_, known := set.known[key]
	return known
}

// uuidsWithin tries every position.
func uuidsWithin(s string, from int, wanted func(uuid) bool, spans []span) []span {
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

// anyUUID is true for every UUID: one that is not known may be of a record that a
// filter left out.
func anyUUID(uuid) bool { return true }

// uuidAt reads 32 hexadecimal digits, dashes ignored, that s starts with. n is
// 0 if there are fewer.
func uuidAt(s string) (key uuid, n int) {
	digits := 0
	for n < len(s) {
		d := hexDash[s[n]]
		if d == 0 || n == 0 && d == dash {
			return key, 0
		}
		n++
		if d == dash {
			continue
		}
		key.high = key.high<<4 | key.low>>60
		key.low = key.low<<4 | uint64(d-1)
		if digits++; digits == uuidDigits {
			return key, n
		}
	}
	return key, 0
}

// uuid36 reads the usual notation, which nearly every id of a reply is in, eight
// digits at a time.
func uuid36(s string) (key uuid, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return key, false
	}
	a, badA := hex8(four(s, 0)<<32 | four(s, 4))
	b, badB := hex8(four(s, 9)<<32 | four(s, 14))
	c, badC := hex8(four(s, 19)<<32 | four(s, 24))
	d, badD := hex8(four(s, 28)<<32 | four(s, 32))
	return uuid{a<<32 | b, c<<32 | d}, badA|badB|badC|badD == 0
}

// quotedUUID has the length of a UUID in a reply.
const quotedUUID = `"6f1c2a34-1111-4222-8333-9444555666aa"`

// usualIDs is how many ids a set has room for at first: 1 KiB.
const usualIDs = 64

// AddQuoted adds the id if a UUID in its usual notation and in quotation marks
// starts at s[i]; that is a valid JSON string, too. It returns the length of what
// it read, 0 if it is something else.
func (set *Set) AddQuoted(s string, i int) int {
	if len(s)-i < len(quotedUUID) || s[i] != '"' || s[i+len(quotedUUID)-1] != '"' {
		return 0
	}
	key, ok := uuid36(s[i+1 : i+len(quotedUUID)-1])
	if !ok {
		return 0
	}
	if set.uuids == nil {
		set.uuids = make([]uuid, 0, usualIDs)
	}
	set.uuids = append(set.uuids, key)
	return len(quotedUUID)
}

// four gives the four bytes at i, the first one highest.
func four(s string, i int) uint64 {
	b := s[i : i+4]
	return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
}

// ones has a 1 in each of its bytes.
const ones = 0x0101010101010101

// hex8 reads eight hexadecimal digits, one in each byte of w. bad is 0 if all of
// them are digits. Each step does the same to all eight bytes, and none carries
// into another one.
func hex8(w uint64) (v, bad uint64) {
	letters := w >> 6 & ones // 1 for a letter
	v = w&(ones*0x0f) + letters*9
	bad = (w|letters<<5)&(ones*0xf0) ^ (ones+letters)*0x30 // digits are 3x, letters 4x or 6x
	bad |= v & (ones * 0x10)                               // 16 or more
	bad |= (v+ones*6)>>4&ones ^ letters                    // 10 or more, but no letter, or the reverse
	v = (v>>4 | v) & 0x00ff00ff00ff00ff
	v = (v>>8 | v) & 0x0000ffff0000ffff
	return (v>>16 | v) & 0xffffffff, bad
}

const dash = 0xff

// hexDash is the value of a hexadecimal digit plus one, dash for a dash, 0 for all other
// bytes. It is never written to. A switch costs three times as much.
var hexDash = func() (table [256]byte) {
	for i, c := range []byte("0123456789abcdef") {
		table[c] = byte(i + 1)
		table[strings.ToUpper(string(c))[0]] = byte(i + 1)
	}
	table['-'] = dash
	return table
}()
