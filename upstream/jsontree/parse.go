// Package jsontree parses JSON strictly into a tree, and evaluates paths on it.
//
// Strict means RFC 8259 in UTF-8, no name twice in an object, and bounds on the depth and on the
// number of values. All values of a text are in one slice, without pointers, in the order in which
// their parents end; each is 28 bytes. [Path] is the one notation in which a configuration says
// where a value is.
package jsontree

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a text. Real replies have fewer than twenty levels; the parser recurses once per level.
const (
	maxDepth  = 100
	maxValues = 1 << 21
)

// ErrNotUTF8 is returned by [Parse] for a text in another charset.
var ErrNotUTF8 = errors.New("a string is not UTF-8")

// SyntaxError is returned by [Parse] for a text that is not strict JSON. It holds a position and
// nothing of the text.
type SyntaxError struct {
	What string
	At   int // byte, from 0
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.At) }

// document is a parsed text.
type document struct {
	text  string
	nodes []node
	links []Value // of nodes that stand for values of other documents
	// attached are members that were added to objects, by the index of the object.
	attached map[int32][]member
	inner    map[int32]Value // what strings hold that are JSON themselves, by their index
}

// node is one value. Positions instead of strings cost the garbage collector nothing.
type node struct {
	nameFrom, nameTo int32 // of a member's name, without quotation marks
	from, to         int32 // of the value, with them
	first, children  int32 // of an object or array; first of a link: its index in links
	kind             Kind
	esc, nameEsc     bool // there is a backslash in it
}

// member is a named value.
type member struct {
	name  string
	value Value
}

// Parse parses a text. The error is a [*SyntaxError] or [ErrNotUTF8]. Values of a text must not be
// used by several goroutines at a time.
func Parse(text string) (Value, error) {
	p := parser{s: text, nodes: make([]node, 0, len(text)/20+8)}
	from := p.space(0)
	root, end := p.value(from, 0)
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
	return Value{&document{text: text, nodes: append(p.nodes, root)}, int32(len(p.nodes))}, nil
}

// parser parses one text.
//
// Its methods take the position to go on from and return the one after what they parsed, or a
// negative number for a mistake.
type parser struct {
	s     string
	nodes []node
	open  []node // children of the objects and arrays that are being parsed
	err   *SyntaxError
	// invalidUTF8: a string is not UTF-8. It is reported at the end, because RFC 8259
	// makes it no mistake of the grammar.
	invalidUTF8 bool
}

// fail records the first mistake. It returns the negative number, so that callers can return it.
func (p *parser) fail(at int, what string) int {
	if p.err == nil {
		p.err = &SyntaxError{what, at}
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

// value parses the value that starts at i.
func (p *parser) value(i, depth int) (n node, end int) {
	if i >= len(p.s) {
		return n, p.fail(i, "the text ends where a value is expected")
	}
	n.from = int32(i)
	switch p.s[i] {
	case '"':
		n.kind = Text
		end, n.esc = p.str(i)
	case '{':
		n.kind = Object
		end = p.container(&n, i, '}', depth+1)
	case '[':
		n.kind = Array
		end = p.container(&n, i, ']', depth+1)
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
	n.to = int32(end)
	return n, end
}

// literal parses true, false or null.
func (p *parser) literal(i int, word string) int {
	if !strings.HasPrefix(p.s[i:], word) {
		return p.fail(i, "unknown word")
	}
	return i + len(word)
}

// container parses an object or array.
func (p *parser) container(n *node, i int, closing byte, depth int) int {
	if depth > maxDepth {
		return p.fail(i, "nested too deeply")
	}
	if i = p.space(i + 1); i < len(p.s) && p.s[i] == closing {
		return i + 1
	}
	base := len(p.open)
	for more := true; more; {
		var name node
		if closing == '}' {
			if i = p.name(i, &name); i < 0 {
				return i
			}
		}
		child, end := p.value(i, depth)
		if end < 0 {
			return end
		}
		if len(p.nodes)+len(p.open) >= maxValues {
			return p.fail(i, fmt.Sprintf("more than %d values", maxValues))
		}
		child.nameFrom, child.nameTo, child.nameEsc = name.nameFrom, name.nameTo, name.nameEsc
		p.open = append(p.open, child)
		if i, more = p.next(end, closing); i < 0 {
			return i
		}
	}
	children := p.open[base:]
	if n.kind == Object && p.hasDuplicate(children) {
		return p.fail(i, "duplicate name in an object")
	}
	n.first, n.children = int32(len(p.nodes)), int32(len(children))
	p.nodes = append(p.nodes, children...)
	p.open = p.open[:base]
	return i
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

// fewNames are compared with each other faster than by a map.
const fewNames = 24

// hasDuplicate reports whether two members have the same name.
func (p *parser) hasDuplicate(members []node) bool {
	if len(members) > fewNames {
		names := make(map[string]struct{}, len(members))
		for i := range members {
			names[nameOf(p.s, &members[i])] = struct{}{}
		}
		return len(names) < len(members)
	}
	for i := range members {
		a := &members[i]
		for k := range i {
			b := &members[k]
			switch {
			case a.nameEsc || b.nameEsc:
				if nameOf(p.s, a) == nameOf(p.s, b) {
					return true
				}
			case a.nameTo-a.nameFrom == b.nameTo-b.nameFrom && p.s[a.nameFrom:a.nameTo] == p.s[b.nameFrom:b.nameTo]:
				return true
			}
		}
	}
	return false
}

// nameOf returns the name of a member without escapes.
func nameOf(text string, n *node) string {
	name := text[n.nameFrom:n.nameTo]
	if n.nameEsc {
		return unescape(name)
	}
	return name
}
