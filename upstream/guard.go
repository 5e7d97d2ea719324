package upstream

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// removed stands in for an internal id that was quoted in a text.
const removed = "[removed]"

// idSet is every internal id of one reply. An id is looked for
//   - anywhere in a text if it is a UUID or 32 hexadecimal digits, in any case,
//     with or without dashes. One such id is enough to look for all of that
//     form: a text may quote a record that a filter left out of this reply;
//   - anywhere if it has at least four characters, but where it starts or ends
//     with a digit not within a longer number;
//   - as a whole word only if it is shorter, so that id 7 leaves 2017 alone.
type idSet struct {
	keys  [][16]byte            // the UUIDs
	uuids map[[16]byte]struct{} // the same, once a text holds something of their shape
	long  map[string]struct{}
	heads map[[4]byte][]int // by the first four bytes, the lengths of the long ids, the longest first
	first [256]bool         // first bytes of the long ids
	short map[string]struct{}
}

// add takes an id, or all ids within an array or object.
func (set *idSet) add(v value) {
	switch v.kind {
	case text, number:
		set.addString(v.String())
	case array, object:
		gjson.Parse(v.raw).ForEach(func(_, item gjson.Result) bool {
			set.add(fromGJSON(item))
			return true
		})
	case missing, null, boolean:
	}
}

// addString finds out which of the three sorts of id it is.
func (set *idSet) addString(id string) {
	if id = strings.TrimSpace(id); id == "" || id == "{}" {
		return
	}
	if id[0] == '{' && id[len(id)-1] == '}' {
		id = id[1 : len(id)-1]
	}
	if key, ok := uuid36(id); ok {
		set.keys = append(set.keys, key)
		return
	}
	if key, n := uuidAt(id); n > 0 && n == len(id) {
		set.keys = append(set.keys, key)
		return
	}
	if len(id) < 4 {
		if set.short == nil {
			set.short = make(map[string]struct{})
		}
		set.short[id] = struct{}{}
		return
	}
	set.addLong(id)
}

// longest bounds what of an id is compared. The rest of a longer one goes with
// its start.
const longest = 256

// addLong keeps ids by their first bytes and length. Ids that are numbered in
// sequence share both, so neither adding nor finding one may cost more the more
// there are.
func (set *idSet) addLong(id string) {
	if set.long == nil {
		set.long, set.heads = make(map[string]struct{}, 64), make(map[[4]byte][]int)
	}
	id = id[:min(len(id), longest)]
	if _, known := set.long[id]; known {
		return
	}
	set.long[id] = struct{}{}
	set.first[id[0]] = true
	head := [4]byte{id[0], id[1], id[2], id[3]}
	lengths := set.heads[head]
	at, found := slices.BinarySearchFunc(lengths, len(id), func(a, b int) int { return b - a })
	if !found {
		set.heads[head] = slices.Insert(lengths, at, len(id))
	}
}

// isUUID looks a key up. Most replies quote no id at all, so the set is made at
// the first question.
func (set *idSet) isUUID(key [16]byte) bool {
	if len(set.uuids) == 0 {
		set.uuids = make(map[[16]byte]struct{}, len(set.keys))
		for _, k := range set.keys {
			set.uuids[k] = struct{}{}
		}
	}
	_, ok := set.uuids[key]
	return ok
}

// empty tells whether there is nothing to look for.
func (set *idSet) empty() bool {
	return len(set.keys) == 0 && len(set.heads) == 0 && len(set.short) == 0
}

// clean gives the text without the ids, and how many there were.
func (set *idSet) clean(s string) (string, int) {
	uuids, long, short := 0, 0, 0
	if len(set.keys) > 0 && len(s) >= 32 {
		// The known ones first: next to other digits only they can be told apart.
		var others int
		s, uuids = replaceSpans(s, uuidSpans(s, set.isUUID))
		s, others = replaceSpans(s, uuidSpans(s, anyUUID))
		uuids += others
	}
	if len(set.heads) > 0 && len(s) >= 4 {
		s, long = replaceSpans(s, spansAt(s, set.longAt))
	}
	if len(set.short) > 0 && s != "" {
		s, short = replaceSpans(s, spansAt(s, set.shortAt))
	}
	return s, uuids + long + short
}

// span is a part of a text, from its first byte to the one after its last.
type span struct{ from, to int }

// replaceSpans gives the text with the spans taken out, and their number. The
// spans are in order and do not overlap.
func replaceSpans(s string, spans []span) (string, int) {
	if len(spans) == 0 {
		return s, 0
	}
	var b strings.Builder
	at := 0
	for _, sp := range spans {
		b.WriteString(s[at:sp.from])
		b.WriteString(removed)
		at = sp.to
	}
	b.WriteString(s[at:])
	return b.String(), len(spans)
}

// uuidSpans looks at every 32nd byte only: a UUID is at least that long, so one
// of its bytes is among them.
func uuidSpans(s string, wanted func([16]byte) bool) (spans []span) {
	for i := 31; i < len(s); {
		if hexDash(s[i]) == 0 {
			i += 32
			continue
		}
		from, to := i, i+1
		for from > 0 && hexDash(s[from-1]) != 0 {
			from--
		}
		for to < len(s) && hexDash(s[to]) != 0 {
			to++
		}
		if to-from >= 32 {
			spans = uuidsWithin(s[:to], from, wanted, spans)
		}
		i = to + 31 // s[to] is neither digit nor dash
	}
	return spans
}

// uuidsWithin tries every position, because digits next to an id hide where
// it begins.
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
		if digits++; digits == 32 {
			return key, n
		}
	}
	return key, 0
}

// uuid36 reads the usual notation, which nearly every id of a reply is in, in a
// third of the time.
func uuid36(s string) (key [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return key, false
	}
	bad := byte(0)
	for i, at := range [16]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
		high, low := hexDash(s[at])-1, hexDash(s[at+1])-1
		bad |= high | low
		key[i] = high<<4 | low
	}
	return key, bad < 16
}

const dash = 0xff

// hexDash is the value of a hexadecimal digit plus one, dash for a dash, 0 for
// all other bytes.
func hexDash(c byte) byte {
	if c >= 0x80 {
		return 0
	}
	return hexDashTable[c]
}

// hexDashTable has one byte for each ASCII character. A switch costs three
// times as much, and every internal id of a reply goes through here.
const hexDashTable = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\x00\x00" +
	"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x00\x00\x00\x00\x00\x00" +
	"\x00\x0b\x0c\x0d\x0e\x0f\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x0b\x0c\x0d\x0e\x0f\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// longAt gives the length of the id of four characters or more that stands at i,
// 0 for none.
func (set *idSet) longAt(s string, i int) int {
	if i+4 > len(s) || !set.first[s[i]] {
		return 0
	}
	for _, n := range set.heads[[4]byte{s[i], s[i+1], s[i+2], s[i+3]}] {
		end := i + n
		if end > len(s) {
			continue
		}
		if _, known := set.long[s[i:end]]; !known {
			continue
		}
		if i > 0 && isDigit(s[i]) && isDigit(s[i-1]) || end < len(s) && isDigit(s[end-1]) && isDigit(s[end]) {
			continue
		}
		return n
	}
	return 0
}

// spansAt finds what at finds the length of, without overlap.
func spansAt(s string, at func(s string, i int) int) (spans []span) {
	for i := 0; i < len(s); {
		n := at(s, i)
		if n == 0 {
			i++
			continue
		}
		spans = append(spans, span{i, i + n})
		i += n
	}
	return spans
}

// shortAt gives the length of the id of up to three characters that stands at i
// as a whole word.
func (set *idSet) shortAt(s string, i int) int {
	if !wordStart(s, i) {
		return 0
	}
	for n := min(3, len(s)-i); n > 0; n-- {
		if _, ok := set.short[s[i:i+n]]; ok && wordStart(s, i+n) {
			return n
		}
	}
	return 0
}

// wordStart tells whether a word may start or end at i.
func wordStart(s string, i int) bool {
	return i == 0 || i == len(s) || !isWord(s[i-1]) || !isWord(s[i])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord takes every byte past ASCII for a letter, so that an id is not found
// within a word of another script.
func isWord(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
