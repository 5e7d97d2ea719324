// Package jsontree parses JSON strictly into a tree, and evaluates paths on it.
//
// Strict means RFC 8259 in UTF-8, no name twice in an object, and bounds on the depth and on the
// number of values. All values of a text are in one slice, without pointers, each before those in it;
// each is 28 bytes. [Path] is the one notation in which a configuration says where a value is.
package jsontree

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a text. Real replies have fewer than twenty levels; the parser recurses once per level.
const (
	maxDepth  = 100
	maxValues = 1 << 21
)

// ErrNotUTF8 is returned by [Parse] for a text in another charset.
var ErrNotUTF8 = errors.New("a string is not UTF-8")

// document is a parsed text, or a list of values of several.
type document struct {
	text  string
	nodes []node
	list  []Value
	// attached are members that were added to objects, by the index of the object.
	attached map[int32][]member
}

// node is one value. Positions instead of strings cost the garbage collector nothing.
type node struct {
	nameFrom, nameTo int32 // of a member's name, without quotation marks
	from, to         int32 // of the value, with them
	after            int32 // index of the node after the last one in it
	children         int32 // number of elements or members
	kind             Kind
	esc, nameEsc     bool // there is a backslash in it
}

// member is a named value.
type member struct {
	name  string
	value Value
}

// Parse parses a text. An error is [ErrNotUTF8], or names a position and holds nothing of the text. Values of
// a text must not be used by several goroutines at a time.
func Parse(text string) (Value, error) {
	p := parser{s: text, nodes: make([]node, 0, len(text)/20+8)}
	end := p.value(p.space(0), 0, node{})
	if end >= 0 {
		if end = p.space(end); end < len(text) {
			p.fail(end, "something follows the JSON value")
		}
	}
	switch {
	case p.invalidUTF8 || p.err != nil && !utf8.ValidString(text):
		return Value{}, ErrNotUTF8 // whatever else is wrong with it
	case p.err != nil:
		return Value{}, p.err
	}
	return Value{&document{text: text, nodes: p.nodes}, 0}, nil
}

// parser parses one text.
//
// Its methods take the position to go on from and return the one after what they parsed, or a
// negative number for a mistake.
type parser struct {
	s     string
	nodes []node
	err   error
	// invalidUTF8: a string is not UTF-8. It is reported at the end, because RFC 8259
	// makes it no mistake of the grammar.
	invalidUTF8 bool
}

// fail records the first mistake. It returns the negative number, so that callers can return it.
func (p *parser) fail(at int, what string) int {
	if p.err == nil {
		p.err = fmt.Errorf("%s at byte %d", what, at)
	}
	return -1
}

// space skips white space. Compact replies have none, so that case is inlined.
func (p *parser) space(i int) int {
	if i < len(p.s) && p.s[i] > ' ' {
		return i
	}
	return skipSpace(p.s, i)
}

// skipSpace skips the four characters that RFC 8259 calls white space.
func skipSpace(s string, i int) int {
	for i < len(s) {
		switch s[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

// value parses the value that starts at i, whose node has its name.
func (p *parser) value(i, depth int, n node) (end int) {
	if i >= len(p.s) {
		return p.fail(i, "the text ends where a value is expected")
	}
	at := len(p.nodes)
	if at == maxValues {
		return p.fail(i, fmt.Sprintf("more than %d values", maxValues))
	}
	n.from = int32(i)
	switch p.s[i] {
	case '{', '[':
		p.nodes = append(p.nodes, n)
		return p.container(at, i, depth+1)
	case '"':
		n.kind = Text
		end, n.esc = p.str(i)
	case 't':
		n.kind = Bool
		end = p.literal(i, "true")
	case 'f':
		n.kind = Bool
		end = p.literal(i, "false")
	case 'n':
		n.kind = Null
		end = p.literal(i, "null")
	default:
		n.kind = Number
		end = p.number(i)
	}
	n.to, n.after = int32(end), int32(at+1)
	p.nodes = append(p.nodes, n)
	return end
}

// literal parses true, false or null.
func (p *parser) literal(i int, word string) int {
	if !strings.HasPrefix(p.s[i:], word) {
		return p.fail(i, "unknown word")
	}
	return i + len(word)
}

// container parses the object or array whose node is the last one.
func (p *parser) container(at, i, depth int) int {
	if depth > maxDepth {
		return p.fail(i, "nested too deeply")
	}
	kind, closing := Array, byte(']')
	if p.s[i] == '{' {
		kind, closing = Object, '}'
	}
	children, seen := int32(0), uint64(0) // a bit for each name that it may have
	i = p.space(i + 1)
	more := i >= len(p.s) || p.s[i] != closing
	if !more {
		i++
	}
	for more {
		var n node
		if kind == Object {
			if i = p.name(i, &n); i < 0 {
				return i
			}
			name := p.s[n.nameFrom:n.nameTo]
			bit := ^uint64(0) // whatever it is without its escapes
			if name != "" && !n.nameEsc {
				bit = 1 << ((len(name) + 3*int(name[0]) + 5*int(name[len(name)-1])) & 63)
			}
			if children < fewNames && seen&bit != 0 && p.isNamed(at, nameOf(p.s, &n)) {
				return p.fail(i, duplicateName)
			}
			seen |= bit
		}
		if i = p.value(i, depth, n); i < 0 {
			return i
		}
		children++
		if i, more = p.next(i, closing); i < 0 {
			return i
		}
	}
	n := &p.nodes[at]
	n.kind, n.to, n.after, n.children = kind, int32(i), int32(len(p.nodes)), children
	if kind == Object && children > fewNames && p.hasDuplicate(at) {
		return p.fail(i, duplicateName)
	}
	return i
}

const duplicateName = "duplicate name in an object"

// fewNames are compared with each other faster than by a map.
const fewNames = 24

// isNamed reports whether an object that is being parsed has a member of a name.
func (p *parser) isNamed(object int, name string) bool {
	for c := object + 1; c < len(p.nodes); c = int(p.nodes[c].after) {
		if p.nodes[c].isCalled(p.s, name) {
			return true
		}
	}
	return false
}

// hasDuplicate reports whether two members have the same name.
func (p *parser) hasDuplicate(object int) bool {
	names := make(map[string]struct{}, p.nodes[object].children)
	for c := object + 1; c < len(p.nodes); c = int(p.nodes[c].after) {
		names[nameOf(p.s, &p.nodes[c])] = struct{}{}
	}
	return len(names) < int(p.nodes[object].children)
}

// name parses the name of a member and the colon after it.
func (p *parser) name(i int, n *node) int {
	if i >= len(p.s) || p.s[i] != '"' {
		return p.fail(i, "a name in quotation marks is expected")
	}
	after, esc := p.str(i)
	if after < 0 {
		return after
	}
	n.nameFrom, n.nameTo, n.nameEsc = int32(i+1), int32(after-1), esc
	if i = p.space(after); i >= len(p.s) || p.s[i] != ':' {
		return p.fail(i, "a colon is expected")
	}
	return p.space(i + 1)
}

// next parses what follows an element: a comma and the white space after it, or the end.
func (p *parser) next(i int, closing byte) (after int, more bool) {
	i = p.space(i)
	if i >= len(p.s) {
		return p.fail(i, "the text ends within an object or array"), false
	}
	switch p.s[i] {
	case ',':
		return p.space(i + 1), true
	case closing:
		return i + 1, false
	}
	return p.fail(i, "a comma or the end of an object or array is expected"), false
}

// nameOf returns the name of a member without escapes.
func nameOf(text string, n *node) string {
	if n.nameEsc {
		return unescape(text[n.nameFrom:n.nameTo])
	}
	return text[n.nameFrom:n.nameTo]
}

// isCalled reports whether it is the name of a member.
func (n *node) isCalled(text, name string) bool {
	if n.nameEsc {
		return nameOf(text, n) == name
	}
	return int(n.nameTo-n.nameFrom) == len(name) && text[n.nameFrom:n.nameTo] == name
}

// unescape returns the text of a valid JSON string without its quotation marks. Half a surrogate pair
// becomes U+FFFD, as in encoding/json, so that the result is always UTF-8.
func unescape(s string) string {
	text := make([]byte, 0, len(s))
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return string(append(text, s...))
		}
		text, s = append(text, s[:i]...), s[i:]
		n := 0
		for strings.HasPrefix(s[n:], `\u`) {
			n += len(`\u0000`)
		}
		if n > 0 { // several may be one character
			text, _ = jsontext.AppendUnquote(text, `"`+s[:n]+`"`) // its error is about half pairs
			s = s[n:]
			continue
		}
		text = append(text, "\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, s[1])])
		s = s[2:]
	}
}
