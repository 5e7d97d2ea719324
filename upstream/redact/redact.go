// Package redact removes internal ids of the legacy system from texts.
package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"
)

// Removed replaces an internal id that was quoted in a text.
const Removed = "[removed]"

// IDs is every internal id of one list. It is removed from a text by four rules:
//   - A UUID is removed anywhere, in any case, with or without dashes, with the hexadecimal digits
//     and dashes beside it. If one id is a UUID, every UUID is removed: a text may quote a
//     record that a filter left out of this reply.
//   - An id with a digit is removed anywhere, unless it is a part of a longer run of digits.
//   - An id without a digit is removed unless a letter stands beside it. Letters of scripts without
//     spaces between words, and of Hangul, do not count.
//   - An id of up to three characters is removed only where no letter, digit or _ of any script
//     stands beside it.
//
// An id of digits only is removed with more or fewer zeros before it. It is not removed from a number
// as people write it, such as 57,000 or 1.57, unless it has eight digits or more. An id
// of 18 characters whose last three are the checksum of the others, as Salesforce writes them, is
// removed without these, too. Invisible characters, such as soft hyphens, do not hide an id: where
// they would, the text loses them.
//
// The zero value is empty. IDs are not safe for concurrent use.
type IDs struct {
	// Patterns match what else is removed, wherever it stands.
	Patterns []*regexp.Regexp

	uuids   bool
	numbers map[string]struct{} // ids of digits only, without zeros before them
	words   map[string]struct{} // the other ones
	index   *index              // of words; nil: it is to be made
}

// uuidDigits is the number of hexadecimal digits of a UUID.
const uuidDigits = 32

// Add adds an id. White space around it and braces are not part of it.
func (ids *IDs) Add(id string) {
	if id = strings.TrimSpace(id); len(id) > 1 && id[0] == '{' && id[len(id)-1] == '}' {
		id = strings.TrimSpace(id[1 : len(id)-1])
	}
	if id == "" {
		return
	}
	switch {
	case IsUUID(id):
		ids.uuids = true
	case digitsAt(id, 0) == len(id):
		ids.numbers = with(ids.numbers, TrimZeros(id))
	default:
		if whole, zeros, ok := strings.Cut(id, "."); ok && whole != "" && digitsAt(whole, 0) == len(whole) && zeros != "" && strings.Trim(zeros, "0") == "" {
			ids.numbers = with(ids.numbers, TrimZeros(whole)) // a number that its system has as a float
		}
		ids.words = with(ids.words, id)
		if short := shortForm(id); short != "" {
			ids.words = with(ids.words, short)
		}
		ids.index = nil
	}
}

func with(set map[string]struct{}, id string) map[string]struct{} {
	if set == nil {
		set = make(map[string]struct{}, 64)
	}
	set[id] = struct{}{}
	return set
}

// IsUUID reports whether an id has the digits of a UUID, and nothing but dashes between them.
func IsUUID(id string) bool {
	if len(id) < uuidDigits {
		return false
	}
	digits := 0
	for i := range len(id) {
		if hexDigit[id[i]] {
			digits++
		} else if id[i] != '-' {
			return false
		}
	}
	return digits == uuidDigits && id[0] != '-' && id[len(id)-1] != '-'
}

// TrimZeros returns an id of digits without the zeros before it, unless it has nothing else; and any
// other id as it is.
func TrimZeros(id string) string {
	if short := strings.TrimLeft(id, "0"); short != "" && digitsAt(id, 0) == len(id) {
		return short
	}
	return id
}

// shortForm returns the 15 characters of an 18-character id, empty if the last three are
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

// Merge adds the ids of another set, but not its patterns.
func (ids *IDs) Merge(other *IDs) {
	ids.uuids = ids.uuids || other.uuids
	other.Each(ids.Add)
}

// Each visits the ids that are no UUIDs.
func (ids *IDs) Each(visit func(id string)) {
	for id := range ids.numbers {
		visit(id)
	}
	for id := range ids.words {
		visit(id)
	}
}

// Empty reports whether there is nothing to look for.
func (ids *IDs) Empty() bool {
	return !ids.uuids && len(ids.numbers)+len(ids.words)+len(ids.Patterns) == 0
}

// Clean returns the text without the ids, and how many there were. All are looked for in the text as
// it came, so that none hides another one, and once more without its invisible characters.
func (ids *IDs) Clean(s string) (string, int) {
	spans := ids.find(s)
	if len(spans) > 0 {
		s = cut(s, spans)
	}
	if !hasInvisible(s) {
		return s, len(spans)
	}
	visible := strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, s)
	if hidden := ids.find(visible); len(hidden) > 0 {
		return cut(visible, hidden), len(spans) + len(hidden)
	}
	return s, len(spans)
}

// span is a part of a text, from its first byte to the one after its last.
type span struct{ from, to int }

// find finds all ids in a text. The spans are in order and do not overlap.
func (ids *IDs) find(s string) (spans []span) {
	if ids.uuids {
		spans = uuidSpans(s, spans)
	}
	for _, p := range ids.Patterns {
		for _, m := range p.FindAllStringIndex(s, -1) {
			if m[0] < m[1] {
				spans = append(spans, span{m[0], m[1]})
			}
		}
	}
	if len(ids.numbers) > 0 {
		spans = ids.numberSpans(s, spans)
	}
	if len(ids.words) > 0 {
		if ids.index == nil {
			ids.index = newIndex(ids.words)
		}
		spans = ids.index.spans(s, spans)
	}
	if len(spans) < 2 {
		return spans
	}
	// What overlaps is one.
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	last := 0
	for _, one := range spans[1:] {
		if one.from >= spans[last].to {
			last++
			spans[last] = one
		}
		spans[last].to = max(spans[last].to, one.to)
	}
	return spans[:last+1]
}

// cut returns a text with [Removed] in the place of its spans.
func cut(s string, spans []span) string {
	var b strings.Builder
	b.Grow(len(s) + len(spans)*len(Removed))
	at := 0
	for _, one := range spans {
		b.WriteString(s[at:one.from])
		b.WriteString(Removed)
		at = one.to
	}
	b.WriteString(s[at:])
	return b.String()
}

// ignorable are the characters that Unicode has readers ignore: soft hyphens, marks and
// joiners without a width, marks of direction, selectors of variants, and fillers. It is never written to.
var ignorable = rangetable.Merge(unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)

// mayBeInvisible are the first bytes of these in UTF-8. It is never written to.
var mayBeInvisible = func() (table [256]bool) {
	rangetable.Visit(ignorable, func(r rune) { table[string(r)[0]] = true })
	return table
}()

// hasInvisible reports whether a text has one of these.
func hasInvisible(s string) bool {
	for i := range len(s) {
		if mayBeInvisible[s[i]] {
			if r, _ := utf8.DecodeRuneInString(s[i:]); invisible(r) {
				return true
			}
		}
	}
	return false
}

// invisible reports whether a character is one of these.
func invisible(r rune) bool { return unicode.Is(ignorable, r) }
