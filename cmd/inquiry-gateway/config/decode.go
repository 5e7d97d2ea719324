package config

import (
	"encoding"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"inquiry-gateway/internal/secretfile"
)

// unmarshaler is what types with a shape of their own implement; it is the
// interface of the YAML library.
type unmarshaler interface {
	UnmarshalYAML(unmarshal func(any) error) error
}

// decoder puts a resolved tree into Go values. The library's own decoder stops at
// the first mistake, names Go types, and is lenient where a slip must not pass: it
// takes 5.5 and "5" for the number 5, 010 for 8, and 1.10 for the text 1.1. Values
// that are not in the tree keep their defaults; maps and lists are replaced whole.
type decoder struct{ *report }

// decode puts the value n into a variable that can be set, by its Go type. path is the
// key, for errors. What cannot be taken is reported, and into keeps what it had.
func (d *decoder) decode(n ast.Node, into reflect.Value, path string) {
	if n == nil {
		return // reported already
	}
	if n.Type() == ast.NullType {
		d.decodeNull(n, into, path)
		return
	}
	if d.decodeCustom(n, into, path) {
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		value := reflect.New(into.Type().Elem())
		d.decode(n, value.Elem(), path)
		into.Set(value)
	case reflect.Struct:
		d.decodeStruct(n, into, path)
	case reflect.Map:
		d.decodeMap(n, into, path)
	case reflect.Slice:
		d.decodeList(n, into, path)
	case reflect.Interface:
		if err := yaml.NodeToValue(n, into.Addr().Interface()); err != nil {
			d.wants(n, path, "a plain value")
		}
	default:
		d.decodeScalar(n, into, path)
	}
}

// decodeNull handles a key without a value. For a section it is the same as
// leaving the key out, because all its keys may be commented out; for a single
// value it is more likely a mistake.
func (d *decoder) decodeNull(n ast.Node, into reflect.Value, path string) {
	switch into.Kind() {
	case reflect.Pointer, reflect.Interface:
		into.SetZero()
	case reflect.Struct, reflect.Map, reflect.Slice:
	default:
		if _, custom := into.Addr().Interface().(unmarshaler); !custom {
			d.add(place(n), path, "has no value; write one, or remove the key")
		}
	}
}

// decodeCustom lets types decode themselves. What they report through unmarshal
// keeps its places; any other error of theirs is one at the value.
func (d *decoder) decodeCustom(n ast.Node, into reflect.Value, path string) bool {
	switch v := into.Addr().Interface().(type) {
	case *time.Duration:
		d.decodeDuration(n, into, path)
	case unmarshaler:
		err := v.UnmarshalYAML(func(target any) error { return d.nested(n, target, path) })
		if problems, ok := errors.AsType[Problems](err); ok {
			for _, p := range problems {
				d.add(position{p.Line, p.Column}, p.Key, "%s", p.Message)
			}
		} else if err != nil {
			d.add(place(n), path, "%v", err)
		}
	case encoding.TextUnmarshaler:
		form := "a text"
		if _, ok := v.(*time.Time); ok {
			form = "a time such as 2027-01-01T00:00:00Z"
		}
		if text, ok := textOf(n); !ok || v.UnmarshalText([]byte(text)) != nil {
			d.wants(n, path, form)
		}
	default:
		return false
	}
	return true
}

// nested decodes for a custom type into a report of its own, because the type may
// try one form after another and fail only if all do.
func (d *decoder) nested(n ast.Node, target any, path string) error {
	inner := &decoder{&report{file: d.file}}
	inner.decode(n, reflect.ValueOf(target).Elem(), path)
	if len(inner.problems) == 0 {
		return nil
	}
	return inner.problems
}

// wants reports a value of the wrong form.
func (d *decoder) wants(n ast.Node, path, what string) {
	d.add(place(n), path, "wants %s, got %s", what, describe(n))
}

// decodeStruct decodes the keys that the struct has, and reports all others.
func (d *decoder) decodeStruct(n ast.Node, into reflect.Value, path string) {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		d.wants(n, path, "a mapping with keys of its own below it")
		return
	}
	fields := fieldsOf(into.Type())
	known := make(map[string][]int, len(fields))
	for _, f := range fields {
		known[f.key] = f.index
	}
	for _, pair := range mapping.Values {
		if index, ok := known[keyOf(pair)]; ok {
			d.decode(pair.Value, into.FieldByIndex(index), join(path, keyOf(pair)))
		} else {
			d.unknown(pair, fields, path)
		}
	}
}

// unknown reports a key that the struct does not have, with the one that was probably
// meant.
func (d *decoder) unknown(pair *ast.MappingValueNode, fields []field, path string) {
	at, key := placeOf(pair.Key.GetToken()), join(path, keyOf(pair))
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	if name, _, joined := strings.Cut(keyOf(pair), ":"); joined && slices.Contains(keys, name) {
		d.add(at, key, "unknown key; write a blank after the colon: %s: ...", name)
		d.touched = append(d.touched, join(path, name))
		return
	}
	if near := Nearest(keyOf(pair), keys); near != "" {
		d.add(at, key, "unknown key; did you mean %q?", near)
		// A complaint that the right key is missing would say the same again.
		d.touched = append(d.touched, join(path, near))
		return
	}
	d.add(at, key, "unknown key; known here: %s", strings.Join(keys, ", "))
}

// decodeList replaces the whole list: elements of the default do not stay.
func (d *decoder) decodeList(n ast.Node, into reflect.Value, path string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok && into.Type().Elem() == reflect.TypeFor[secretfile.File]() {
		d.add(place(n), path, "wants a list of files such as [a, b]") // what stands there may be the secret itself
		return
	}
	if !ok {
		d.wants(n, path, "a list such as [a, b]")
		return
	}
	out := reflect.MakeSlice(into.Type(), len(list.Values), len(list.Values))
	for i, value := range list.Values {
		d.decode(value, out.Index(i), item(path, i))
	}
	into.Set(out)
}

// decodeMap replaces the whole map. Its keys are texts as they are written.
func (d *decoder) decodeMap(n ast.Node, into reflect.Value, path string) {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		d.wants(n, path, "a mapping such as {key: value}")
		return
	}
	out := reflect.MakeMapWithSize(into.Type(), len(mapping.Values))
	for _, pair := range mapping.Values {
		value := reflect.New(into.Type().Elem()).Elem()
		d.decode(pair.Value, value, join(path, keyOf(pair)))
		out.SetMapIndex(reflect.ValueOf(keyOf(pair)).Convert(into.Type().Key()), value)
	}
	into.Set(out)
}

// field is one key that a struct knows.
type field struct {
	key   string
	index []int
}

// fieldsOf lists a struct's keys by their yaml tags, those of embedded and inline
// structs included. What has no tag is no key.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Type.Kind() == reflect.Struct && name == "" && (f.Anonymous || options == "inline") {
			for _, inner := range fieldsOf(f.Type) {
				fields = append(fields, field{inner.key, append([]int{i}, inner.index...)})
			}
		} else if name != "" && name != "-" {
			fields = append(fields, field{name, []int{i}})
		}
	}
	return fields
}
