package jsonwalk

// Node is a place in a document whose value is wanted. The nodes of one kind of
// document form a tree that the parser follows, so that one pass checks the text
// and finds all values. A tree is built once and is read-only afterwards. The
// zero value is the root of an empty tree.
type Node struct {
	children []child
	lengths  uint64 // bit n: a child's key has n (mod 64) bytes; most keys stop here
	each     *Node  // the elements, should the value be an array
	items    *Items // the elements are items, of which the sink is told
	frame    int    // which frame the slots are in
	slots    []int  // the value goes here
	id       bool   // the value is an internal id
	without  string // begins the names of members that are no part of the id; empty: none is
}

// child is the node under one key. There are few, so a slice beats a map.
type child struct {
	key  string
	node *Node
}

// Items marks an array, or an object, whose elements are told to the sink.
type Items struct {
	Frame int  // of the elements
	Keyed bool // the items are the members of an object
	KeyID bool // whose keys are internal ids
}

// NewNode returns the root of a tree whose values belong to a frame.
func NewNode(frame int) *Node { return &Node{frame: frame} }

// SetItems makes the elements at the node items, and returns the root of each of them:
// element, unless the tree has one already.
func (n *Node) SetItems(items Items, element *Node) *Node {
	n.items = &items
	if n.each == nil {
		n.each = element
	}
	return n.each
}

// AddSlot makes the value at the node go into a slot of its frame.
func (n *Node) AddSlot(slot int) { n.slots = append(n.slots, slot) }

// MarkID makes the value at the node an internal id, but for its members whose names begin
// with without; empty: with all of them.
func (n *Node) MarkID(without string) { n.id, n.without = true, without }

// Frame is the number of the frame that the node's value belongs to.
func (n *Node) Frame() int { return n.frame }

// At returns the node under the keys, and makes it where it is missing. [Each]
// as a key means the elements of an array.
func (n *Node) At(keys []string, frame int) *Node {
	for _, key := range keys {
		n = n.step(key, frame)
	}
	return n
}

// step returns the node under one key, and makes it where it is missing.
func (n *Node) step(key string, frame int) *Node {
	if key == Each {
		if n.each == nil {
			n.each = NewNode(frame)
		}
		return n.each
	}
	if next := n.child(key); next != nil {
		return next
	}
	next := NewNode(frame)
	n.children = append(n.children, child{key, next})
	n.lengths |= 1 << (uint(len(key)) & 63)
	return next
}

// child returns the node for a key. It works on nil, because most of a document
// is not wanted.
func (n *Node) child(key string) *Node {
	if n == nil || n.lengths&(1<<(uint(len(key))&63)) == 0 {
		return nil
	}
	for i := range n.children {
		if n.children[i].key == key {
			return n.children[i].node
		}
	}
	return nil
}

// itemsIn tells whether the elements of an array are items, or the members of an object if
// keyed; nil: they are not.
func (n *Node) itemsIn(keyed bool) *Items {
	if n == nil || n.items == nil || n.items.Keyed != keyed {
		return nil
	}
	return n.items
}

// Frame holds the values of one item, or of a text as a whole. Each level of items has one.
type Frame struct {
	Element Value  // the whole; valid at [Sink.End]
	Key     string // of the member that it is; empty: it is the element of an array
	Texts   *Texts // for texts that have to be made
	// Tables are for the sink: what else in the text an element may refer to, by key.
	Tables []map[string]Value

	text  string // that the slots are positions in
	slots Slots
}

// Slots are the values of frames that were kept.
type Slots []slot

// slot is where a value stands. Positions instead of values cost the garbage
// collector nothing. The zero value is a missing one.
type slot struct {
	from, to int32
	kind     Kind
	esc      bool
}

// of is the value that stands there in the text that was walked.
func (s slot) of(text string) Value {
	return Value{s.kind, s.esc, text[s.from:s.to]}
}

// Value returns the value in a slot.
func (f *Frame) Value(slot int) Value { return f.slots[slot].of(f.text) }

// Keep is a copy of the frame, with its values in room, that the next element does not change.
func (f *Frame) Keep(room *Slots) Frame {
	from, kept := len(*room), *f
	*room = append(*room, f.slots...)
	kept.slots = (*room)[from:len(*room):len(*room)]
	return kept
}
