// Package leakguard removes internal ids of the legacy system from texts.
package leakguard

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"

	"inquiry-gateway/upstream/jsonwalk"
)

// Removed replaces an internal id that was quoted in a text.
const Removed = "[removed]"

// Set is every internal id of one list. An id is looked for
//   - anywhere in a text if it is a UUID or 32 hexadecimal digits, in any case,
//     with or without dashes, and goes with the digits and dashes beside it. One such
//     id is enough to look for all of that form: a text may quote a record that a
//     filter left out of this reply;
//   - not within a longer number if it has digits. Letters may stand beside it. If
//     it has digits only, 57,000 and 1.57 are longer numbers, too;
//   - as a whole word if it has no digit. Letters of scripts without spaces between
//     words may follow it, as particles do in Korean;
//   - with no letter, digit or _ of any script beside it if it has up to three
//     characters, so that id 7 leaves 2017 alone.
//
// From eight characters on an id is removed where the second and third are in doubt. An
// id of 18 characters whose last three are the checksum of the others is looked for
// without them, too. A number is, with more zeros before it than the id has, or fewer; but up
// to three digits that begin with one only as the id is written: 05 is a day. Characters that
// nobody sees, such as soft hyphens, do not hide an id.
//
// All are looked for in the text as it came, so that none hides another one. The zero
// value is empty. A Set is not safe for concurrent use.
type Set struct {
	// Patterns match what is removed as an id is, wherever it stands.
	Patterns []*regexp.Regexp

	uuids bool           // there are some
	words *words         // nil: none
	spans []span         // of the text that is being cleaned
	texts jsonwalk.Texts // of cleaned texts
}

// Add adds an id. White space around it and braces are not part of it.
func (set *Set) Add(id string) {
	if id = strings.TrimSpace(id); id == "" || id == "{}" {
		return
	}
	if id[0] == '{' && id[len(id)-1] == '}' {
		id = id[1 : len(id)-1]
	}
	if isUUID(id) {
		set.uuids = true
		return
	}
	if set.words == nil {
		set.words = &words{all: make(map[string]struct{}, 64), lengths: make(map[[headBytes]byte][]int), low: 255}
	}
	set.words.add(id)
	if short := shortForm(id); short != "" {
		set.words.add(short)
	}
}

// Merge adds the ids of another set, but not its patterns.
func (set *Set) Merge(other *Set) {
	set.uuids = set.uuids || other.uuids
	other.EachWord(set.Add)
}

// EachWord visits the ids that are no UUIDs.
func (set *Set) EachWord(visit func(id string)) {
	if set.words != nil {
		for id := range set.words.all {
			visit(id)
		}
	}
}

// Empty tells whether there is nothing to look for.
func (set *Set) Empty() bool {
	return !set.uuids && set.words == nil && len(set.Patterns) == 0
}

// Clean returns the text without the ids, and how many there were.
func (set *Set) Clean(s string) (string, int) {
	spans := set.find(s, set.spans[:0])
	if hidesCharacters(s) {
		spans = set.findHidden(s, spans)
	}
	if len(spans) == 0 {
		return s, 0
	}
	set.spans = spans[:0]
	return set.texts.Keep(cut(set.texts.Room(len(s)+len(spans)*len(Removed)), s, spans, Removed)), len(spans)
}

// Means tells by which means ids are found in a text.
func (set *Set) Means(s string) (uuid, pattern, word bool) {
	uuid = set.uuids && len(uuidSpans(s, nil)) > 0
	pattern = slices.ContainsFunc(set.Patterns, func(p *regexp.Regexp) bool { return len(matches(p, s, nil)) > 0 })
	word = set.words != nil && len(set.words.find(s, nil)) > 0
	return uuid, pattern, word
}

// span is a part of a text, from its first byte to the one after its last.
type span struct{ from, to int }

// find finds all ids in a text. The spans are in order and do not overlap.
func (set *Set) find(s string, spans []span) []span {
	if set.uuids {
		spans = uuidSpans(s, spans)
	}
	for _, p := range set.Patterns {
		spans = matches(p, s, spans)
	}
	if set.words != nil {
		spans = set.words.find(s, spans)
	}
	return united(spans)
}

// matches finds what a pattern matches, but for matches of nothing. Of a pattern with
// groups it is what these match: of #(\d+) the number alone.
func matches(p *regexp.Regexp, s string, spans []span) []span {
	for _, m := range p.FindAllStringSubmatchIndex(s, -1) {
		if len(m) > 2 {
			m = m[2:]
		}
		for ; len(m) > 1; m = m[2:] {
			if m[0] < m[1] { // a group that took no part is at -1
				spans = append(spans, span{m[0], m[1]})
			}
		}
	}
	return spans
}

// Without is a text without what patterns match, or of those with groups without what these match.
func Without(s string, patterns []*regexp.Regexp) string {
	for _, p := range patterns {
		if spans := united(matches(p, s, nil)); len(spans) > 0 {
			s = string(cut(make([]byte, 0, len(s)), s, spans, ""))
		}
	}
	return s
}

// cut appends a text with something in the place of its spans.
func cut(b []byte, s string, spans []span, instead string) []byte {
	at := 0
	for _, sp := range spans {
		b = append(append(b, s[at:sp.from]...), instead...)
		at = sp.to
	}
	return append(b, s[at:]...)
}

// united puts spans in order and makes one of those that overlap.
func united(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	last := 0
	for _, sp := range spans[1:] {
		if sp.from >= spans[last].to {
			last++
			spans[last] = sp
		}
		spans[last].to = max(spans[last].to, sp.to)
	}
	return spans[:last+1]
}

// hidesCharacters tells whether a text has characters that nobody sees. Nearly all texts
// have none, as they are ASCII, or lack the first bytes of these characters.
func hidesCharacters(s string) bool {
	if isASCII(s) {
		return false
	}
	for i := range len(s) {
		if beginsUnseen[s[i]] {
			if r, _ := utf8.DecodeRuneInString(s[i:]); unseen(r) {
				return true
			}
		}
	}
	return false
}

// isASCII looks at eight bytes at a time.
func isASCII(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		if s[0]|s[1]|s[2]|s[3]|s[4]|s[5]|s[6]|s[7] >= utf8.RuneSelf {
			return false
		}
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// ignorable are the characters that Unicode has readers ignore: soft hyphens, marks and
// joiners without a width, marks of direction, selectors of variants, and fillers.
var ignorable = rangetable.Merge(unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)

func unseen(r rune) bool { return r >= 0xad && unicode.Is(ignorable, r) }

// beginsUnseen is true for the first bytes of these characters. It is never written to.
var beginsUnseen = func() (table [256]bool) {
	rangetable.Visit(ignorable, func(r rune) { table[string(r)[0]] = true })
	return table
}()

// findHidden finds the ids that a text has without its unseen characters, besides those
// that were found with them.
func (set *Set) findHidden(s string, spans []span) []span {
	seen := make([]byte, 0, len(s))
	type gap struct{ at, bytes int } // where in seen, and how much is left out of s until there
	gaps, from := []gap{{}}, 0
	for i := 0; i < len(s); {
		if !beginsUnseen[s[i]] {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if unseen(r) {
			seen = append(seen, s[from:i]...)
			from = i + n
			gaps = append(gaps, gap{len(seen), from - len(seen)})
		}
		i += n
	}
	seen = append(seen, s[from:]...)
	inText := func(i int) int { // where the byte i of seen stands
		at, _ := slices.BinarySearchFunc(gaps, i+1, func(g gap, i int) int { return g.at - i })
		return i + gaps[at-1].bytes
	}
	for _, sp := range set.find(string(seen), nil) {
		spans = append(spans, span{inText(sp.from), inText(sp.to-1) + 1})
	}
	return united(spans)
}
