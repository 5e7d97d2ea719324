package jsonwalk

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Value is one JSON value in a text that was checked. The zero value is a missing one. Others
// come from a [Walker], [Parse] and [TextValue] only, so that gjson, which does not check what
// it reads, is never given anything else.
type Value struct {
	Kind Kind
	esc  bool   // a string with a backslash in it
	raw  string // without white space around it; a string's quotation marks included
}

// Kind is the type of a JSON value. The order matters: see Present and Scalar.
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

// String names a kind for people.
func (k Kind) String() string {
	return [...]string{"missing", "null", "boolean", "number", "string", "object", "array"}[k]
}

// Raw is the value as it stands in the text; empty: it is missing.
func (v Value) Raw() string { return v.raw }

// Present tells whether there is a value, and it is not null.
func (v Value) Present() bool { return v.Kind > Null }

// Scalar tells whether the value can be written as one string.
func (v Value) Scalar() bool { return v.Kind >= Bool && v.Kind <= Text }

// String is the text of a string, or a number or truth value as it is written: a
// number is never converted, so none of its digits are lost.
func (v Value) String() string {
	switch {
	case v.Kind != Text:
		return v.raw
	case v.esc:
		return unescape(v.raw[1 : len(v.raw)-1])
	}
	return v.raw[1 : len(v.raw)-1]
}

// Plain is String; a missing value and null have no text.
func (v Value) Plain() string {
	if !v.Present() {
		return ""
	}
	return v.String()
}

// In is String with the memory for a text that has to be made.
func (v Value) In(texts *Texts) string {
	if v.Kind == Text && v.esc {
		s := v.raw[1 : len(v.raw)-1]
		return texts.Keep(appendUnescaped(texts.Room(len(s)), s)) // no escape is shorter than what it means
	}
	return v.String()
}

// Each calls visit with the elements of an array or the members' values of an
// object, until visit returns false. Another value has none.
func (v Value) Each(visit func(Value) bool) {
	if v.Kind == Array || v.Kind == Object {
		gjson.Parse(v.raw).ForEach(func(_, item gjson.Result) bool { return visit(fromGJSON(item)) })
	}
}

// Members calls visit with the members of an object. Another value has none. Names are
// without escapes.
func (v Value) Members(visit func(name string, value Value)) {
	if v.Kind == Object {
		gjson.Parse(v.raw).ForEach(func(name, item gjson.Result) bool { visit(name.Str, fromGJSON(item)); return true })
	}
}

// At evaluates a GJSON path.
func (v Value) At(path string) Value { return fromGJSON(gjson.Get(v.raw, path)) }

// Without is the value with null in the place of a part, which was found in it. A part that
// gjson has made of several stands nowhere.
func (v Value) Without(part Value) Value {
	if at := strings.Index(v.raw, part.raw); at >= 0 && part.raw != "" { // compared by address first
		return fromJSON(v.raw[:at] + "null" + v.raw[at+len(part.raw):])
	}
	return v
}

// With is an object with one more member, whose name needs no escape; a missing value adds
// nothing.
func (v Value) With(name string, value Value) Value {
	if v.Kind != Object || value.Kind == Missing {
		return v
	}
	all := strings.TrimRight(v.raw[:len(v.raw)-1], " \t\r\n")
	if all != "{" {
		all += ","
	}
	return fromJSON(all + `"` + name + `":` + value.raw + "}")
}

// ObjectOf is an object with one member, whose name needs no escape.
func ObjectOf(name string, value Value) Value { return fromJSON(`{"` + name + `":` + value.raw + "}") }

// ArrayOf is an array of values.
func ArrayOf(values ...Value) Value {
	elements := make([]string, len(values))
	for i, v := range values {
		elements[i] = v.raw
	}
	return fromJSON("[" + strings.Join(elements, ",") + "]")
}

// TextValue is the value of a text that is no JSON.
func TextValue(text string) Value {
	b, _ := json.Marshal(text) // a string always can be
	return fromJSON(string(b))
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

// Scalars calls visit with the text of every string and number in a value, at any depth, but
// for members whose names begin with without; empty: of all.
func (v Value) Scalars(without string, visit func(string)) {
	switch v.Kind {
	case Text, Number:
		visit(v.String())
	case Array:
		v.Each(func(item Value) bool { item.Scalars(without, visit); return true })
	case Object:
		v.Members(func(name string, item Value) {
			if without == "" || !strings.HasPrefix(name, without) {
				item.Scalars(without, visit)
			}
		})
	case Missing, Null, Bool:
	}
}

// fromJSON is the value that a checked text is.
func fromJSON(text string) Value { return fromGJSON(gjson.Parse(text)) }

// fromGJSON converts what gjson found.
func fromGJSON(r gjson.Result) Value {
	v := Value{raw: r.Raw}
	switch r.Type {
	case gjson.Null:
		if r.Exists() {
			v.Kind = Null
		}
	case gjson.False, gjson.True:
		v.Kind = Bool
	case gjson.Number:
		v.Kind = Number
		if v.raw == "" { // a count, made by gjson itself
			v.raw = r.String()
		}
	case gjson.String:
		v.Kind = Text
		v.esc = strings.IndexByte(v.raw, '\\') >= 0
	case gjson.JSON:
		v.Kind = Object
		if r.IsArray() {
			v.Kind = Array
		}
	}
	return v
}
