package upstream

import (
	"strings"

	"github.com/tidwall/gjson"
)

// value is one JSON value as it stands in the reply. Its zero value is a
// missing one.
type value struct {
	raw  string // without white space around it; a string's quotes included
	kind kind
	esc  bool // a string with a backslash in it
}

// kind is what sort of JSON value it is. The order matters: see present and
// scalar.
type kind uint8

const (
	missing kind = iota
	null
	boolean
	number
	text
	object
	array
)

// present tells whether there is anything to map.
func (v value) present() bool { return v.kind > null }

// scalar tells whether the value can be written as one string.
func (v value) scalar() bool { return v.kind >= boolean && v.kind <= text }

// String is the text of a string, or a number or truth value as the legacy
// wrote it: a number is never converted, so none of its digits are lost.
func (v value) String() string {
	switch {
	case v.kind != text:
		return v.raw
	case v.esc:
		return unescape(v.raw[1 : len(v.raw)-1])
	}
	return v.raw[1 : len(v.raw)-1]
}

// in is String with a slab for texts that have to be made.
func (v value) in(texts *slab) string {
	if v.kind == text && v.esc {
		return texts.unescape(v.raw[1 : len(v.raw)-1])
	}
	return v.String()
}

// lookup evaluates a path that is not simple.
func lookup(raw, path string) value { return fromGJSON(gjson.Get(raw, path)) }

// fromGJSON takes over what gjson found.
func fromGJSON(r gjson.Result) value {
	v := value{raw: r.Raw}
	switch r.Type {
	case gjson.Null:
		if r.Exists() {
			v.kind = null
		}
	case gjson.False, gjson.True:
		v.kind = boolean
	case gjson.Number:
		v.kind = number
		if v.raw == "" { // a count, made by gjson itself
			v.raw = r.String()
		}
	case gjson.String:
		v.kind = text
		v.esc = strings.IndexByte(v.raw, '\\') >= 0
	case gjson.JSON:
		v.kind = object
		if r.IsArray() {
			v.kind = array
		}
	}
	return v
}
