package decode

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// object writes the members of an element as a JSON object: those of one name
// together, as a list if there are several, or if the name is one of a list.
func (w *treeWriter) object(dst []byte, e element, members []member, text []byte) ([]byte, error) {
	if !group(members) {
		return nil, w.refuse("two elements with the same name in different namespaces within one")
	}
	dst = append(dst, '{')
	for i := 0; i < len(members); {
		same := i + 1
		for same < len(members) && members[same].first == members[i].first {
			same++
		}
		dst = appendName(dst, members[i].name)
		list := members[i].list || same > i+1
		if list {
			dst = append(dst, '[')
		}
		for ; i < same; i++ {
			dst = append(append(dst, w.out[members[i].from:members[i].to]...), ',')
		}
		if list {
			dst[len(dst)-1] = ']'
			dst = append(dst, ',')
		}
	}
	elements := slices.ContainsFunc(members, func(m member) bool { return !m.attribute })
	switch {
	case !elements && blank(text) && e.lists.holdsLists():
		dst = e.lists.appendEmpty(dst)
	case !elements || !blank(text):
		dst = appendText(appendName(dst, Text), text)
		dst = append(dst, ',')
	}
	if last := len(dst) - 1; dst[last] == ',' {
		dst = dst[:last]
	}
	return append(dst, '}'), nil
}

// appendName writes what stands before a value. A name of XML needs no escape.
func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, '"'), name...), `":`...)
}

// appendEmpty writes an empty list for each list that an element without elements
// could hold.
func (l *Lists) appendEmpty(dst []byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(l.under)) {
		if l.under[name].list {
			dst = append(appendName(dst, name), "[],"...)
		}
	}
	return dst
}

// holdsLists tells whether elements right below are lists.
func (l *Lists) holdsLists() bool {
	if l != nil {
		for _, under := range l.under {
			if under.list {
				return true
			}
		}
	}
	return false
}

// fewMembers are compared one by one faster than by a map.
const fewMembers = 32

// group puts members of one name together, in the order of the first ones. It is false
// if two of one name are of different namespaces. Large elements use a map, since
// comparing each member with all others would let a reply cost the square of its size.
func group(members []member) bool {
	var firsts map[string]int
	if len(members) > fewMembers {
		firsts = make(map[string]int, fewMembers)
	}
	sorted := true
	for i := range members {
		m := &members[i]
		if i > 0 && m.name == members[i-1].name {
			m.first = members[i-1].first
		} else {
			m.first = i
			if firsts == nil {
				m.first = slices.IndexFunc(members[:i+1], func(other member) bool { return other.name == m.name })
			} else if first, ok := firsts[m.name]; ok {
				m.first = first
			} else {
				firsts[m.name] = i
			}
			sorted = sorted && m.first == i
		}
		if m.space != members[m.first].space {
			return false
		}
	}
	if !sorted {
		slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.first, b.first) })
	}
	return true
}

// blank tells whether a text is nothing but the white space of XML.
func blank(text []byte) bool { return len(bytes.Trim(text, " \t\r\n")) == 0 }

// Lists is a tree of the names of elements, from the root on, that marks the
// elements that are lists. Its zero value marks none.
type Lists struct {
	under map[string]*Lists
	list  bool
}

// Add marks the element with these names on the way to it.
func (l *Lists) Add(names []string) {
	for _, name := range names {
		if l.under == nil {
			l.under = map[string]*Lists{}
		}
		if l.under[name] == nil {
			l.under[name] = &Lists{}
		}
		l = l.under[name]
	}
	l.list = true
}

// at is the part of the tree below a name. It works on nil.
func (l *Lists) at(name string) *Lists {
	if l == nil {
		return nil
	}
	return l.under[name]
}
