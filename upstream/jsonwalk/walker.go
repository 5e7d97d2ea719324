// Package jsonwalk reads JSON strictly and hands the wanted values to a sink, in
// one pass.
//
// Strict means RFC 8259 in UTF-8, no name twice in an object, and a bounded depth.
// What is wanted is a tree of [Node]. The package knows nothing of what the values
// are for.
//
// It is written by hand because it does in one pass what would be three: checking the
// text, finding the values, and cutting it into records. The records of a list are much
// alike, so the walker learns the order in which names follow each other at each place, and
// compares a name with the expected one before it reads it (see keyorder.go). What is
// unusual leaves that fast path for a slow one, which decides the same. Paths that are more
// than keys are evaluated by gjson, which does not check: see [Value].
package jsonwalk

import (
	"errors"
	"fmt"
)

// ErrStopped is returned by [Walker.Walk] when the sink has ended the walk.
var ErrStopped = errors.New("the walk was stopped")

// ErrNotUTF8 is returned by [Walker.Walk] for a text that is valid JSON otherwise.
var ErrNotUTF8 = errors.New("a string is not UTF-8")

// SyntaxError is what [Walker.Walk] returns for a text that is not strict JSON.
// It holds a position and nothing of the text.
type SyntaxError struct {
	What string
	At   int // byte, from 0
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.At) }

// Sink is told of items.
type Sink interface {
	// End is called after each element with its values. False ends the walk.
	End(frame int, element *Frame) bool
}

// IDs takes the internal ids.
type IDs interface {
	// AddQuoted adds an id in quotation marks that starts at s[i], if it can tell
	// that it is one and a valid JSON string, and returns its length; else 0.
	AddQuoted(s string, i int) int
	// Add adds any other id.
	Add(id string)
}

// Walker reads texts that follow the same trees. It is not safe for concurrent
// use, but a sink may walk a part of an element within End.
type Walker struct {
	frames []Frame
	sink   Sink
	ids    IDs

	roots  []*shape // of whole texts
	blank  shape    // where no value is wanted and nothing is learnt
	learnt int      // names and shapes in all roots
}

// NewWalker returns a walker with as many frames as sizes, each with so many
// slots. texts is the memory of texts that have to be made.
func NewWalker(sink Sink, ids IDs, texts *Texts, sizes []int) *Walker {
	w := &Walker{frames: make([]Frame, len(sizes)), sink: sink, ids: ids, blank: shape{fixed: true}}
	all := 0
	for _, n := range sizes {
		all += n
	}
	slots := make([]slot, all)
	for i, n := range sizes {
		w.frames[i] = Frame{slots: slots[:n:n], Texts: texts}
		slots = slots[n:]
	}
	return w
}

// Frame returns a frame. Its values are those of the last element.
func (w *Walker) Frame(i int) *Frame { return &w.frames[i] }

// Clear makes all values of a frame missing.
func (w *Walker) Clear(frame int) { clear(w.frames[frame].slots) }

// Parse gives a text as a value, or what is wrong with it, as [Walker.Walk] does.
func Parse(text string) (Value, error) {
	return NewWalker(nil, nil, nil, []int{0}).Parse(text)
}

// Parse gives a text of which nothing is wanted yet. What was walked before stays in the frames.
func (w *Walker) Parse(text string) (Value, error) {
	return w.walk(text, &unwanted, len(w.frames), false)
}

var unwanted Node

// Walk reads a text whose values go into the frames from first on, and gives it as a value.
// The error is a [*SyntaxError], [ErrNotUTF8] or [ErrStopped].
func (w *Walker) Walk(text string, root *Node, first int) (Value, error) {
	return w.walk(text, root, first, false)
}

// WalkItem reads a text that is one item, as Walk reads those in an array.
func (w *Walker) WalkItem(text string, item *Node) (Value, error) {
	return w.walk(text, item, item.frame, true)
}

// walk reads a text, which is an item itself or a value that may hold some.
func (w *Walker) walk(text string, root *Node, first int, item bool) (Value, error) {
	for i := first; i < len(w.frames); i++ {
		w.frames[i].text = text
	}
	p := parser{s: text, w: w}
	from, to := p.document(root, item)
	switch {
	case to < 0 && p.err == nil:
		return Value{}, ErrStopped
	case p.err != nil:
		return Value{}, p.err
	case p.invalidUTF8:
		return Value{}, ErrNotUTF8
	}
	return element(text[from:to]), nil
}

// capture puts a value where its node wants it. Several slots may want one value, and
// an id may be a field, too.
func (w *Walker) capture(n *Node, v slot, text string) {
	for _, i := range n.slots {
		w.frames[n.frame].slots[i] = v
	}
	switch {
	case !n.id:
	case v.kind == Text || v.kind == Number:
		w.ids.Add(v.of(text).String())
	default:
		v.of(text).Scalars(n.without, w.ids.Add)
	}
}

// element is the value that a text is which was read. Whether a string has a backslash is
// found out where it is made a text.
func element(raw string) Value {
	v := Value{raw: raw, Kind: Number}
	switch raw[0] {
	case '{':
		v.Kind = Object
	case '[':
		v.Kind = Array
	case '"':
		v.Kind, v.esc = Text, true
	case 't', 'f':
		v.Kind = Bool
	case 'n':
		v.Kind = Null
	}
	return v
}
