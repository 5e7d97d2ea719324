package leakguard

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// headBytes is how many bytes an id is filed under that is no UUID and not shorter.
const headBytes = 4

// Lengths at which the rules change, in characters.
const (
	shortID = 3 // and fewer: texts are full of such words
	longID  = 8 // and more: removed in doubt; below texts must stay readable
)

// words are the ids that are no UUIDs: numbers without the zeros before them, and the others
// by their first bytes and length. Ids that are numbered in sequence share both, so neither
// adding nor finding one may cost more the more there are.
type words struct {
	all     map[string]struct{}
	numbers map[string]struct{}       // nil: no id is one
	lengths map[[headBytes]byte][]int // by the first bytes, the longest first
	first   [256]bool                 // first bytes
	low     byte                      // the smallest and the largest of them; none: 255 and 0
	high    byte
	heads   [64]uint64 // a filter in front of lengths
	short   bool       // some have fewer than headBytes
}

// add files an id, unless it is there.
func (w *words) add(id string) {
	if _, known := w.all[id]; known {
		return
	}
	w.all[id] = struct{}{}
	if digitsAt(id, 0) == len(id) {
		if w.numbers == nil {
			w.numbers = make(map[string]struct{}, 64)
		}
		w.numbers[Significant(id)] = struct{}{}
		return
	}
	w.first[id[0]], w.low, w.high = true, min(w.low, id[0]), max(w.high, id[0])
	if len(id) < headBytes {
		w.short = true
		return
	}
	bit := headBit(id, 0)
	w.heads[bit>>6] |= 1 << (bit & 63)
	head := [headBytes]byte([]byte(id[:headBytes]))
	lengths := w.lengths[head]
	if at, found := slices.BinarySearchFunc(lengths, len(id), func(a, b int) int { return b - a }); !found {
		w.lengths[head] = slices.Insert(lengths, at, len(id))
	}
}

// headBit spreads the first bytes of an id over the filter's 4096 bits.
func headBit(s string, i int) uint32 {
	b := s[i : i+headBytes]
	w := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	return w * 0x9e3779b1 >> 20
}

// Significant is what counts of an id: of a number the digits after the zeros that it begins
// with, if there are any.
func Significant(id string) string {
	if short := strings.TrimLeft(id, "0"); short != "" && digitsAt(id, 0) == len(id) {
		return short
	}
	return id
}

// digitsAt is how many digits there are from i on.
func digitsAt(s string, i int) (n int) {
	for i+n < len(s) && isDigit(s[i+n]) {
		n++
	}
	return n
}

// find finds the ids in a text, which may overlap.
func (w *words) find(s string, spans []span) []span {
	for i := 0; w.numbers != nil; {
		if i = next(s, i, '0', '9'); i == len(s) {
			break
		}
		n := digitsAt(s, i)
		if w.isNumber(s[i:i+n]) && counts(s, i, i+n) {
			spans = append(spans, span{i, i + n})
		}
		i += n
	}
	for i := next(s, 0, w.low, w.high); i+headBytes <= len(s); i = next(s, i+1, w.low, w.high) {
		if !w.first[s[i]] {
			continue
		}
		if bit := headBit(s, i); w.heads[bit>>6]>>(bit&63)&1 == 0 {
			continue
		}
		for _, n := range w.lengths[[headBytes]byte([]byte(s[i:i+headBytes]))] {
			if w.at(s, i, n) {
				spans = append(spans, span{i, i + n})
				break
			}
		}
	}
	for i := 0; w.short && i < len(s); i++ {
		for n := headBytes - 1; n > 0 && w.first[s[i]]; n-- {
			if w.at(s, i, n) {
				spans = append(spans, span{i, i + n})
				break
			}
		}
	}
	return spans
}

// next is where the next byte from low to high is, at i or behind it; len(s): nowhere. It
// looks at eight bytes at a time.
func next(s string, i int, low, high byte) int {
	const each = 0x0101010101010101
	if low > high {
		return len(s)
	}
	for ; high < utf8.RuneSelf && i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		v := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		// No byte carries into the one above it: of 7 bits plus 0x80-low the highest is set
		// from low on, of 0x80+high less 7 bits up to high. Bytes from 0x80 on are none.
		seven := v & (0x7f * each)
		in := (seven + uint64(0x80-low)*each) & (uint64(0x80+high)*each - seven) &^ v & (0x80 * each)
		if in != 0 {
			return i + bits.TrailingZeros64(in)/8
		}
	}
	for i < len(s) && (s[i] < low || s[i] > high) {
		i++
	}
	return i
}

// isNumber tells whether digits are an id, with whatever zeros before them. With zeros up to
// three digits are more often a day or an hour, so that these must be written as the id is.
func (w *words) isNumber(digits string) bool {
	if digits[0] == '0' && len(digits) <= shortID {
		_, same := w.all[digits]
		return same
	}
	_, known := w.numbers[Significant(digits)]
	return known
}

// at tells whether an id of n bytes stands at i.
func (w *words) at(s string, i, n int) bool {
	if i+n > len(s) {
		return false
	}
	_, known := w.all[s[i:i+n]]
	return known && counts(s, i, i+n)
}

// counts tells whether s[from:to], which is written as an id is, is one there and no part
// of something else. Which rule holds follows from the id alone.
func counts(s string, from, to int) bool {
	if from > 0 && isDigit(s[from]) && isDigit(s[from-1]) || to < len(s) && isDigit(s[to-1]) && isDigit(s[to]) {
		return false
	}
	id := s[from:to]
	digits, chars := 0, utf8.RuneCountInString(id)
	for i := range len(id) {
		if isDigit(id[i]) {
			digits++
		}
	}
	switch {
	case inWord(s, from, chars, digits) || inWord(s, to, chars, digits):
		return false
	case digits == len(id) && chars < longID:
		return !partOfNumber(s, from, to)
	}
	return true
}

// unspaced are the scripts whose words have no space between them, and Hangul,
// whose particles follow a word without one.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// inWord tells whether the characters before and after a place, where an id of so many
// characters starts or ends, belong to one word. Of a short id every letter, digit and "_"
// beside it is of its word: 7번 is number seven or seven of something. Another one without
// digits is a part of a word of a script with spaces; if it is long only letters count.
func inWord(s string, at, chars, digits int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	after, _ := utf8.DecodeRuneInString(s[at:])
	in := func(r rune) bool {
		letter := unicode.In(r, unicode.Letter, unicode.Mark)
		spaced := letter && !unicode.In(r, unspaced...) && r != 'ー'
		switch {
		case chars <= shortID:
			return letter || unicode.IsDigit(r) || r == '_'
		case chars >= longID:
			return spaced
		}
		return spaced || unicode.IsDigit(r) || r == '_'
	}
	return at > 0 && at < len(s) && (chars <= shortID || digits == 0) && in(before) && in(after)
}

// How a number of digits goes on, as people write it: in decimals, or in a group of three.
var (
	decimalsAfter   = regexp.MustCompile(`^(?:\.[0-9]|,[0-9]{1,2}(?:[^0-9]|$))`)
	decimalsBefore  = regexp.MustCompile(`[0-9]\.$`)
	decimalsBefore2 = regexp.MustCompile(`[0-9],$`) // of one or two
	groupAfter      = regexp.MustCompile(`^[., '’\x{a0}\x{2009}\x{202f}][0-9]{3}(?:[^0-9]|$)`)
	groupBefore     = regexp.MustCompile(`(?:^|[^0-9])[0-9]{1,3}[., '’\x{a0}\x{2009}\x{202f}]$`)
)

// partOfNumber tells whether the digits of s[from:to] are a part of a longer number: 57 in
// 57,000 and in 1.57. 4711,4712 are two ids.
func partOfNumber(s string, from, to int) bool {
	const context = 8 // bytes that can matter: a separator, a group, and what ends it
	before, after, digits := s[max(0, from-context):from], s[to:min(len(s), to+context)], to-from
	return decimalsAfter.MatchString(after) || decimalsBefore.MatchString(before) ||
		digits <= 2 && decimalsBefore2.MatchString(before) ||
		digits <= 3 && groupAfter.MatchString(after) || digits == 3 && groupBefore.MatchString(before)
}

// isDigit is true for the digits of ASCII: no other ones are in ids.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// shortForm gives the 15 characters of an 18-character id, empty if the last three are
// not their checksum: they tell which of its letters are capitals, five in each.
func shortForm(id string) string {
	if len(id) != 18 {
		return ""
	}
	for group := range 3 {
		sum := 0
		for i := range 5 {
			switch c := id[group*5+i]; {
			case c >= 'A' && c <= 'Z':
				sum |= 1 << i
			case !isDigit(c) && (c < 'a' || c > 'z'):
				return ""
			}
		}
		if id[15+group] != "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"[sum] {
			return ""
		}
	}
	return id[:15]
}
