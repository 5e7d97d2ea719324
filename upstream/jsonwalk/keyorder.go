package jsonwalk

import (
	"math/bits"
	"slices"
	"strings"
)

// shape is what was learnt of one place in a text: which names the objects
// there had, in which order. The records of a list are much alike, so nearly every
// name is the one that came after the one before in the last record. Then one
// comparison finds its node, skips it, and shows that it is no duplicate: each name
// of a shape is another one, and is met once. The cache never decides what is
// right: a name out of order costs a look at all names, and an object with many of
// those, or with more names than the cache holds, is read without it.
type shape struct {
	raw   string  // the name as it is written, quotation marks included
	head  uint64  // its first eight bytes, the first one lowest
	mask  uint64  // of those that it has
	name  string  // what it means
	node  *Node   // that wants the value; nil: none
	names []shape // the members of objects
	each  *shape  // the elements of arrays
	fixed bool    // nothing is learnt
}

// Bounds of what is learnt: of names in one shape, of names and shapes in all, and of
// the length of a name. And of names out of order in one object.
const (
	maxNames  = 256
	maxLearnt = 1024
	maxLength = 64
	maxMisses = 16
	// usualNames is how many names an object has room for at first.
	usualNames = 4
)

// nameBits tells which names of a shape an object has had.
type nameBits struct {
	bits   [maxNames / 64]uint64
	misses int // names that came out of order
}

// add tells whether a name is new.
func (s *nameBits) add(k int) bool {
	bit := uint64(1) << (k & 63)
	old := s.bits[k>>6&3]
	s.bits[k>>6&3] = old | bit
	return old&bit == 0
}

// has tells whether a name was met.
func (s *nameBits) has(k int) bool { return s.bits[k>>6&3]>>(k&63)&1 != 0 }

// reach tells whether a name from k on was met.
func (s *nameBits) reach(k int) bool {
	for word := len(s.bits) - 1; word >= k>>6; word-- {
		if s.bits[word] != 0 {
			return word<<6+bits.Len64(s.bits[word]) > k
		}
	}
	return false
}

// matchesAt tells whether the name is at i.
func (f *shape) matchesAt(s string, i int) bool {
	if i+8 > len(s) || (eight(s, i)^f.head)&f.mask != 0 {
		return false
	}
	return len(f.raw) <= 8 || strings.HasPrefix(s[i+8:], f.raw[8:])
}

// eight returns the eight bytes at i, the first one lowest.
func eight(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// root returns the shape of whole texts that follow a tree.
func (w *Walker) root(n *Node) *shape {
	for _, at := range w.roots {
		if at.node == n {
			return at
		}
	}
	at := &shape{node: n}
	w.roots = append(w.roots, at)
	return at
}

// element returns the shape of an array's elements, which all share it.
func (w *Walker) element(at *shape) *shape {
	if at.each != nil {
		return at.each
	}
	var n *Node
	if at.node != nil {
		n = at.node.each
	}
	if at.fixed || w.learnt >= maxLearnt {
		return w.unlearnt(n)
	}
	w.learnt++
	at.each = &shape{node: n}
	return at.each
}

// unlearnt returns a shape of which nothing is learnt.
func (w *Walker) unlearnt(n *Node) *shape {
	if n == nil {
		return &w.blank
	}
	return &shape{node: n, fixed: true}
}

// findName finds the name at i, which is not the expected one, among all names of the
// shape, and adds it if it is new. k is negative if the rest of the object is better
// read without the cache: it is full, or the object's names come in no order.
func (p *parser) findName(i int, at *shape, next int, seen *nameBits) (k, after int) {
	for k := next + 1; k < min(next+4, len(at.names)); k++ { // some are left out
		if at.names[k].matchesAt(p.s, i) {
			return k, i + len(at.names[k].raw)
		}
	}
	name, after := p.key(i)
	if after < 0 {
		return 0, after
	}
	if seen.misses == maxMisses {
		return -1, after
	}
	for k := range at.names {
		if at.names[k].name == name {
			seen.misses++
			return k, after
		}
	}
	if len(at.names) == maxNames || p.w.learnt >= maxLearnt || after-i > maxLength || p.invalidUTF8 {
		return -1, after // nor a name that may not be UTF-8: the next time nobody would look
	}
	p.w.learnt++
	raw := p.s[i:after]
	if len(name) == len(raw)-2 {
		name = raw[1 : len(raw)-1]
	}
	k = next
	if seen.reach(next) { // those that were met keep their numbers
		k = len(at.names)
	}
	one := shape{raw: raw, name: name, node: at.node.child(name)}
	for b := range min(len(raw), 8) {
		one.head |= uint64(raw[b]) << (8 * b)
		one.mask |= 0xff << (8 * b)
	}
	if at.names == nil {
		at.names = make([]shape, 0, usualNames)
	}
	at.names = slices.Insert(at.names, k, one)
	return k, after
}
