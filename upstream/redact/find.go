package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths at which the rules change.
const (
	shortID    = 3 // characters, and fewer: texts are full of such words
	longNumber = 8 // digits, and more: removed also from what looks like a longer number
)

// uuidSpans finds the UUIDs in a text: runs of hexadecimal digits and dashes with as many
// digits as one has, or more, as where two stand side by side. It looks at every 32nd
// byte only: a UUID is at least that long, so one of its bytes is among them.
func uuidSpans(s string, spans []span) []span {
	part := func(i int) bool { return hexDigit[s[i]] || s[i] == '-' }
	for i := uuidDigits - 1; i < len(s); {
		if !part(i) {
			i += uuidDigits
			continue
		}
		from, to := i, i+1
		for from > 0 && part(from-1) {
			from--
		}
		for to < len(s) && part(to) {
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

// numberSpans finds the ids of digits only, with any zeros before them.
func (ids *IDs) numberSpans(s string, spans []span) []span {
	for i := 0; i < len(s); i++ {
		n := digitsAt(s, i)
		if n == 0 {
			continue
		}
		if _, known := ids.numbers[TrimZeros(s[i:i+n])]; known && (n > shortID || standsAlone(s, i, i+n)) && (n >= longNumber || !partOfNumber(s, i, i+n)) {
			spans = append(spans, span{i, i + n})
		}
		i += n
	}
	return spans
}

// How a number of digits goes on, as people write it: in decimals, or in a group of three.
var (
	decimalsAfter   = regexp.MustCompile(`^(?:\.[0-9]|,[0-9]{1,2}(?:[^0-9]|$))`)
	decimalsBefore  = regexp.MustCompile(`[0-9]\.$`)
	decimalsBefore2 = regexp.MustCompile(`[0-9],$`) // of one or two
	groupAfter      = regexp.MustCompile(`^[., '’\x{a0}\x{2009}\x{202f}][0-9]{3}(?:[^0-9]|$)`)
	groupBefore     = regexp.MustCompile(`(?:^|[^0-9])[0-9]{1,3}[., '’\x{a0}\x{2009}\x{202f}]$`)
)

// partOfNumber reports whether the digits of s[from:to] are a part of a longer number: 57 in
// 57,000 and in 1.57. 4711,4712 are two ids.
func partOfNumber(s string, from, to int) bool {
	const context = 8 // bytes that can matter: a separator, a group, and what ends it
	before, after, digits := s[max(0, from-context):from], s[to:min(len(s), to+context)], to-from
	return decimalsAfter.MatchString(after) || decimalsBefore.MatchString(before) ||
		digits <= 2 && decimalsBefore2.MatchString(before) ||
		digits <= 3 && groupAfter.MatchString(after) || digits == 3 && groupBefore.MatchString(before)
}

// index finds which ids a text begins with. Ids that are numbered in sequence begin alike, so neither
// making it nor finding an id may cost more the more of them there are.
type index struct {
	ids    []string             // sorted
	parent []int                // of each id the longest other one that it begins with; -1: none
	heads  [1 << 16 / 64]uint64 // a bit for each two bytes that an id begins with, and what follows one of one byte
}

func newIndex(words map[string]struct{}) *index {
	x := &index{ids: make([]string, 0, len(words))}
	for id := range words {
		x.ids = append(x.ids, id)
		first, last := int(id[0])<<8, int(id[0])<<8|0xff
		if len(id) > 1 {
			first |= int(id[1])
			last = first
		}
		for head := first; head <= last; head++ {
			x.heads[head/64] |= 1 << (head % 64)
		}
	}
	slices.Sort(x.ids)
	x.parent = make([]int, len(x.ids))
	for i, id := range x.ids {
		p := i - 1
		for p >= 0 && !strings.HasPrefix(id, x.ids[p]) {
			p = x.parent[p]
		}
		x.parent[i] = p
	}
	return x
}

// spans finds the ids in a text, the longest at each place. They may overlap.
func (x *index) spans(s string, spans []span) []span {
	for i := range len(s) {
		head := uint16(s[i]) << 8
		if i+1 < len(s) {
			head |= uint16(s[i+1])
		}
		if x.heads[head/64]>>(head%64)&1 == 0 {
			continue
		}
		at, found := slices.BinarySearch(x.ids, s[i:])
		if !found {
			at--
		}
		for at >= 0 && !strings.HasPrefix(s[i:], x.ids[at]) {
			at = x.parent[at]
		}
		for ; at >= 0; at = x.parent[at] {
			if to := i + len(x.ids[at]); isWhole(s, i, to) {
				spans = append(spans, span{i, to})
				break
			}
		}
	}
	return spans
}

// isWhole reports whether s[from:to], which is written as an id is, is no part of something longer.
func isWhole(s string, from, to int) bool {
	id := s[from:to]
	switch {
	case utf8.RuneCountInString(id) <= shortID:
		return standsAlone(s, from, to)
	case strings.ContainsAny(id, "0123456789"):
		return !(from > 0 && isDigit(s[from]) && isDigit(s[from-1]) || to < len(s) && isDigit(s[to-1]) && isDigit(s[to]))
	}
	return !joined(s, from, isSpacedLetter) && !joined(s, to, isSpacedLetter)
}

// standsAlone reports whether neither a letter nor a digit of any script nor _ stands beside s[from:to],
// unless that begins or ends with something else.
func standsAlone(s string, from, to int) bool {
	return !joined(s, from, isWordRune) && !joined(s, to, isWordRune)
}

// joined reports whether the characters before and after a place are both of a class.
func joined(s string, at int, class func(rune) bool) bool {
	if at == 0 || at == len(s) {
		return false
	}
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	after, _ := utf8.DecodeRuneInString(s[at:])
	return class(before) && class(after)
}

func isWordRune(r rune) bool {
	return r == '_' || unicode.IsDigit(r) || unicode.In(r, unicode.Letter, unicode.Mark)
}

// isSpacedLetter reports whether a character is a letter, or a mark on one, of a script that separates
// words by spaces, and not of Hangul, whose particles follow a word without one.
func isSpacedLetter(r rune) bool {
	return unicode.In(r, unicode.Letter, unicode.Mark) && r != 'ー' &&
		!unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// digitsAt returns how many digits there are from i on.
func digitsAt(s string, i int) (n int) {
	for i+n < len(s) && isDigit(s[i+n]) {
		n++
	}
	return n
}

// isDigit reports whether a byte is a digit of ASCII: no other ones are in ids.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// hexDigit is true for hexadecimal digits. It is never written to. Comparisons cost three times as much.
var hexDigit = func() (table [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF") {
		table[c] = true
	}
	return table
}()
