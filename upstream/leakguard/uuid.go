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
// them. It counts all bytes of a reply's ids, so that it has no branches on the way.
func isUUID(id string) bool {
	if len(id) < uuidDigits || id[0] == '-' || id[len(id)-1] == '-' {
		return false
	}
	digits, others := 0, 0
	for i := range len(id) {
		kind := uuidByte[id[i]]
		digits, others = digits+int(kind&1), others+int(kind>>1)
	}
	return digits == uuidDigits && others == 0
}

// uuidByte is 1 for hexadecimal digits, 0 for dashes, and 2 for all else. It is never written to.
var uuidByte = func() (table [256]uint8) {
	for c := range table {
		switch {
		case !hexDash[c]:
			table[c] = 2
		case c != '-':
			table[c] = 1
		}
	}
	return table
}()

// hexDash is true for hexadecimal digits and dashes. It is never written to. A switch
// costs three times as much.
var hexDash = func() (table [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF-") {
		table[c] = true
	}
	return table
}()
