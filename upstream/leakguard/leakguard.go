// Package leakguard removes internal ids of the legacy system from texts.
package leakguard

import (
	"regexp"
	"slices"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// Removed replaces an internal id that was quoted in a text.
const Removed = "[removed]"

// Set is every internal id of one reply. An id is looked for
//   - anywhere in a text if it is a UUID or 32 hexadecimal digits, in any case,
//     with or without dashes. One such id is enough to look for all of that
//     form: a text may quote a record that a filter left out of this reply;
//   - not within a longer number if it has digits. Letters may stand beside it. If
//     it has digits only, 57,000 and 1.57 are longer numbers, too;
//   - as a whole word if it has no digit. Letters of scripts without spaces between
//     words may follow it, as particles do in Korean;
//   - as a whole word if it has up to three characters, so that id 7 leaves 2017 alone.
//
// From eight characters on an id is removed where the last three are in doubt; see
// [form]. An id of 18 characters whose last three are the checksum of the others is
// looked for without them, too.
//
// The zero value is empty. A Set is not safe for concurrent use.
type Set struct {
	// Patterns match what is removed as an id is, wherever it stands.
	Patterns []*regexp.Regexp

	keys    []uuid
	index   map[uuid]struct{} // of the first indexed keys
	indexed int
	long    *longIDs       // nil: none
	short   *shortIDs      // nil: none
	spans   []span         // of the text that is being cleaned
	texts   jsonwalk.Texts // of cleaned texts
}

// Add adds an id. White space around it and braces are not part of it.
func (set *Set) Add(id string) {
	if key, ok := uuid36(id); ok {
		set.keys = append(set.keys, key)
		return
	}
	if id = strings.TrimSpace(id); id == "" || id == "{}" {
		return
	}
	if id[0] == '{' && id[len(id)-1] == '}' {
		id = id[1 : len(id)-1]
	}
	if key, n := uuidAt(id); n > 0 && n == len(id) {
		set.keys = append(set.keys, key)
		return
	}
	if len(id) >= longHead {
		set.addLong(id)
		if short := shortForm(id); short != "" {
			set.addLong(short)
		}
		return
	}
	if set.short == nil {
		set.short = &shortIDs{all: make(map[string]struct{})}
	}
	set.short.add(id)
}

// addLong adds an id of at least longHead bytes.
func (set *Set) addLong(id string) {
	if set.long == nil {
		set.long = &longIDs{all: make(map[string]struct{}, 64), lengths: make(map[[longHead]byte][]int)}
	}
	set.long.add(id)
}

// isUUID looks a key up. Most replies quote no id next to other digits, so the
// index is made at the first question.
func (set *Set) isUUID(key uuid) bool {
	if set.indexed != len(set.keys) {
		set.index, set.indexed = make(map[uuid]struct{}, len(set.keys)), len(set.keys)
		for _, key := range set.keys {
			set.index[key] = struct{}{}
		}
	}
	_, known := set.index[key]
	return known
}

// Empty tells whether there is nothing to look for.
func (set *Set) Empty() bool {
	return len(set.keys) == 0 && set.long == nil && set.short == nil && len(set.Patterns) == 0
}

// Shortest is how many bytes a text needs at the least to hold an id.
func (set *Set) Shortest() int {
	switch {
	case set.short != nil || len(set.Patterns) > 0:
		return 1
	case set.long != nil:
		return longHead
	}
	return uuidDigits
}

// Clean returns the text without the ids, and how many there were.
func (set *Set) Clean(s string) (string, int) {
	n, spans := 0, set.spans[:0]
	if len(set.keys) > 0 && len(s) >= uuidDigits {
		spans = set.uuidSpans(s, spans)
	}
	uuids := len(spans)
	for _, p := range set.Patterns {
		spans = matches(p, s, spans)
	}
	if set.long != nil && len(s) >= longHead {
		spans = find(s, &set.long.first, set.long.at, spans)
	}
	if uuids != len(spans) && (uuids > 0 || len(set.Patterns) > 0) {
		spans = united(spans)
	}
	s = set.without(s, spans, &n)
	if set.short != nil && s != "" {
		s = set.without(s, find(s, &set.short.first, set.short.at, set.spans[:0]), &n)
	}
	return s, n
}

// span is a part of a text, from its first byte to the one after its last.
type span struct{ from, to int }

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

// united puts spans in order and makes one of those that overlap.
func united(spans []span) []span {
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

// find finds the ids in a text. first are the bytes that one may start with, and
// at gives the length of the one that stands at a place, 0 for none.
func find(s string, first *[256]bool, at func(s string, i int) int, spans []span) []span {
	for i := 0; i < len(s); {
		n := 0
		if first[s[i]] {
			n = at(s, i)
		}
		if n > 0 {
			spans = append(spans, span{i, i + n})
		}
		i += max(n, 1)
	}
	return spans
}

// without gives the text with the spans taken out, and adds their number to n.
// The spans are in order and do not overlap.
func (set *Set) without(s string, spans []span, n *int) string {
	if len(spans) == 0 {
		return s
	}
	*n += len(spans)
	set.spans = spans[:0]
	b, at := set.texts.Room(len(s)+len(spans)*len(Removed)), 0
	for _, sp := range spans {
		b = append(b, s[at:sp.from]...)
		b = append(b, Removed...)
		at = sp.to
	}
	return set.texts.Keep(append(b, s[at:]...))
}

// Merge adds the ids of another set, but not its patterns.
func (set *Set) Merge(other *Set) {
	set.keys = append(set.keys, other.keys...)
	if other.long != nil {
		for id := range other.long.all {
			set.addLong(id)
		}
	}
	if other.short != nil {
		for id := range other.short.all {
			set.Add(id)
		}
	}
}

// longHead is how many bytes of a long id it is filed under.
const longHead = 4

// longest bounds what of a long id is compared. The rest of a longer one goes
// with its start.
const longest = 256

// longIDs are the ids of four characters or more that are no UUIDs, by their
// first bytes and length. Ids that are numbered in sequence share both, so
// neither adding nor finding one may cost more the more there are.
type longIDs struct {
	all     map[string]struct{}
	lengths map[[longHead]byte][]int // by the first bytes, the longest first
	first   [256]bool                // first bytes
	heads   [64]uint64               // a filter in front of lengths
}

// add files an id under its first bytes, unless it is there.
func (l *longIDs) add(id string) {
	id = id[:min(len(id), longest)]
	if _, known := l.all[id]; known {
		return
	}
	l.all[id] = struct{}{}
	l.first[id[0]] = true
	bit := headBit(id, 0)
	l.heads[bit>>6] |= 1 << (bit & 63)
	head := [longHead]byte([]byte(id[:longHead]))
	lengths := l.lengths[head]
	at, found := slices.BinarySearchFunc(lengths, len(id), func(a, b int) int { return b - a })
	if !found {
		l.lengths[head] = slices.Insert(lengths, at, len(id))
	}
}

// headBit spreads the first bytes of an id over the filter's 4096 bits.
func headBit(s string, i int) uint32 {
	b := s[i : i+longHead]
	w := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	return w * 0x9e3779b1 >> 20
}

// at gives the length of the id that stands at i, 0 for none.
func (l *longIDs) at(s string, i int) int {
	if i+longHead > len(s) {
		return 0
	}
	if bit := headBit(s, i); l.heads[bit>>6]>>(bit&63)&1 == 0 {
		return 0
	}
	for _, n := range l.lengths[[longHead]byte([]byte(s[i:i+longHead]))] {
		end := i + n
		if end > len(s) {
			continue
		}
		if _, known := l.all[s[i:end]]; known && formOf(s[i:end]).counts(s, i, end) {
			return n
		}
	}
	return 0
}

// shortIDs are the ids of up to three characters.
type shortIDs struct {
	all   map[string]struct{}
	first [256]bool // first bytes
}

// add adds an id of fewer than longHead bytes.
func (l *shortIDs) add(id string) {
	l.all[id] = struct{}{}
	l.first[id[0]] = true
}

// at gives the length of the id that stands at i, 0 for none.
func (l *shortIDs) at(s string, i int) int {
	if i > 0 && asciiWord(s[i-1]) && asciiWord(s[i]) {
		return 0 // within a word, whatever follows
	}
	for n := min(longHead-1, len(s)-i); n > 0; n-- {
		if _, known := l.all[s[i:i+n]]; known && formOf(s[i:i+n]).counts(s, i, i+n) {
			return n
		}
	}
	return 0
}

// By tells what the ids of a text were found by: 1 where any was, else 0.
type By struct{ ID, UUID, Pattern int }

// Explain is Clean for a person: it tells what is found by which means, too.
func (set *Set) Explain(s string) (by By, clean string) {
	found := func(part Set) int { _, n := part.Clean(s); return min(n, 1) }
	by = By{
		ID:      found(Set{long: set.long, short: set.short}),
		UUID:    found(Set{keys: set.keys}),
		Pattern: found(Set{Patterns: set.Patterns}),
	}
	clean, _ = set.Clean(s)
	return by, clean
}

// EachLong visits the ids of four characters or more that are no UUIDs.
func (set *Set) EachLong(visit func(id string)) {
	if set.long != nil {
		for id := range set.long.all {
			visit(id)
		}
	}
}
