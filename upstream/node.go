package upstream

// A node is a place in a legacy reply that somebody wants to know about. The
// nodes of one endpoint form a tree that the parser walks along with the bytes,
// so that one pass checks the reply and picks every value out of it.
type node struct {
	kids    []kid
	lengths uint64 // bit n: a kid's key has n (mod 64) bytes; most keys stop here
	each    *node  // the elements, should the value be an array
	list    *list  // the elements are items: each one is told to the reply
	frame   int    // which frame the slots are in
	slots   []int  // the value goes here
	id      bool   // the value is an internal id
}

// kid is the node under one key. There are few, so a list beats a map.
type kid struct {
	key  string
	node *node
}

// list marks an array whose elements are records or responses.
type list struct {
	frame int  // of the elements
	keyed bool // the items are the members of an object
	keyID bool // whose keys are internal ids
	done  func(r *reply, element *frame) bool
}

// frames: each level has its own slots, emptied for every element.
const (
	frameReply = iota
	frameRecord
	frameResponse
	frameCount
)

// frame holds the values of one element. Its slots are offsets, so that filling
// and clearing them costs the garbage collector nothing.
type frame struct {
	text   string // that the slots point into
	slots  []slot
	record string // the whole element
	texts  *slab  // for texts that have to be made
}

// slot is where a value stands. Its zero value is a missing one.
type slot struct {
	from, to int32
	kind     kind
	esc      bool
}

// of gives the value out of the text that the slot points into.
func (s slot) of(text string) value {
	return value{raw: text[s.from:s.to], kind: s.kind, esc: s.esc}
}

// value gives what is in a slot.
func (f *frame) value(i int) value { return f.slots[i].of(f.text) }

// isObject tells whether the element is one.
func (f *frame) isObject() bool { return f.record[0] == '{' }

// child finds the node for a key. It works on nil, because most of a reply is
// not asked for.
func (n *node) child(key string) *node {
	if n == nil || n.lengths&(1<<(uint(len(key))&63)) == 0 {
		return nil
	}
	for i := range n.kids {
		if n.kids[i].key == key {
			return n.kids[i].node
		}
	}
	return nil
}

// at gives the node under the keys, made where it is missing.
func (n *node) at(keys []string, frame int) *node {
	for _, key := range keys {
		n = n.step(key, frame)
	}
	return n
}

// step gives the node under one key, made where it is missing.
func (n *node) step(key string, frame int) *node {
	if key == each {
		if n.each == nil {
			n.each = &node{frame: frame}
		}
		return n.each
	}
	if next := n.child(key); next != nil {
		return next
	}
	next := &node{frame: frame}
	n.kids = append(n.kids, kid{key, next})
	n.lengths |= 1 << (uint(len(key)) & 63)
	return next
}
