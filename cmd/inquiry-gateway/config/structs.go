package config

import (
	"reflect"
	"strings"
)

// field is one key that a struct knows.
type field struct {
	key   string
	index []int
}

// fieldsOf lists a struct's keys by their yaml tags, embedded structs included.
// A field without a tag has its name in lower case, as in the YAML library.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" || (!f.IsExported() && !f.Anonymous) {
			continue
		}
		embedded := f.Anonymous && name == "" || options == "inline"
		if embedded && f.Type.Kind() == reflect.Struct {
			for _, inner := range fieldsOf(f.Type) {
				fields = append(fields, field{inner.key, append([]int{i}, inner.index...)})
			}
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		fields = append(fields, field{name, []int{i}})
	}
	return fields
}

func (d *decoder) decodeStruct(n *node, into reflect.Value, path string) {
	fields := fieldsOf(into.Type())
	if n.kind != mapping {
		d.wants(n, path, "a mapping with keys of its own below it")
		return
	}
	known := make(map[string][]int, len(fields))
	for _, f := range fields {
		known[f.key] = f.index
	}
	for _, e := range n.entries {
		if index, ok := known[e.key]; ok {
			d.decode(e.valueAtKey(), into.FieldByIndex(index), join(path, e.key))
			continue
		}
		d.unknown(e, fields, path)
	}
}

func (d *decoder) unknown(e entry, fields []field, path string) {
	key := join(path, e.key)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	if near := nearest(e.key, keys); near != "" {
		d.add(e.at, key, "unknown key; did you mean %q?", near)
		// A complaint that the right key is missing would say the same again.
		d.touched = append(d.touched, join(path, near))
		return
	}
	d.add(e.at, key, "unknown key; known here: %s", strings.Join(keys, ", "))
}

// valueAtKey gives the value with a place to name: the key's where the value
// is nothing, since there is nothing to point at.
func (e entry) valueAtKey() *node {
	if e.value.kind != null {
		return e.value
	}
	return &node{kind: null, at: e.at, size: e.value.size}
}
