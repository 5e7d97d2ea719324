package jsontree

import (
	"iter"
	"math"
	"strconv"
	"strings"
)

// Value is one value of a parsed text. Its zero value is a missing one. Two are equal (==) if they
// are the same value at the same place.
type Value struct {
	doc *document
	i   int32 // of its node; negative: it is the list of the document
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
)

// String returns the name of a kind for people.
func (k Kind) String() string {
	return [...]string{"missing", "null", "boolean", "number", "string", "object", "array"}[k]
}

// ListOf returns an array of values, which may be of several texts.
func ListOf(values ...Value) Value { return Value{&document{list: values}, -1} }

// Kind returns the kind of the value.
func (v Value) Kind() Kind {
	switch {
	case v.doc == nil:
		return Missing
	case v.i < 0:
		return Array
	}
	return v.doc.nodes[v.i].kind
}

// Present reports whether there is a value, and it is not null.
func (v Value) Present() bool { return v.Kind() > Null }

// Scalar reports whether the value can be written as one string.
func (v Value) Scalar() bool { k := v.Kind(); return k >= Bool && k <= Text }

// Raw returns the value as it stands in the text, without attached members; empty: it is missing.
func (v Value) Raw() string {
	switch {
	case v.doc == nil:
		return ""
	case v.i >= 0:
		n := &v.doc.nodes[v.i]
		return v.doc.text[n.from:n.to]
	}
	parts := make([]string, len(v.doc.list))
	for i, one := range v.doc.list {
		parts[i] = one.Raw()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// String returns the text of a string, or a number or truth value as it is written: a number is
// never converted, so none of its digits are lost.
func (v Value) String() string {
	raw := v.Raw()
	if v.Kind() != Text {
		return raw
	}
	if raw = raw[1 : len(raw)-1]; v.doc.nodes[v.i].esc {
		return unescape(raw)
	}
	return raw
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
	switch {
	case v.doc == nil:
		return 0
	case v.i < 0:
		return len(v.doc.list)
	}
	return int(v.doc.nodes[v.i].children) + len(v.doc.attached[v.i])
}

// All returns the members of an object with their names, or the elements of an array with empty names.
// Another value has none.
func (v Value) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		switch {
		case v.doc == nil:
		case v.i < 0:
			for _, one := range v.doc.list {
				if !yield("", one) {
					return
				}
			}
		default:
			d := v.doc
			for c := v.i + 1; c < d.nodes[v.i].after; c = d.nodes[c].after {
				if !yield(nameOf(d.text, &d.nodes[c]), Value{d, c}) {
					return
				}
			}
			for _, m := range d.attached[v.i] {
				if !yield(m.name, m.value) {
					return
				}
			}
		}
	}
}

// at returns an element by its number from 0; missing: there is none.
func (v Value) at(number int) Value {
	for _, one := range v.All() {
		if number == 0 {
			return one
		}
		number--
	}
	return Value{}
}

// Member returns the value of a member; missing: there is none.
func (v Value) Member(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	d := v.doc
	for c := v.i + 1; c < d.nodes[v.i].after; c = d.nodes[c].after {
		if n := &d.nodes[c]; n.isCalled(d.text, name) {
			return Value{d, c}
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
		for name, one := range v.All() {
			if without == "" || !strings.HasPrefix(name, without) {
				one.Scalars(without, visit)
			}
		}
	}
}
