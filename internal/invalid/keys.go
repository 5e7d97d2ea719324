package invalid

import (
	"reflect"
	"slices"
	"strings"
)

// Keys notes the keys of a section that are needed and not there, and those that would
// be ignored, with what else the section says, such as "style page". known are the keys
// that it may have, by their yaml tags; those with a "!" are needed.
func (p *Problems) Keys(field string, section any, with string, known ...string) {
	for f, v := range reflect.ValueOf(section).Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		needed := slices.Contains(known, key+"!")
		p.AddIf(needed && !says(v), field+"."+key, "missing: %s needs it", with)
		p.AddIf(!needed && says(v) && !slices.Contains(known, key), field+"."+key, "has no meaning with %s; remove it", with)
	}
}

// Says tells whether any key of a section says something, so that one that lacks what
// it needs is found, not ignored. A list without elements says nothing: a configuration
// that is written out in full has such.
func Says(section any) bool { return says(reflect.ValueOf(section)) }

// says is false for zero values, and for lists and maps without elements.
func says(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid: // nil of an interface
		return false
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	case reflect.Struct:
		for _, inner := range v.Fields() {
			if says(inner) {
				return true
			}
		}
		return false
	}
	return !v.IsZero()
}
