package upstream

import (
	"slices"
	"strings"
)

// form is what was learnt of one place in a reply: which names the objects there
// have, in which order. The records of a list are much alike, so nearly every
// name is the one that stood after the one before in the last record. Then one
// comparison finds its node, skips it, and knows that it is no duplicate: each
// kid has another name, and is met once. A form never decides what is right. A
// name out of order costs a look at all kids; an object with many of those, or
// with more names than are learnt, is read without the form.
type form struct {
	raw   string // the name as it stands in the reply, quotation marks included
	head  uint64 // its first eight bytes, the first one lowest
	mask  uint64 // of those that it has
	name  string // what it means
	node  *node  // that asks for the value; nil: nobody does
	kids  []form // the members of objects at this place
	each  *form  // the elements of arrays at this place
	fixed bool   // nothing is learnt here
}

// Bounds of what is learnt: of names in one place, of names and places in all,
// and of the length of a name. And of names out of order in one object.
const (
	maxKids   = 256
	maxLearnt = 1024
	maxLearn  = 64
	maxStrays = 16
)

// kidSet tells which kids an object has had.
type kidSet struct {
	bits   [maxKids / 64]uint64
	strays int // kids that came out of order
}

// add tells whether a kid is new.
func (s *kidSet) add(k int) bool {
	bit := uint64(1) << (k & 63)
	old := s.bits[k>>6&3]
	s.bits[k>>6&3] = old | bit
	return old&bit == 0
}

// has tells whether a kid is there.
func (s *kidSet) has(k int) bool { return s.bits[k>>6&3]>>(k&63)&1 != 0 }

// reach tells whether a kid from k on is there.
func (s *kidSet) reach(k int) bool {
	for i := k; i < maxKids; i++ {
		if s.has(i) {
			return true
		}
	}
	return false
}

// stands tells whether the form's name stands at i.
func (f *form) stands(s string, i int) bool {
	if i+8 > len(s) || (eight(s, i)^f.head)&f.mask != 0 {
		return false
	}
	return len(f.raw) <= 8 || strings.HasPrefix(s[i+8:], f.raw[8:])
}

// items gives the list whose items stand in an array, or in an object if keyed.
func (f *form) items(keyed bool) *list {
	if f.node == nil || f.node.list == nil || f.node.list.keyed != keyed {
		return nil
	}
	return f.node.list
}

// form gives what was learnt of the place that a tree of nodes begins at.
func (r *reply) form(n *node) *form {
	for _, f := range r.forms {
		if f.node == n {
			return f
		}
	}
	f := &form{node: n}
	r.forms = append(r.forms, f)
	return f
}

// each gives what was learnt of the elements at a place.
func (r *reply) each(f *form) *form {
	if f.each != nil {
		return f.each
	}
	var n *node
	if f.node != nil {
		n = f.node.each
	}
	if f.fixed || r.learnt >= maxLearnt {
		return r.fixed(n)
	}
	r.learnt++
	f.each = &form{node: n}
	return f.each
}

// fixed gives a form for a place where nothing is learnt.
func (r *reply) fixed(n *node) *form {
	if n == nil {
		r.blank.fixed = true
		return &r.blank
	}
	return &form{node: n, fixed: true}
}

// kid finds the name at i, which is not the one that was expected, among all
// kids, and makes it one if it is new. k is negative if the rest of the object
// is better read without the form.
func (p *parser) kid(i int, f *form, next int, seen *kidSet) (k, after int) {
	for k := next + 1; k < min(next+4, len(f.kids)); k++ { // some are left out
		if f.kids[k].stands(p.s, i) {
			return k, i + len(f.kids[k].raw)
		}
	}
	name, after := p.key(i)
	if after < 0 {
		return 0, after
	}
	if seen.strays == maxStrays {
		return -1, after
	}
	for k := range f.kids {
		if f.kids[k].name == name {
			seen.strays++
			return k, after
		}
	}
	if len(f.kids) == maxKids || p.into.learnt >= maxLearnt || after-i > maxLearn || p.alien {
		return -1, after // nor a name that may not be UTF-8: the next time nobody would look
	}
	p.into.learnt++
	raw := strings.Clone(p.s[i:after])
	if len(name) == len(raw)-2 {
		name = raw[1 : len(raw)-1]
	}
	k = next
	if seen.reach(next) { // those that were met keep their numbers
		k = len(f.kids)
	}
	kid := form{raw: raw, name: name, node: f.node.child(name)}
	for b := range min(len(raw), 8) {
		kid.head |= uint64(raw[b]) << (8 * b)
		kid.mask |= 0xff << (8 * b)
	}
	f.kids = slices.Insert(f.kids, k, kid)
	return k, after
}

// eight gives the eight bytes at i, the first one lowest.
func eight(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
