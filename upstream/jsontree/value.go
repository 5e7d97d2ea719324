package jsontree

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Value is one value of a parsed text. Its zero value is a missing one. Two are equal (==) if they
// are the same value at the same place.
type Value struct {
	doc *document
	i   int32
}

// Kind is the type of a value. The order matters: see [Value.Present] and [Value.Scalar].
type Kind uint8

// The kinds.
const (
	Missing Kind = iota
	Null
	Bool
	Number
	Text
	Object
	Array

	link // a value of another document
)

// String returns the name of a kind for people.
func (k Kind) String() string {
	return [...]string{"missing", "null", "boolean", "number", "string", "object", "array"}[k]
}

// Kind returns the kind of the value.
func (v Value) Kind() Kind {
	if v.doc == nil {
		return Missing
	}
	return v.doc.nodes[v.i].kind
}

// Present reports whether there is a value, and it is not null.
func (v Value) Present() bool { return v.Kind() > Null }

// Scalar reports whether the value can be written as one string.
func (v Value) Scalar() bool { k := v.Kind(); return k >= Bool && k <= Text }

// Raw returns the value as it stands in the text, without attached members; empty: it is missing.
func (v Value) Raw() string {
	if v.doc == nil {
		return ""
	}
	n := &v.doc.nodes[v.i]
	if n.to > 0 || n.children == 0 {
		return v.doc.text[n.from:n.to]
	}
	// It was made of values of other documents.
	var parts []string
	v.Entries(func(name string, one Value) bool {
		text := one.Raw()
		if n.kind == Object {
			text = strconv.Quote(name) + ":" + text
		}
		parts = append(parts, text)
		return true
	})
	if n.kind == Object {
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// String returns the text of a string, or a number or truth value as it is written: a number is
// never converted, so none of its digits are lost.
func (v Value) String() string {
	raw := v.Raw()
	switch {
	case v.Kind() != Text:
		return raw
	case v.doc.nodes[v.i].esc:
		return unescape(raw[1 : len(raw)-1])
	}
	return raw[1 : len(raw)-1]
}

// Plain is String, and empty for a missing value and null.
func (v Value) Plain() string {
	if !v.Present() {
		return ""
	}
	return v.String()
}

// Len returns the number of elements or members.
func (v Value) Len() int {
	if v.doc == nil {
		return 0
	}
	return int(v.doc.nodes[v.i].children) + len(v.doc.attached[v.i])
}

// Each calls visit with the elements of an array or the members' values of an object, until visit
// returns false. Another value has none.
func (v Value) Each(visit func(Value) bool) {
	v.Entries(func(_ string, one Value) bool { return visit(one) })
}

// Members calls visit with the members of an object. Another value has none. Names are without
// escapes.
func (v Value) Members(visit func(name string, value Value)) {
	if v.Kind() == Object {
		v.Entries(func(name string, one Value) bool { visit(name, one); return true })
	}
}

// Entries calls visit with the members of an object, or the elements of an array, which have no
// name, until visit returns false.
func (v Value) Entries(visit func(name string, value Value) bool) {
	for i := range v.Len() {
		if name, value := v.Child(i); !visit(name, value) {
			return
		}
	}
}

// at returns the value of a node.
func (d *document) at(i int32) Value {
	if n := &d.nodes[i]; n.kind == link {
		return d.links[n.first]
	}
	return Value{d, i}
}

// Child returns an element of an array, or a member with its name, by its number from 0; missing:
// there is none.
func (v Value) Child(i int) (name string, child Value) {
	n := &v.doc.nodes[v.i]
	if added := v.doc.attached[v.i]; i < 0 || i >= int(n.children)+len(added) {
		return "", Value{}
	} else if k := i - int(n.children); k >= 0 {
		return added[k].name, added[k].value
	}
	at := n.first + int32(i)
	return nameOf(v.doc.text, &v.doc.nodes[at]), v.doc.at(at)
}

// Member returns the value of a member; missing: there is none.
func (v Value) Member(name string) Value {
	if v.doc == nil {
		return v
	}
	d := v.doc
	n := &d.nodes[v.i]
	if n.kind != Object {
		return Value{}
	}
	for c := n.first; c < n.first+n.children; c++ {
		m := &d.nodes[c]
		if !m.nameEsc && int(m.nameTo-m.nameFrom) == len(name) && d.text[m.nameFrom:m.nameTo] == name || m.nameEsc && nameOf(d.text, m) == name {
			return d.at(c)
		}
	}
	for _, m := range d.attached[v.i] {
		if m.name == name {
			return m.value
		}
	}
	return Value{}
}

// Attach adds a member to an object. Its text stays as it is.
func (v Value) Attach(name string, value Value) {
	if v.doc.attached == nil {
		v.doc.attached = map[int32][]member{}
	}
	v.doc.attached[v.i] = append(v.doc.attached[v.i], member{name, value})
}

// ArrayOf returns an array of values, which may be of several texts.
func ArrayOf(values ...Value) Value {
	d := &document{nodes: make([]node, len(values)+1), links: values}
	for i := range values {
		d.nodes[i] = node{kind: link, first: int32(i)}
	}
	d.nodes[len(values)] = node{kind: Array, children: int32(len(values))}
	if len(values) == 0 {
		d.text, d.nodes[0].to = "[]", 2
	}
	return Value{d, int32(len(values))}
}

// ObjectOf returns an object with one member.
func ObjectOf(name string, value Value) Value {
	d := &document{text: name, nodes: []node{{kind: link, nameTo: int32(len(name))}, {kind: Object, children: 1}}, links: []Value{value}}
	return Value{d, 1}
}

// TextValue returns the value of a text that is no JSON.
func TextValue(text string) Value {
	b, _ := json.Marshal(text) // a string always can be
	v, _ := Parse(string(b))
	return v
}

// Count reads a text as a whole number, as systems write how many there are: 165, 165.0
// and 1e2 are counts.
func Count(text string) (n int, ok bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(text); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 { // above it, digits are lost
		return 0, false
	}
	return int(f), true
}

// Truth reads a truth value, also as systems write one whose format has none: 1 and 0, Y
// and N, yes and no, as a number or a text in any case.
func (v Value) Truth() (is, ok bool) {
	switch text := strings.ToLower(v.Plain()); {
	case !v.Scalar():
	case text == "true" || text == "y" || text == "yes":
		return true, true
	case text == "false" || text == "n" || text == "no":
		return false, true
	default:
		n, whole := Count(text)
		return n == 1, whole && (n == 0 || n == 1)
	}
	return false, false
}

// Scalars calls visit with the text of every string and number in a value, at any depth, except
// for members whose names begin with without; empty: of all.
func (v Value) Scalars(without string, visit func(string)) {
	switch v.Kind() {
	case Text, Number:
		visit(v.String())
	case Array, Object:
		v.Entries(func(name string, one Value) bool {
			if without == "" || !strings.HasPrefix(name, without) {
				one.Scalars(without, visit)
			}
			return true
		})
	}
}
