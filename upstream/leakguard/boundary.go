package leakguard

import (
	"unicode"
	"unicode/utf8"
)

// form says where in a text an id counts. Which one an id has follows from the id
// alone.
type form uint8

const (
	mixed       form = iota // anywhere but within a longer number
	shortMixed              // the same, of up to three characters: a whole word
	word                    // without digits: a whole word
	longWord                // likewise, but digits and "_" may stand beside it
	number                  // digits only: not a part of a longer number as people write it
	shortNumber             // the same, and a whole word
	longNumber              // anywhere but within a longer run of digits
)

// longID is from how many characters an id is removed in doubt. A shorter one is
// left in doubt, because texts must stay readable.
const longID = 8

// formOf is the form of an id. The first test finds the usual one without looking at
// all of its bytes.
func formOf(id string) form {
	if len(id) >= longHead && !isDigit(id[0]) && isDigit(id[len(id)-1]) {
		return mixed // the usual one, such as INC0010001
	}
	digits, others := 0, 0 // others: further bytes of characters past ASCII
	for i := range len(id) {
		switch {
		case isDigit(id[i]):
			digits++
		case !utf8.RuneStart(id[i]):
			others++
		}
	}
	long, short := len(id)-others >= longID, len(id) < longHead
	switch {
	case len(id) >= longest: // its end is not compared
		return mixed
	case digits == len(id) && short:
		return shortNumber
	case digits == len(id) && long:
		return longNumber
	case digits == len(id):
		return number
	case digits > 0 && short:
		return shortMixed
	case digits > 0:
		return mixed
	case long:
		return longWord
	}
	return word
}

// counts tells whether s[from:to] is an id there, and no part of something else.
func (f form) counts(s string, from, to int) bool {
	if from > 0 && isDigit(s[from]) && isDigit(s[from-1]) || to < len(s) && isDigit(s[to-1]) && isDigit(s[to]) {
		return false
	}
	switch f {
	case shortMixed, word, longWord:
		return !joined(s, from, f == longWord) && !joined(s, to, f == longWord)
	case number:
		return !groupedBefore(s, from, to-from) && !groupedAfter(s, to, to-from)
	case shortNumber:
		return isEdge(s, from) && isEdge(s, to) && !groupedBefore(s, from, to-from) && !groupedAfter(s, to, to-from)
	}
	return true
}

// unspaced are the scripts whose words have no space between them, and Hangul,
// whose particles follow a word without one.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// The kinds of characters that words are made of.
const (
	noWord = iota
	spacedWord
	unspacedWord
)

// kindOf is the kind of a character.
func kindOf(r rune) int {
	switch {
	case r < utf8.RuneSelf:
		if asciiWord(byte(r)) {
			return spacedWord
		}
	case unicode.In(r, unspaced...) || r == 'ー':
		return unspacedWord
	case unicode.In(r, unicode.Letter, unicode.Digit, unicode.Mark):
		return spacedWord
	}
	return noWord
}

// joined tells whether the characters before and after a place belong to one word:
// both are of scripts with spaces, or both of scripts without. If the id is long,
// only letters of scripts with spaces make it a part of a word.
func joined(s string, at int, long bool) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	after, _ := utf8.DecodeRuneInString(s[at:])
	if at == 0 || at == len(s) || kindOf(before) != kindOf(after) {
		return false
	}
	if long {
		return kindOf(before) == spacedWord && !noLetter(before) && !noLetter(after)
	}
	return kindOf(before) != noWord
}

// noLetter tells whether a character of a word is no letter.
func noLetter(r rune) bool { return r == '_' || unicode.IsDigit(r) }

// isEdge tells whether a number may start or end at a place: no letter of any script,
// no digit and no "_" on its other side. 7번 is number seven or seven of something.
func isEdge(s string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	after, _ := utf8.DecodeRuneInString(s[at:])
	return at == 0 || at == len(s) || kindOf(before) == noWord || kindOf(after) == noWord
}

// groupedBefore tells whether the digits at a place, so many of them, go on a number
// that stands before them, such as 057 in 1,057.
func groupedBefore(s string, at, digits int) bool {
	sep, n := utf8.DecodeLastRuneInString(s[:at])
	from := at - n
	for from > 0 && isDigit(s[from-1]) && at-n-from <= 3 {
		from--
	}
	return oneNumber(sep, at-n-from, digits)
}

// groupedAfter tells whether the digits that end at a place, so many of them, go on
// after it, such as 57 in 57,000.
func groupedAfter(s string, at, digits int) bool {
	sep, n := utf8.DecodeRuneInString(s[at:])
	to := at + n
	for to < len(s) && isDigit(s[to]) && to-at-n <= 3 {
		to++
	}
	return oneNumber(sep, digits, to-at-n)
}

// oneNumber tells whether so many digits before and after a separator are one number:
// three after up to three are a group, and one or two after a comma, or any after a
// point, are decimals. 4711,4712 are two ids. Runs of four or more count as four.
func oneNumber(sep rune, before, after int) bool {
	if before == 0 || after == 0 {
		return false
	}
	group := before <= 3 && after == 3
	switch sep {
	case '.':
		return true
	case ',':
		return group || after <= 2
	case ' ', '\'', '’', '\u00a0', '\u2009', '\u202f':
		return group
	}
	return false
}

// isDigit is true for the digits of ASCII: no other ones are in ids.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// asciiWord is true for letters and digits of ASCII, and "_".
func asciiWord(c byte) bool { return isDigit(c) || c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// caseSafe is the length of an id that has three characters more than its short
// form. They tell which of its letters are capitals, five in each.
const caseSafe = 18

// shortForm gives the 15 characters of an 18-character id, empty if the last three
// are not their checksum.
func shortForm(id string) string {
	if len(id) != caseSafe {
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
