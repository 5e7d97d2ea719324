package invalid

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Enums notes each text of a section, at any depth, that the tag of its field does
// not list. The tag is the one place that says which values a key may have:
//
//	Style string `yaml:"style" enum:",none,page"` // the empty text, none or page
func (p *Problems) Enums(field string, section any) { p.enums(field, reflect.ValueOf(section)) }

// enums walks through a value of any kind. field is the path of its key.
func (p *Problems) enums(field string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p.enums(field, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			p.enums(field+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			p.enums(strings.TrimPrefix(fmt.Sprintf("%s.%v", field, key), "."), v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			p.enumField(field, v.Type().Field(i), v.Field(i))
		}
	}
}

// enumField checks one field of a struct that has the tag, and looks into the others.
func (p *Problems) enumField(field string, f reflect.StructField, v reflect.Value) {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name != "" {
		field = strings.TrimPrefix(field+"."+name, ".")
	}
	known, tagged := f.Tag.Lookup("enum")
	if !tagged {
		p.enums(field, v)
		return
	}
	if values := strings.Split(known, ","); !slices.Contains(values, v.String()) {
		values = slices.DeleteFunc(values, func(s string) bool { return s == "" })
		p.Add(field, "wants %s, got %.60q", either(values), v.String())
	}
}

// either writes "a, b or c".
func either(values []string) string {
	last := len(values) - 1
	if last == 0 {
		return values[0]
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}
